"""What the attempts begin with: rows, labels and small forests of each framework."""

from __future__ import annotations

import contextlib
import io
from functools import cached_property
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd
import xgboost as xgb
from sklearn.ensemble import RandomForestClassifier

from rfsize.cli import main

LIGHTGBM: dict[str, Any] = {"objective": "binary", "boosting": "rf", "bagging_fraction": 0.632, "bagging_freq": 1}
LIGHTGBM |= {"num_leaves": 7, "num_threads": 1, "verbosity": -1}
XGBOOST: dict[str, Any] = {"objective": "binary:logistic", "num_parallel_tree": 10, "subsample": 0.632}
XGBOOST |= {"learning_rate": 1, "max_depth": 3, "nthread": 1, "seed": 3}


class AtHand:
    """Each is made when it is first asked for, and kept.

    Parameters
    ----------
    folder : Path
        Where files may be written.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        rng = np.random.default_rng(0)
        self.X = rng.normal(size=(400, 4))
        self.y = (self.X[:, 0] + self.X[:, 1] + rng.normal(size=400) > 0).astype(int)
        self.three = np.digitize(self.X[:, 0] + self.X[:, 1], [-0.5, 0.5])
        self.X_val = rng.normal(size=(200, 4))
        self.frame = pd.DataFrame(self.X, columns=list("abcd"))

    def lightgbm(self, X: Any = None, y: Any = None, n_trees: int = 10, **params: Any) -> lgb.Booster:
        """A forest of LightGBM."""
        data = lgb.Dataset(self.X if X is None else X, self.y if y is None else y)
        return lgb.train(LIGHTGBM | params, data, n_trees)

    def xgboost(self, X: Any = None, y: Any = None, n_rounds: int = 1, **params: Any) -> xgb.Booster:
        """A forest of XGBoost."""
        data = xgb.DMatrix(self.X if X is None else X, self.y if y is None else y, enable_categorical=True)
        return xgb.train(XGBOOST | params, data, n_rounds)

    @cached_property
    def model(self) -> lgb.Booster:
        """A forest of LightGBM, without names of columns."""
        return self.lightgbm()

    @cached_property
    def named(self) -> lgb.Booster:
        """One with names."""
        return self.lightgbm(self.frame)

    @cached_property
    def booster(self) -> xgb.Booster:
        """A forest of XGBoost."""
        return self.xgboost()

    @cached_property
    def forest(self) -> RandomForestClassifier:
        """A forest of scikit-learn."""
        return RandomForestClassifier(10, max_depth=3, random_state=0).fit(self.X, self.y)

    def file(self, name: str, content: bytes | str = b"") -> Path:
        """A file with this content."""
        path = self.folder / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def table(self, name: str = "train.csv", **columns: Any) -> Path:
        """A table of the rows and their labels, and of more columns."""
        path = self.folder / name
        self.frame.assign(label=self.y, **columns).to_csv(path, index=False)
        return path

    def saved_model(self) -> Path:
        """The forest with names, in a file of LightGBM's."""
        path = self.folder / "model.txt"
        self.named.save_model(path)
        return path

    def shell(self, *arguments: Any) -> None:
        """Run ``rfsize`` with these arguments; what it complains of is raised."""
        complaint = io.StringIO()
        with contextlib.redirect_stderr(complaint), contextlib.redirect_stdout(io.StringIO()):
            status = main([str(argument) for argument in arguments])
        if status == 2:
            raise ValueError(complaint.getvalue().strip())

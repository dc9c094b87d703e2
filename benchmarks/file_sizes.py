"""Size of a forest's file: as trained, compiled, and cut and compiled; for each framework.

    python benchmarks/file_sizes.py [N_ROWS]

Forests of 500 trees on one made task of two classes, 20 columns. As trained is a pickle, or the framework's own file.
Compiled files predict what the model predicts, to the last bit. The cut keeps the label of the whole forest on 99 % of
rows, certified on rows that the forest was not trained on.
"""

from __future__ import annotations

import pickle
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from lightgbm import LGBMClassifier
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from xgboost import XGBRFClassifier

import rfsize

N_TREES, HELD_OUT = 500, 5000


def forests() -> dict[str, tuple[Any, str]]:
    """Each framework's forest, untrained, and how its own file is named."""
    lightgbm = LGBMClassifier(
        boosting_type="rf", n_estimators=N_TREES, num_leaves=255, subsample=0.632, subsample_freq=1, verbose=-1
    )
    return {
        "LightGBM, 255 leaves": (lightgbm.set_params(colsample_bytree=0.5, random_state=0), "model.txt"),
        "XGBoost, depth 8": (XGBRFClassifier(n_estimators=N_TREES, max_depth=8, random_state=0), "model.ubj"),
        "scikit-learn, grown out": (RandomForestClassifier(N_TREES, random_state=0, n_jobs=-1), ""),
    }


def megabytes(model: Any, name: str, folder: Path) -> float:
    """Size of the framework's own file, or of a pickle where it has none."""
    if not name:
        return len(pickle.dumps(model)) / 1e6
    path = folder / name
    (getattr(model, "booster_", None) or model).save_model(path)
    return path.stat().st_size / 1e6


def compiled_megabytes(model: Any, folder: Path) -> float:
    """Size of the compiled forest's file, from which the same probabilities must come."""
    path = folder / "forest.rfsize"
    compiled = rfsize.compile(model)
    compiled.save(path)
    return path.stat().st_size / 1e6


def main(n_rows: int) -> None:
    """Print the table."""
    X, y = make_classification(n_rows + HELD_OUT, 20, n_informative=10, flip_y=0.1, random_state=0)
    X_train, X_new = X[:n_rows], X[n_rows:]
    print(
        f"{n_rows:,} rows to train, 20 columns, {N_TREES} trees; cut: 99 % of labels, certified on {HELD_OUT:,} rows\n"
    )
    print(
        "| forest | file | compiled | trees kept | their file | compiled | other labels |\n|---|---|---|---|---|---|---|"
    )
    for title, (untrained, name) in forests().items():
        model = untrained.fit(X_train, y[:n_rows])
        small = rfsize.truncate(model, X_new, alpha=0.99, target="forest")
        n_kept = rfsize.tree_outputs(small, X_new).n_trees
        with tempfile.TemporaryDirectory() as made:
            folder = Path(made)
            sizes = [
                f"{size(each):.2f} MB"
                for each in (model, small)
                for size in (lambda m: megabytes(m, name, folder), lambda m: compiled_megabytes(m, folder))
            ]
            loaded = rfsize.load(folder / "forest.rfsize")
        probabilities = rfsize.compile(model).predict_proba(X_new)
        assert (probabilities == model.predict_proba(X_new)).all(), title
        other = np.mean(loaded.predict(X_new) != model.predict(X_new))
        print(f"| {title} | {sizes[0]} | {sizes[1]} | {n_kept} | {sizes[2]} | {sizes[3]} | {other:.2%} |", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20_000)

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
        "scikit-learn, grown out": (RandomForestClassifier(N_TREES, random_state=0, n_jobs=-1), "model.pkl"),
    }


def megabytes(model: Any, name: str) -> tuple[float, float]:
    """Size of the framework's own file, or of a pickle where it has none; and of the compiled forest's file."""
    with tempfile.TemporaryDirectory() as folder:
        own, compiled = Path(folder) / name, Path(folder) / "forest.rfsize"
        if name == "model.pkl":
            own.write_bytes(pickle.dumps(model))
        else:
            (getattr(model, "booster_", None) or model).save_model(own)
        rfsize.compile(model).save(compiled)
        return own.stat().st_size / 1e6, compiled.stat().st_size / 1e6


def main(n_rows: int) -> None:
    """Print the table."""
    X, y = make_classification(n_rows + HELD_OUT, 20, n_informative=10, flip_y=0.1, random_state=0)
    X_train, X_new = X[:n_rows], X[n_rows:]
    print(f"{n_rows:,} rows to train, 20 columns, {N_TREES} trees; cut: 99 % of labels, certified on {HELD_OUT:,} rows")
    print("\n| forest | file | compiled | trees kept | file | compiled | other labels |\n|---|---|---|---|---|---|---|")
    for title, (untrained, name) in forests().items():
        model = untrained.fit(X_train, y[:n_rows])
        assert (rfsize.compile(model).predict_proba(X_new) == model.predict_proba(X_new)).all(), title
        cut = rfsize.size(model, X_new, alpha=0.99, target="model")
        small = rfsize.truncate(model, n_trees=cut.n_kept)
        before, after = megabytes(model, name), megabytes(small, name)
        other = np.mean(small.predict(X_new) != model.predict(X_new))
        sizes = f"{before[0]:.2f} MB | {before[1]:.2f} MB | {cut.n_kept} | {after[0]:.2f} MB | {after[1]:.2f} MB"
        print(f"| {title} | {sizes} | {other:.2%} |", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20_000)

"""
Five boosted models within a time limit
=======================================

Your submission is the mean of five boosted models, one for each fold. It must score all rows of the competition before
the notebook's time is up, and the models must fit into the upload.
"""

import pickle
import tempfile
import time
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from lightgbm import LGBMClassifier
from sklearn.datasets import make_classification
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import KFold

import rfsize

# %%
# Train one model for each fold, as everybody does. The last 40,000 rows stand for the competition's.

X, y = make_classification(50_000, 30, n_informative=12, weights=[0.9], class_sep=0.6, random_state=0)
X_train, y_train, X_test, y_test = X[:10_000], y[:10_000], X[10_000:], y[10_000:]
folds = list(KFold(5, shuffle=True, random_state=0).split(X_train))
models = [
    LGBMClassifier(n_estimators=600, num_leaves=63, learning_rate=0.03, random_state=0, verbose=-1).fit(
        X_train[fold], y_train[fold]
    )
    for fold, _ in folds
]


def timed(predict):
    """Predictions for the test rows, and the seconds that they took."""
    began = time.perf_counter()
    return predict(X_test), time.perf_counter() - began


# %%
# LightGBM's own mean is what you submit today.

own, own_seconds = timed(lambda rows: np.mean([model.predict_proba(rows)[:, 1] for model in models], axis=0))
print(f"LightGBM: {own_seconds:.2f} s, AUC {roc_auc_score(y_test, own):.4f}")

# %%
# ``rfsize.compile`` takes the list of models. The compiled mean predicts the same bits, and one file holds all five.

fast = rfsize.compile(models)
compiled, compiled_seconds = timed(lambda rows: fast.predict_proba(rows)[:, 1])
print(f"compiled: {compiled_seconds:.2f} s, largest difference {np.abs(compiled - own).max():.1e}")
folder = Path(tempfile.mkdtemp())
fast.save(folder / "all.rfsize")
print(f"{(folder / 'all.rfsize').stat().st_size / 1e6:.1f} MB, pickles {len(pickle.dumps(models)) / 1e6:.1f} MB")

# %%
# Still too slow, or too large? Cut each model down to its first trees. The rows of its own fold did not train it, so
# they can certify the cut. How many trees keep the labels?

first, held_out = models[0], folds[0][1]
print(rfsize.size(first, X_train[held_out], y_train[held_out], alpha=0.97))

# %%
# A tenth of the trees would do, but look at the lines with an exclamation mark: the rare class and the ranking suffer,
# and the competition scores a ranking. So keep the probabilities, within 0.1 on 99 % of rows like these.

cuts = []
for model, (_, held_out) in zip(models, folds, strict=True):
    kept = {"metric": "probabilities", "tolerance": 0.1, "alpha": 0.99}
    report = rfsize.size(model, X_train[held_out], y_train[held_out], **kept)
    cuts.append(rfsize.truncate(model, n_trees=report))
print(report)

# %%
# Compile what is left, and compare. A cut loses a little, and you see how much before you submit.

small = rfsize.compile(cuts)
cut, cut_seconds = timed(lambda rows: small.predict_proba(rows)[:, 1])
small.save(folder / "cut.rfsize")
print(f"{[model.n_estimators_ for model in cuts]} of 600 trees, {cut_seconds:.2f} s")
print(f"{(folder / 'cut.rfsize').stat().st_size / 1e6:.1f} MB, AUC {roc_auc_score(y_test, cut):.4f}")

# %%
# Time is what the limit is about.

figure, ax = plt.subplots(figsize=(7, 2.6), layout="constrained")
names = ["LightGBM, 5 × 600 trees", "compiled", "cut and compiled"]
bars = ax.barh(names, [own_seconds, compiled_seconds, cut_seconds], color=["0.7", "C0", "C0"])
ax.bar_label(bars, [f" {seconds:.2f} s" for seconds in (own_seconds, compiled_seconds, cut_seconds)])
ax.invert_yaxis()
ax.set(xlabel=f"seconds for {len(X_test):,} rows", xlim=(0, 1.15 * own_seconds))

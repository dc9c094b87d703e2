"""
The folds of a cross-validation
===============================

You trained five forests, each without one fold, and will submit the mean of their predictions. How good are they, how
many trees do they need, and is the new setting really better than the old one?
"""

import lightgbm as lgb
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_classification
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold

import rfsize

X, y = make_classification(9000, n_features=20, n_informative=8, flip_y=0.1, class_sep=0.7, random_state=3)
X, X_fresh, y, y_fresh = X[:3000], X[3000:], y[:3000], y[3000:]
params = {
    "objective": "binary",
    "boosting": "rf",
    "bagging_fraction": 0.6,
    "bagging_freq": 1,
    "feature_fraction_bynode": 0.4,
    "num_leaves": 63,
    "seed": 0,
    "verbose": -1,
    "num_threads": 1,
}
folds = list(StratifiedKFold(5, shuffle=True, random_state=0).split(X, y))
boosters = lgb.cv(params, lgb.Dataset(X, y), 300, folds=folds, return_cvbooster=True)["cvbooster"]

# %%
# **Each on its own training rows.** rfsize proves on these rows which of them each tree saw, and would refuse folds in
# another order. It uses no held-out rows: each row is predicted by the trees that were not trained on it.

scores = [
    rfsize.oob_score(booster, X[train], y[train], metric="auc")
    for booster, (train, _) in zip(boosters.boosters, folds, strict=True)
]
for score in scores:
    print(score)

# %%
# The held-out rows agree, but each fold has few of them. The intervals come from the out-of-bag rows.

held_out = [
    roc_auc_score(y[test], booster.predict(X[test]))
    for booster, (_, test) in zip(boosters.boosters, folds, strict=True)
]
ax = plt.subplots(layout="constrained")[1]
at = np.arange(len(folds))
value = np.array([score.at_all_trees for score in scores])
ends = np.transpose([score.interval for score in scores])
ax.errorbar(at, value, np.abs(ends - value), fmt="o", capsize=4, label="out of bag, 95 % interval")
ax.plot(at + 0.1, held_out, "xC3", markersize=9, mew=2, label="held-out rows")
ax.set_xticks(at)
ax.set_xlabel("fold")
ax.set_ylabel("AUC")
ax.legend()

# %%
# **Is another setting better?** Compare the two on the same rows. You get the difference with its interval, for the
# trees at hand and for infinitely many trees.

small_leaves = {**params, "num_leaves": 15}
train = folds[0][0]
flat = lgb.train(small_leaves, lgb.Dataset(X[train], y[train]), 300)
outputs = [rfsize.tree_outputs(one, X[train], y[train], oob=True) for one in (boosters.boosters[0], flat)]
print(rfsize.compare(*outputs, metric="auc"))

# %%
# **Which columns matter?** Out-of-bag importances have intervals too, so you can tell a small effect from noise.

importances = rfsize.oob_importance(outputs[0])
for column in importances.columns[:10]:
    low, high = column.interval
    print(f"{column.rank:2}. {column.name:<4} {column.value:.4f} ({low:.4f} to {high:.4f})")
print(importances.size(top=8, alpha=0.9))

# %%
# **Submit the mean.** Compile the five forests to one file, which predicts the mean of their predictions without
# LightGBM. With half of the trees in each forest, the mean ranks fresh rows equally well: the mean of five forests
# varies less than one forest.

halves = [rfsize.truncate(booster, n_trees=150) for booster in boosters.boosters]
for name, models in (("1500 trees", boosters.boosters), ("750 trees", halves)):
    together = rfsize.compile(models)
    print(f"{name}: AUC {roc_auc_score(y_fresh, together.predict(X_fresh)):.4f} on fresh rows")
together.save("folds.npz")
print(rfsize.load("folds.npz"))

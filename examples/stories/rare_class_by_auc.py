"""
A rare class, judged by its ranking
===================================

Two rows in a hundred belong to the class that you look for. People check the rows that rank highest, so the forest is
judged by the area under the ROC curve (AUC) and by the average precision.
"""

# sphinx_gallery_thumbnail_path = '_static/thumbnails/stories/rare_class_by_auc.svg'

import textwrap
import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_classification
from sklearn.metrics import average_precision_score, roc_auc_score
from xgboost import XGBClassifier

import rfsize

X, y = make_classification(
    20_000,
    n_features=12,
    n_informative=6,
    weights=[0.98],
    flip_y=0.01,
    class_sep=0.5,
    random_state=5,
)
X, X_fresh, y, y_fresh = X[:8000], X[8000:], y[:8000], y[8000:]
forest = XGBClassifier(
    n_estimators=1,
    num_parallel_tree=300,
    learning_rate=1,
    max_depth=8,
    subsample=0.632,
    colsample_bynode=0.4,
    random_state=0,
    n_jobs=1,
)
forest.fit(X, y)
labels_of_all = forest.predict(X_fresh)


def judge(name, model):
    probability = model.predict_proba(X_fresh)[:, 1]
    same = np.mean((probability > 0.5) == labels_of_all)
    auc = roc_auc_score(y_fresh, probability)
    precision = average_precision_score(y_fresh, probability)
    print(f"{name:<21} same labels {same:7.2%}   AUC {auc:.3f}   average precision {precision:.3f}")
    return auc


# %%
# **The usual question**: how many trees are enough for the labels?

counted = rfsize.tree_outputs(forest, X, y, oob=True)
labels = rfsize.size(counted)
print(labels)

# %%
# A handful, because nearly all labels are 0 from the first tree on. If you cut the forest that far, rfsize warns.

with warnings.catch_warnings(record=True) as heard:
    warnings.simplefilter("always")
    hasty = rfsize.truncate(counted)
print(textwrap.fill(f"{heard[0].category.__name__}: {heard[0].message}", 100))

# %%
# The warning is right. On fresh rows nearly all labels stay the same, but the ranking is ruined.

judge(f"{labels.n_trees} trees, for labels", hasty)
auc_of_all = judge("all 300 trees", forest)

# %%
# **The right question**: how many trees does the ranking need? Name the metric, and how much of it you can spare.

report = rfsize.size(counted, metric="auc", tolerance=0.005)
print(report)
report.plot()

# %%
# The average precision needs more trees, because it depends on the few rows that rank highest.

precision = rfsize.size(counted, metric="average_precision", tolerance=0.005)
print(f"{precision.goal.title}: {precision.n_trees} trees")

# %%
# **How good is the forest?** The training rows show it: each is predicted by the trees that were not trained on it. The
# interval is wide because few rows are of class 1.

print(rfsize.oob_score(counted, metric="auc"))

# %%
# **What would more trees bring?** The dots show how much AUC forests of three sizes lose against an unlimited forest,
# with 95 % intervals. The crosses show how much better all 300 trees are on the fresh rows.

sizes = [50, 100, 200]
cut = [rfsize.truncate(forest, n_trees=size) for size in sizes]
losses = [rfsize.size(counted).loss_at(size, "auc") for size in sizes]
change = np.array([loss.value for loss in losses])
ends = np.transpose([loss.interval for loss in losses])
fresh = np.array([judge(f"{size} trees", model) for size, model in zip(sizes, cut, strict=True)])

ax = plt.subplots(layout="constrained")[1]
at = np.arange(len(sizes))
ax.errorbar(at, change, np.abs(ends - change), fmt="o", capsize=4, label="out of bag, to infinity")
ax.plot(at + 0.1, auc_of_all - fresh, "xC3", markersize=9, mew=2, label="fresh rows, to 300 trees")
ax.set_xticks(at, sizes)
ax.set_xlabel("trees in the forest")
ax.set_ylabel("AUC lost for want of trees")
ax.figure.legend(loc="outside lower center", ncols=2, frameon=False)

# %%
# More trees bring less and less, and the intervals contain the differences on the fresh rows.
#
# **Cut to what the ranking needs.** The tolerance holds on average over forests. The fresh rows show how much this
# forest loses.

judge(f"{labels.n_trees} trees, for labels", hasty)
for size in (report.n_trees, precision.n_trees):
    judge(f"{size} trees", rfsize.truncate(forest, n_trees=size))
judge("all 300 trees", forest)

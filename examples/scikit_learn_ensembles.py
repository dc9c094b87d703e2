"""
Scikit-learn's own ensembles
============================

Random forests, bagging over any learner, and AdaBoost.
"""

# sphinx_gallery_thumbnail_path = '_static/thumbnails/scikit_learn_ensembles.svg'

from sklearn.datasets import load_digits, load_wine
from sklearn.ensemble import AdaBoostClassifier, BaggingClassifier, RandomForestClassifier
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier

import rfsize

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)

# %%
# **A random forest** of ten classes: train it until it is large enough (``grow`` uses ``warm_start``), and compile it
# to predict faster.

forest = RandomForestClassifier(random_state=0)
grown, report = rfsize.grow(forest, X_train, y_train, alpha=0.98)
print(report)

fast = rfsize.compile(grown)
right = (fast.predict(X_test) == y_test).mean()
print(f"{fast.n_trees} trees, compiled: accuracy {right:.1%}")
report.plot()

# %%
# **Bagging** of other learners works in the same way: each member predicts the probabilities of the rows that it was
# not trained on.

X_wine, kind = load_wine(return_X_y=True)
bagging = BaggingClassifier(KNeighborsClassifier(), n_estimators=50, random_state=0)
bagging.fit(X_wine, kind)
print(rfsize.size(bagging, X_wine, oob=True, alpha=0.95))
print(rfsize.oob_score(bagging, X_wine, kind))

# %%
# **AdaBoost**: boosted trees depend on one another, so no number of them is enough in rfsize's sense. But a row can
# stop when the remaining trees cannot change its label. The labels are exactly AdaBoost's.

boosted = AdaBoostClassifier(n_estimators=100, random_state=0)
boosted.fit(X_train, y_train >= 5)
labels, n_used = rfsize.compile(boosted).predict(X_test, return_trees=True)
assert (labels == boosted.predict(X_test)).all()
print(f"AdaBoost: {n_used.mean():.0f} of 100 stumps used per row, the same labels")

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
# A random forest of ten classes grows by ``warm_start`` until it is large enough, and predicts faster compiled.

forest = RandomForestClassifier(random_state=0)
grown, report = rfsize.grow(forest, X_train, y_train, alpha=0.98)
print(report)

fast = rfsize.compile(grown)
right = (fast.predict(X_test) == y_test).mean()
print(f"{fast.n_trees} trees, compiled: accuracy {right:.1%}")
report.plot()

# %%
# Bagging over other learners works the same: rfsize asks each member for probabilities about rows out of its bag.

X_wine, kind = load_wine(return_X_y=True)
bagging = BaggingClassifier(KNeighborsClassifier(), n_estimators=50, random_state=0)
bagging.fit(X_wine, kind)
print(rfsize.size(bagging, X_wine, oob=True, alpha=0.95))
print(rfsize.oob_score(bagging, X_wine, kind))

# %%
# Boosted trees depend on one another and have no T*. But a row need not ask the trees whose weight cannot change its
# label any more. The labels are exactly AdaBoost's.

boosted = AdaBoostClassifier(n_estimators=100, random_state=0)
boosted.fit(X_train, y_train >= 5)
labels, asked = rfsize.compile(boosted).predict(X_test, return_trees=True)
assert (labels == boosted.predict(X_test)).all()
print(f"AdaBoost: {asked.mean():.0f} of 100 stumps asked per row, the same labels")

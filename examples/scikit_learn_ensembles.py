"""Scikit-learn's own ensembles: grown to size, predicting fast, and AdaBoost with the lossless stop.

python examples/scikit_learn_ensembles.py
"""

from sklearn.datasets import load_digits
from sklearn.ensemble import AdaBoostClassifier, BaggingClassifier, RandomForestClassifier
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier

import rfsize

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)

forest, report = rfsize.grow(RandomForestClassifier(random_state=0), X_train, y_train, alpha=0.98, return_report=True)
print(report)
fast = rfsize.compile(forest)
print(f"majority vote, compiled: accuracy {(fast.predict(X_test) == y_test).mean():.1%}")

# Bagging over any learner is sized alike.
neighbours = BaggingClassifier(KNeighborsClassifier(), n_estimators=50, random_state=0).fit(X_train, y_train)
print(f"bagged neighbours: T*(0.99) = {rfsize.size(neighbours, X_train, oob=True).n_trees}")

# Boosted trees have no T*, but need not be asked once the remaining weight cannot change the label.
boosted = AdaBoostClassifier(n_estimators=100, random_state=0).fit(X_train, y_train >= 5)
labels, asked = rfsize.compile(boosted).predict(X_test, return_trees=True)
print(f"AdaBoost: {asked.mean():.0f} of 100 stumps, the same labels: {(labels == boosted.predict(X_test)).all()}")

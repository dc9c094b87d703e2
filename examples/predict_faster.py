"""Predict with as many trees per row as it takes, and serve the forest without its framework.

python examples/predict_faster.py
"""

from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split
from xgboost import XGBClassifier

import rfsize

X, y = load_breast_cancer(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
forest = XGBClassifier(n_estimators=1, num_parallel_tree=501, learning_rate=1, subsample=0.632, colsample_bynode=0.3)
forest.fit(X_train, y_train)

# How the trees vote on rows they did not see tells when the others need not be asked.
table = rfsize.StopTable.build(501, alpha=0.99, prior=rfsize.votes(forest, X_train, oob=True))
print(table)

fast = rfsize.compile(forest, table)
labels, asked = fast.predict(X_test, return_trees=True)
print(f"{asked.mean():.1f} of 501 trees asked per row, accuracy {(labels == y_test).mean():.1%}")

# One file, which a service reads with neither XGBoost nor LightGBM installed.
fast.save("forest.npz")
assert (rfsize.load("forest.npz").predict(X_test) == labels).all()

"""
Predict faster
==============

Each row asks only as many trees as it takes to settle its label, and no framework is needed to serve the forest.
"""

import tempfile
from pathlib import Path

from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split
from xgboost import XGBClassifier

import rfsize

X, y = load_breast_cancer(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
forest = XGBClassifier(
    n_estimators=1,
    num_parallel_tree=501,
    learning_rate=1,
    subsample=0.632,
    colsample_bynode=0.3,
    random_state=0,
)
forest.fit(X_train, y_train)

# %%
# How the trees vote on rows that they did not see tells when the others need not be asked. That goes into a stop table.

votes = rfsize.votes(forest, X_train, oob=True)
table = rfsize.StopTable.build(501, alpha=0.99, prior=votes)
print(table)
table.plot()

# %%
# The compiled forest obeys the table.

fast = rfsize.compile(forest, table)
labels, asked = fast.predict(X_test, return_trees=True)
print(f"{asked.mean():.1f} of 501 trees asked per row")
print(f"accuracy {(labels == y_test).mean():.1%}")

# %%
# It is one file, which a service reads with neither XGBoost nor LightGBM installed.

path = Path(tempfile.mkdtemp()) / "forest.npz"
fast.save(path)
assert (rfsize.load(path).predict(X_test) == labels).all()
print(f"{path.name}: {path.stat().st_size / 1e3:.0f} kB, the same labels")

"""
Predict faster
==============

Stop voting on a row when its label is settled, and serve the forest without XGBoost or LightGBM.
"""

# sphinx_gallery_thumbnail_path = '_static/thumbnails/predict_faster.svg'

import tempfile
from pathlib import Path

from sklearn.datasets import make_classification
from sklearn.model_selection import train_test_split
from xgboost import XGBClassifier

import rfsize

X, y = make_classification(6000, 20, n_informative=8, flip_y=0.1, random_state=0)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=2000, random_state=2)
X_train, X_val, y_train, _ = train_test_split(X_train, y_train, test_size=2000, random_state=2)
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
# A compiled forest gives the same predictions as the model.

fast = rfsize.compile(forest)
assert (fast.predict(X_test) == forest.predict(X_test)).all()
assert (fast.predict_proba(X_test) == forest.predict_proba(X_test)).all()

# %%
# A stop table says when a row needs no more trees. Rows that the forest was not trained on certify it; you need no
# labels for these rows.

table = rfsize.StopTable.calibrate(forest, X_val, alpha=0.98)
print(table)

# %%
# Compile the forest with the table.

labels, n_used = rfsize.compile(forest, table).predict(X_test, return_trees=True)
print(f"{n_used.mean():.1f} of 501 trees used per row")
print(f"{(labels != forest.predict(X_test)).mean():.2%} of the labels differ, accuracy {(labels == y_test).mean():.1%}")

# %%
# Save it to one file. A service loads the file without XGBoost or LightGBM.

fast = rfsize.compile(forest, table)
path = Path(tempfile.mkdtemp()) / "forest.rfsize"
fast.save(path)
assert (rfsize.load(path).predict(X_test) == labels).all()
print(f"{path.name}: {path.stat().st_size / 1e3:.0f} kB, the same labels")

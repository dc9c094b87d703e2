"""
Cut a finished forest down
==========================

How many of 1000 trees give the same labels as all of them? Rows that the forest was not trained on certify the answer.
"""

# sphinx_gallery_thumbnail_path = '_static/thumbnails/truncate_a_finished_forest.svg'

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from xgboost import XGBClassifier

import rfsize

X, digit = load_digits(return_X_y=True)
X_train, X_val, y_train, _ = train_test_split(X, digit >= 5, test_size=0.5, random_state=0)
model = XGBClassifier(
    n_estimators=1,
    num_parallel_tree=1000,
    learning_rate=1,
    subsample=0.632,
    colsample_bynode=0.2,
    random_state=0,
)
model.fit(X_train, y_train)

# %%
# Held-out rows certify how few trees give the same labels as all of them; you need no labels for these rows. You get a
# new model of the same type, and your model does not change.

report = rfsize.size(model, X_val, alpha=0.98, target="model")
print(report)
small = rfsize.truncate(model, n_trees=report)
same = np.mean(small.predict(X_val) == model.predict(X_val))
print(f"{small.num_parallel_tree} of 1000 trees, {same:.1%} of the labels are the same")

# %%
# The more trees you keep, the fewer rows get another label.

report.plot()

# %%
# If you have no fresh rows, take the training rows out of bag. They show how many trees a forest of this kind needs, on
# average, to give the labels of an unlimited forest. This number is T*; it is an estimate, not a certificate.

small_too = rfsize.truncate(model, X_train, alpha=0.98, oob=True)
print(f"T*(0.98): {small_too.num_parallel_tree} of 1000 trees")

"""
Cut a finished forest down
==========================

A forest of 1000 trees becomes one of as many as it needs, with rows it was not trained on or without.
"""

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from xgboost import XGBClassifier

import rfsize

X, digit = load_digits(return_X_y=True)
X_train, X_val, y_train, _ = train_test_split(X, digit >= 5, random_state=0)
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
# Held-out rows tell how many trees it takes; their labels are not needed. So do the training rows themselves, by their
# out-of-bag votes. Either way you get a new model of the same type, and yours is not touched.

small = rfsize.truncate(model, X_val, alpha=0.98)
small_too = rfsize.truncate(model, X_train, alpha=0.98, oob=True)

for votes, forest in (("validation rows", small), ("out-of-bag", small_too)):
    same = np.mean(forest.predict(X_val) == model.predict(X_val))
    print(f"{votes}: {forest.num_parallel_tree} of 1000 trees, {same:.1%} the same")

# %%
# What was cut away: from T* to 1000 trees the forest would have gone on changing its mind on fewer and fewer rows.

rfsize.size(model, X_train, oob=True, alpha=0.98).plot()

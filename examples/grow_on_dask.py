"""
Grow a forest on Dask's workers
===============================

The trees of a random forest do not depend on each other, so workers can train them in parallel. Each worker holds all
rows and trains blocks of trees until the forest is large enough.
"""

# sphinx_gallery_thumbnail_path = '_static/thumbnails/grow_on_dask.svg'

from distributed import Client
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import rfsize.dask

X, digit = load_digits(return_X_y=True)
X, X_test, y, y_test = train_test_split(X, digit >= 5, random_state=0)

# %%
# Here there are two workers on one machine; on a cluster, connect the client to its scheduler. The rows may also be
# Dask arrays or DataFrames.

client = Client(processes=False, n_workers=2, threads_per_worker=1, dashboard_address=None)
params = {"objective": "binary:logistic", "subsample": 0.632, "colsample_bynode": 0.3, "max_depth": 8}
booster, report = rfsize.dask.grow(client, params, X, y)
client.close()
print(report)

# %%
# The forest does not depend on the workers. rfsize proved which rows each tree was trained on, so you can score the
# forest out of bag.

print(rfsize.oob_score(booster, X, y, metric="auc"))
print(f"{(rfsize.compile(booster).predict_labels(X_test) == y_test).mean():.1%} of other rows get the right label")

"""
Rows on Dask's workers
======================

Size a forest and predict where the rows are: here on one machine, and in the same way on a cluster.
"""

# sphinx_gallery_thumbnail_path = '_static/thumbnails/rows_on_dask.svg'

import dask.array as da
import xgboost as xgb
from distributed import Client
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import rfsize.dask

X, digit = load_digits(return_X_y=True)
X_train, X_rest, y, _ = train_test_split(X, digit >= 5, random_state=0)
params = {"objective": "binary:logistic", "num_parallel_tree": 300, "learning_rate": 1, "subsample": 0.632}
model = xgb.train(params | {"colsample_bynode": 0.3}, xgb.DMatrix(X_train, y), 1)

# %%
# On a cluster, connect the client to its scheduler.

client = Client(processes=False, dashboard_address=None)
X = da.from_array(X_rest, chunks=(100, -1))

# %%
# The rows stay on the workers, and the trees' votes come back. They equal those for rows in memory to the last bit.

report = rfsize.size(model, X)
print(report)

# %%
# Predictions are lazy. The forest goes to each worker once.

labels = rfsize.dask.predict_labels(rfsize.compile(model), X)
print(f"{labels}, of {report.n_trees} trees that would be enough")
print(labels.compute()[:10])
client.close()

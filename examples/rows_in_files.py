"""
Rows in files
=============

Your rows do not fit into memory: size, predict and train on a folder of Parquet files, a piece at a time.
"""

# sphinx_gallery_thumbnail_path = '_static/thumbnails/rows_in_files.svg'

import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import xgboost as xgb
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import rfsize

X, digit = load_digits(return_X_y=True)
X_train, X_rest, y, _ = train_test_split(X, digit >= 5, random_state=0)

# %%
# Three files hold rows that the forest is not trained on.

folder = Path(tempfile.mkdtemp())
names = [f"pixel{place}" for place in range(X.shape[1])]
for number, part in enumerate(np.array_split(X_rest, 3)):
    pyarrow.parquet.write_table(pa.table(dict(zip(names, part.T, strict=True))), folder / f"{number}.parquet")

# %%
# XGBoost reads the training rows from an iterator in batches, and stores them in files. Give the same iterator to
# rfsize to score the forest out of bag.


class Batches(xgb.DataIter):
    def __init__(self):
        self.place = 0
        super().__init__(cache_prefix=str(folder / "cache"))

    def next(self, input_data):
        if self.place == 5:
            return False
        rows = np.array_split(np.arange(len(y)), 5)[self.place]
        input_data(data=X_train[rows], label=y[rows])
        self.place += 1
        return True

    def reset(self):
        self.place = 0


rows = Batches()
params = {"objective": "binary:logistic", "num_parallel_tree": 300, "learning_rate": 1, "subsample": 0.632}
model = xgb.train(params | {"colsample_bynode": 0.3}, xgb.ExtMemQuantileDMatrix(rows), 1)
score = rfsize.oob_score(model, rows, y, metric="auc")
print(score)

# %%
# Every function that takes rows also takes the folder.

report = rfsize.size(model, folder)
print(report)
labels = rfsize.compile(model).predict_labels(folder)
print(f"{len(labels)} rows from {len(list(folder.glob('*.parquet')))} files, {report.n_trees} trees are enough")

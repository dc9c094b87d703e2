"""
A forest in C
=============

For a device without Python, write the forest, its stop table and the code that predicts a row to one C file.
"""

# sphinx_gallery_thumbnail_path = '_static/thumbnails/forest_in_c.svg'

import os
import tempfile
from pathlib import Path

from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split
from xgboost import XGBClassifier

import rfsize

X, y = load_breast_cancer(return_X_y=True)
X_train, X_val, y_train, y_val = train_test_split(X, y, test_size=0.6, random_state=0)
forest = XGBClassifier(
    n_estimators=1,
    num_parallel_tree=101,
    learning_rate=1,
    subsample=0.632,
    colsample_bynode=0.3,
    random_state=0,
)
forest.fit(X_train, y_train)

# %%
# A stop table says when a row needs no more trees. It is certified on rows that the forest was not trained on.

os.chdir(tempfile.mkdtemp())  # the file is written here
table = rfsize.StopTable.calibrate(forest, X_val, alpha=0.99)
fast = rfsize.compile(forest, table)
fast.to_c("tumour.c", name="tumour")
source = Path("tumour.c").read_text()

# %%
# The top of the file describes its contents.

print(source.partition("*/")[0])
print(f"{len(source) / 1e3:.0f} kB of C")

# %%
# The C functions use as many trees as the compiled forest does.

labels, n_used = fast.predict(X_val, return_trees=True)
print(f"{n_used.mean():.1f} of 101 trees used per row")

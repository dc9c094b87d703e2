"""
Shrink a model before you submit it
===================================

Look at a forest in a notebook, choose an alpha, and save the small model.
"""

# sphinx_gallery_thumbnail_path = '_static/thumbnails/shrink_before_submitting.svg'

import sys
import tempfile
from pathlib import Path

from lightgbm import LGBMClassifier
from sklearn.datasets import load_breast_cancer

import rfsize

X, y = load_breast_cancer(return_X_y=True, as_frame=True)
model = LGBMClassifier(
    boosting_type="rf",
    n_estimators=2000,
    subsample=0.632,
    subsample_freq=1,
    colsample_bytree=0.3,
    random_state=0,
    verbose=-1,
)
model.fit(X, y)

# %%
# How many trees does each alpha take? One report answers for all of them.

report = rfsize.size(model, X, oob=True)
print(report)
for alpha in (0.95, 0.98, 0.99, 0.995):
    print(f"T*({alpha}) = {report.size_at(alpha)}")

# %%
# The picture shows, for any number of trees, the share of labels that still change.

ax = report.plot()

# %%
# Cut, save, and compare.

small = rfsize.truncate(model, n_trees=report)
folder = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp())
ax.figure.savefig(folder / "forest_size.png", dpi=150)
for name, forest in (("large", model), ("small", small)):
    path = folder / f"{name}.txt"
    forest.booster_.save_model(path)
    print(f"{name}: {forest.booster_.num_trees()} trees, {path.stat().st_size / 1e6:.2f} MB")

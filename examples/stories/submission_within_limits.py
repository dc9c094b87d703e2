"""
A submission within limits
==========================

A competition judges your model by its log loss on hidden rows. The model must be a file that LightGBM loads, of at most
half a megabyte.
"""

# sphinx_gallery_thumbnail_path = '_static/thumbnails/stories/submission_within_limits.svg'

import tempfile
import time
from pathlib import Path

import numpy as np
from lightgbm import Booster, LGBMClassifier
from sklearn.metrics import log_loss

import rfsize
from rfsize.datasets import waveform

X, y = waveform(1500, seed=0)
X_hidden, y_hidden = waveform(3000, seed=1)  # you have no y_hidden: it only judges
folder = Path(tempfile.mkdtemp())


def judge(name, model, file):
    began = time.perf_counter()
    probability = model.predict_proba(X_hidden)
    seconds, size = time.perf_counter() - began, (folder / file).stat().st_size / 1e6
    loss = log_loss(y_hidden, probability)
    print(f"{name:<19} log loss {loss:.4f}   {size:.2f} MB   {seconds:.3f} s")


# %%
# **What people do**: train many trees, to be safe.

forest = LGBMClassifier(
    boosting_type="rf",
    n_estimators=500,
    subsample=0.632,
    subsample_freq=1,
    colsample_bytree=0.4,
    min_child_samples=5,
    random_state=0,
    n_jobs=1,
    verbose=-1,
)
forest.fit(X, y)
forest.booster_.save_model(folder / "all.txt")
judge("all trees", forest, "all.txt")

# %%
# The file is ten times too large. The simplest remedy is to keep as many of the first trees as fit.

cut = rfsize.truncate(forest, max_bytes=500_000)
cut.booster_.save_model(folder / "cut.txt")
judge("first trees", cut, "cut.txt")

# %%
# **Shrink instead.** The first trees are a random choice. ``shrink`` chooses the trees whose mean is nearest to the
# mean of all trees, then refits the scores in their leaves. It needs rows, but no labels. It chooses and refits on the
# training rows; the rows to predict, which every competitor has, certify the result. Refitted scores have more digits,
# so a few trees fewer fit into the file.

small, report = rfsize.shrink(forest, X_hidden, rows=X, n_trees=int(0.95 * cut.n_estimators_))
small.booster_.save_model(folder / "small.txt")
judge("shrunk", small, "small.txt")
print(report)

# %%
# The file has the same size, and the smaller forest loses about half as much log loss. The report says how many rows
# get the label of the whole forest.
#
# **What would other sizes cost?** The picture shows how many rows keep their label, over the number of trees.

report.plot()

# %%
# **Submit.** LightGBM loads the file. The refitted trees depend on one another, so rfsize no longer sizes or cuts this
# forest, but it still compiles it. The compiled file is smaller, and predicts the same many times faster, without
# LightGBM.

loaded = Booster(model_file=folder / "small.txt")
assert np.allclose(loaded.predict(X_hidden), small.predict_proba(X_hidden))

fast = rfsize.compile(small, n_jobs=1)
fast.save(folder / "small.npz")
assert np.allclose(fast.predict_proba(X_hidden), small.predict_proba(X_hidden), atol=1e-12)
judge("shrunk, compiled", rfsize.load(folder / "small.npz", n_jobs=1), "small.npz")

# %%
# **If the limit is on labels**, name the share of rows that must keep their label, and let ``shrink`` find the size.

by_labels, report = rfsize.shrink(forest, X_hidden, rows=X, alpha=0.97)
print(report)

# %%
# **Next time, stop in time.** A callback ends the training when it is 80 % sure that more trees would improve the log
# loss by at most 0.001. You train fewer trees; ``shrink`` then brings them within the limit.

callback = rfsize.SizeCallback(metric="log_loss", tolerance=0.001)
trained = LGBMClassifier(**forest.get_params()).set_params(n_estimators=5000)
trained.fit(X, y, callbacks=[callback])
trained.booster_.save_model(folder / "trained.txt")
judge(f"{trained.booster_.current_iteration()} trees", trained, "trained.txt")

"""
A submission within limits
==========================

A competition is judged by log loss on hidden rows. The model's file may take half a megabyte, and it must be a file
that LightGBM loads.
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
X_hidden, y_hidden = waveform(3000, seed=1)  # a competitor has no y_hidden: it only judges
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
# The file is ten times too large. The simplest remedy keeps as many of the first trees as fit.

cut = rfsize.truncate(forest, max_bytes=500_000)
cut.booster_.save_model(folder / "cut.txt")
judge("first trees", cut, "cut.txt")

# %%
# **Shrink instead.** The first trees are a random choice. ``shrink`` chooses the trees whose mean is nearest to that
# of all of them, and then refits the scores in their leaves. It needs rows, and no labels: it chooses and refits on the
# training rows, and the rows to predict, which every competitor has, certify the result.

small, report = rfsize.shrink(forest, X_hidden, rows=X, max_bytes=500_000)
small.booster_.save_model(folder / "small.txt")
judge("shrunk", small, "small.txt")
print(report)

# %%
# The file has the same size, and the smaller forest loses about half as much log loss. The report says on how many of
# the rows it gives the label of the whole forest.
#
# **What would other limits cost?** The picture shows it: how many rows keep their label, beside the bytes of the file
# and the time of a row.

report.plot()

# %%
# **Submit.** LightGBM loads the file. Its trees belong together now, so rfsize no longer sizes or cuts this forest; but
# it still compiles it. The compiled file is smaller, and predicts the same many times faster, without LightGBM.

loaded = Booster(model_file=folder / "small.txt")
assert np.allclose(loaded.predict(X_hidden), small.predict_proba(X_hidden))

fast = rfsize.compile(small, n_jobs=1)
fast.save(folder / "small.npz")
assert np.allclose(fast.predict_proba(X_hidden), small.predict_proba(X_hidden), atol=1e-12)
judge("shrunk, compiled", rfsize.load(folder / "small.npz", n_jobs=1), "small.npz")

# %%
# **If the limit is on labels**, name the share of rows that must keep theirs, and let ``shrink`` find the size.

by_labels, report = rfsize.shrink(forest, X_hidden, rows=X, alpha=0.97)
print(report)

# %%
# **Next time, stop in time.** A callback ends the training once it is 80 % sure that the trees are enough for the log
# loss. A loss of 0.001 we would not miss. Fewer trees are trained; ``shrink`` then brings them within the limit.

callback = rfsize.SizeCallback(metric="log_loss", tolerance=0.001)
trained = LGBMClassifier(**forest.get_params()).set_params(n_estimators=5000)
trained.fit(X, y, callbacks=[callback])
trained.booster_.save_model(folder / "trained.txt")
judge(f"{trained.booster_.current_iteration()} trees", trained, "trained.txt")

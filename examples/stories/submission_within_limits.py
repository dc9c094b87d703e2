"""
A submission within limits
==========================

A competition is judged by log loss on hidden rows. The model's file may take half a megabyte, and its predictions a
fifth of a second.
"""

import tempfile
import time
from pathlib import Path

import numpy as np
from lightgbm import LGBMClassifier
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
    return loss


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
loss_of_all = judge("all trees", forest, "all.txt")

# %%
# The file is far too large. How many trees does the log loss need? The training rows show it out of bag, each by the
# trees that did not see it. A loss of 0.001 we would not miss.

counted = rfsize.tree_outputs(forest, X, y, oob=True)
report = rfsize.size(counted, metric="log_loss", tolerance=0.001)
print(report)

# %%
# Does that hold? The forest is cut into many small ones, and the hidden rows judge these. The crosses say how much
# worse they are on average than all trees together, with what those are expected to lose added.


def mean_loss(size):
    starts = range(0, 500, size)
    parts = [forest.predict_proba(X_hidden, start_iteration=at, num_iteration=size) for at in starts]
    return np.mean([log_loss(y_hidden, probability) for probability in parts])


sizes = [10, 25, 50]
worse = np.array([mean_loss(size) for size in sizes]) - loss_of_all
ax = report.plot()
ax.plot(sizes, worse + report.loss_at(500).value, "x", color="C3", markersize=9, mew=2)

# %%
# Ask for what you are judged by. Labels of rows near a tie still change where the log loss has long settled: for the
# same labels on 99 % of the rows, all these trees are too few.

print(f"trees for the log loss {report.n_trees}, for the labels {rfsize.size(counted).n_trees}")

# %%
# **Cut and compile.** The small forest is a model of LightGBM's, as the large one is. Compiled, it predicts the same,
# from one compressed file.

small = rfsize.truncate(forest, n_trees=report)
small.booster_.save_model(folder / "small.txt")
fast_of_all, fast = rfsize.compile(forest, n_jobs=1), rfsize.compile(small, n_jobs=1)
fast_of_all.save(folder / "all.npz")
fast.save(folder / "small.npz")
assert np.allclose(fast.predict_proba(X_hidden), small.predict_proba(X_hidden), atol=1e-12)

judge("all trees, compiled", fast_of_all, "all.npz")
judge("T* trees", small, "small.txt")
judge("T* trees, compiled", fast, "small.npz")

# %%
# Compiling is worth most of it, and T* the rest. What the cut costs this forest stands in the log loss: the tolerance
# holds on average over forests, and a single one may lose more, or gain.
#
# **Would a stop table help?** It lets rows ask fewer trees. Hidden rows calibrate it, since it needs no labels: on 99 %
# of them it keeps the probabilities within 0.02 of those of all the trees, or else the labels.

some = X_hidden[:1500]
probabilities = rfsize.StopTable.calibrate(small, some, metric="probabilities", tolerance=0.02)
labels = rfsize.StopTable.calibrate(small, some)
for what, table in (("probabilities", probabilities), ("labels", labels)):
    print(f"{what} ask {table.expected_trees():.0f} of {report.n_trees} trees")

# %%
# Hardly: the log loss depends on probabilities, and these take most of the trees. Use it where labels are judged.
#
# **Next time, stop in time.** A callback ends the training once it is 80 % sure that the trees are enough.

callback = rfsize.SizeCallback(metric="log_loss", tolerance=0.001)
trained = LGBMClassifier(**forest.get_params()).set_params(n_estimators=5000)
trained.fit(X, y, callbacks=[callback])
rfsize.compile(trained, n_jobs=1).save(folder / "submission.npz")

# %%
# **Submit.** The file is read with neither LightGBM nor the training rows.

submitted = rfsize.load(folder / "submission.npz")
np.savetxt(folder / "submission.csv", submitted.predict_proba(X_hidden), delimiter=",", fmt="%.6f")
judge(f"{submitted.n_trees} trees, loaded", submitted, "submission.npz")

"""
A forest on a small device
==========================

A sensor must tell worn bearings from sound ones, with 13 kB of flash for the forest, a battery and a deadline.
"""

# sphinx_gallery_thumbnail_path = '_static/thumbnails/stories/forest_on_a_small_device.svg'

import ctypes
import shutil
import subprocess
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from xgboost import XGBClassifier

import rfsize

# %%
# The sensor measures vibration in windows of 256 samples. The pump turns, everything hums, and a worn bearing knocks,
# sometimes too faintly to hear. The device reduces each window to eleven numbers.


def windows(n_rows, seed):
    draw = np.random.default_rng(seed)
    time, worn = np.arange(256) / 2000, draw.integers(0, 2, n_rows)
    turns, phase, knocks = draw.uniform(20, 30, (3, n_rows, 1))
    signal = np.sin(2 * np.pi * (turns * time + phase)) + draw.normal(size=(n_rows, 256))
    since_knock = (time + phase) % (1 / (3 * knocks))
    ringing = np.exp(-300 * since_knock) * np.sin(2 * np.pi * 650 * since_knock)
    signal += (worn * draw.gamma(2, 1.2, n_rows))[:, None] * ringing
    rms = signal.std(axis=1)
    crest, kurtosis = np.abs(signal).max(axis=1) / rms, ((signal / rms[:, None]) ** 4).mean(axis=1)
    bands = np.abs(np.fft.rfft(signal)[:, 1:]).reshape(n_rows, 8, 16).mean(axis=2)
    return np.column_stack([rms, crest, kurtosis, bands]), worn


X, y = windows(3000, seed=0)
X_later, y_later = windows(8000, seed=2)

# %%
# On your desk trees are cheap. Train 400 of them: their out-of-bag votes show how many are enough, without further
# measurements. Keep the trees small, since each split and each leaf takes 4 bytes.

forest = XGBClassifier(
    n_estimators=1,
    num_parallel_tree=400,
    learning_rate=1,
    max_depth=5,
    subsample=0.632,
    colsample_bynode=0.4,
    random_state=0,
    n_jobs=1,
)
forest.fit(X, y)
report = rfsize.size(forest, X, oob=True)
print(report)
report.plot()

# %%
# People guess: 10 trees because they surely fit, 100 because that is the default. Here each size is compiled and tested
# on windows recorded later. How many windows get another label than from 400 trees, and how many a wrong label?

folder, compiler = Path(tempfile.mkdtemp()), shutil.which("cc")


def flash(fast, name):
    """Write a forest in C, and tell how many bytes it takes; 0 where that cannot be told."""
    fast.to_c(folder / f"{name}.c", name=name)
    if compiler is None:
        return 0
    options = ["-Os", "-std=c99", "-fno-asynchronous-unwind-tables", "-c", f"{name}.c"]
    subprocess.run([compiler, *options], cwd=folder, check=True)
    sections = subprocess.run(["size", f"{name}.o"], cwd=folder, check=True, capture_output=True, text=True).stdout
    text, data, _ = sections.splitlines()[1].split(maxsplit=2)
    return int(text) + int(data)


if compiler is None:
    print("There is no C compiler here: bytes are shown as 0, and the last test is left out.")
labels = forest.predict(X_later)
print(f"{'trees':>5}{'bytes':>9}{'change, expected':>18}{'seen':>8}{'error':>8}")
for n_trees in sorted({11, 21, 41, report.n_trees, 101}):
    small = rfsize.truncate(forest, n_trees=n_trees)
    n_bytes = flash(rfsize.compile(small), f"bearing_{n_trees}")
    found = small.predict(X_later)
    shares = report.loss_at(n_trees).value, np.mean(found != labels), np.mean(found != y_later)
    print(f"{n_trees:5}{n_bytes:9,}{shares[0]:18.2%}{shares[1]:8.2%}{shares[2]:8.2%}")

# %%
# 41 trees fit, and you know how many labels change. The bytes are for this machine's processor; most of them are
# constants, which take the same space on the device. The error hardly depends on the number of trees: more trees make
# the answers steadier, not better.
#
# The battery is next. With a stop table, a window uses trees only until its label is settled. The table is certified on
# windows that the forest was not trained on; these windows need no labels.

small = rfsize.truncate(forest, n_trees=41)
table = rfsize.StopTable.calibrate(small, windows(3000, seed=1)[0], alpha=0.99)
print(table.certificate)
fast = rfsize.compile(small, table)
print(f"{flash(fast, 'bearing'):,} bytes with the table")
answers, n_used = fast.predict(X_later, return_trees=True)
print(f"{np.mean(answers != small.predict(X_later)):.2%} of the later windows differ")

# %%
# The table saves energy, which depends on the mean number of trees. It does not help with the deadline: some windows
# use all trees, and you must plan for their time. Only a smaller forest shortens this time.

figure, ax = plt.subplots(figsize=(7, 3.6), layout="constrained")
ax.hist(n_used, bins=np.arange(0.5, 42), color="C0", weights=np.full(len(n_used), 1 / len(n_used)))
ax.axvline(n_used.mean(), color="C3", linestyle="--")
ax.set(yscale="log", xlabel="trees used (dashed: mean)", ylabel="share of the windows", xlim=(0, 42))
most = n_used.max()
print(f"{n_used.mean():.1f} trees on average, {most} at most: {5 * most} comparisons in trees of depth 5")

# %%
# Finally, test the C code itself on all later windows.

if compiler is not None:
    subprocess.run(
        [compiler, "-Os", "-std=c99", "-fPIC", "-shared", "bearing.c", "-o", "bearing.so", "-lm"],
        cwd=folder,
        check=True,
    )
    functions = ctypes.CDLL(str(folder / "bearing.so"))
    rows, in_c = np.ascontiguousarray(X_later), np.empty((2, len(X_later)), dtype=np.intc)
    pointers = [ctypes.c_void_p(array.ctypes.data) for array in (rows, *in_c)]
    functions.bearing_predict_many(pointers[0], ctypes.c_size_t(len(rows)), *pointers[1:])
    assert (in_c == [answers, n_used]).all()
    print(f"{len(rows):,} labels and numbers of trees used, all the same as in Python")

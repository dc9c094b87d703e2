"""Machine code before the first request, and what is said where there can be none."""

from __future__ import annotations

import subprocess
import sys

_WARM = """
import sys
import numpy as np, pandas as pd
from lightgbm import LGBMClassifier
from numba.core.dispatcher import Dispatcher
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from xgboost import XGBClassifier
import rfsize

def compiled():
    modules = [module for name, module in sorted(sys.modules.items()) if name.startswith("rfsize.")]
    found = {id(each): each for module in modules for each in vars(module).values() if isinstance(each, Dispatcher)}
    return {(each.__module__, each.__name__, signature) for each in found.values() for signature in each.signatures}

X = np.random.default_rng(0).normal(size=(3000, 4))
y = np.digitize(X[:, 0], [-0.5, 0.5])
one = {"n_estimators": 1, "num_parallel_tree": 5, "learning_rate": 1, "subsample": 0.5, "n_jobs": 1}
bagged = {"boosting_type": "rf", "subsample": 0.5, "subsample_freq": 1, "n_estimators": 5, "verbose": -1}
models = [
    kind.fit(X, labels)
    for labels in (y, y > 0)
    for kind in (LGBMClassifier(**bagged), XGBClassifier(**one), RandomForestClassifier(5))
]
fast = [rfsize.compile(model, voting=voting) for model in models for voting in ("soft", "hard")]
numbers = rfsize.compile(RandomForestRegressor(5).fit(X, X[:, 0]))

rfsize.warm_up()
before = compiled()
assert before
for rows in (X, X.astype(np.float32), pd.DataFrame(X), pd.DataFrame(X.astype(np.float32)), pd.DataFrame(X[:100])):
    for some in (rows, rows[:1]):
        numbers.predict(some)
        for forest in fast:
            forest.predict(some)
            forest.predict_proba(some)
print(sorted(map(str, compiled() - before)))
"""

_WITHOUT_NUMBA = """
import sys
sys.modules["numba"] = None
import rfsize
print(rfsize.Votes([[1, 2]]).winner().tolist())
try:
    rfsize.warm_up()
except ImportError as error:
    print(error)
"""


def test_nothing_is_left_to_compile() -> None:
    run = subprocess.run([sys.executable, "-c", _WARM], capture_output=True, text=True, check=False)
    assert run.stdout.strip() == "[]", run.stdout + run.stderr


def test_without_numba_what_needs_it_says_so() -> None:
    run = subprocess.run([sys.executable, "-c", _WITHOUT_NUMBA], capture_output=True, text=True, check=True)
    votes, message = run.stdout.splitlines()
    assert votes == "[1]"
    assert message.startswith("this part of rfsize is compiled by numba, which cannot be imported (")
    assert "pip install numba" in message

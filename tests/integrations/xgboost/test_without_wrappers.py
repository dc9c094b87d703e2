"""An XGBoost that has deleted XGBRFClassifier and XGBRFRegressor, which 3.4 deprecates."""

from __future__ import annotations

import subprocess
import sys

WITHOUT_WRAPPERS = """
import numpy as np
import xgboost
import xgboost.sklearn

for module in (xgboost, xgboost.sklearn):
    for name in ("XGBRFClassifier", "XGBRFRegressor"):
        vars(module).pop(name, None)
"""

CLASSIFIER = """
import rfsize

rng = np.random.default_rng(7)
X = rng.normal(size=(600, 6))
y = (X[:, 0] + X[:, 1] * X[:, 2] > 0).astype(int)
forest = xgboost.XGBClassifier(
    n_estimators=1, num_parallel_tree=40, learning_rate=1, subsample=0.632, colsample_bynode=0.6, n_jobs=1
)
model = forest.fit(X, y)

report = rfsize.size(model, X, oob=True, alpha=0.9)
assert report.source == "oob"
assert rfsize.tree_outputs(model, X, oob=True).votes.n_trees == 40

small = rfsize.truncate(model, n_trees=11)
assert (type(small), small.n_estimators, small.num_parallel_tree) == (type(model), 1, 11)
assert rfsize.tree_outputs(small, X).votes.n_trees == 11

for given in (model, xgboost.XGBClassifier(**model.get_params())):
    grown, report = rfsize.grow(given, X, y, alpha=0.95)
    assert type(grown) is type(model)
    assert rfsize.tree_outputs(grown, X).votes.n_trees == grown.num_parallel_tree >= report.n_trees

compiled = rfsize.compile(model)
assert np.array_equal(compiled.predict(X), model.predict(X))

labels = np.array(["no", "yes"])[y]
for voting in ("auto", "hard"):
    sized = rfsize.RightSizedClassifier(forest, alpha=0.9, voting=voting).fit(X, labels)
    assert sized.report_.source == "oob"
    assert sized.estimator_.num_parallel_tree == sized.n_trees_
    assert sized.score(X, labels) > 0.8
"""

REGRESSOR = """
import rfsize

rng = np.random.default_rng(7)
X = rng.normal(size=(600, 6))
model = xgboost.XGBRegressor(
    n_estimators=1, num_parallel_tree=60, learning_rate=1, subsample=0.632, colsample_bynode=0.6, n_jobs=1
).fit(X, X[:, 0] + X[:, 1] * X[:, 2])

wanted = {"oob": True, "metric": "scores", "tolerance": 0.5}
report = rfsize.size(model, X, **wanted)
small = rfsize.truncate(model, X, **wanted)
assert type(small) is type(model)
assert small.num_parallel_tree == report.n_trees < 60
assert small.predict(X).shape == (600,)
"""


def run(code: str) -> None:
    """In an interpreter of its own, where the names are gone before rfsize is imported."""
    done = subprocess.run([sys.executable, "-W", "error::FutureWarning", "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_classifiers_need_no_wrapper() -> None:
    run(WITHOUT_WRAPPERS + CLASSIFIER)


def test_regressors_need_no_wrapper() -> None:
    run(WITHOUT_WRAPPERS + REGRESSOR)

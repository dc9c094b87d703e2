"""rfsize: how many trees a random forest of LightGBM, XGBoost or scikit-learn needs, read from the trees' votes."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if find_spec("rfsize._core") is None:
    _clone = __path__[0].removesuffix("rfsize")
    raise ImportError(
        f"Python found the sources of rfsize in {_clone}, which are not compiled. "
        f'Run: pip install -e "{_clone}" — or start Python in another folder to use an rfsize that you installed'
    )

from rfsize.api.compare import Comparison, compare
from rfsize.api.importance import Importances, oob_importance
from rfsize.api.oob_score import OobScore, oob_score
from rfsize.api.report import Report
from rfsize.api.shrink import shrink
from rfsize.api.size import size, truncate
from rfsize.counting.api import inbag, oob_predict, oob_predict_proba, tree_outputs
from rfsize.counting.outputs import TreeOutputs
from rfsize.counting.votes import Votes
from rfsize.inference.api import compile, load
from rfsize.inference.compiled import CompiledForest
from rfsize.inference.mean import CompiledMean
from rfsize.stopping.table import StopTable
from rfsize.training.bagging_fraction import FractionSearch, select_bagging_fraction
from rfsize.training.grow import grow

if TYPE_CHECKING:
    from rfsize.integrations.lightgbm.callback import SizeCallback
    from rfsize.sklearn import RightSizedClassifier, RightSizedRegressor

__version__ = version("rfsize")

__all__ = [
    "Comparison",
    "CompiledForest",
    "CompiledMean",
    "FractionSearch",
    "Importances",
    "OobScore",
    "Report",
    "RightSizedClassifier",
    "RightSizedRegressor",
    "SizeCallback",
    "StopTable",
    "TreeOutputs",
    "Votes",
    "compare",
    "compile",
    "grow",
    "inbag",
    "load",
    "oob_importance",
    "oob_predict",
    "oob_predict_proba",
    "oob_score",
    "select_bagging_fraction",
    "shrink",
    "size",
    "tree_outputs",
    "truncate",
]


# Importing rfsize must import neither LightGBM nor scikit-learn.
_IMPORTED_WHEN_USED = {
    "RightSizedClassifier": "rfsize.sklearn",
    "RightSizedRegressor": "rfsize.sklearn",
    "SizeCallback": "rfsize.integrations.lightgbm.callback",
}
# Modules that take time to import, or that need an extra: loaded at the first use, after `import rfsize` alone.
_PACKAGES = {"baselines", "dask", "spark", "testing"}


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:
        return import_module(f"rfsize.{name}")
    if name in _IMPORTED_WHEN_USED:
        return getattr(import_module(_IMPORTED_WHEN_USED[name]), name)
    raise AttributeError(f"module 'rfsize' has no attribute '{name}'")

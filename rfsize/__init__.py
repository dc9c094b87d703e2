"""rfsize: how many trees a LightGBM or XGBoost random forest needs, read from the trees' votes."""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from rfsize.errors import InbagError, NotAForestError, NotConvergedWarning, SharedBagsWarning
from rfsize.report import SizeReport
from rfsize.sizing import inbag, size, truncate, votes
from rfsize.votes import Votes

if TYPE_CHECKING:
    from rfsize.integrations.lightgbm_callback import SizeCallback

__version__ = version("rfsize")

__all__ = [
    "InbagError",
    "NotAForestError",
    "NotConvergedWarning",
    "SharedBagsWarning",
    "SizeCallback",
    "SizeReport",
    "Votes",
    "inbag",
    "size",
    "truncate",
    "votes",
]


def __getattr__(name: str) -> Any:
    # Importing rfsize must not import LightGBM.
    if name == "SizeCallback":
        from rfsize.integrations.lightgbm_callback import SizeCallback

        return SizeCallback
    raise AttributeError(f"module 'rfsize' has no attribute '{name}'")

"""What calls warn of."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any


def warned(call: Callable[[], Any], category: type[Warning] = Warning) -> list[warnings.WarningMessage]:
    """The warnings of a category that a call gives, each time that it gives them."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    return [warning for warning in caught if issubclass(warning.category, category)]

"""scikit-learn's own checks of an estimator, by name."""

from __future__ import annotations

import warnings
from contextlib import suppress
from typing import Any

from sklearn.utils.estimator_checks import check_estimator, estimator_checks_generator


def failed_checks(estimator: Any) -> set[str]:
    """Names of scikit-learn's checks that an estimator fails."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        results = check_estimator(estimator, on_fail=None, on_skip=None)
    assert len(results) > 50
    return {result["check_name"] for result in results if result["status"] == "failed"}


def passed_checks(estimator: Any, names: set[str]) -> set[str]:
    """Which of scikit-learn's checks of these names an estimator passes."""
    passed = set()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        for one, check in estimator_checks_generator(estimator):
            if check.func.__name__ in names:
                with suppress(Exception):
                    check(one)
                    passed.add(check.func.__name__)
    return passed


# Bags are drawn for rows, so a row of weight two is not two rows; scikit-learn expects its own forests to fail them.
WEIGHTS_AS_COPIES = {
    "check_sample_weight_equivalence_on_dense_data",
    "check_sample_weight_equivalence_on_sparse_data",
}

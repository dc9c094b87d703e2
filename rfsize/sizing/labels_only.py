"""What to say of a forest that is large enough for its labels, and not for what they are made from."""

from __future__ import annotations

import numpy as np

from rfsize.errors import LabelsOnlyWarning
from rfsize.sizing.base import Report
from rfsize.sizing.size_report import SizeReport
from rfsize.sizing.words import RARE, in_words
from rfsize.utils.warn import warn
from rfsize.utils.words import how_many

# How many times the size the macro average may take, and how many fewer of the labels a class may get than its mean
# probability tells of.
_MACRO, _LABELS = 4.0, 10.0
# What a forest may be expected to lose: of the area under the ROC curve; and where a class has few of the labels, of
# the logarithmic loss as a share of it (of balanced classes, more trees than labels take improve it by as much).
_AUC, _LOGLOSS = 0.005, 0.02


def warn_where_labels_mislead(report: Report, *, through: str | None = None) -> None:
    """Warn where a forest that is cut to the size of its labels loses what rankings or probabilities are judged by.

    ``through`` as in `warn`. Reports of other goals, and of forests that keep all their trees for want of more, have
    nothing to warn of.
    """
    if not isinstance(report, SizeReport) or not report.converged:
        return
    found = [*_of_classes(report), *_of_metrics(report)]
    if not found:
        return
    metric = "auc" if len(report.label_shares) == 2 else "logloss"
    calls = [f"criterion='{metric}', tolerance=0.001 (with y)", "criterion='probability', tolerance=0.01"]
    if report.average == "micro" and min(report.label_shares.values()) > 0.0:
        calls.append("for labels of rare classes average='macro'")
    warn(
        f"{report.target} = {in_words(report.n_trees)} is enough for labels, and labels do not tell all of this "
        f"forest: {'; '.join(found)}. If you use rankings or probabilities, size them: {', or '.join(calls)}",
        LabelsOnlyWarning,
        through=through,
    )


def _of_classes(report: SizeReport) -> list[str]:
    found = []
    macro = report.macro_size
    if report.average == "micro" and macro > _MACRO * report.n_trees:
        found.append(f"it takes {in_words(macro)} trees where each class counts alike")
    probability, shares = report.pricing.mean_probabilities(), report.label_shares
    if probability is not None:
        for (name, given), expected in zip(shares.items(), np.asarray(probability).tolist(), strict=True):
            if _LABELS * given < expected:
                found.append(f"class {name} gets {given:.2%} of the labels; its mean probability is {expected:.2%}")
    return found


def _of_metrics(report: SizeReport) -> list[str]:
    price = report.price()
    trees, found = how_many(price.n_trees, "tree"), []
    auc = price.metrics.get("auc", 0.0)
    if auc > _AUC:
        found.append(f"{trees} can be expected to lose {auc:.2g} of the area under the ROC curve")
    lost = price.metrics.get("logloss", 0.0)
    value = report.pricing.laws["logloss"][0] if lost > 0.0 else 0.0
    if lost > _LOGLOSS * value and min(report.label_shares.values()) < RARE:
        found.append(f"{trees} can be expected to raise the logarithmic loss, {value:.3g}, by {lost:.2g}")
    return found

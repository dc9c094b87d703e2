"""The pictures of the guide: docs/size.png, the plot of a report, and docs/report.png, the top of its page.

    python benchmarks/pictures.py

Both show LightGBM forests that tell handwritten digits of 5 or more from smaller ones: the first with 200 trees as in
docs/guide/size.md, the second with 100 as in docs/guide/report.md. Chromium draws the page, if it is installed.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

import matplotlib
from lightgbm import LGBMClassifier
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import rfsize

matplotlib.use("Agg")
from matplotlib import pyplot as plt

DOCS = Path(__file__).parents[1] / "docs"
FOREST = {"boosting_type": "rf", "subsample": 0.632, "subsample_freq": 1, "colsample_bytree": 0.3, "verbose": -1}
READABLE = {"font.size": 14, "lines.linewidth": 3, "figure.figsize": (8, 5.6)}  # at 400 pixels too
ALPHA = 0.98


def main() -> None:
    """Draw both."""
    X, digit = load_digits(return_X_y=True)
    with matplotlib.rc_context(READABLE):
        model = LGBMClassifier(**FOREST, n_estimators=200, random_state=0).fit(X, digit >= 5)
        report = rfsize.size(model, X, digit >= 5, oob=True, alpha=ALPHA)
        _, axes = plt.subplots()
        report.plot(ax=axes).figure.savefig(
            DOCS / "size.png", dpi=100, bbox_inches="tight", metadata={"Software": None}
        )
    print(report)
    X, _, y, _ = train_test_split(X, digit >= 5, random_state=0)
    model = LGBMClassifier(**FOREST, n_estimators=100, random_state=0).fit(X, y)
    counted = rfsize.tree_outputs(model, X, y, oob=True)
    report = rfsize.size(counted, alpha=ALPHA)
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        raise SystemExit("docs/report.png is not drawn: neither chromium nor google-chrome is on the PATH")
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "report.html"
        report.to_html(page, rfsize.oob_score(counted, metric="auc"))
        options = ["--headless", "--no-sandbox", "--hide-scrollbars", "--window-size=1000,1090"]
        subprocess.run(
            [browser, *options, f"--screenshot={DOCS / 'report.png'}", page.as_uri()], check=True, capture_output=True
        )


if __name__ == "__main__":
    main()

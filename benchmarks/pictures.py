"""The pictures of the guide: docs/size.png, of a report's plot, and docs/report.png, the beginning of a page.

    python benchmarks/pictures.py

Both are of a LightGBM forest of 100 trees that tells digits from 5 on from those below, as in the examples. The page is
drawn by Chromium, where there is one.
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

DOCS = Path(__file__).parents[1] / "docs"
FOREST = {"boosting_type": "rf", "n_estimators": 100, "subsample": 0.632, "subsample_freq": 1, "colsample_bytree": 0.3}
ALPHA = 0.98


def main() -> None:
    """Draw both."""
    X, digit = load_digits(return_X_y=True)
    X, X_val, y, _ = train_test_split(X, digit >= 5, random_state=0)
    model = LGBMClassifier(**FOREST, random_state=0, verbose=-1).fit(X, y)
    counted = rfsize.tree_outputs(model, X, y, oob=True)
    report = rfsize.size(counted, alpha=ALPHA)
    report.plot().figure.savefig(DOCS / "size.png", dpi=80, bbox_inches="tight", metadata={"Software": None})
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        raise SystemExit("docs/report.png is not drawn: neither chromium nor google-chrome is on the PATH")
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "report.html"
        table = rfsize.StopTable.calibrate(model, X_val, alpha=ALPHA)
        report.to_html(page, rfsize.oob_score(counted, metric="auc"), table)
        options = ["--headless", "--no-sandbox", "--hide-scrollbars", "--window-size=1000,1090"]
        subprocess.run(
            [browser, *options, f"--screenshot={DOCS / 'report.png'}", page.as_uri()], check=True, capture_output=True
        )


if __name__ == "__main__":
    main()

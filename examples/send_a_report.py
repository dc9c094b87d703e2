"""
Send a report
=============

Put your results on one HTML page for a colleague who has only a browser.
"""

# sphinx_gallery_thumbnail_path = 'report.png'
# sphinx_gallery_capture_repr = ('_repr_html_',)

import tempfile
from pathlib import Path

from lightgbm import LGBMClassifier
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import rfsize

FOREST = {"boosting_type": "rf", "n_estimators": 100, "subsample": 0.632, "subsample_freq": 1, "colsample_bytree": 0.3}

digits, digit = load_digits(return_X_y=True)
X, X_val, y, _ = train_test_split(digits, digit >= 5, random_state=0)
model = LGBMClassifier(**FOREST, random_state=0, verbose=-1).fit(X, y)
folder = Path(tempfile.mkdtemp())

# %%
# Ask the trees once, and put the size, the score and a stop table on one page.

outputs = rfsize.tree_outputs(model, X, y, oob=True)
report = rfsize.size(outputs, alpha=0.98)
score = rfsize.oob_score(outputs, metric="auc")
table = rfsize.StopTable.calibrate(model, X_val, alpha=0.98)
report.to_html(folder / "report.html", score, table)

# %%
# The page is one file that loads nothing else.

print(f"{(folder / 'report.html').stat().st_size / 1000:.0f} kB")

# %%
# A notebook shows every result in the same way.

report  # noqa: B018

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

import rfsize

FOREST = {"boosting_type": "rf", "n_estimators": 100, "subsample": 0.632, "subsample_freq": 1, "colsample_bytree": 0.3}

X, digit = load_digits(return_X_y=True)
y = digit >= 5
model = LGBMClassifier(**FOREST, random_state=0, verbose=-1).fit(X, y)
folder = Path(tempfile.mkdtemp())

# %%
# Ask the trees once, and put the size and the score on one page.

outputs = rfsize.tree_outputs(model, X, y, oob=True)
report = rfsize.size(outputs, alpha=0.98)
score = rfsize.oob_score(outputs, metric="auc")
report.to_html(folder / "report.html", score)

# %%
# The page is one file that loads nothing else.

print(f"{(folder / 'report.html').stat().st_size / 1000:.0f} kB")

# %%
# A notebook shows every result in the same way.

report  # noqa: B018

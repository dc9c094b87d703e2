"""
Size what predict returns
=========================

100 trees tell how many trees are enough for labels, for probabilities, for a metric, and for a regression.
"""

# sphinx_gallery_thumbnail_path = '_static/thumbnails/size_what_predict_returns.svg'

from lightgbm import LGBMClassifier, LGBMRegressor
from sklearn.datasets import load_diabetes, load_digits

import rfsize

FOREST = {
    "boosting_type": "rf",
    "n_estimators": 100,
    "subsample": 0.632,
    "subsample_freq": 1,
    "colsample_bytree": 0.3,
    "random_state": 0,
    "verbose": -1,
}

X, digit = load_digits(return_X_y=True)
y = digit >= 5
model = LGBMClassifier(**FOREST).fit(X, y)

# %%
# **Labels** of ``predict``, which averages the scores of the trees.

report = rfsize.size(model, X, y, oob=True, alpha=0.98)
print(report)
report.plot()

# %%
# **Probabilities** within 0.02 of those of an unlimited forest: as root mean square, and also on 95 % of the rows.

deviation = rfsize.size(model, X, oob=True, metric="probabilities", tolerance=0.02)
print(deviation)
deviation.plot()

# %%
# **A metric**: how much worse the log loss of these trees is than that of an unlimited forest.

print(report.loss_at(report.n_kept, "log_loss"))

# %%
# **A regression**, with targets from 25 to 346.

X, y = load_diabetes(return_X_y=True)
model = LGBMRegressor(**FOREST).fit(X, y)
print(rfsize.size(model, X, oob=True, metric="scores", tolerance=2.0))

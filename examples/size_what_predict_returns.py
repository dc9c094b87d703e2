"""From 100 trees: how many are enough for labels, for probabilities, for a regression, and for a metric.

python examples/size_what_predict_returns.py
"""

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

report = rfsize.size(model, X, oob=True, alpha=0.98, voting="soft")
print("labels", report, sep="\n")
report.plot().figure.savefig("forest_size.png")

print("\nprobabilities")
print(rfsize.size(model, X, oob=True, criterion="probability", tolerance=0.02))

print("\nlog loss")
print(report.metric_gap("logloss", y))

X, y = load_diabetes(return_X_y=True)
model = LGBMRegressor(**FOREST).fit(X, y)
print("\na regression, whose targets go from 25 to 346")
print(rfsize.size(model, X, oob=True, criterion="score", tolerance=2.0))

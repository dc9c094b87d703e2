"""Find out how many rows each tree should be trained on, and get a forest of that bagging fraction, sized.

python examples/choose_the_bagging_fraction.py
"""

import xgboost as xgb
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import rfsize

X, digit = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, digit >= 5, random_state=0)
train = xgb.DMatrix(X_train, y_train)
params = {"objective": "binary:logistic", "colsample_bynode": 0.2, "seed": 0}

found = rfsize.select_bagging_fraction(params, train, search="elimination", alpha=0.98)

print(found)
error = (rfsize.votes(found.booster, X_test).winner() != y_test).mean()
print(f"error on held-out rows: {error:.1%}")

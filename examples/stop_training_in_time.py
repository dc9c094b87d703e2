"""Stop the training of a LightGBM random forest as soon as it has enough trees.

python examples/stop_training_in_time.py
"""

import lightgbm as lgb
from sklearn.datasets import load_digits

import rfsize

X, digit = load_digits(return_X_y=True)
train = lgb.Dataset(X, label=digit >= 5)
params = {
    "objective": "binary",
    "boosting": "rf",
    "bagging_fraction": 0.632,
    "bagging_freq": 1,
    "feature_fraction": 0.3,
    "verbose": -1,
}

callback = rfsize.SizeCallback(alpha=0.99, log_every=50)
booster = lgb.train(params, train, num_boost_round=5000, callbacks=[callback])

print(callback.report_)
print(f"lgb.train returned a forest of {booster.num_trees()} trees")

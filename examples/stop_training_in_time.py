"""
Stop training in time
=====================

LightGBM trains until its random forest has enough trees, and no longer.
"""

# sphinx_gallery_thumbnail_path = '_static/thumbnails/stop_training_in_time.svg'

import lightgbm as lgb
from sklearn.datasets import load_digits

import rfsize

# %%
# The task: is a handwritten digit 5 or more? Add the callback and change nothing else; the callback needs no data. 5000
# trees are the most that you would wait for.

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
print(f"lgb.train returned a forest of {booster.num_trees()} trees")

# %%
# The report says on what share of the rows the forest gives the label of an unlimited forest, and how sure that is.

print(callback.report_)

# %%
# The picture shows this share for forests of any size.

callback.report_.plot()

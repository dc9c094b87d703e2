"""
Choose the bagging fraction
===========================

How many rows should each tree be trained on? The out-of-bag error answers, without held-out rows.
"""

# sphinx_gallery_thumbnail_path = '_static/thumbnails/choose_the_bagging_fraction.svg'

import xgboost as xgb
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import rfsize

X, digit = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, digit >= 5, random_state=0)
train = xgb.DMatrix(X_train, y_train)
params = {"objective": "binary:logistic", "colsample_bynode": 0.2, "subsample": 0.632, "seed": 0}

# %%
# rfsize trains a forest at each of twelve fractions, and at 0.632, the fraction in the parameters. That fraction stays
# unless you can expect another one to be better on fresh rows.

search = rfsize.select_bagging_fraction(params, train, n_trees=100)
print(search)

# %%
# Train a forest with the chosen fraction, to T*(0.98) trees: 98 % of its labels equal those of an unlimited forest.

booster, report = rfsize.grow(search.params, train, alpha=0.98)
wrong = ((booster.predict(xgb.DMatrix(X_test)) > 0.5) != y_test).mean()
print(f"fraction {search.best:.3f}, {wrong:.1%} of the held-out rows labelled wrongly")
search.plot()

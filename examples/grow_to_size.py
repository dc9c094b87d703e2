"""
Grow a forest to its size
=========================

XGBoost trains all trees of a random forest in one round and cannot stop inside it. :func:`rfsize.grow` trains them
block by block, and stops when they are enough.
"""

# sphinx_gallery_thumbnail_path = '_static/thumbnails/grow_to_size.svg'

from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from xgboost import XGBClassifier

import rfsize

X, digit = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, digit >= 5, random_state=0)

# %%
# ``grow`` finds the number of parallel trees. If you set ``num_parallel_tree``, it trains no more than that.

forest = XGBClassifier(
    n_estimators=1,
    learning_rate=1,
    subsample=0.632,
    colsample_bynode=0.3,
    random_state=0,
)
grown, report = rfsize.grow(forest, X_train, y_train, alpha=0.98)
print(report)
print(f"{grown.num_parallel_tree} trees, accuracy {grown.score(X_test, y_test):.1%}")

# %%
# Later you want a higher alpha. The finished forest gets more trees, trained on new samples of the rows.

more, _ = rfsize.grow(grown, X_train, y_train, alpha=0.99)
print(f"{more.num_parallel_tree} trees for alpha=0.99")

# %%
# The first hundred trees already show how many trees other values of alpha take.

for alpha in (0.95, 0.98, 0.99, 0.995):
    print(f"T*({alpha}) = {report.size_at(alpha)} trees")
report.plot()

"""
Grow a forest to its size
=========================

XGBoost trains all parallel trees in one round and cannot stop inside it; :func:`rfsize.grow` does it block by block.
"""

# sphinx_gallery_thumbnail_path = '_static/thumbnails/grow_to_size.svg'

from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from xgboost import XGBClassifier

import rfsize

X, digit = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, digit >= 5, random_state=0)

# %%
# A random forest of XGBoost is one round of many parallel trees. ``grow`` finds how many; ``num_parallel_tree`` only
# says how many to begin with.

forest = XGBClassifier(
    n_estimators=1,
    num_parallel_tree=100,
    learning_rate=1,
    subsample=0.632,
    colsample_bynode=0.3,
    random_state=0,
)
grown, report = rfsize.grow(forest, X_train, y_train, alpha=0.98)
print(report)
print(f"{grown.num_parallel_tree} trees, accuracy {grown.score(X_test, y_test):.1%}")

# %%
# Later you want a higher alpha. The finished forest gets more trees, with other bags than its own.

more, _ = rfsize.grow(grown, X_train, y_train, alpha=0.99)
print(f"{more.num_parallel_tree} trees for alpha=0.99")

# %%
# The first hundred trees already show the size for other values of alpha.

for alpha in (0.95, 0.98, 0.99, 0.995):
    print(f"T*({alpha}) = {report.size_at(alpha)} trees")
report.plot()

"""
Rank columns out of bag
=======================

Which columns does a forest need, how sure is that, and would a forest with another seed rank them in the same way?
Permutation importances without held-out rows: each training row is predicted by the trees that were not trained on it.
It works for LightGBM, XGBoost and scikit-learn.
"""

# sphinx_gallery_thumbnail_path = '_static/thumbnails/importances_out_of_bag.svg'

from lightgbm import LGBMClassifier
from sklearn.datasets import load_breast_cancer

import rfsize

X, y = load_breast_cancer(return_X_y=True, as_frame=True)
forest = {"boosting_type": "rf", "subsample": 0.632, "subsample_freq": 1, "colsample_bytree": 0.3, "verbose": -1}
model = LGBMClassifier(n_estimators=200, random_state=0, **forest).fit(X, y)

# %%
# **How much the Brier score loses when a column is permuted**, with intervals over rows and seeds.

importances = rfsize.oob_importance(model, X, y, metric="brier")
print(importances)
importances.plot()

# %%
# **Would another seed give the same five best columns?** rfsize answers without training again.

report = importances.size(top=5, alpha=0.9)
print(report)
report.plot()

# %%
# **Correlated columns** replace each other, so each alone looks unimportant. Permute them together to see their worth.

sizes = [name for name in X.columns if name.split()[1] in ("radius", "perimeter", "area")]
texture = [name for name in X.columns if name.split()[1] == "texture"]
print(rfsize.oob_importance(model, X, y, metric="auc", columns={"size": sizes, "texture": texture}))

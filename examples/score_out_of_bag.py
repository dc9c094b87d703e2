"""
Score a forest out of bag
=========================

How good is a forest on fresh rows? Predict each training row by the trees that were not trained on it, as
scikit-learn's ``oob_score`` does, for LightGBM and XGBoost too. And ask a forest five questions in one pass through its
trees.
"""

from lightgbm import LGBMClassifier
from sklearn.base import clone
from sklearn.datasets import load_digits

import rfsize

X, digit = load_digits(return_X_y=True)
y = digit >= 5
model = LGBMClassifier(
    boosting_type="rf", n_estimators=100, subsample=0.632, subsample_freq=1, colsample_bytree=0.3, verbose=-1
).fit(X, y)

# %%
# **Predictions and a score**, without validation rows.

probability = rfsize.oob_predict_proba(model, X)
score = rfsize.oob_score(model, X, y, metric="auc")
print(score)
score.plot()

# %%
# **Five questions, one pass.** Ask the trees once, and give their outputs in place of model and rows.

outputs = rfsize.tree_outputs(model, X, y, oob=True)
report = rfsize.size(outputs, alpha=0.95)
print(report)
print(report.loss_at(report.n_kept, "log_loss"))
print(rfsize.oob_score(outputs, metric="accuracy"))
label = outputs.predict()
small = rfsize.truncate(outputs, alpha=0.95)

# %%
# **Another setting**, on the same rows: is it worse, or is the difference noise? The comparison pairs the rows.

flat = clone(model).set_params(num_leaves=4).fit(X, y)
found = rfsize.compare(outputs, rfsize.tree_outputs(flat, X, y, oob=True), metric="log_loss")
print(found)

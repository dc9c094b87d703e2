"""
A search in a pipeline
======================

Which customers leave? A table of numbers and categories, a pipeline that prepares it, a search over the forest's
parameters, and a page for those who decide. The number of trees need not be searched for.
"""

# sphinx_gallery_thumbnail_path = '_static/thumbnails/stories/search_in_a_pipeline.svg'

import re
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from lightgbm import LGBMClassifier
from sklearn.base import clone
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import rfsize

# %%
# The customers are made up. Some left out their income. Neither income nor region has an effect here.

rng = np.random.default_rng(0)
n = 6000
customers = pd.DataFrame(
    {
        "age": rng.integers(18, 80, n),
        "income": rng.lognormal(10, 0.5, n).round(),
        "months": rng.integers(1, 72, n),
        "calls": rng.poisson(2, n),
        "plan": rng.choice(["basic", "plus", "pro"], n),
        "region": rng.choice(["north", "east", "south", "west"], n),
    }
)
young_on_basic = (customers["plan"] == "basic") & (customers["age"] < 40)
tired = customers["calls"] / 2 - customers["months"] / 24 + young_on_basic
customers.loc[rng.random(n) < 0.1, "income"] = np.nan
leaves = (tired + rng.logistic(0, 0.7, n) > 0).to_numpy().astype(int)
X, X_test, y, y_test = train_test_split(customers, leaves, test_size=4000, random_state=0)
print(X.head(3))

# %%
# The pipeline fills in missing numbers and makes one column of each category. The forest gets a table with column
# names.

prepare = make_column_transformer(
    (SimpleImputer(strategy="median"), make_column_selector(dtype_include="number")),
    (OneHotEncoder(sparse_output=False), ["plan", "region"]),
    verbose_feature_names_out=False,
).set_output(transform="pandas")

# %%
# **What people do** is to search for the number of trees as well. But it has no best value: on average, more trees are
# never worse, only slower. The search picks a number by chance. ``RightSizedClassifier`` instead trains each forest
# until more trees would improve its log loss by 0.001 at most.

forest = LGBMClassifier(
    boosting_type="rf",
    subsample_freq=1,
    importance_type="gain",
    random_state=0,
    n_jobs=1,
    verbose=-1,
)
right_sized = rfsize.RightSizedClassifier(forest, metric="log_loss", tolerance=0.001)
pipeline = make_pipeline(prepare, right_sized)


def trees(fitted, X, y):
    return fitted[-1].n_trees_


search = GridSearchCV(
    pipeline,
    {
        "rightsizedclassifier__estimator__subsample": [0.3, 0.632],
        "rightsizedclassifier__estimator__colsample_bytree": [0.5, 0.9],
    },
    scoring={"log_loss": "neg_log_loss", "trees": trees},
    refit="log_loss",
    cv=3,
)
search.fit(X, y)

# %%
# Each candidate took as many trees as it needed. If trees are trained on fewer rows and columns, they differ more, and
# more of them are needed.

found = pd.DataFrame(search.cv_results_["params"]).rename(columns=lambda name: name.split("__")[-1])
found["trees"] = search.cv_results_["mean_test_trees"].round().astype(int)
found["log loss"] = -search.cv_results_["mean_test_log_loss"].round(4)
print(found.to_string(index=False))

# %%
# **The best candidate** was trained again on all rows.

best = search.best_estimator_[-1]
print(best.report_)
best.report_.plot()

# %%
# On fresh customers, would a thousand trees of the same kind have been better?

many = clone(best.estimator_).set_params(n_estimators=1000).fit(prepare.fit_transform(X), y)
for name, probability in (
    (f"{best.n_trees_} trees", search.predict_proba(X_test)),
    ("1000 trees", many.predict_proba(prepare.transform(X_test))),
):
    print(f"{name:<12} log loss {log_loss(y_test, probability):.4f}")

# %%
# Hardly, and by no more than the tolerance.
#
# **Which columns matter?** Their names came through the pipeline.

ax = plt.subplots(layout="constrained")[1]
ax.barh(best.feature_names_in_, best.feature_importances_)
ax.set_xlabel("gain of the splits")

# %%
# **A page for those who decide** is one file for any browser. A notebook shows the same page for ``best.report_``.

X_prepared = search.best_estimator_[:-1].transform(X)
score = rfsize.oob_score(best.estimator_, X_prepared, y, metric="log_loss")
page = Path(tempfile.mkdtemp()) / "report.html"
best.report_.to_html(page, score)

text = page.read_text()
print(f"{page.stat().st_size / 1000:.0f} kB")
for heading in re.findall(r"<h[1-3][^>]*>(.*?)</h[1-3]>", text, re.DOTALL):
    print("-", re.sub(r"<[^>]*>", "", heading).strip())

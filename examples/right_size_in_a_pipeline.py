"""
A right-sized forest in a pipeline
==================================

:class:`rfsize.RightSizedClassifier` is a scikit-learn estimator: its ``fit`` trains trees until they are enough.
"""

# sphinx_gallery_thumbnail_path = '_static/thumbnails/right_size_in_a_pipeline.svg'

from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from xgboost import XGBClassifier

import rfsize

X, digit = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, digit >= 5, random_state=0)

# %%
# ``RightSizedClassifier`` wraps the forest that you would train. Use it like any estimator: here in a pipeline, in a
# search over the depth of the trees. You need not search for the number of trees: each forest gets as many as it needs.

forest = XGBClassifier(
    n_estimators=1,
    learning_rate=1,
    subsample=0.632,
    colsample_bynode=0.3,
    random_state=0,
)
right_sized = rfsize.RightSizedClassifier(forest, alpha=0.98)
pipeline = make_pipeline(StandardScaler(), right_sized)
depths = {"rightsizedclassifier__estimator__max_depth": [4, 8]}
search = GridSearchCV(pipeline, depths, cv=3).fit(X_train, y_train)

best = search.best_estimator_[-1]
print(f"depth {best.estimator_.max_depth}, {best.n_trees_} trees")
print(f"accuracy {search.score(X_test, y_test):.1%}")
print(best.report_)

# %%
# To predict faster, compile the model with a stop table, certified on rows that it was not trained on. Each row uses
# trees until its label is settled.

X_certify, X_new, _, y_new = train_test_split(search.best_estimator_[0].transform(X_test), y_test, random_state=0)
table = rfsize.StopTable.calibrate(best, X_certify, alpha=0.98)
labels, n_used = rfsize.compile(best, table).predict(X_new, return_trees=True)
print(f"{n_used.mean():.1f} of {best.n_trees_} trees per row")
print(f"accuracy {(labels == y_new).mean():.1%}")

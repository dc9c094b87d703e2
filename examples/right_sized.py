"""A forest of the right size inside scikit-learn: a pipeline whose search chooses the depth of the trees.

python examples/right_sized.py
"""

from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from xgboost import XGBRFClassifier

import rfsize

X, digit = load_digits(return_X_y=True)
five_or_more = digit >= 5
X_train, X_test, y_train, y_test = train_test_split(X, five_or_more, random_state=0)

forest = rfsize.RightSizedClassifier(XGBRFClassifier(colsample_bynode=0.3, random_state=0), alpha=0.98)
pipeline = make_pipeline(StandardScaler(), forest)
search = GridSearchCV(pipeline, {"rightsizedclassifier__estimator__max_depth": [4, 8]}, cv=3).fit(X_train, y_train)
best = search.best_estimator_[-1]
print(best.report_)
print(f"depth {best.estimator_.max_depth}, {best.n_trees_} trees; accuracy: {search.score(X_test, y_test):.1%}")

# By majority vote, each row asking only as many trees as it takes to settle its label.
fast = search.best_estimator_.set_params(rightsizedclassifier__stop_table="optimal").fit(X_train, y_train)
labels, asked = fast[-1].compiled_.predict(fast[0].transform(X_test), return_trees=True)
print(f"{asked.mean():.0f} trees per row are enough; accuracy: {(labels == y_test).mean():.1%}")

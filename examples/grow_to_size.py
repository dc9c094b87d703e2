"""Early stopping for XGBRFClassifier: grow it until it has enough trees, and add more later for a higher confidence.

python examples/grow_to_size.py
"""

from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from xgboost import XGBRFClassifier

import rfsize

X, digit = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, (digit >= 5).astype(int), random_state=0)

forest = XGBRFClassifier(colsample_bynode=0.3, random_state=0)
grown, report = rfsize.grow(forest, X_train, y_train, alpha=0.98, return_report=True)
print(report)
print(f"accuracy on held-out rows: {grown.score(X_test, y_test):.1%}, of {grown.n_estimators} trees")

more = rfsize.grow(grown, X_train, y_train, alpha=0.99)
print(f"{more.n_estimators} trees agree with the infinite forest on 99 % of the rows")

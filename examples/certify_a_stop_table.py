"""
Certify a stop table
====================

Rows without labels, which the forest was not trained on, show how few trees a row need ask, and certify what it costs.
"""

# sphinx_gallery_thumbnail_path = '_static/thumbnails/certify_a_stop_table.svg'

from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier

import rfsize

X, y = make_classification(4000, n_features=12, n_informative=6, n_classes=3, random_state=0)
X_train, y_train, X_val = X[:2000], y[:2000], X[2000:]
forest = RandomForestClassifier(300, random_state=0).fit(X_train, y_train)

# %%
# Voting on a row stops when the averaged scores of its first two classes are far enough apart. How far is certified for
# this forest: with a confidence of 95 %, at most 2 % of rows like these get another label than all 300 trees give.

table = rfsize.StopTable.calibrate(forest, X_val, alpha=0.98)
print(table)
print(table.certificate)
table.plot()

# %%
# The certificate is about all rows. The table also knows each class; ``average="macro"`` bounds each by itself.

for outcome in table.by_class():
    print(outcome)

# %%
# Probabilities take more trees than labels: here they are to be within 0.05 of those of all trees on 95 % of the rows.

probabilities = rfsize.StopTable.calibrate(forest, X_val, alpha=0.95, metric="probabilities", tolerance=0.05)
print(f"labels {table.expected_trees():.1f} trees a row, probabilities {probabilities.expected_trees():.1f}")

"""
Certify a stop table
====================

Most rows need only a few trees. Rows that the forest was not trained on show how few, and certify how many labels
change. You need no labels for these rows.
"""

# sphinx_gallery_thumbnail_path = '_static/thumbnails/certify_a_stop_table.svg'

from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier

import rfsize

X, y = make_classification(4000, n_features=12, n_informative=6, n_classes=3, random_state=0)
X_train, y_train, X_val = X[:2000], y[:2000], X[2000:]
forest = RandomForestClassifier(300, random_state=0).fit(X_train, y_train)

# %%
# Voting on a row stops when the averaged scores of its two best classes are far enough apart. The distance is certified
# for this forest: with 95 % confidence, at most 2 % of rows like these get another label than from all 300 trees.

table = rfsize.StopTable.calibrate(forest, X_val, alpha=0.98)
print(table)
print(table.certificate)

# %%
# The certificate is about all rows together. The table also shows each class; ``average="macro"`` bounds each class
# separately.

for outcome in table.by_class():
    print(outcome)

# %%
# Probabilities take more trees than labels. Here they must stay within 0.05 of those of all trees on 95 % of the rows.

probabilities = rfsize.StopTable.calibrate(forest, X_val, alpha=0.95, metric="probabilities", tolerance=0.05)
print(f"labels {table.expected_trees():.1f} trees a row, probabilities {probabilities.expected_trees():.1f}")

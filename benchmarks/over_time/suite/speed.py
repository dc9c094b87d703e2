"""The calls that users wait for, timed by asv commit by commit, on a LightGBM forest of 200 trees."""

from lightgbm import LGBMClassifier
from sklearn.datasets import make_classification

import rfsize

TREES, ROWS = 200, 20_000
FOREST = {"boosting_type": "rf", "subsample": 0.632, "subsample_freq": 1, "colsample_bytree": 0.5, "verbose": -1}


class Speed:
    """Sizing, cutting, compiling and predicting."""

    def setup(self):
        self.X, self.y = make_classification(ROWS, 20, n_informative=8, random_state=0)
        self.model = LGBMClassifier(n_estimators=TREES, random_state=0, n_jobs=1, **FOREST).fit(self.X, self.y)
        self.outputs = rfsize.tree_outputs(self.model, self.X, self.y, oob=True)
        self.fast = rfsize.compile(self.model, n_jobs=1)

    def time_tree_outputs(self):
        rfsize.tree_outputs(self.model, self.X, self.y, oob=True)

    def time_size(self):
        rfsize.size(self.outputs, alpha=0.98)

    def time_truncate(self):
        rfsize.truncate(self.model, n_trees=50)

    def time_compile(self):
        rfsize.compile(self.model)

    def time_predict(self):
        self.fast.predict(self.X)

    def time_predict_one_row(self):
        self.fast.predict(self.X[:1])

    def peakmem_tree_outputs(self):
        rfsize.tree_outputs(self.model, self.X, self.y, oob=True)

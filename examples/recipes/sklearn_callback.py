"""scikit-learn 1.9's callbacks: a search over forests that find their own size tells how far it is."""
# Needs: scikit-learn>=1.9

from time import perf_counter

from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import GridSearchCV

import rfsize

X, digit = load_digits(return_X_y=True)
y = digit >= 5


class Log:
    """Prints when each of a search's fits ends."""

    def setup(self, estimator, context):
        self.start, self.n_fits = perf_counter(), 0

    def on_fit_task_begin(self, estimator, context):
        pass

    def on_fit_task_end(self, estimator, context):
        if context.task_name == "candidate-split-evaluation":
            self.n_fits += 1
            print(f"fit {self.n_fits} ended after {perf_counter() - self.start:.1f} s")

    def teardown(self, estimator, context):
        print(f"the search kept a forest of {estimator.best_estimator_.n_trees_} trees")


def n_trees(model, X, y):
    """A score of the search, so that its results hold the sizes."""
    return model.n_trees_


search = GridSearchCV(
    rfsize.RightSizedClassifier(RandomForestClassifier(random_state=0), metric="auc", tolerance=0.001),
    {"estimator__max_features": [4, 16], "estimator__min_samples_leaf": [1, 5]},
    scoring={"AUC": "roc_auc", "trees": n_trees},
    refit="AUC",
    cv=2,
)
log = Log()
search.set_callbacks(log).fit(X, y)
for settings, auc, trees in zip(
    search.cv_results_["params"],
    search.cv_results_["mean_test_AUC"],
    search.cv_results_["mean_test_trees"],
    strict=True,
):
    print(f"AUC {auc:.4f} with {trees:.0f} trees: {settings}")
assert log.n_fits == 4 * 2

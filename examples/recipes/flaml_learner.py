"""FLAML: a learner whose forest finds its own size, and predicts compiled."""
# Needs: flaml[automl]

from time import perf_counter

from flaml import AutoML, tune
from flaml.automl.model import SKLearnEstimator
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split

import rfsize

X, digit = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, digit >= 5, test_size=0.3, random_state=0)


class SizedForest(SKLearnEstimator):
    """A random forest for labels, of as many trees as its log loss takes."""

    @classmethod
    def search_space(cls, data_size, task, **params):
        return {
            "max_features": {"domain": tune.loguniform(0.05, 1.0), "init_value": 0.2},
            "min_samples_leaf": {"domain": tune.lograndint(1, 33), "init_value": 8, "low_cost_init_value": 32},
        }

    def fit(self, X_train, y_train, budget=None, free_mem_ratio=0, **kwargs):
        start = perf_counter()
        forest = RandomForestClassifier(random_state=0, **self.params)
        model, self.report = rfsize.grow(forest, X_train, y_train, metric="log_loss", tolerance=0.005)
        self._model = rfsize.compile(model)  # predicts what the forest predicts
        return perf_counter() - start


automl = AutoML()
automl.add_learner("sized forest", SizedForest)
automl.fit(
    X_train,
    y_train,
    task="classification",
    metric="log_loss",
    estimator_list=["sized forest"],
    max_iter=6,
    time_budget=120,
    n_jobs=1,
    seed=0,
    verbose=0,
)
forest = automl.model
print(f"{automl.best_config}: log loss {automl.best_loss:.3f}")
print(f"{forest.estimator}\n{forest.report}")
assert (automl.predict(X_test) == y_test).mean() > 0.9

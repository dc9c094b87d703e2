"""AutoGluon: a model of its own whose forest finds its size, and predicts compiled."""
# Needs: autogluon.tabular

import tempfile

from autogluon.core.models import AbstractModel
from autogluon.tabular import TabularPredictor
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split

import rfsize

train, test = train_test_split(load_breast_cancer(as_frame=True).frame, test_size=0.3, random_state=0)


class SizedForest(AbstractModel):
    """A random forest for labels, of as many trees as its log loss takes."""

    ag_key = "SIZED_FOREST"
    ag_name = "SizedForest"

    def _fit(self, X, y, num_cpus=1, **kwargs):
        forest = RandomForestClassifier(random_state=0, n_jobs=num_cpus, **self._get_model_params())
        X = self.preprocess(X, is_train=True)
        model, self.report = rfsize.grow(forest, X, y, metric="log_loss", tolerance=0.005)
        self.model = rfsize.compile(model)  # predicts what the forest predicts

    def _set_default_params(self):
        self._set_default_param_value("min_samples_leaf", 5)

    def _get_default_auxiliary_params(self):
        return super()._get_default_auxiliary_params() | {"valid_raw_types": ["int", "float"]}


predictor = TabularPredictor("target", path=tempfile.mkdtemp(), eval_metric="log_loss", verbosity=0)
predictor.fit(train, hyperparameters={SizedForest: {}}, fit_weighted_ensemble=False)
print(predictor.leaderboard(test)[["model", "score_test", "score_val", "pred_time_test"]])

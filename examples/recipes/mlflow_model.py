"""MLflow: a compiled model as a pyfunc, with the report of its size. It is served without the framework."""
# Needs: mlflow lightgbm matplotlib jinja2

import tempfile
from pathlib import Path

import mlflow
from lightgbm import LGBMClassifier
from sklearn.datasets import load_breast_cancer

import rfsize


class CompiledModel(mlflow.pyfunc.PythonModel):
    """What MLflow serves: rows of numbers in, probabilities out."""

    def load_context(self, context):
        self.forest = rfsize.load(context.artifacts["forest"])

    def predict(self, context, model_input, params=None):
        return self.forest.predict_proba(model_input)


X, y = load_breast_cancer(return_X_y=True, as_frame=True)
forest = LGBMClassifier(
    boosting_type="rf",
    n_estimators=500,
    subsample=0.6,
    subsample_freq=1,
    colsample_bytree=0.7,
    random_state=0,
    verbose=-1,
).fit(X, y)
report = rfsize.size(forest, X, y, oob=True, metric="log_loss", tolerance=0.002)
small = rfsize.truncate(forest, n_trees=report)
fast = rfsize.compile(small)

folder = Path(tempfile.mkdtemp())
mlflow.set_tracking_uri(f"sqlite:///{folder / 'runs.db'}")
mlflow.set_experiment(experiment_id=mlflow.create_experiment("sizes", artifact_location=(folder / "files").as_uri()))
with mlflow.start_run() as run:
    fast.save(folder / "forest.rfsize")
    mlflow.log_metrics({"trees trained": report.available, "trees kept": report.n_kept})
    mlflow.log_dict(report.to_dict(), "report.json")
    report.to_html(folder / "report.html")
    mlflow.log_artifact(folder / "report.html")
    model = mlflow.pyfunc.log_model(
        name="forest",
        python_model=CompiledModel(),
        artifacts={"forest": str(folder / "forest.rfsize")},
        input_example=X.head(2),
        pip_requirements=["rfsize"],
    )

served = mlflow.pyfunc.load_model(model.model_uri)
assert (served.predict(X) == small.predict_proba(X)).all()
print(f"{report.n_kept} of {report.available} trees: {model.model_uri}")

"""Optuna: a trial trains 100 trees. Its score is that of all of them, and rfsize says how many it takes."""
# Needs: optuna lightgbm

import optuna
from lightgbm import LGBMClassifier
from sklearn.datasets import load_digits

import rfsize

X, digit = load_digits(return_X_y=True)
y = digit >= 5


def forest(n_estimators=100, **settings):
    fixed = {"boosting_type": "rf", "subsample_freq": 1, "random_state": 0, "n_jobs": 1, "verbose": -1}
    return LGBMClassifier(n_estimators=n_estimators, **fixed, **settings)


def objective(trial):
    model = forest(
        num_leaves=trial.suggest_int("num_leaves", 4, 128, log=True),
        subsample=trial.suggest_float("subsample", 0.3, 0.8),
        colsample_bytree=trial.suggest_float("colsample_bytree", 0.3, 0.9),
    ).fit(X, y)
    outputs = rfsize.tree_outputs(model, X, y, oob=True)  # one pass through the trees for both questions
    trial.set_user_attr("trees", rfsize.size(outputs, metric="log_loss", tolerance=0.002).n_trees)
    return rfsize.oob_score(outputs, metric="log_loss").at_all_trees


optuna.logging.set_verbosity(optuna.logging.WARNING)
study = optuna.create_study(direction="minimize", sampler=optuna.samplers.TPESampler(seed=0))
study.optimize(objective, n_trials=20)
best = study.best_trial
print(f"best of {len(study.trials)} trials: log loss {best.value:.3f}, {best.user_attrs['trees']} trees are enough")

model, report = rfsize.grow(forest(**best.params), X, y, metric="log_loss", tolerance=0.002)
print(f"grown to {model.n_estimators_} trees: {report.n_trees} are enough")
assert model.n_estimators_ == report.n_kept

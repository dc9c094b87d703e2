"""
Sets and intervals that hold the truth
======================================

A forest says "0.3". How often is it wrong? Conformal prediction answers with a set of classes, or an interval, that
contains the truth on 90 % of fresh rows. It needs predictions of rows that the trees were not trained on. Out-of-bag
predictions are such predictions, so you can train on all rows and hold none out.
"""

import matplotlib.pyplot as plt
import numpy as np
from lightgbm import LGBMClassifier, LGBMRegressor
from xgboost import XGBClassifier, XGBRegressor

import rfsize

lightgbm = {
    "boosting_type": "rf",
    "n_estimators": 100,
    "subsample": 0.632,
    "subsample_freq": 1,
    "colsample_bytree": 0.5,
    "min_child_samples": 5,
    "n_jobs": 1,
    "random_state": 0,
    "verbose": -1,
}
xgboost = {
    "n_estimators": 1,
    "num_parallel_tree": 100,
    "learning_rate": 1,
    "subsample": 0.632,
    "colsample_bynode": 0.5,
    "n_jobs": 1,
    "random_state": 0,
}

# %%
# **A rare class.** One row in ten is of class 1: a normal cloud in 20 dimensions, between two clouds of class 0.


def draw(n_rows, seed):
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(n_rows) % 10 == 0).astype(int)
    centre = np.where(y[:, None] == 0, rng.choice([-1, 1], (n_rows, 1)), (-1.0) ** np.arange(20))
    return rng.normal(size=(n_rows, 20)) + centre * 2 / np.sqrt(20), y


X, y = draw(1000, seed=0)
X_fresh, y_fresh = draw(10_000, seed=1)

# %%
# **Five lines of NumPy.** For each training row, take 1 minus the out-of-bag probability of its true class. The 90 %
# quantile of these numbers is the limit. On a fresh row, a class is in the set if 1 minus its probability is within the
# limit.


def limit(apart, sure=0.9):
    rank = int(np.ceil((len(apart) + 1) * sure))  # + 1 for the fresh row
    return np.sort(apart)[rank - 1] if rank <= len(apart) else np.inf


def limits_of(model, by_class):
    probability = rfsize.oob_predict_proba(model, X)
    known = ~np.isnan(probability[:, 0])  # XGBoost puts two rows into every bag
    apart = 1 - probability[np.arange(len(y)), y]
    return [limit(apart[known & (y == one)] if by_class else apart[known]) for one in (0, 1)]


models = {"LightGBM": LGBMClassifier(**lightgbm).fit(X, y), "XGBoost": XGBClassifier(**xgboost).fit(X, y)}
coverage = {}
for name, model in models.items():
    for by_class in (False, True):
        sets = 1 - model.predict_proba(X_fresh) <= limits_of(model, by_class)
        holds = sets[np.arange(len(y_fresh)), y_fresh]
        shares = [holds.mean(), *(holds[y_fresh == one].mean() for one in (0, 1))]
        coverage[name, by_class] = shares
        which = "a limit for each class" if by_class else "one limit"
        of_classes = f"class 0 {shares[1]:.1%}, class 1 {shares[2]:.1%}"
        print(f"{name:<9} {which:<23} all {shares[0]:.1%}   {of_classes}   {sets.sum(axis=1).mean():.2f} classes a set")

# %%
# **One limit keeps its promise on all rows, but breaks it on the rare class.** With one limit for each class, the
# promise holds for both classes, but the sets become larger.

ax = plt.subplots(layout="constrained")[1]
at = np.arange(3)
for shift, ((name, by_class), shares) in enumerate(coverage.items()):
    label = f"{name}, {'a limit for each class' if by_class else 'one limit'}"
    ax.bar(at + 0.2 * shift - 0.3, shares, 0.18, label=label, alpha=1.0 if by_class else 0.4, color=f"C{shift // 2}")
ax.axhline(0.9, color="black", linestyle="--", label="asked for")
ax.set_xticks(at, ["all rows", "class 0", "class 1"])
ax.set_ylabel("share of fresh rows whose set holds the truth")
ax.figure.legend(loc="outside lower center", ncols=2, frameon=False)

# %%
# **Numbers.** The interval is the prediction plus or minus the 90 % quantile of the absolute out-of-bag errors. The
# promise is about all rows together: rows with more noise are covered less often.


def draw_numbers(n_rows, seed):
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n_rows, 8))
    mean = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2 + 10 * X[:, 3]
    return X, mean + rng.normal(size=n_rows) * (1 + 2 * X[:, 4])


X, target = draw_numbers(1000, seed=2)
X_fresh, target_fresh = draw_numbers(10_000, seed=3)
for name, model in (("LightGBM", LGBMRegressor(**lightgbm)), ("XGBoost", XGBRegressor(**xgboost))):
    model.fit(X, target)
    apart = np.abs(target - rfsize.oob_predict(model, X))
    half = limit(apart[~np.isnan(apart)])
    holds = np.abs(target_fresh - model.predict(X_fresh)) <= half
    quiet, noisy = (holds[some].mean() for some in (X_fresh[:, 4] < 0.2, X_fresh[:, 4] > 0.8))
    print(f"{name:<9} ± {half:.1f}: all {holds.mean():.1%}   little noise {quiet:.1%}   much noise {noisy:.1%}")

# %%
# **With crepes and MAPIE.** `crepes <https://crepes.readthedocs.io>`_ takes the same numbers, and groups of rows too:
# ``ConformalClassifier().fit(apart, bins=y)``, ``ConformalRegressor().fit(target - out_of_bag, bins=...)``. One bin for
# rows with much noise and one for rows with little would repair the last line. `MAPIE <https://mapie.readthedocs.io>`_
# takes an estimator: give it one that returns stored predictions. Both contain the truth as often as the code above.

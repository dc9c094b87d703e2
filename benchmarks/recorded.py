"""Record what rfsize computes, and name what differs after a change of its code.

    python benchmarks/recorded.py --write before.json    # under the code of today
    python benchmarks/recorded.py before.json            # under the code of tomorrow
    python benchmarks/recorded.py before.json --only 'size/*oob*' 'bags/*'

Some 910 calls of the public interface on small forests of LightGBM, XGBoost and scikit-learn. Each call has a name,
such as "size/xgboost two/oob". Recorded are the numbers, words and arrays that it returns, or the class of the error
that it raises, and the classes of its warnings; of a large array a digest, the sum and 200 numbers. Each call with
another output is printed with the old and the new values, and the exit status is 1 if there is one. Of a function or an
argument that is gone the words of Python are recorded. What the tests compare with such calls is not recorded again:
kinds of rows, Dask, the command line, and what is refused.
"""

from __future__ import annotations

import os

os.environ |= {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE"}  # more threads add numbers in another order

import argparse
import contextlib
import hashlib
import io
import json
import pickle
import re
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from fnmatch import fnmatchcase
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd
import sklearn.ensemble
import xgboost as xgb
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score, make_scorer
from sklearn.model_selection import FixedThresholdClassifier
from sklearn.pipeline import make_pipeline
from sklearn.tree import DecisionTreeClassifier

import rfsize
from rfsize import baselines, theory

ROWS, TREES = 400, 60
WEIGHTS = np.random.default_rng(7).uniform(0.5, 2.0, ROWS)
GROUPS = np.repeat(np.arange(ROWS // 2), 2)
GIVEN_GROUPS: dict[str, Any] = {"rows": "rows", "copies": "copies", "given": GROUPS}
FOLDER = tempfile.TemporaryDirectory()
CASES: dict[str, Callable[[], Any]] = {}


def add(pattern: str, call: Callable[..., Any], *axes: Iterable[str], **options: Any) -> None:
    """Add the calls with all combinations of arguments, which fill the gaps in the pattern of their names."""
    for arguments in product(*axes):
        name = pattern.format(*arguments)
        if name in CASES:
            raise ValueError(f"two calls are named {name!r}")
        CASES[name] = partial(call, *arguments, **options)


def listed(names: str) -> list[str]:
    return re.split("; |\n", names)


# Forests, each named by its kind, its target and its parameters. `CHOSEN` are asked more questions than the others.
CHOSEN = "lightgbm rare rows=named; lightgbm seven; xgboost three; RandomForestClassifier words"
NUMBERS = "lightgbm number objective=regression; xgboost count objective=count:poisson; RandomForestRegressor number"
FORESTS = f"""{CHOSEN}; {NUMBERS}; lightgbm two; lightgbm three; lightgbm three objective=multiclassova; xgboost two
lightgbm two rows=mixed; lightgbm two weight=1; lightgbm rare pos_bagging_fraction=0.8 neg_bagging_fraction=0.4
lightgbm number objective=quantile; lightgbm count objective=poisson; lightgbm positive objective=gamma
LGBMClassifier names; LGBMRegressor number rows=named; xgboost seven; xgboost rare rows=named scale_pos_weight=4
xgboost three objective=multi:softmax; xgboost three multi_strategy=multi_output_tree; xgboost two rows=mixed
xgboost two weight=1; xgboost number objective=reg:squarederror; xgboost number objective=reg:absoluteerror
xgboost targets objective=reg:squarederror multi_strategy=one_output_per_tree; XGBClassifier three; XGBRegressor number
xgboost targets objective=reg:squarederror multi_strategy=multi_output_tree; RandomForestClassifier three rows=holes
RandomForestClassifier seven rows=named max_samples=0.5; RandomForestClassifier rare class_weight=balanced
RandomForestClassifier rare class_weight=balanced_subsample; RandomForestClassifier two weight=1
RandomForestClassifier two decide=0.3; RandomForestRegressor count criterion=poisson; RandomForestRegressor targets
ExtraTreesClassifier names bootstrap=true; ExtraTreesRegressor number; BaggingRegressor number max_samples=0.6
BaggingClassifier names max_features=0.6; BaggingClassifier two members=logistic"""
OTHERS = """AdaBoostClassifier two members=deep; AdaBoostClassifier names; GradientBoostingClassifier two n_estimators=5
HistGradientBoostingClassifier two max_iter=5; lightgbm two boosting=gbdt; xgboost two eta=0.3 rounds=3
lightgbm two bagging_fraction=1; xgboost two tree_method=approx; pipeline two; logistic two"""
CHOSEN, NUMBERS, FORESTS, OTHERS = map(listed, (CHOSEN, NUMBERS, FORESTS, OTHERS))
CENTRAL = [*CHOSEN, *NUMBERS]

BOOSTERS = {
    "lightgbm": "objective=binary boosting=rf bagging_fraction=0.632 bagging_freq=1 feature_fraction=0.7 num_leaves=15 "
    "num_threads=1 verbosity=-1 seed=3",
    "xgboost": "objective=binary:logistic subsample=0.632 colsample_bynode=0.6 max_depth=5 nthread=1 seed=3",
}
ESTIMATORS = {  # by the beginnings of their names
    "LGBM": "boosting_type=rf n_estimators=60 subsample=0.632 subsample_freq=1 colsample_bytree=0.7 num_leaves=15 "
    "n_jobs=1 verbose=-1 random_state=3",
    "XGB": "n_estimators=1 num_parallel_tree=60 subsample=0.632 learning_rate=1 max_depth=5 colsample_bynode=0.6 "
    "n_jobs=1 random_state=3",
    "RandomForest": "n_estimators=60 max_depth=6 random_state=3",
    "ExtraTrees": "n_estimators=60 max_depth=6 random_state=3",
    "Bagging": "n_estimators=60 random_state=3",
    "": "random_state=3",
}
MEMBERS = {"logistic": LogisticRegression(), "deep": DecisionTreeClassifier(max_depth=2)}
CLASSES = {"two": [0.0], "rare": [2.3], "three": [-1, 1], "seven": [-1.5, -0.8, -0.3, 0.3, 0.8, 1.5]}
REGRESSIONS = ("number", "positive", "count", "targets")


def quietly(function: Callable[..., Any]) -> Any:
    """Call once, and outside of the record of warnings: else these would be those of the call that comes first."""

    @cache
    def once(*arguments: Any) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return function(*arguments)

    return once


def options_of(words: str) -> dict[str, Any]:
    """The arguments that words such as "alpha=0.9" stand for."""
    pairs = [word.partition("=")[::2] for word in words.split()]
    return {name: json.loads(value) if re.match(r"-?\d|\[|true", value) else value for name, value in pairs}


def rows(kind: str, part: str) -> Any:
    """Rows of training ("train") or others ("fresh"): an array, a frame ("named"), with holes or with categories."""
    rng = np.random.default_rng(part == "fresh")
    X = rng.normal(size=(ROWS, 6))
    X[:, 5] = np.floor(3.0 * X[:, 5] % 4.0)
    if kind in ("holes", "mixed"):
        X[rng.random(X.shape) < 0.05] = np.nan
    if kind != "mixed":
        return frame_of(X) if kind == "named" else X
    codes = np.nan_to_num(X[:, 5], nan=-1.0).astype(int)
    return frame_of(X).assign(f5=pd.Categorical.from_codes(codes, ["ash", "elm", "oak", "yew"]))


def frame_of(X: Any) -> pd.DataFrame:
    return pd.DataFrame(X, columns=[f"f{place}" for place in range(6)])


def target(kind: str, part: str) -> Any:
    X, rng = rows("plain", part), np.random.default_rng(5 + (part == "fresh"))
    score = X[:, 0] + X[:, 1] * X[:, 2] + 0.5 * X[:, 5] - 0.7 + 0.7 * rng.normal(size=ROWS)
    if kind in ("names", "words"):
        return np.array(["ash", "elm", "oak"] if kind == "names" else ["no", "no", "yes"])[target("three", part)]
    if kind in CLASSES:
        return np.digitize(score, CLASSES[kind])
    numbers = {"number": score, "positive": np.exp(score / 2.0), "count": np.floor(np.exp(score / 2.0))}
    return numbers[kind] if kind in numbers else np.stack([score, X[:, 1] - score], axis=1)


def kind_of_rows(forest: str) -> str:
    return str(options_of(forest).get("rows", "plain"))


def data(forest: str, part: str) -> tuple[Any, Any]:
    return rows(kind_of_rows(forest), part), target(forest.split()[1], part)


def level(forest: str) -> dict[str, float]:
    return {} if forest.split()[1] in REGRESSIONS else {"alpha": 0.9}


@quietly
def fitted(forest: str) -> Any:
    return train(forest, *data(forest, "train"))


def train(forest: str, X: Any, y: Any) -> Any:
    kind, target, *words = forest.split()
    params = options_of(" ".join(words))
    _, weight, members, decide = (params.pop(name, None) for name in ("rows", "weight", "members", "decide"))
    if kind not in BOOSTERS:
        model = estimator(kind, **params, **({"estimator": MEMBERS[members]} if members else {}))
        model = FixedThresholdClassifier(model, threshold=decide) if decide else model
        return model.fit(X, y, **({"sample_weight": WEIGHTS} if weight else {}))
    n_classes, rounds, weight = len(CLASSES.get(target, ())) + 1, params.pop("rounds", 1), WEIGHTS if weight else None
    if n_classes > 2:
        of_classes = {"lightgbm": "multiclass", "xgboost": "multi:softprob"}[kind]
        params = {"objective": of_classes, "num_class": n_classes} | params
    params = options_of(BOOSTERS[kind]) | params
    if kind == "lightgbm":
        return lgb.train(params, lgb.Dataset(X, y, weight=weight, free_raw_data=False), TREES)
    params = {"num_parallel_tree": TREES if rounds == 1 else 1, "eta": 1} | params
    return xgb.train(params, xgb.DMatrix(X, y, weight=weight, enable_categorical=True), rounds)


def estimator(kind: str, **params: Any) -> Any:
    if kind in ("pipeline", "logistic"):
        return make_pipeline(MEMBERS["logistic"]) if kind == "pipeline" else MEMBERS["logistic"]
    usual = next(words for beginning, words in ESTIMATORS.items() if kind.startswith(beginning))
    made = next(getattr(module, kind) for module in (sklearn.ensemble, lgb, xgb) if hasattr(module, kind))
    return made(**options_of(usual) | params)


def tree_outputs(forest: str, part: str, **options: Any) -> Any:
    options |= {"oob": True} | weights(forest) if part == "train" else {}
    return rfsize.tree_outputs(fitted(forest), *data(forest, part), **options)


def weights(forest: str) -> dict[str, Any]:
    return {"sample_weight": WEIGHTS} if "weight=1" in forest else {}


outputs = quietly(tree_outputs)


# What is recorded of each kind of result: attributes and methods, by the name of its class.

PARTS = {
    "Report": "n_trees interval enough n_kept available estimate.n_rows estimate.n_dropped estimate.votes_per_row "
    "copied groups source warnings upper(0.8) upper(0.95) loss_at(1) loss_at(9) loss_at(500) certificate",
    "Caution": "category.__name__",
    "Certificate": "rows disagreements bound exact_bound alpha confidence average",
    "TreeOutputs": "n_rows n_trees source classes y votes.counts scores.n_votes scores.mean scores.scatter by_tree() "
    "predict(value.classes[0]) predict() predict_labels(value.classes[0]) predict_proba()",
    "Votes": "counts classes n_trees is_out_of_bag winner() fractions()",
    "StopTable": "n_trees n_classes alpha kind voting promise threshold metric certificate by_class() "
    "expected_trees() expected_disagreement()",
    "OobScore": "metric value at_all_trees interval curve available votes_per_row n_rows n_dropped",
    "Importances": "metric score n_rows votes_per_row groups columns",
    "Comparison": "metric values n_trees at_hand limit source n_rows n_dropped",
    "FractionSearch": "best own left_out n_rows curve",
    "McNemarSize": "n_trees converged sizes accuracy p_values",
    "BanfieldSize": "n_trees converged accuracy smoothed grown",
    "RightSizedClassifier": "n_trees_ report_ oob_refusal_",
    "RightSizedRegressor": "n_trees_ report_",
}


def digits(text: str) -> list[str]:
    """The numbers in a text, whose words may change."""
    return re.findall(r"[−-]?\d[\d,]*(?:\.\d+)?", text)


def predictions(model: Any, kind: str = "plain") -> dict[str, Any]:
    """What a model of a framework predicts for fresh rows."""
    X = rows(kind, "fresh")
    X = xgb.DMatrix(X, enable_categorical=True) if isinstance(model, xgb.Booster) else X
    return {name: outcome(getattr(model, name), X) for name in ("predict", "predict_proba") if hasattr(model, name)}


def compiled(model: Any, X: Any, **options: Any) -> dict[str, Any]:
    """What a compiled forest predicts, also from a file, and its C source without comments and spaces."""
    fast, path = rfsize.compile(model, n_jobs=1, **options), Path(FOLDER.name) / "forest.c"
    fast.save(path.with_suffix(".rfsize"))
    again = rfsize.load(path.with_suffix(".rfsize"), n_jobs=1)
    numbers = {"bytes": path.with_suffix(".rfsize").stat().st_size, "from file": again.predict(X)}
    for method in ("predict", "predict_labels", "predict_proba"):
        numbers[method] = outcome(getattr(fast, method), X)
        numbers[f"{method}, trees"] = outcome(getattr(fast, method), X, return_trees=True)
    numbers["single rows"] = [fast.predict(X[row : row + 1]) for row in (0, 1)]
    return numbers | {"votes": outcome(lambda: fast.votes(X)), "c": outcome(c_source, fast, path)}


def c_source(fast: Any, path: Path) -> dict[str, Any]:
    fast.to_c(path, name="forest")
    source = re.sub(r"//[^\n]*|/\*.*?\*/|\s+", "", path.read_text(), flags=re.DOTALL)
    return {"length": len(source), "digest": digest(source.encode())}


# The calls, area by area

OF_CLASSES = [forest for forest in FORESTS if level(forest)]


def copies(forest: str) -> Any:
    twice = [np.concatenate([part, part[:250]]) for part in data(forest, "train")]
    return rfsize.tree_outputs(train(forest, *twice), *twice, oob=True)


def from_file(words: str) -> Any:
    loaded = xgb.Booster(model_file=fitted("xgboost two").save_raw("json"))
    return rfsize.tree_outputs(loaded, *data("xgboost two", "train"), oob=True, **options_of(words))


add("outputs/{}/oob", tree_outputs, FORESTS, part="train")
add("outputs/{}/fresh", tree_outputs, FORESTS, part="fresh")
add("outputs/{}/oob groups={}", lambda f, by: tree_outputs(f, "train", groups=GIVEN_GROUPS[by]), CHOSEN, GIVEN_GROUPS)
FOLDS = {"LGBMClassifier": "three", "XGBClassifier": "three"}
FOLDS |= {"RandomForestClassifier": "three", "RandomForestRegressor": "number"}
add("outputs/{}/cv=3", lambda k: rfsize.tree_outputs(estimator(k), *data(f"{k} {FOLDS[k]}", "train"), cv=3), FOLDS)
add("outputs/{}/copies", copies, ["lightgbm two", "xgboost two", "RandomForestClassifier two"])
add("outputs/xgboost from a file/{}", from_file, ["", "seed=3 subsample=0.632", "seed=4 subsample=0.632"])
add("outputs/{}/threshold=0.3", tree_outputs, ["lightgbm two"], part="fresh", threshold=0.3)


def of_bags(forest: str, function: Callable[..., Any], **options: Any) -> Any:
    X, y = data(forest, "train")
    options |= weights(forest) if function is rfsize.inbag else {}
    options |= {"fill": y[0]} if function is rfsize.oob_predict and level(forest) else {}
    return function(fitted(forest), X, y, **options)


add("bags/{}/inbag", of_bags, FORESTS, function=rfsize.inbag)
add("bags/{}/oob_predict", of_bags, FORESTS, function=rfsize.oob_predict)
add("bags/{}/oob_predict_proba", of_bags, OF_CLASSES, function=rfsize.oob_predict_proba)

LABELS = listed("""alpha=0.99; alpha=0.9 average=macro; alpha=0.9 voting=hard; alpha=0.9 voting=soft
alpha=0.9 method=plugin; alpha=0.9 method=smooth voting=hard; metric=probabilities tolerance=0.05
metric=scores tolerance=0.5""")
SCORES = ["", "metric=scores tolerance=0.4"]
CERTIFIED = listed("""alpha=0.9; alpha=0.6 average=macro; alpha=0.9 confidence=0.99; alpha=0.9 voting=hard
metric=probabilities tolerance=0.15 alpha=0.9; metric=scores tolerance=0.5 alpha=0.9""")


def metrics_of(forest: str) -> tuple[str, ...]:
    if not level(forest):
        return "rmse", "mae", "r2"
    of_order = ("auc", "average_precision") if forest.split()[1] in ("two", "rare", "words") else ()
    return "log_loss", "brier", "accuracy", "f1_macro", *of_order


def size(forest: str, part: str, **options: Any) -> Any:
    return rfsize.size(fitted(forest), *data(forest, part), oob=part == "train", **options)


def size_to_level(forest: str, part: str, **options: Any) -> Any:
    return size(forest, part, **options, **level(forest))


def size_again(forest: str, words: str = "", **options: Any) -> Any:
    return rfsize.size(outputs(forest, "train"), **options_of(words), **options)


report = quietly(partial(size_to_level, part="fresh"))


@quietly
def drawn_votes() -> dict[str, Any]:
    """Votes for so many classes."""
    rng, votes = np.random.default_rng(8), {}
    for n_classes in (2, 3, 7):
        shares = rng.dirichlet(np.full(n_classes, 0.4), 300)
        votes[str(n_classes)] = rfsize.Votes(np.array([rng.multinomial(50, share) for share in shares]))
    return votes


add("size/{}/oob", size_to_level, FORESTS, part="train")
add("size/{}/fresh", size_to_level, CENTRAL, part="fresh")
add("size/{}/sizes at levels", lambda forest: [report(forest).size_at(level) for level in (0.5, 0.8, 0.95)], CENTRAL)
add("size/{}/pickled", lambda forest: pickle.loads(pickle.dumps(report(forest))), CENTRAL)
add("size/{}/oob groups", size_to_level, CENTRAL, part="train", groups=GROUPS)
add("size/{}/max_rows=250", size_to_level, CENTRAL, part="fresh", max_rows=250)
for forest in CENTRAL:
    add("size/{}/oob {}", size_again, [forest], LABELS if level(forest) else SCORES)
    levels = CERTIFIED if level(forest) else CERTIFIED[-1:]
    add("size/{}/certified {}", lambda f, w: size(f, "fresh", target="model", **options_of(w)), [forest], levels)
    add("size/{}/oob {}", lambda f, m: size_again(f, metric=m, tolerance=0.02), [forest], metrics_of(forest))
    add("size/{}/loss {}", lambda f, m: [report(f).loss_at(n, m) for n in (1, 9, 500)], [forest], metrics_of(forest))
f1_weighted = make_scorer(f1_score, average="weighted")
add("size/scorer", lambda: size_again("xgboost three", metric=f1_weighted, tolerance=0.02))
METHODS = ["auto", "plugin", "smooth"]
add("size/votes of {}/{}", lambda n, m: rfsize.size(drawn_votes()[n], alpha=0.9, method=m), "237", METHODS)


def oob_score(forest: str, metric: str | None = None) -> Any:
    return rfsize.oob_score(outputs(forest, "train"), metric=metric)


def importance(forest: str, **options: Any) -> Any:
    return rfsize.oob_importance(fitted(forest), *data(forest, "train"), **options)


def compared(pair: str, metric: str | None = None, part: str = "train") -> Any:
    return rfsize.compare(*(outputs(forest, part) for forest in pair.split("; ")), metric=metric)


PAIRS = ["lightgbm two; xgboost two", "xgboost three; lightgbm three", "lightgbm seven; xgboost seven"]
PAIRS += ["lightgbm number objective=regression; RandomForestRegressor number"]
add("scores/{}/oob_score", oob_score, FORESTS)
add("scores/{}/importances", importance, CENTRAL)
SETS = {"first": [0, 1], "rest": [2, 3, 4]}
add("scores/{}/importances of sets", lambda f: importance(f, metric=metrics_of(f)[0], columns=SETS), CENTRAL)
add("scores/{}/fresh", compared, PAIRS, part="fresh")
for forest in CENTRAL:
    add("scores/{}/{}", oob_score, [forest], metrics_of(forest))
for pair in PAIRS:
    add("scores/{}/{}", compared, [pair], metrics_of(pair.split("; ")[0]))


def truncated(forest: str, *given: Any, **options: Any) -> Any:
    return predictions(rfsize.truncate(fitted(forest), *given, **options), kind_of_rows(forest))


def shrunk(forest: str, **options: Any) -> Any:
    small, report = rfsize.shrink(fitted(forest), *data(forest, "fresh"), **options)
    return predictions(small, kind_of_rows(forest)) | {"kept": report.n_kept, "certificate": report.certificate}


add("cuts/{}/first 17", truncated, FORESTS, n_trees=17)
add("cuts/{}/shrunk", lambda forest: shrunk(forest, rows=data(forest, "train")[0], n_trees=10), FORESTS)
add("cuts/{}/enough", lambda forest: truncated(forest, *data(forest, "train"), oob=True, **level(forest)), CENTRAL)
add("cuts/{}/max_bytes", truncated, CENTRAL, max_bytes=60_000)
add("cuts/{}/shrunk to a level", shrunk, CENTRAL, alpha=0.8)


def compiled_by_name(names: str, **options: Any) -> Any:
    models = [fitted(forest) for forest in names.split("; ")]
    return compiled(models if len(models) > 1 else models[0], data(names, "fresh")[0], **options)


MEANS = [PAIRS[0], "RandomForestRegressor number; xgboost number objective=reg:squarederror"]
add("compiled/{}", compiled_by_name, [*FORESTS, *OTHERS, *MEANS])
add("compiled/{}/hard", compiled_by_name, [*CHOSEN, "AdaBoostClassifier names"], voting="hard")
add("compiled/threshold=0.2", lambda: compiled_by_name("xgboost two", threshold=0.2))


def calibrate(forest: str, words: str) -> Any:
    return rfsize.StopTable.calibrate(fitted(forest), data(forest, "fresh")[0], **options_of(words))


calibrated = quietly(calibrate)


def applied(forest: str, words: str) -> Any:
    threshold = {name: value for name, value in options_of(words).items() if name == "threshold"}
    return compiled(fitted(forest), data(forest, "train")[0], table=calibrated(forest, words), **threshold)


@quietly
def table_of_votes(forest: str) -> Any:
    return rfsize.StopTable.build(TREES, alpha=0.95, prior=outputs(forest, "train"))


@quietly
def drawn_by_tree() -> dict[str, Any]:
    """For so many classes, votes by tree, and weights of the trees."""
    rng, drawn = np.random.default_rng(9), {}
    for n_classes in (2, 3, 5):
        votes = np.where(rng.random((200, 41)) < 0.5, 0, rng.integers(0, n_classes, (200, 41)))
        drawn[str(n_classes)] = votes, rng.random(41)
    return drawn


def table_of(n_classes: str, alpha: str) -> Any:
    votes, weight = drawn_by_tree()[n_classes]
    if alpha == "lossless":
        table = rfsize.StopTable.lossless(weight, n_classes=int(n_classes))
    else:
        table = rfsize.StopTable.build(41, alpha=float(alpha), n_classes=int(n_classes))
    return [table, table.apply(votes)]


def table_from_file() -> Any:
    path = Path(FOLDER.name) / "table.json"
    rfsize.StopTable.build(41, alpha=0.95).save(path)
    return rfsize.StopTable.load(path)


for forest in (*CENTRAL, "xgboost two", "RandomForestClassifier three rows=holes"):
    levels = (*CERTIFIED, "alpha=0.9 threshold=0.3") if level(forest) else CERTIFIED[-1:]
    add("tables/{}/{}", calibrated, [forest], levels)
    add("tables/{}/{}, applied", applied, [forest], levels)
add("tables/{}/of votes", table_of_votes, CHOSEN)
add("tables/{}/of votes, applied", lambda f: table_of_votes(f).apply(outputs(f, "fresh").by_tree()), CHOSEN)
add("tables/{}/of votes, certified", lambda forest: calibrate(forest, "alpha=0.95 voting=hard"), CHOSEN)
add("tables/{} classes/{}", table_of, "235", ["0.9", "0.99", "1.0", "lossless"])
add("tables/prior of numbers", partial(rfsize.StopTable.build, 21, alpha=0.9, prior=np.arange(1.0, 23.0)))
add("tables/file", table_from_file)


def training_data(kind: str) -> tuple[Any, ...]:
    """What `grow` takes to train a forest of a kind."""
    X, number = rows("plain", "train"), "Regress" in kind or kind == "numbers"
    y = target("number" if number else "two" if kind.startswith(("lightgbm", "xgb", "XGB")) else "names", "train")
    if kind in ("lightgbm", "numbers"):
        params = options_of(BOOSTERS["lightgbm"]) | ({"objective": "regression"} if number else {})
        return params, lgb.Dataset(X, y, free_raw_data=False)
    return (options_of(BOOSTERS["xgboost"]), xgb.DMatrix(X, y)) if kind == "xgboost" else (estimator(kind), X, y)


def grown(kind: str, words: str = "", model: Any = None, **options: Any) -> Any:
    params, *rows = training_data(kind)
    return with_report(*rfsize.grow(model or params, *rows, **options_of(words), **options))


def with_report(model: Any, report: Any) -> dict[str, Any]:
    return {"report": report} | predictions(model)


def fraction(kind: str, rule: str) -> Any:
    options: dict[str, Any] = {"fractions": [0.3, 0.5, 0.8], "n_trees": 60, "seed": 3}
    return rfsize.select_bagging_fraction(*training_data(kind), rule=rule, **options)


def right_sized(kind: str, words: str) -> Any:
    sized = rfsize.RightSizedRegressor if "Regressor" in kind else rfsize.RightSizedClassifier
    _, X, y = training_data(kind)
    model = sized(estimator(kind), **{"max_trees": 200} | options_of(words)).fit(X, y)
    return [model, predictions(model)]


def stopped(words: str, kind: str = "lightgbm", **options: Any) -> dict[str, Any]:
    options |= options_of(words)
    callback, (params, train) = rfsize.SizeCallback(**options), training_data(kind)
    valid = train.create_valid(rows("plain", "fresh"), target("two", "fresh"))
    held_out = {"valid_sets": [valid], "valid_names": ["fresh"]} if "validation" in options else {}
    return with_report(lgb.train(params, train, 250, callbacks=[callback], **held_out), callback.report_)


LEVELS = listed("""alpha=0.9; alpha=0.85 average=macro; alpha=0.99 max_trees=40 min_trees=20
alpha=0.9 confidence=0.95 voting=hard; metric=log_loss tolerance=0.03 max_trees=200""")
LOOKS = [*LEVELS[:2], "alpha=0.8 min_trees=10", "alpha=0.9 validation=fresh", "metric=log_loss tolerance=0.03"]
ESTIMATED = ["LGBMClassifier", "XGBClassifier", "RandomForestClassifier"]
OF_NUMBERS = ["numbers", "RandomForestRegressor"]
add("training/grow {}/{}", grown, ["lightgbm", "xgboost", *ESTIMATED], LEVELS)
add("training/grow {}/{}", grown, OF_NUMBERS, ["tolerance=0.5", "max_trees=150"])
add("training/fraction {}/{}", fraction, ["lightgbm", "xgboost", *ESTIMATED, *OF_NUMBERS], ["keep", "best"])
add("training/grow {}/more", lambda k: grown(k, "alpha=0.95", fitted(f"{k} two")), ["lightgbm", "xgboost"])
add("training/grow {}/validation", grown, ["LGBMClassifier"], validation=rows("plain", "fresh"), alpha=0.9)
add("training/grow {}/groups", grown, ["XGBClassifier"], groups=GROUPS, alpha=0.9)
add("training/callback/{}", stopped, LOOKS)
add("training/callback/groups", partial(stopped, "alpha=0.9", groups=GROUPS))
add("training/callback/data", partial(stopped, "alpha=0.9 voting=hard", data=rows("plain", "train")))
add("training/callback/numbers", partial(stopped, "metric=scores tolerance=0.3", "numbers"))
add("training/right-sized {}/{}", right_sized, ESTIMATED, [LEVELS[0], "alpha=0.85 cv=3 min_trees=20", LEVELS[-1]])
add("training/right-sized XGBClassifier/threshold", partial(right_sized, "XGBClassifier", "alpha=0.9 threshold=0.3"))
add("training/right-sized RandomForestRegressor", partial(right_sized, "RandomForestRegressor", "max_trees=150"))


COUNTS = np.random.default_rng(9).multinomial(40, [0.5, 0.3, 0.2], 50)
PI = np.array([0.1, 0.3, 0.45, 0.49, 0.7, 0.8])
N_TREES = np.array([[1], [5], [50], [501]])


def of_votes() -> Any:
    votes = rfsize.Votes(COUNTS, ["ash", "elm", "oak"])
    return [votes, votes.take(np.arange(0, 50, 7))]


def by_tree() -> Any:
    return outputs("xgboost two", "fresh").by_tree(), target("two", "fresh")


OF_SIZE = ["agreement", "class_probability", "disagreement"]
OF_ALPHA = ["instance_size", "instance_size_closed_form", "ensemble_size", "asymptotic_size"]
add("votes/votes", of_votes)
add("votes/out of bag", partial(rfsize.Votes, COUNTS[:, :2], n_trees=100, threshold=0.3))
add("votes/{}", lambda name: getattr(theory, name)(N_TREES, PI), OF_SIZE)
add("votes/{}", lambda name: [getattr(theory, name)(alpha, PI) for alpha in (0.6, 0.8, 0.99)], OF_ALPHA)
add("votes/mean_agreement", lambda: [theory.mean_agreement(size, PI) for size in (1, 25, 400)])
add("votes/ratios", lambda: [theory.ratio_with_replacement(0.632), theory.fraction_without_replacement(1.0)])
add("votes/mcnemar", lambda: baselines.mcnemar_size(*by_tree()))
add("votes/banfield", lambda: baselines.banfield_size(*by_tree()))

# Recording

# An attribute of a fit, whose name ends with an underscore, may be missing without being gone.
GONE = re.compile(
    r"has no attribute '\w+(?<!_)'|unexpected keyword|cannot import name|No module named 'rfsize|positional argument"
)
WHOLE_ARRAY, SAMPLE = 20, 200  # numbers recorded of small arrays and of large ones
MOST_LINES = 30  # printed of a call


def recorded(name: str) -> dict[str, Any]:
    """What a call returns, and the classes of its warnings."""
    with warnings.catch_warnings(record=True) as caught, contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("always")
        output = outcome(CASES[name])
    return {"output": output, "warnings": sorted({warning.category.__name__ for warning in caught})}


def outcome(function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """What a function returns, or the class of the error that it raises; if what it needs is gone, what Python says."""
    try:
        return plain(function(*arguments, **options))
    except Exception as error:
        if isinstance(error, AttributeError | TypeError | ImportError) and GONE.search(str(error)):
            return {"gone": str(error)}
        return {"raises": type(error).__name__}


def plain(value: Any) -> Any:
    """A value as ``json`` writes it."""
    if type(value).__name__ in PARTS:
        names = PARTS[type(value).__name__].split()
        parts = {name: outcome(eval, f"value.{name}", {"value": value}) for name in names}
        return {name.removeprefix("estimate."): part for name, part in parts.items()} | {"text": digits(str(value))}
    if isinstance(value, np.ndarray) and value.dtype.names:
        return {name: plain(value[name]) for name in value.dtype.names}
    if isinstance(value, dict) or hasattr(value, "_asdict"):
        named = value if isinstance(value, dict) else value._asdict()
        return {str(name): plain(part) for name, part in named.items()}
    if isinstance(value, np.ndarray) and value.size > WHOLE_ARRAY:
        return of_array(value)
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    return value if value is None or isinstance(value, bool | int | float | str) else {"of": type(value).__name__}


def of_array(array: np.ndarray[Any, Any]) -> dict[str, Any]:
    flat = array.ravel()
    sample = flat[np.unique(np.linspace(0, flat.size - 1, SAMPLE).astype(int))].tolist()
    described = {"form": f"{array.dtype} {array.shape}", "sample": sample}
    if array.dtype.kind not in "biuf":
        return described | {"digest": digest("\n".join(map(str, flat)).encode())}
    flat = flat.astype(np.float64) + 0.0  # no negative zeros
    return described | {"sum": float(flat.sum()), "digest": digest(np.where(np.isnan(flat), np.nan, flat).tobytes())}


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


# Comparing


def parts_of(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Numbers and texts of an output, each with its path."""
    named = {f"[{place}]": part for place, part in enumerate(value)} if isinstance(value, list) else value
    if not isinstance(named, dict):
        yield path, value
        return
    for name, part in named.items():
        yield from parts_of(part, f"{path}{name}" if name.startswith("[") else f"{path}.{name}")


def compare(old: dict[str, Any], new: dict[str, Any]) -> int:
    """Print what differs, and return the number of calls that do."""
    n_differ = 0
    for name in {**old, **new}:
        before, after = (dict(parts_of(record.get(name, "nothing"))) for record in (old, new))
        pairs = {path: [repr(parts.get(path, "nothing")) for parts in (before, after)] for path in {**before, **after}}
        lines = [f"{path}: {was[:100]} → {now[:100]}" for path, (was, now) in pairs.items() if was != now]
        if lines:
            n_differ += 1
            more = [f"and {len(lines) - MOST_LINES} more"] if len(lines) > MOST_LINES else []
            print(f"differs: {name}", *lines[:MOST_LINES], *more, sep="\n    ")
    print(f"{len(new)} outputs: {n_differ} differ")
    return n_differ


def main() -> int:
    """Write a record, or compare with one."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("file", type=Path, help="JSON file of recorded outputs")
    parser.add_argument("--write", action="store_true", help="record the outputs of the code of today")
    parser.add_argument("--only", nargs="+", action="extend", metavar="PATTERN", help="AREA/NAME, as 'size/*oob*'")
    options = parser.parse_args()

    def wanted(named: dict[str, Any]) -> dict[str, Any]:
        patterns = options.only or ["*"]
        return {name: of for name, of in named.items() if any(fnmatchcase(name, pattern) for pattern in patterns)}

    started = time.perf_counter()
    outputs = {name: recorded(name) for name in wanted(CASES)}
    print(f"{len(outputs)} outputs in {time.perf_counter() - started:.0f} s", file=sys.stderr)
    if options.write:
        options.file.write_text(json.dumps(outputs, indent=0))
        return 0
    return int(compare(wanted(json.loads(options.file.read_text())), json.loads(json.dumps(outputs))) > 0)


if __name__ == "__main__":
    sys.exit(main())

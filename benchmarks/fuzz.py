"""What the loaders make of files that somebody damaged: refused by rfsize's own errors, or read and finite.

Each case has a seed, printed where it fails, so that ``--only SEED`` meets it again. LightGBM and XGBoost crash on some
damaged models of their own accord, so the cases run in another process, which is begun anew after a crash.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import re
import resource
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import xgboost as xgb

import rfsize
from rfsize.adapters.registry import trainer_for
from rfsize.stopping.document import checksum
from rfsize.training.checkpoint import SearchFile

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from helpers.damaged import damaged_archive, damaged_bytes, damaged_text, damaged_values, some

OURS = (rfsize.NotAForestError, rfsize.InbagError, rfsize.ForestFileError, rfsize.TableError)
MEMORY = 4 << 30  # bytes beyond what a process has at its start
PATIENCE = 60.0  # seconds for one case
PARAMS: dict[str, Any] = {"objective": "binary", "boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.6}
PARAMS |= {"num_leaves": 6, "verbosity": -1, "num_threads": 1, "min_data_per_group": 1, "feature_fraction": 0.7}
FOREST = {"objective": "binary:logistic", "subsample": 0.6, "max_depth": 3, "nthread": 1, "num_parallel_tree": 3}

# What one case gives: "read", "refused", or "the framework refuses".
Case = Callable[[np.random.Generator], str]


def problem() -> tuple[np.ndarray, np.ndarray]:
    """Rows with a category in the first column, and three classes."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4))
    X[:, 0] = rng.integers(0, 5, size=300)
    return X, np.digitize(X[:, 1] + (X[:, 0] > 2), [-0.3, 0.8])


def finite(compiled: rfsize.CompiledForest) -> str:
    """That a forest that was read predicts."""
    rows = np.zeros((2, compiled.forest.n_features))
    if not np.isfinite(compiled.predict_proba(rows)).all():
        raise AssertionError("a probability is not finite")
    compiled.predict(rows)
    return "read"


def of_model(model: Any, X: np.ndarray) -> str:
    """Compile a model that its framework took, and rebuild its bags."""
    outcome = finite(rfsize.compile(model))
    if model.num_features() == X.shape[1] if isinstance(model, xgb.Booster) else model.num_feature() == X.shape[1]:
        rfsize.inbag(model, X)
    return outcome


def lightgbm_text() -> Case:
    """Models of two and of three classes."""
    X, y = problem()
    texts = [
        lgb.train(PARAMS | more, lgb.Dataset(X, label, categorical_feature=[0]), 3).model_to_string()
        for more, label in (({}, y > 0), ({"objective": "multiclass", "num_class": 3}, y))
    ]

    def case(rng: np.random.Generator) -> str:
        # Without the sizes of the trees LightGBM reads one after another, and most of its errors can be caught.
        text = damaged_text(re.sub("\ntree_sizes=.*", "", some(rng, texts)), rng)
        try:
            model = lgb.Booster(model_str=text)
        except (lgb.basic.LightGBMError, ValueError, TypeError, RecursionError, UnicodeError):
            return "the framework refuses"
        return of_model(model, X)

    return case


def xgboost_json() -> Case:
    """Models of two and of three classes, and of trees that score all of them; as JSON and as UBJ."""
    X, y = problem()
    several = FOREST | {"objective": "multi:softprob", "num_class": 3}
    documents, binaries = [], []
    for params, label in ((FOREST, y > 0), (several, y), (several | {"multi_strategy": "multi_output_tree"}, y)):
        types = ["q" if "multi_strategy" in params else "c", "q", "q", "q"]
        matrix = xgb.DMatrix(X, label, feature_types=types, enable_categorical=True)
        model = xgb.train(params | {"max_cat_to_onehot": 1}, matrix, 1)
        documents.append(json.loads(model.save_raw("json")))
        binaries.append(bytes(model.save_raw("ubj")))

    def case(rng: np.random.Generator) -> str:
        if rng.random() < 0.7:
            content = json.dumps(damaged_values(some(rng, documents), rng)).encode()
        else:
            content = damaged_bytes(some(rng, binaries), rng)
        model = xgb.Booster()
        try:
            model.load_model(bytearray(content))
        except (xgb.core.XGBoostError, ValueError):
            return "the framework refuses"
        return of_model(model, X)

    return case


def compiled_forests() -> Case:
    """Files of `rfsize.load`."""
    X, y = problem()
    path = Path(tempfile.mkdtemp()) / "forest.npz"
    model = lgb.train(PARAMS, lgb.Dataset(X, y > 0, categorical_feature=[0]), 3)
    rfsize.compile(model, rfsize.StopTable.build(3, alpha=0.9)).save(path)
    content = path.read_bytes()

    def case(rng: np.random.Generator) -> str:
        path.write_bytes((damaged_archive if rng.random() < 0.7 else damaged_bytes)(content, rng))
        return finite(rfsize.load(path))

    return case


def stop_tables() -> Case:
    """Files of `StopTable.load`, most of them signed again."""
    path = Path(tempfile.mkdtemp()) / "table.json"
    texts = []
    for n_classes in (2, 3):
        rfsize.StopTable.build(9, alpha=0.9, n_classes=n_classes).save(path)
        texts.append(path.read_text())

    def case(rng: np.random.Generator) -> str:
        text = some(rng, texts)
        if rng.random() < 0.7:
            document = damaged_values(json.loads(text), rng)
            rest = {key: value for key, value in document.items() if key != "checksum"}
            with contextlib.suppress(ValueError):  # NaN cannot be signed
                document = {**rest, "checksum": checksum(rest)}
            path.write_text(json.dumps(document))
        else:
            path.write_bytes(damaged_bytes(text.encode(), rng))
        table = rfsize.StopTable.load(path)
        if not np.isfinite(table.expected_trees()):
            raise AssertionError("the expected trees are not finite")
        return "read"

    return case


def search_files() -> Case:
    """Files of ``select_bagging_fraction(resume=…)``, of which none that differs may be taken up."""
    X, y = problem()
    path = Path(tempfile.mkdtemp()) / "search.zip"
    dataset = lgb.Dataset(X, y > 0, free_raw_data=False)
    rfsize.select_bagging_fraction(PARAMS, dataset, [0.4, 0.6], n_trees=10, alpha=0.6, resume=path)
    content, trainer = path.read_bytes(), trainer_for(PARAMS, dataset)
    whole = SearchFile(path, trainer, PARAMS, None)._states

    def case(rng: np.random.Generator) -> str:
        path.write_bytes((damaged_archive if rng.random() < 0.7 else damaged_bytes)(content, rng))
        try:
            states = SearchFile(path, trainer, PARAMS, None)._states
        except ValueError as error:
            if "cannot be taken up" in str(error) or "was written by a search" in str(error):
                return "refused"
            raise
        if repr(states) != repr(whole):
            raise AssertionError("an altered number was taken up")
        return "read"

    return case


LOADERS = {
    "compiled forest": compiled_forests,
    "stop table": stop_tables,
    "LightGBM text": lightgbm_text,
    "XGBoost model": xgboost_json,
    "search file": search_files,
}


def outcome_of(case: Case, seed: int, number: int) -> str:
    """What became of one case; a failure is told by its exception."""
    try:
        return case(np.random.default_rng([seed, number]))
    except OURS as error:
        lack = isinstance(error.__cause__, MemoryError)
        return f"FAILURE asks for memory: {str(error)[:150]}" if lack else "refused"
    except Exception as error:
        return f"FAILURE {type(error).__name__}: {str(error)[:150]}"


def work(loader: str, seed: int, numbers: range, results: Any) -> None:
    """Send the outcome of each case."""
    warnings.simplefilter("ignore")
    case = LOADERS[loader]()
    outcome_of(case, seed, 0)  # which compiles what predicts
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
    results.send(None)
    for number in numbers:
        results.send(outcome_of(case, seed, number))


def fuzzed(loader: str, seed: int, numbers: range) -> Counter[str]:
    """Counts by outcome; prints each failure."""
    context, counts, at = multiprocessing.get_context("spawn"), Counter[str](), numbers.start
    while at < numbers.stop:
        receiver, sender = context.Pipe(duplex=False)
        process = context.Process(target=work, args=(loader, seed, range(at, numbers.stop), sender))
        process.start()
        sender.close()
        try:
            receiver.recv()
            while at < numbers.stop:
                outcome = receiver.recv() if receiver.poll(PATIENCE) else "FAILURE hangs"
                if outcome.startswith("FAILURE"):
                    print(f"{loader}: --seed {seed} --only {at}: {outcome}", flush=True)
                counts[outcome.partition(" ")[0] if outcome.startswith("FAILURE") else outcome] += 1
                at += 1
                if outcome == "FAILURE hangs":
                    break
        except EOFError:
            print(f"{loader}: --seed {seed} --only {at}: the process crashed", flush=True)
            counts["crashed"] += 1
            at += 1
        process.kill()
        process.join()
    return counts


def main() -> None:
    """Print the failures, and the counts of each loader."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=2000, help="of each loader")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, help="the number of one case")
    parser.add_argument("--loader", choices=LOADERS, help="all by default")
    given = parser.parse_args()
    numbers = range(given.cases) if given.only is None else range(given.only, given.only + 1)
    for loader in LOADERS if given.loader is None else (given.loader,):
        counts = fuzzed(loader, given.seed, numbers)
        print(f"{loader}: {', '.join(f'{count:,} {outcome}' for outcome, count in counts.most_common())}", flush=True)


if __name__ == "__main__":
    main()

"""What the loaders make of files that somebody damaged: refused by rfsize's own errors, or read and finite.

Each case has a seed and a number, printed where it fails, so that ``--seed SEED --only NUMBER`` meets it again. The
cases run in a fork of this process, which is begun anew after a crash: LightGBM and XGBoost crash on some damaged
models of their own accord. A crash counts as theirs only where Python was last seen inside their packages.

With ``NUMBA_BOUNDSCHECK=1``, and an empty folder as ``NUMBA_CACHE_DIR``, the kernels check every index.
"""

from __future__ import annotations

import os

os.environ["OMP_NUM_THREADS"] = "1"  # threads of OpenMP do not outlive a fork

import argparse
import contextlib
import faulthandler
import json
import multiprocessing
import pickle
import re
import resource
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import lightgbm as lgb
import numba
import numpy as np
import pandas as pd
import xgboost as xgb

import rfsize
from rfsize.adapters.damage import damage_refused
from rfsize.adapters.registry import trainer_for
from rfsize.integrations.lightgbm import model_text
from rfsize.integrations.lightgbm.bags import shared_bags
from rfsize.integrations.lightgbm.feature_sampling import seed_dependence
from rfsize.integrations.xgboost import model_json
from rfsize.integrations.xgboost.first_round import Nodes, base_margins, gradients, refuse_other_starts, start_of
from rfsize.integrations.xgboost.forest import _leaf_table, _refuse_other_models, _refuse_other_objectives
from rfsize.stopping.document import checksum
from rfsize.training.checkpoint import SearchFile
from rfsize.utils.jit import compiled

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from helpers.damaged import (
    damaged_archive,
    damaged_bytes,
    damaged_forest,
    damaged_search,
    damaged_text,
    damaged_values,
    some,
)

OURS = (rfsize.NotAForestError, rfsize.InbagError, rfsize.ForestFileError, rfsize.TableError)
FRAMEWORKS = ("/lightgbm/", "/xgboost/")
MEMORY = 1 << 30  # bytes beyond what a process has at its start
PATIENCE = 60.0  # seconds for one case
LAST_RESORT = "reading it ends in a "  # a refusal that no check foresaw
PARAMS: dict[str, Any] = {"objective": "binary", "boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.6}
PARAMS |= {"num_leaves": 6, "verbosity": -1, "num_threads": 1, "min_data_per_group": 1, "feature_fraction": 0.7}
FOREST = {"objective": "binary:logistic", "subsample": 0.6, "max_depth": 3, "nthread": 1, "num_parallel_tree": 3}


class FrameworkError(Exception):
    """A framework did not take the damaged model, so that rfsize never sees it."""


class Loader(NamedTuple):
    """What a case consists of."""

    whole: list[bytes]
    damaged: Callable[[bytes, np.random.Generator], bytes]
    read: Callable[[bytes], None]


def problem() -> tuple[np.ndarray, np.ndarray]:
    """Rows with a category in the first column, and three classes."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4))
    X[:, 0] = rng.integers(0, 5, size=300)
    return X, np.digitize(X[:, 1] + (X[:, 0] > 2), [-0.3, 0.8])


def use(compiled: rfsize.CompiledForest) -> None:
    """That a forest that was read predicts."""
    rows = np.zeros((2, compiled.forest.n_features))
    rows[1] = np.nan
    if not np.isfinite(compiled.predict_proba(rows)).all():
        raise AssertionError("a probability is not finite")
    compiled.predict(rows)
    compiled.votes(rows)


def use_model(model: Any, X: np.ndarray, **drawn: Any) -> None:
    """Compile a model that its framework took, count its votes, and rebuild its bags."""
    compiled = rfsize.compile(model)
    use(compiled)
    if compiled.forest.n_features == X.shape[1]:
        if rfsize.votes(model, X) != compiled.votes(X):
            raise AssertionError("the compiled forest votes otherwise")
        with contextlib.suppress(rfsize.InbagError):
            rfsize.inbag(model, X, **drawn)


def lightgbm_texts() -> list[bytes]:
    """Models of two and of three classes, and of a regression."""
    X, y = problem()
    targets = (({}, y > 0), ({"objective": "multiclass", "num_class": 3}, y), ({"objective": "quantile"}, X[:, 1]))
    return [
        lgb.train(PARAMS | more, lgb.Dataset(X, label, categorical_feature=[0]), 3).model_to_string().encode()
        for more, label in targets
    ]


def damaged_lightgbm(content: bytes, rng: np.random.Generator) -> bytes:
    """Without the sizes of the trees LightGBM reads one after another, and most of its errors can be caught."""
    text = re.sub("\ntree_sizes=.*", "", content.decode())
    for _ in range(some(rng, (1, 1, 1, 2, 3))):
        text = damaged_text(text, rng)
    return text.encode()


def lightgbm_text() -> Loader:
    """Texts of models, read without LightGBM."""

    def read(content: bytes) -> None:
        forest = model_text.ForestText.read(content.decode(), casts_votes=False)
        shared_bags(forest)
        seed_dependence(forest)
        forest.blocks()
        model_text.conventions(forest)
        score = np.concatenate(forest.leaf_value)
        if not np.isfinite(model_text.tree_table(forest, score, np.zeros(0)).value).all():
            raise AssertionError("a score is not finite")

    return Loader(lightgbm_texts(), damaged_lightgbm, read)


def lightgbm_model() -> Loader:
    """The same through LightGBM."""
    X, _ = problem()

    def read(content: bytes) -> None:
        try:
            model = lgb.Booster(model_str=content.decode())
        except (lgb.basic.LightGBMError, ValueError, TypeError, RecursionError, UnicodeError) as error:
            raise FrameworkError from error
        use_model(model, X)

    return Loader(lightgbm_texts()[:2], damaged_lightgbm, read)


def xgboost_models() -> Iterator[xgb.Booster]:
    """Models of two and of three classes, and of trees that score all of them."""
    X, y = problem()
    several = FOREST | {"objective": "multi:softprob", "num_class": 3}
    for params, label in ((FOREST, y > 0), (several, y), (several | {"multi_strategy": "multi_output_tree"}, y)):
        types = ["q" if "multi_strategy" in params else "c", "q", "q", "q"]
        matrix = xgb.DMatrix(X, label, feature_types=types, enable_categorical=True)
        yield xgb.train(params | {"max_cat_to_onehot": 1}, matrix, 1)


def damaged_xgboost(content: bytes, rng: np.random.Generator) -> bytes:
    """JSON one to three of whose values are others; UBJ some of whose bytes are."""
    if content.startswith(b'{"'):
        document = json.loads(content)
        for _ in range(some(rng, (1, 1, 1, 2, 3))):
            document = damaged_values(document, rng)
        return json.dumps(document).encode()
    return damaged_bytes(content, rng)


def xgboost_json() -> Loader:
    """Documents of models, read without XGBoost."""

    def read(content: bytes) -> None:
        with damage_refused():
            learner = json.loads(content).get("learner")
            _refuse_other_models(learner, None)
            _refuse_other_objectives(learner["objective"]["name"], casts_votes=False)
            model_json.check(learner)
            members, value = model_json.members(learner), model_json.leaf_values(learner)
            margins = base_margins(learner, max(members.shape[1], model_json.scores_per_leaf(learner)))
            _leaf_table(learner, members, margins)
            start, nodes = start_of(learner, margins), Nodes.of(learner)
            if start is not None:
                refuse_other_starts(start, nodes, gradients(nodes))
            model_json.conventions(learner, np.nan)
            model_json.tree_table(learner, members.ravel(), value.reshape(len(value), -1), np.zeros(0))

    X, y = problem()
    frame = pd.DataFrame(X).astype({0: "str"}).astype({0: "category"}).rename(columns=str)
    named = xgb.train(FOREST | {"max_cat_to_onehot": 1}, xgb.DMatrix(frame, y > 0, enable_categorical=True), 1)
    return Loader([bytes(model.save_raw("json")) for model in (*xgboost_models(), named)], damaged_xgboost, read)


def xgboost_model() -> Loader:
    """The same through XGBoost, and as UBJ."""
    X, _ = problem()

    def read(content: bytes) -> None:
        model = xgb.Booster()
        try:
            model.load_model(bytearray(content))
        except (xgb.core.XGBoostError, ValueError) as error:
            raise FrameworkError from error
        use_model(model, X, seed=0, subsample=0.6)

    whole = [bytes(model.save_raw(kind)) for kind in ("json", "json", "ubj") for model in xgboost_models()]
    return Loader(whole, damaged_xgboost, read)


def compiled_forests() -> Loader:
    """Files of `rfsize.load`."""
    X, y = problem()
    path = Path(tempfile.mkdtemp()) / "forest.npz"
    whole = []
    model = lgb.train(PARAMS, lgb.Dataset(X, y > 0, categorical_feature=[0]), 3)
    for forest in (rfsize.compile(model, rfsize.StopTable.build(3, alpha=0.9)), *map(rfsize.compile, xgboost_models())):
        forest.save(path)
        whole.append(path.read_bytes())

    def read(content: bytes) -> None:
        path.write_bytes(content)
        use(rfsize.load(path))

    def damaged(content: bytes, rng: np.random.Generator) -> bytes:
        return some(rng, (damaged_bytes, damaged_archive, damaged_archive, damaged_forest))(content, rng)

    return Loader(whole, damaged, read)


def stop_tables() -> Loader:
    """Files of `StopTable.load`, most of them signed again."""
    path = Path(tempfile.mkdtemp()) / "table.json"
    whole = []
    for n_classes in (2, 3, 4):
        rfsize.StopTable.build(9, alpha=0.9, n_classes=n_classes).save(path)
        whole.append(path.read_bytes())
    rfsize.StopTable.lossless([3.0, 2.0, 1.5, 1.0]).save(path)
    whole.append(path.read_bytes())

    def damaged(content: bytes, rng: np.random.Generator) -> bytes:
        if rng.random() > 0.7:
            return damaged_bytes(content, rng)
        document = damaged_values(json.loads(content), rng)
        rest = {key: value for key, value in document.items() if key != "checksum"}
        with contextlib.suppress(ValueError):  # NaN cannot be signed
            document = {**rest, "checksum": checksum(rest)}
        return json.dumps(document).encode()

    def read(content: bytes) -> None:
        path.write_bytes(content)
        table = rfsize.StopTable.load(path)
        if table.rule != "lossless" and not np.isfinite(table.expected_trees()):
            raise AssertionError("the expected trees are not finite")

    return Loader(whole, damaged, read)


def search_files(sign: bool) -> Loader:
    """Files of ``select_bagging_fraction(resume=…)``; unless signed again, none that differs may be taken up."""
    X, y = problem()
    path = Path(tempfile.mkdtemp()) / "search.zip"
    dataset = lgb.Dataset(X, y > 0, free_raw_data=False)
    rfsize.select_bagging_fraction(PARAMS, dataset, [0.4, 0.6], n_trees=10, alpha=0.6, resume=path)
    content = path.read_bytes()
    search = SearchFile(path, trainer_for(PARAMS, dataset), PARAMS, None)
    whole = pickle.dumps(search._states)

    def read(content: bytes) -> None:
        path.write_bytes(content)
        try:
            search._read(path)
        except ValueError as error:
            if "cannot be taken up" in str(error) or "was written by a search" in str(error):
                raise rfsize.TableError(str(error)) from error.__cause__
            raise
        if not sign and pickle.dumps(search._states) != whole:
            raise AssertionError("an altered number was taken up")

    def damaged(content: bytes, rng: np.random.Generator) -> bytes:
        if sign:
            return damaged_search(content, rng)
        return (damaged_archive if rng.random() < 0.7 else damaged_bytes)(content, rng)

    return Loader([content], damaged, read)


LOADERS: dict[str, Callable[[], Loader]] = {
    "compiled forest": compiled_forests,
    "stop table": stop_tables,
    "search file": partial(search_files, sign=False),
    "signed search file": partial(search_files, sign=True),
    "LightGBM text": lightgbm_text,
    "XGBoost document": xgboost_json,
    "LightGBM model": lightgbm_model,
    "XGBoost model": xgboost_model,
}


def content_of(loader: Loader, seed: int, number: int) -> bytes:
    """The damaged file of one case."""
    rng = np.random.default_rng([seed, number])
    return loader.damaged(some(rng, loader.whole), rng)


def outcome_of(loader: Loader, content: bytes) -> str:
    """What became of one case; a failure is told by its exception."""
    try:
        loader.read(content)
    except FrameworkError:
        return "the framework refuses"
    except OURS as error:
        cause = error.__cause__
        if isinstance(cause, MemoryError):
            return f"FAILURE asks for memory: {str(error)[:150]}"
        if str(cause) == "index is out of bounds":  # numba's words
            return f"FAILURE a kernel leaves its arrays: {str(error)[:150]}"
        return "refused as a last resort" if LAST_RESORT in str(error) else "refused"
    except Exception as error:
        return f"FAILURE {type(error).__name__}: {str(error)[:150]}"
    return "read"


def work(loader: Loader, seed: int, numbers: range, results: Any, trace: str) -> None:
    """Send the outcome of each case, its seconds, and the bytes of memory that were taken up to then."""
    warnings.simplefilter("ignore")
    faulthandler.enable(open(trace, "w"), all_threads=False)  # noqa: SIM115 (open until the crash)
    for stream in (1, 2):  # where the frameworks complain
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
    at_start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for number in numbers:
        content, started = content_of(loader, seed, number), time.process_time()
        outcome = outcome_of(loader, content)
        taken = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - at_start
        results.send((outcome, time.process_time() - started, taken * 1024))


def crash(trace: str) -> str:
    """Whose crash it was, by the file in which Python was last seen."""
    places = re.findall('  File "(.*)", line (.*)', Path(trace).read_text())
    if places and any(framework in places[0][0] for framework in FRAMEWORKS):
        return "the framework crashes"
    return f"FAILURE crash: {places[:3]}"


class Summary(NamedTuple):
    """Cases by outcome, the seconds of the slowest and its number, and the most memory that any took."""

    counts: Counter[str]
    slowest: tuple[float, int]
    memory: int


def fuzzed(name: str, loader: Loader, seed: int, numbers: range) -> Summary:
    """Run the cases, and print each failure."""
    context, counts, at = multiprocessing.get_context("fork"), Counter[str](), numbers.start
    slowest, memory = (0.0, 0), 0
    trace = str(Path(tempfile.mkdtemp()) / "trace")
    while at < numbers.stop:
        receiver, sender = context.Pipe(duplex=False)
        process = context.Process(target=work, args=(loader, seed, range(at, numbers.stop), sender, trace))
        process.start()
        sender.close()
        outcome, seconds, taken = "", 0.0, 0
        while at < numbers.stop and "hangs" not in outcome and "crash" not in outcome:
            try:
                outcome, seconds, taken = receiver.recv() if receiver.poll(PATIENCE) else ("FAILURE hangs", PATIENCE, 0)
            except EOFError:
                process.join()
                outcome, seconds, taken = crash(trace), 0.0, 0
            if outcome.startswith("FAILURE"):
                print(f"{name}: --seed {seed} --only {at}: {outcome}", flush=True)
                outcome_class = "FAILURE"
            else:
                outcome_class = outcome
            counts[outcome_class] += 1
            slowest, memory = max(slowest, (seconds, at)), max(memory, taken)
            at += 1
        process.kill()
        process.join()
        receiver.close()
    return Summary(counts, slowest, memory)


@compiled
def _beyond(array: np.ndarray) -> float:
    """What lies behind the end of an array."""
    return float(array[array.size])


def indices_are_checked() -> bool:
    """Whether kernels raise where they leave their arrays; refuses a cache of kernels that would not."""
    if not numba.config.BOUNDSCHECK:
        return False
    with contextlib.suppress(IndexError):
        _beyond(np.zeros(3))
        raise SystemExit("the kernels come from a cache and check nothing: give an empty folder as NUMBA_CACHE_DIR")
    return True


def main() -> None:
    """Print the failures, and the counts of each loader."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=2000, help="of each loader")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, help="the number of one case")
    parser.add_argument("--loader", choices=LOADERS, help="all by default")
    given = parser.parse_args()
    numbers = range(given.cases) if given.only is None else range(given.only, given.only + 1)
    checked = ", indices checked" if indices_are_checked() else ""
    for name in LOADERS if given.loader is None else (given.loader,):
        loader = LOADERS[name]()
        for content in loader.whole:
            loader.read(content)
        found = fuzzed(name, loader, given.seed, numbers)
        counts = ", ".join(f"{count:,} {outcome}" for outcome, count in found.counts.most_common())
        print(
            f"{name}: seed {given.seed}{checked}, {numbers.stop - numbers.start:,} cases: {counts}; slowest "
            f"{found.slowest[0]:.2f} s (number {found.slowest[1]}), {found.memory / 1e6:.0f} MB",
            flush=True,
        )


if __name__ == "__main__":
    main()

"""SizeCallback, on real training."""

from __future__ import annotations

import copy
import pickle
import re
import warnings
from dataclasses import replace
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest

import rfsize
from helpers.forests import LIGHTGBM, Data, train_lightgbm
from helpers.outputs import outputs_of
from helpers.reports import of_same_votes, same
from rfsize.counting.blocks import TreeBlocks
from rfsize.counting.evidence import Evidence
from rfsize.counting.forest_on_rows import ForestOnRows
from rfsize.counting.scores import Scores
from rfsize.integrations.lightgbm.bags import LightGbmBags
from rfsize.integrations.lightgbm.callback import _duration
from rfsize.sizing.goals.labels import LabelGoal
from rfsize.sizing.report import report_of


def train(data: Data, callback: Any, trees: int = 300, y: Any = None, **options: Any) -> lgb.Booster:
    params = {**LIGHTGBM, **options.pop("params", {})}
    dataset = lgb.Dataset(data.X, data.y if y is None else y)
    return lgb.train(params, dataset, trees, callbacks=[callback], **options)


@pytest.mark.parametrize("voting", ["auto", "hard"])
def test_training_stops_at_the_size_that_the_out_of_bag_votes_give(voting: str, data: Data) -> None:
    callback = rfsize.SizeCallback(alpha=0.97, voting=voting)
    model = train(data, callback)
    report = callback.report_
    assert report is not None
    assert report.enough
    assert report.n_trees <= model.num_trees() == report._wanted <= report.available < 300
    whole = train_lightgbm(data.X, data.y, report.available)
    expected = rfsize.size(whole, data.X, alpha=0.97, oob=True, voting=voting)
    assert report._answer.goal.voting == ("soft" if voting == "auto" else "hard")
    assert same(of_same_votes(report), of_same_votes(expected))
    assert np.array_equal(model.predict(data.fresh), whole.predict(data.fresh, num_iteration=model.num_trees()))


@pytest.mark.parametrize("threshold", [0.3, 0.5])
def test_votes_read_in_training_are_those_of_the_finished_forest(threshold: float, data: Data) -> None:
    callback = rfsize.SizeCallback(alpha=0.9999, voting="hard", threshold=threshold)
    with pytest.warns(rfsize.exceptions.NotConvergedWarning):
        model = train(data, callback, 150)
    expected = rfsize.size(
        rfsize.tree_outputs(model, data.X, oob=True, threshold=threshold), alpha=0.9999, voting="hard"
    )
    assert callback.report_ is not None
    assert of_same_votes(callback.report_) == of_same_votes(expected)


def test_balanced_bags_and_weights(data: Data) -> None:
    callback = rfsize.SizeCallback(alpha=0.95, min_trees=50)
    params = {"pos_bagging_fraction": 0.8, "neg_bagging_fraction": 0.5, "scale_pos_weight": 2.0}
    train(data, callback, params=params)
    available = callback.report_.available
    whole = train_lightgbm(data.X, data.y, available, **params)
    expected = rfsize.size(whole, data.X, data.y, alpha=0.95, oob=True)
    assert same(of_same_votes(callback.report_), of_same_votes(expected))


def test_validation_set(data: Data) -> None:
    rng = np.random.default_rng(0)
    dataset = lgb.Dataset(data.X, data.y)
    valid = [dataset.create_valid(data.X[:50], data.y[:50]), dataset.create_valid(data.fresh, rng.integers(0, 2, 400))]
    callback = rfsize.SizeCallback(alpha=0.97, validation="mine")
    model = lgb.train(LIGHTGBM, dataset, 300, valid_sets=valid, valid_names=["other", "mine"], callbacks=[callback])
    report = callback.report_
    assert model.num_trees() == report._wanted
    assert report.source == "validation set 'mine'"
    whole = train_lightgbm(data.X, data.y, report.available)
    assert rfsize.size(whole, data.fresh, alpha=0.97).n_trees == report.n_trees


def test_trees_of_one_leaf(data: Data) -> None:
    y = (data.X[:, 0] > 1.2).astype(int)
    params = {"feature_fraction": 0.1, "min_gain_to_split": 30.0}
    callback = rfsize.SizeCallback(alpha=0.9999)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rfsize.exceptions.NotConvergedWarning)
        model = train(data, callback, 40, y=y, params=params)
    whole = train_lightgbm(data.X, y, 40, **params)
    assert {tree["num_leaves"] for tree in whole.dump_model()["tree_info"]} > {1}
    expected = rfsize.size(whole, data.X, alpha=0.9999, oob=True)
    assert same(of_same_votes(callback.report_), of_same_votes(expected))
    assert model.num_trees() in (callback.report_._wanted, 40)


def test_too_few_trees_warn_with_the_number_needed(data: Data) -> None:
    callback = rfsize.SizeCallback(alpha=0.975)
    with pytest.warns(
        rfsize.exceptions.NotConvergedWarning,
        match=r"the 30 trees grown are probably not enough: about [\d,]+ are needed",
    ):
        model = train(data, callback, 30)
    assert model.num_trees() == 30
    assert not callback.report_.enough


def test_averaged_scores_stop_the_training(data: Data) -> None:
    """Scores read in training are those of the finished forest, so both sizes are."""
    callback = rfsize.SizeCallback(alpha=0.97, voting="soft")
    model = train(data, callback)
    report = callback.report_
    assert (report._answer.goal.voting, report._answer.voting) == ("soft", "soft")
    assert report.n_trees <= model.num_trees() == report._wanted <= report.available < 300
    whole = train_lightgbm(data.X, data.y, report.available)
    expected = rfsize.size(whole, data.X, alpha=0.97, oob=True, voting="soft")
    assert (report.n_trees, report.interval) == (expected.n_trees, expected.interval)


@pytest.mark.parametrize("objective", ["multiclass", "multiclassova"])
def test_averaged_scores_of_many_classes(objective: str, data: Data) -> None:
    callback = rfsize.SizeCallback(alpha=0.9, voting="soft", min_trees=40)
    params = {"objective": objective, "num_class": 3}
    train(data, callback, y=data.three, params=params)
    whole = train_lightgbm(data.X, data.three, callback.report_.available, **params)
    expected = rfsize.size(whole, data.X, alpha=0.9, oob=True, voting="soft")
    assert callback.report_.n_trees == expected.n_trees


def test_log(data: Data, capsys: pytest.CaptureFixture[str]) -> None:
    callback = rfsize.SizeCallback(alpha=0.985, log_every=50)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rfsize.exceptions.NotConvergedWarning)
        model = train(data, callback, 1000)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == callback.report_.available // 50
    size = r"T\*\(0\.985\) = [\d,]+ \([\d,]+ to [\d,]+\)"
    for trees, line in enumerate(lines, start=1):
        assert re.fullmatch(rf"\[{50 * trees}\] {size}, (about \d+ (s|min) to go|done)", line)
    assert "to go" in lines[0]
    assert model.num_trees() == callback.report_._wanted > 100


def test_time_to_go(data: Data, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """With three seconds a tree, the trees still to train take three seconds each."""
    clock = {"now": 100.0}
    monkeypatch.setattr("rfsize.integrations.lightgbm.callback.time.perf_counter", lambda: clock["now"])
    callback = rfsize.SizeCallback(alpha=0.985, log_every=20, min_trees=60)
    seen = []

    def tick(env: Any) -> None:
        callback(env)
        seen.append((env.iteration + 1, callback.report_, callback.seconds_to_go_))
        clock["now"] += 3.0

    tick.order = callback.order
    with pytest.warns(rfsize.exceptions.NotConvergedWarning):
        train(data, tick, 90)
    lines = capsys.readouterr().out.splitlines()
    told = {trees: (report, seconds) for trees, report, seconds in seen}
    assert told[1][1] is None
    for line, trees in zip(lines, (20, 40, 60, 80), strict=True):
        report, seconds = told[trees]
        # The first estimate that may end the training is at 60 trees, and the training has 90.
        assert seconds == pytest.approx(3.0 * (min(max(report._wanted, 60), 90) - trees))
        beyond = ", more than the 90 trees allowed" if report.n_trees > 90 else ""
        assert line.endswith(f"){beyond}, {_duration(seconds)} to go")
    assert told[60][0].n_trees > 90
    assert told[90][1] == 0.0
    assert [_duration(one) for one in (0.2, 119.0, 120.0, 7199.0, 7200.0)] == [
        *("about 1 s", "about 119 s", "about 2 min", "about 120 min", "about 2 h")
    ]


def test_classifier_and_a_second_training_with_the_same_callback(data: Data) -> None:
    callback = rfsize.SizeCallback(alpha=0.95)
    model = lgb.LGBMClassifier(
        boosting_type="rf", n_estimators=400, subsample=0.6, subsample_freq=1, random_state=0, n_jobs=1, verbose=-1
    )
    sizes = []
    for _ in range(2):
        model.fit(data.X, np.array(["no", "yes"])[data.y], callbacks=[callback])
        sizes.append(model.n_estimators_)
        assert model.n_estimators_ == callback.report_._wanted
    assert sizes[0] == sizes[1]


def test_beside_early_stopping(data: Data) -> None:
    dataset = lgb.Dataset(data.X, data.y)
    valid = dataset.create_valid(data.fresh, np.zeros(len(data.fresh)))
    callback = rfsize.SizeCallback(alpha=0.999)
    stop = lgb.early_stopping(3, verbose=False)
    model = lgb.train(LIGHTGBM, dataset, 300, valid_sets=[valid], callbacks=[callback, stop])
    assert model.num_trees() < callback.report_.available < 100
    whole = train_lightgbm(data.X, data.y, callback.report_.available)
    expected = rfsize.size(whole, data.X, alpha=0.999, oob=True)
    assert same(of_same_votes(callback.report_), of_same_votes(expected))


def test_identical_trees_are_no_trees_of_one_leaf(data: Data) -> None:
    """With the label among the features all trees are the same, and the mean of their scores never moves."""
    X = data.X.copy()
    X[:, 0] = data.y
    callback = rfsize.SizeCallback(alpha=0.99, min_trees=50)
    model = lgb.train({**LIGHTGBM, "feature_fraction": 1.0}, lgb.Dataset(X, data.y), 100, callbacks=[callback])
    assert model.num_trees() == callback.report_._wanted == callback.report_.n_trees == 1


def test_a_used_callback_can_be_copied_and_pickled(data: Data) -> None:
    callback = rfsize.SizeCallback(alpha=0.999, min_trees=50)
    dataset = lgb.Dataset(data.X, data.y)
    stop = lgb.early_stopping(3, verbose=False)
    valid = dataset.create_valid(data.fresh, np.zeros(len(data.fresh)))
    lgb.train(LIGHTGBM, dataset, 300, valid_sets=[valid], callbacks=[callback, stop])
    for twin in (pickle.loads(pickle.dumps(callback)), copy.deepcopy(callback)):
        assert twin.report_.to_dict() == callback.report_.to_dict()
        assert twin.goal == callback.goal


def test_few_votes_stop_no_training(data: Data) -> None:
    """After one tree every row is unanimous."""
    callback = rfsize.SizeCallback(alpha=0.9, min_trees=1)
    model = train(data, callback)
    assert model.num_trees() == callback.report_._wanted > 1
    assert callback.report_.votes_per_row >= 10


def test_shared_bags_warn(data: Data) -> None:
    with pytest.warns(rfsize.exceptions.SharedBagsWarning, match="bagging_freq=1"):
        train(data, rfsize.SizeCallback(alpha=0.9), params={"bagging_freq": 2})


@pytest.mark.parametrize(
    ("params", "error", "message"),
    [
        ({"boosting": "gbdt"}, rfsize.exceptions.NotAForestError, "boosting='gbdt'"),
        ({"objective": "regression"}, rfsize.exceptions.NotAForestError, "cast no votes"),
        (
            {"data_sample_strategy": "goss", "bagging_freq": 0, "bagging_fraction": 1.0},
            rfsize.exceptions.InbagError,
            "GOSS",
        ),
        ({"bagging_fraction": 1.0}, rfsize.exceptions.InbagError, "without bagging"),
    ],
)
def test_what_it_cannot_size_is_refused(params: dict[str, Any], error: Any, message: str, data: Data) -> None:
    with pytest.raises(error, match=message):
        train(data, rfsize.SizeCallback(alpha=0.99), 5, params=params)


@pytest.mark.parametrize("voting", ["auto", "hard"])
@pytest.mark.parametrize("objective", ["multiclass", "multiclassova"])
def test_many_classes_stop_at_the_size_that_the_out_of_bag_votes_give(objective: str, voting: str, data: Data) -> None:
    callback = rfsize.SizeCallback(alpha=0.9, voting=voting, min_trees=40)
    params = {"objective": objective, "num_class": 3}
    model = train(data, callback, y=data.three, params=params)
    report = callback.report_
    assert report.n_trees <= model.current_iteration() == report._wanted <= report.available < 300
    whole = train_lightgbm(data.X, data.three, report.available, **params)
    expected = rfsize.size(whole, data.X, alpha=0.9, oob=True, voting=voting)
    assert report._answer.goal.voting == ("soft" if voting == "auto" else "hard")
    assert same(of_same_votes(report), of_same_votes(expected))


def test_many_classes_on_a_validation_set(data: Data) -> None:
    dataset = lgb.Dataset(data.X, data.three)
    valid = dataset.create_valid(data.fresh, np.arange(len(data.fresh)) % 3)
    params = {**LIGHTGBM, "objective": "multiclass", "num_class": 3}
    callback = rfsize.SizeCallback(alpha=0.9, min_trees=40, validation="valid_0")
    lgb.train(params, dataset, 300, valid_sets=[valid], callbacks=[callback])
    whole = lgb.train(params, lgb.Dataset(data.X, data.three), callback.report_.available)
    assert rfsize.size(whole, data.fresh, alpha=0.9).n_trees == callback.report_.n_trees


def test_a_threshold_is_for_two_classes(data: Data) -> None:
    with pytest.raises(ValueError, match="leave threshold at"):
        train(
            data,
            rfsize.SizeCallback(threshold=0.3),
            5,
            y=data.three,
            params={"objective": "multiclass", "num_class": 3},
        )


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("validation", [None, "valid"])
def test_cross_validation(validation: str | None, classes: int, data: Data) -> None:
    """Each fold's forest votes on the rows held out; all folds stop at the size that these votes give together."""
    y = data.y if classes == 2 else data.three
    params = LIGHTGBM if classes == 2 else {**LIGHTGBM, "objective": "multiclass", "num_class": 3}
    rows = np.random.default_rng(0).permutation(len(y))
    folds = [(np.sort(np.setdiff1d(rows, part)), np.sort(part)) for part in np.array_split(rows, 3)]
    callback = rfsize.SizeCallback(alpha=0.9, min_trees=40, validation=validation)
    options = {"folds": folds, "eval_train_metric": True, "return_cvbooster": True}
    result = lgb.cv(params, lgb.Dataset(data.X, y, free_raw_data=False), 300, callbacks=[callback], **options)
    report, cvbooster = callback.report_, result["cvbooster"]
    assert report.n_trees <= cvbooster.best_iteration == report._wanted <= report.available < 300
    assert report.source == "cross-validation"
    counts = np.zeros((len(y), classes), dtype=int)
    for (_, held_out), booster in zip(folds, cvbooster.boosters, strict=True):
        assert booster.best_iteration == report._wanted
        booster.best_iteration = -1
        counts[held_out] = rfsize.tree_outputs(booster, data.X[held_out]).votes.counts
    held_out = [
        Evidence.of(ForestOnRows.of(one, data.X[rows]))
        for one, (_, rows) in zip(cvbooster.boosters, folds, strict=True)
    ]
    scores = Scores.stacked([one.scores for one in held_out])
    blocks = TreeBlocks.of_forests([one.blocks for one in held_out], [len(rows) for _, rows in folds])
    told = outputs_of(rfsize.Votes(counts), scores, blocks=blocks)
    expected = report_of(replace(told, n_trees=report.available, source=""), LabelGoal(0.9, "soft", confidence=0.8))
    assert (expected.n_trees, expected.interval) == (report.n_trees, report.interval)
    assert expected._wanted == report._wanted


def test_cross_validation_needs_no_rebuilt_bags(data: Data) -> None:
    """Whole queries are sampled, whose bags cannot be rebuilt."""
    params = {**LIGHTGBM, "bagging_by_query": True} if "bagging_by_query" in _known_parameters() else LIGHTGBM
    dataset = lgb.Dataset(data.X, data.y, group=np.full(len(data.y) // 5, 5))
    rows = np.arange(len(data.y))
    folds = [(rows[rows // 500 != part], rows[rows // 500 == part]) for part in range(3)]
    callback = rfsize.SizeCallback(alpha=0.9, min_trees=40)
    lgb.cv(params, dataset, 300, folds=folds, callbacks=[callback])
    assert callback.report_.enough


def _known_parameters() -> str:
    booster = lgb.Booster(LIGHTGBM, lgb.Dataset(np.eye(40), np.arange(40) % 2))
    return booster.model_to_string()


def test_cross_validation_knows_one_validation_set(data: Data) -> None:
    with pytest.raises(ValueError, match=r"'mine', but the training has \['valid'\]"):
        lgb.cv(LIGHTGBM, lgb.Dataset(data.X, data.y), 5, callbacks=[rfsize.SizeCallback(validation="mine")])


def test_other_parameters_may_change(data: Data) -> None:
    change = lgb.reset_parameter(sub_feature=[0.6] * 50 + [0.9] * 250)
    settings = {name: value for name, value in LIGHTGBM.items() if name != "feature_fraction"}
    callback = rfsize.SizeCallback(alpha=0.97)
    model = lgb.train(settings, lgb.Dataset(data.X, data.y), 300, callbacks=[callback, change])
    assert model.num_trees() == callback.report_._wanted


def test_a_wrong_seed_is_noticed_by_the_proof(data: Data, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rfsize.integrations.lightgbm.training_rows.rebuilt_bags", _wrong_bags)
    with pytest.raises(rfsize.exceptions.InbagError, match="in-bag rows of tree 0 do not match"):
        train(data, rfsize.SizeCallback(), 5)


def _wrong_bags(forest: Any, layout: Any, _: Any) -> LightGbmBags:
    forest.parameters["bagging_seed"] = "1"
    return LightGbmBags(forest, layout, round(0.632 * 32768))


@pytest.mark.parametrize("name", ["bagging_fraction", "subsample"])
def test_fractions_that_six_digits_do_not_tell(name: str, data: Data) -> None:
    """Just below, at and just above a whole number of draws."""
    for fraction in (0.12347412109375 - 1e-9, 0.12347412109375, 0.12347412109375 + 1e-9):
        callback = rfsize.SizeCallback(alpha=0.9999, voting="hard", threshold=0.45)
        params = {key: value for key, value in LIGHTGBM.items() if key != "bagging_fraction"}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", rfsize.exceptions.NotConvergedWarning)
            model = lgb.train({**params, name: fraction}, lgb.Dataset(data.X, data.y), 60, callbacks=[callback])
        expected = rfsize.size(
            rfsize.tree_outputs(model, data.X, oob=True, threshold=0.45), alpha=0.9999, voting="hard"
        )
        assert of_same_votes(callback.report_) == of_same_votes(expected)


def test_unknown_validation_set(data: Data) -> None:
    with pytest.raises(ValueError, match="'mine', but the training has none"):
        train(data, rfsize.SizeCallback(validation="mine"), 5)


@pytest.mark.parametrize(
    "options",
    [
        *(
            {"alpha": 1.0},
            {"alpha": "most"},
            {"threshold": 0.0},
            {"min_trees": 0},
            {"min_trees": 2.5},
            {"log_every": -1},
        ),
        *({"voting": "averaged"}, {"average": "weighted"}),
    ],
)
def test_options_are_checked(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="must"):
        rfsize.SizeCallback(**options)

"""Tests of `judge`: its contenders, their figures, and the verdict on unseen rows."""

from __future__ import annotations

import doctest
import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from lightgbm import LGBMClassifier, LGBMRegressor
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression, RidgeClassifier
from sklearn.metrics import get_scorer, make_scorer
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.tree import DecisionTreeClassifier

import swarm.validation.judgement
from swarm.answers import Answers
from swarm.ensemble import SubsetEnsemble
from swarm.errors import DataError, InputError, SpaceError
from swarm.evaluation import boosted
from swarm.findings.outcome import judgement_findings
from swarm.problem.scoring import resolve_scoring
from swarm.problem.space import SearchSpace
from swarm.rounding import difference
from swarm.validation import Judgement, Rows
from swarm.validation import judge as judge_rows
from swarm.validation.answers import EvaluationTarget
from swarm.validation.contenders import (
    CONTENDERS,
    Contender,
    combine_members,
    committee_rows,
    make_contenders,
    train_and_predict,
)
from swarm.validation.jackknife import Jackknife, measure_metrics
from swarm.validation.records import judgement_record
from swarm.validation.sparse_rows import SparseRows
from swarm.validation.verdict import outcome_in
from tests.swarm.validation.test_metrics import by_scikit_learn

# ---------------------------------------------------------------- targets


def test_the_task_follows_from_the_estimator_and_the_target() -> None:
    def target_of(estimator: Any, y: Any, pos_label: Any = None) -> EvaluationTarget:
        return EvaluationTarget.of(estimator, y, y, pos_label)

    binary = target_of(GaussianNB(), ["well", "sick"])
    assert (binary.task, binary.pos_label, binary.positive) == ("binary", "well", 1)
    assert target_of(GaussianNB(), ["well", "sick"], "sick").positive == 0
    multiclass = target_of(GaussianNB(), ["a", "b", "c"])
    assert (multiclass.task, multiclass.pos_label, multiclass.positive) == ("multiclass", None, 0)
    assert multiclass.classes.tolist() == ["a", "b", "c"]
    multilabel = target_of(GaussianNB(), [[0, 1], [1, 1]])
    assert (multilabel.task, multilabel.pos_label, multilabel.positive) == ("multilabel", None, 0)
    regression = target_of(LinearRegression(), [1, 2])
    assert (regression.task, regression.test.dtype) == ("regression", float)
    assert len(regression.classes) == 0
    with pytest.raises(DataError, match="'a'"):
        target_of(GaussianNB(), ["a", "a"])
    with pytest.raises(DataError, match="several targets"):
        target_of(LinearRegression(), [[1, 2], [3, 4]])
    with pytest.raises(InputError, match=r"pos_label 'c' .*'a', 'b'"):
        target_of(GaussianNB(), ["a", "b"], "c")


# ---------------------------------------------------------------- contenders


def test_a_scorer_of_the_user_is_called_once_for_answers_that_it_cannot_tell_apart() -> None:
    n_calls = 0

    def mean_confidence(truth: Any, shares: Any) -> float:
        nonlocal n_calls
        n_calls += 1
        return float(np.where(truth == 1, shares, 1 - shares).mean())

    y = np.arange(40) % 2
    truth = EvaluationTarget.of(GaussianNB(), y, y, None)
    scorer = make_scorer(mean_confidence, response_method="predict_proba")
    scoring = resolve_scoring(scorer, GaussianNB(), y, "binary")
    # The last answers have the same predictions, but other probabilities.
    shares = [np.linspace(0.5, high, 40) for high in (0.7, 0.7, 0.9)]
    answers = [Answers(y, np.column_stack([1 - p, p]), classes=np.array([0, 1])) for p in shares]
    jackknife = Jackknife(40, np.arange(40) // 4)
    metric = "mean_confidence"
    values = measure_metrics(answers, truth, [metric], jackknife, scoring)[metric]
    assert n_calls == 2 * 11
    assert values[0] is values[1]
    for value, probabilities in zip(values, shares, strict=True):
        assert value.value == pytest.approx(
            np.where(y == 1, probabilities, 1 - probabilities).mean()
        )


def left_out(n_members: int, rows: Rows, seed: int = 0) -> list[Any]:
    """Return the rows that each member of a committee is not trained on."""
    training_rows = committee_rows(rows, n_members, seed)
    return [np.setdiff1d(np.arange(rows.n_rows), trained) for trained in training_rows]


def test_a_committee_leaves_each_row_out_once_and_classes_and_labels_in_proportion() -> None:
    labels = np.array(["a"] * 23 + ["b"] * 9)
    rows = Rows(None, labels, task="binary")
    left_out_rows = left_out(4, rows)
    assert sorted(np.concatenate(left_out_rows).tolist()) == list(range(32))
    for member_rows in left_out_rows:
        assert (labels[member_rows] == "a").sum() in (5, 6)
        assert (labels[member_rows] == "b").sum() in (2, 3)
    assert [len(member_rows) for member_rows in left_out(1, rows)] == [0]
    assert [len(member_rows) for member_rows in left_out(33, rows)] == [0] * 33
    assert {len(member_rows) for member_rows in left_out(32, rows)} == {1}
    label_sets = np.array([[0, 0], [0, 1]] * 8)
    left_out_sets = left_out(4, Rows(None, label_sets, task="multilabel"))
    assert [label_sets[member_rows, 1].sum() for member_rows in left_out_sets] == [2] * 4
    numbers = Rows(None, np.arange(12.0), task="regression")
    first_seed, second_seed = (left_out(3, numbers, seed) for seed in (0, 1))
    assert any(not np.array_equal(a, b) for a, b in zip(first_seed, second_seed, strict=True))


def test_a_committee_leaves_groups_out_whole_by_their_class_unless_there_are_too_few() -> None:
    groups = np.repeat(np.arange(9), [1, 9, 3, 3, 2, 5, 4, 1, 8])
    rows = Rows(None, groups % 2, groups, task="binary")
    for left_out_rows in left_out(4, rows, seed=1):
        training_rows = np.setdiff1d(np.arange(36), left_out_rows)
        assert not set(groups[left_out_rows]) & set(groups[training_rows])
        assert set(groups[training_rows] % 2) == {0, 1}
    assert [len(left_out_rows) for left_out_rows in left_out(12, rows, seed=1)] == [3] * 12


def codes_of_judgement(
    n_features: int, low: float, high: float, cost: float = 0.0, optimism: Any = None
) -> Any:
    """Return the codes for a subset that costs 0.1 less than all four features on the test rows."""
    names = ["ensemble", "best_subset", "all_features", "random_subsets"]
    table = pd.DataFrame({"contender": names, "metric": "f1", "value": 0.5, "n_models": 1})
    table = table.assign(n_features=[4, n_features, 4, 4], difference=low)
    judgement: Any = SimpleNamespace(
        first_metric=table.assign(difference_low=low, difference_high=high)
        .set_index("contender")
        .to_dict("index"),
        metrics=["f1"],
        outcome=lambda name: outcome_in("f1", low, high),
        costs={"all_features": (100 * cost + 10) / 100, "best_subset": cost},
        optimism=optimism,
        guessing=None,
    )
    return [finding.code for finding in judgement_findings(judgement)]


def test_random_subsets_and_optimism_are_doubts_unless_all_features_are_the_result() -> None:
    assert codes_of_judgement(3, -0.1, 0.1) == ["SWM204"]
    assert codes_of_judgement(3, 0.1, 0.1 + 1e-17) == []
    assert codes_of_judgement(4, -0.1, 0.1, optimism=0.2) == []
    # An optimism as large as the gain is a doubt, whatever its last digits are.
    for cost in range(1, 90):
        optimism = difference(cost / 100, (cost - 10) / 100)
        assert codes_of_judgement(3, 0.1, 0.1, cost / 100, optimism) == ["SWM203"]


# ---------------------------------------------------------------- from training to verdict

Pair = tuple[pd.DataFrame, Any]


def planted(n_rows: int, seed: int, n_noise: int = 60, effect: float = 1.2) -> Pair:
    """Return classes that differ in x0..x3 only, among noise columns that mislead k-NN."""
    rng = np.random.default_rng(seed)
    y = rng.integers(2, size=n_rows)
    values = rng.normal(size=(n_rows, 4 + n_noise))
    values[:, :4] += effect * y[:, None]
    table = pd.DataFrame(values, columns=[f"x{i}" for i in range(values.shape[1])])
    return table, pd.Series(np.where(y == 1, "sick", "well"), name="state")


def judge(model: Any, train: Any, test: Any, subsets: Any, **options: Any) -> Judgement:
    """Judge subsets of a model, or a fitted ensemble, on pairs of features and target."""
    pair_options = {name: options.pop(name, None) for name in ("vote", "pos_label", "test_groups")}
    ensemble = options.pop("fitted", None) or SubsetEnsemble(
        model, subsets, pair_options["vote"] or "auto", pair_options["pos_label"]
    )
    return judge_rows(ensemble, Rows(*train), Rows(*test, pair_options["test_groups"]), **options)


CHOSEN = [["x0", "x1", "x2"], ["x1", "x2", "x3"], ["x0", "x2", "x3"]]
KNN = KNeighborsClassifier(5)


@pytest.mark.parametrize("metric", ["accuracy", "log_loss"])
def test_a_model_that_ignores_the_features_is_beaten_by_signal_and_not_by_noise(
    metric: str,
) -> None:
    outcomes = {}
    for effect in (1.2, 0.0):
        train = planted(150, 0, effect=effect)
        test = planted(200, 1, effect=effect)
        options: Any = {"metrics": [metric], "n_random": 1}
        judgement = judge(GaussianNB(), train, test, CHOSEN, **options)
        dummy = DummyClassifier(strategy="prior").fit(*train)
        scorer = get_scorer({"log_loss": "neg_log_loss"}.get(metric, metric))
        guess = judgement.guessing
        assert guess is not None
        assert guess.value == pytest.approx(abs(scorer(dummy, *test)))
        codes = [finding.code for finding in judgement_findings(judgement)]
        outcomes[effect] = (guess.outcome, codes)
        assert judgement_record(judgement)["guessing"]["value"] == guess.value
    assert outcomes[1.2][0] == "beaten"
    assert "SWM209" not in outcomes[1.2][1]
    assert outcomes[0.0][0] != "beaten"
    assert "SWM209" in outcomes[0.0][1]


@pytest.mark.parametrize(
    ("model", "metric", "expected"),
    [
        # The best constant is the positive class, the median, or the most frequent set of labels.
        (GaussianNB(), "f1", lambda y: 2 * y.mean() / (1 + y.mean())),
        (GaussianNB(), "recall", lambda y: 1.0),
        (LinearRegression(), "mean_absolute_error", lambda y: abs(y - 0.0).mean()),
        (KNN, "subset_accuracy", lambda y: (y == [1, 0]).all(axis=1).mean()),
    ],
)
def test_the_best_constant_prediction_is_the_guess_to_beat(
    model: Any, metric: str, expected: Any
) -> None:
    rng = np.random.default_rng(3)
    table = pd.DataFrame(rng.normal(size=(160, 3)), columns=["x0", "x1", "x2"])
    classes = rng.integers(0, 2, 160)
    target: Any = pd.Series(classes)
    if metric == "mean_absolute_error":
        target = pd.Series(np.where(rng.random(160) < 0.3, 100.0, 0.0))
    if metric == "subset_accuracy":
        # Each label by itself is absent more often than present.
        label_sets = np.array([[1, 0], [0, 1], [0, 0]])
        target = pd.DataFrame(label_sets[rng.choice(3, 160, p=[0.45, 0.3, 0.25])])
    train = (table[:80], target[:80])
    test = (table[80:], target[80:])
    options: Any = {"metrics": [metric], "n_random": 1}
    judgement = judge(model, train, test, [["x0", "x1"]], **options)
    guess = judgement.guessing
    assert guess is not None
    assert guess.value == pytest.approx(expected(np.asarray(test[1])))
    assert guess.outcome != "beaten"
    # Four groups have no interval, so nothing is claimed.
    few_groups = judge(model, train, test, [["x0", "x1"]], test_groups=np.arange(80) % 4, **options)
    assert few_groups.guessing is not None
    assert few_groups.guessing.outcome == "unclear"


@pytest.fixture(scope="module")
def small() -> tuple[Pair, Pair]:
    return planted(120, 3, n_noise=8), planted(171, 4, n_noise=8)


def test_every_figure_can_be_computed_from_the_predictions(small: Any) -> None:
    train, test = small
    judgement = judge(KNN, train, test, CHOSEN, n_random=4, pos_label="sick")
    assert judgement.pos_label == "sick"
    predictions = judgement.predictions
    assert predictions["y_true"].tolist() == test[1].tolist()
    expected = SubsetEnsemble(KNN, CHOSEN).fit(*train).predict(test[0])
    assert (predictions["ensemble"] == expected).all()
    best_subset = (
        KNeighborsClassifier(5).fit(train[0][CHOSEN[0]], train[1]).predict(test[0][CHOSEN[0]])
    )
    assert (predictions["best_subset"] == best_subset).all()
    for row in judgement.table.to_dict("records"):
        columns = [name for name in predictions if name.startswith(row["contender"])]
        columns = columns if row["contender"] == "random_subsets" else [row["contender"]]
        scores = [
            by_scikit_learn(row["metric"], predictions["y_true"], predictions[name], "sick")
            for name in columns
        ]
        assert row["value"] == pytest.approx(np.mean(scores), abs=1e-12)
        assert row["low"] <= row["value"] <= row["high"]
    assert [name for name in predictions if "random" in name] == [
        f"random_subsets_{i}" for i in (1, 2, 3, 4)
    ]
    sizes = judgement.table.set_index("contender")[["n_features", "n_models"]].drop_duplicates()
    assert sizes.index.tolist() == list(CONTENDERS)
    assert sizes.drop("random_subsets").to_numpy().tolist() == [[4, 3], [3, 1], [12, 1], [12, 3]]
    assert 3 <= sizes.loc["random_subsets", "n_features"] <= 9


def test_differences_are_ensemble_minus_contender_and_paired(small: Any) -> None:
    train, test = small
    judgement = judge(KNN, train, test, [CHOSEN[0]], n_random=1)
    value = judgement.table.set_index(["contender", "metric"])["value"]
    for row in judgement.table.query("contender != 'ensemble'").to_dict("records"):
        expected = value["ensemble", row["metric"]] - value[row["contender"], row["metric"]]
        assert row["difference"] == pytest.approx(expected, abs=1e-12)
        assert row["difference_low"] <= row["difference"] <= row["difference_high"]
    # An ensemble of one subset is the best subset: their paired difference has no width.
    best_subset = judgement.table.query("contender == 'best_subset'")
    assert (best_subset[["difference", "difference_low", "difference_high"]] == 0.0).all(axis=None)
    assert judgement.outcome("best_subset") == "no clear difference"


@pytest.mark.parametrize("metric", ["accuracy", "log_loss"])
def test_an_ensemble_beats_another_by_more_than_the_standard_error(small: Any, metric: str) -> None:
    judgement = judge(KNN, *small, CHOSEN, n_random=1, metrics=[metric])
    sign = -1.0 if metric == "log_loss" else 1.0
    for gain, error, beats in (
        (0.02, 0.01, True),
        (0.01, 0.01, False),
        (-0.02, 0.01, False),
        (0.02, float("nan"), False),
    ):
        table = judgement.table.assign(difference=sign * gain, difference_error=error)
        assert replace(judgement, table=table).ensemble_beats("best_subset") == beats
    errors = judgement.table.set_index("contender")["difference_error"]
    assert (errors.drop("ensemble") > 0.0).all()


def test_the_same_seed_judges_the_same_for_any_number_of_workers(
    small: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    forest = RandomForestClassifier(5)
    serial = judge(forest, *small, CHOSEN, n_random=2, seed=7)
    # Workers start at once instead of when the first models turn out to be slow.
    monkeypatch.setattr("swarm.validation.serial_first.SERIAL_SECONDS", 0.0)
    parallel = judge(forest, *small, CHOSEN, n_random=2, seed=7, n_jobs=2)
    assert json.dumps(judgement_record(serial)) == json.dumps(judgement_record(parallel))
    pd.testing.assert_frame_equal(serial.predictions, parallel.predictions)
    reseeded = judge(forest, *small, CHOSEN, n_random=2, seed=8)
    assert not reseeded.predictions.equals(serial.predictions)


@pytest.mark.parametrize(
    ("task", "weighted"), [("binary", True), ("multiclass", False), ("regression", True)]
)
def test_sparse_rows_judge_like_their_table(
    task: str, weighted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(4)
    values = rng.integers(-3, 4, (500, 30)) * (rng.random((500, 30)) < 0.08)
    X = pd.DataFrame(values).add_prefix("x").astype({"x0": float, "x1": np.int8})
    X.loc[:20, "x0"] = np.nan
    signal = values[:, :4].sum(axis=1) + rng.normal(0, 0.5, 500)
    target = {"binary": signal > 0.5, "multiclass": np.digitize(signal, [0.5, 1.5])}
    y = pd.Series(target.get(task, signal))
    model = LGBMRegressor if task == "regression" else LGBMClassifier
    weight = rng.random(500) if weighted else np.ones(500)
    train, test = (
        Rows(X[rows], y[rows], weight=weight[rows]) for rows in (slice(350), slice(350, 500))
    )
    ensemble = SubsetEnsemble(model(n_estimators=5, verbosity=-1, n_jobs=1), CHOSEN)
    options: Any = {"space": SearchSpace.build(list(X.columns), forbidden=["x7"]), "n_random": 2}
    dense_judgement = judge_rows(ensemble, train, test, **options)
    monkeypatch.setattr(boosted, "_is_small", lambda features: False)
    assert SparseRows.of(ensemble.estimator, train, test) is not None
    sparse_judgement = judge_rows(ensemble, train, test, **options)
    assert json.dumps(judgement_record(sparse_judgement)) == json.dumps(
        judgement_record(dense_judgement)
    )
    pd.testing.assert_frame_equal(sparse_judgement.predictions, dense_judgement.predictions)
    # A model that may read columns by name or position gets the table.
    assert SparseRows.of(GaussianNB(), train, test) is None
    assert SparseRows.of(model(colsample_bytree=0.5), train, test) is None
    text_rows = Rows(test.features.astype({"x2": object}), test.target)
    assert SparseRows.of(ensemble.estimator, train, text_rows) is None


LABELS = [[0, 1, 1], [1, 1, 0], [0, 0, 1], [1, 0, 0]] * 10


@pytest.mark.parametrize(
    ("model", "target", "vote"),
    [
        (GaussianNB(), list("aabc") * 10, "soft"),
        (GaussianNB(), list("aabc") * 10, "hard"),
        (GaussianNB(), [0, 1, 1, 1] * 10, "any"),
        (RidgeClassifier(), list("aabc") * 10, "hard"),
        (KNeighborsClassifier(3), LABELS, "soft"),
        (KNeighborsClassifier(3), LABELS, "hard"),
        (KNeighborsRegressor(3), np.arange(40) % 7.0, "mean"),
    ],
)
def test_models_that_answer_by_themselves_vote_like_their_ensemble(
    model: Any, target: Any, vote: str
) -> None:
    X = pd.DataFrame(np.random.default_rng(3).normal(size=(40, 3)), columns=list("abc"))
    train = Rows(X, pd.DataFrame(target) if np.ndim(target) > 1 else pd.Series(target))
    # One of the members is trained on rows that lack a class.
    member_rows = tuple(np.flatnonzero(np.arange(40) % 4 != remainder) for remainder in (0, 2, 3))
    committee = Contender(
        "all_features_ensemble", (list("abc"), ["b"], ["a", "c"]), vote, member_rows
    )
    options = {"pos_label": None, "fitted": None, "cost_of": None}
    expected, _ = train_and_predict(model, committee, train, train, **options)
    answers = [
        train_and_predict(model, member, train, train, **options)[0]
        for member in committee.members()
    ]
    assert combine_members(model, committee, answers, train.target, None).equals(expected)


def test_random_subsets_have_the_sizes_of_the_chosen_and_obey_the_space() -> None:
    columns = [f"x{i}" for i in range(10)]
    space = SearchSpace.build(
        columns, groups={"pair": ["x4", "x5"]}, fixed=["x0"], forbidden=["x9"]
    )
    chosen = [["x0", "x1"], ["x0", "x4", "x5", "x7"]]
    contenders = make_contenders(space, chosen, "hard", [], n_random=30, seed=0)
    assert contenders[2].subsets == (columns[:9],)
    random_subsets = [contender for contender in contenders if contender.name == "random_subsets"]
    for contender in random_subsets:
        masks = [space.mask(subset) for subset in contender.subsets]
        assert [int(mask.sum()) for mask in masks] == [2, 3]
        assert space.obeys(np.array(masks)).all()
    assert len({tuple(map(tuple, contender.subsets)) for contender in random_subsets}) > 10


def test_optimism_is_test_cost_minus_cv_cost_of_the_best_subset(small: Any) -> None:
    train, test = small
    scoring = resolve_scoring("accuracy", None, train[1], "binary")
    judgement = judge(KNN, train, test, CHOSEN, scoring=scoring, cv_cost=0.05)
    model = KNeighborsClassifier(5).fit(train[0][CHOSEN[0]], train[1])
    assert judgement.costs["best_subset"] == 1 - model.score(test[0][CHOSEN[0]], test[1])
    assert judgement.optimism == pytest.approx(judgement.costs["best_subset"] - 0.05)
    assert judgement_record(judgement)["optimism"] == judgement.optimism
    accuracy = judgement.table.query("metric == 'accuracy'").set_index("contender")["value"]
    for name, cost in judgement.costs.items():
        assert cost == pytest.approx(1.0 - accuracy[name])
    assert judge(KNN, train, test, CHOSEN, n_random=1).optimism is None


def test_a_fitted_ensemble_is_judged_as_it_is(small: Any) -> None:
    train, test = small
    trees = SubsetEnsemble(DecisionTreeClassifier(random_state=0), CHOSEN).fit(*train)
    judgement = judge(KNN, train, test, CHOSEN, fitted=trees, n_random=1)
    assert (judgement.predictions["ensemble"] == trees.predict(test[0])).all()
    voting = SubsetEnsemble(KNN, CHOSEN, "any", pos_label="sick").fit(*train)
    judgement = judge(KNN, train, test, CHOSEN, fitted=voting, n_random=1)
    assert (judgement.vote, judgement.pos_label) == ("any", "sick")


def test_one_group_has_no_interval_and_stays_valid_json(small: Any) -> None:
    train, test = small
    groups = np.zeros(len(test[0]))
    judgement = judge(KNN, train, test, CHOSEN, n_random=1, test_groups=groups)
    assert judgement.table[["low", "high"]].isna().all(axis=None)
    assert "On 171 unseen rows of 1 group the ensemble of 3 subsets" in judgement.sentence()
    text = json.dumps(judgement_record(judgement), allow_nan=False)
    record = json.loads(text)
    assert "which has no interval" in record["verdict"]
    assert record["intervals"]["unit"] == "group"
    ungrouped = judge(KNN, train, test, CHOSEN, n_random=1)
    assert judgement_record(ungrouped)["intervals"]["unit"] == "row"


LABELS = pd.DataFrame({"a": [0, 2] * 60, "b": [0, 1] * 60})


@pytest.mark.parametrize(
    ("error", "changed", "message"),
    [
        (InputError, {"metrics": ["f1_makro"]}, "did you mean 'f1_macro'"),
        (InputError, {"metrics": []}, "metrics"),
        (InputError, {"subsets": []}, "subset"),
        (SpaceError, {"subsets": [["x99"]]}, "'x99'"),
        (InputError, {"pos_label": "ill"}, "'ill'"),
        (InputError, {"n_random": 0}, "n_random"),
        (DataError, {"test": lambda X, y: (X.drop(columns="x0"), y)}, "'x0'"),
        (DataError, {"test": lambda X, y: (X.iloc[:0], y.iloc[:0])}, "no test row"),
        (DataError, {"both": lambda X, y: (X.iloc[:120], LABELS)}, "0 or 1"),
        (DataError, {"test": lambda X, y: (X, y.where(y.index > 3))}, "test row has no target"),
        (DataError, {"test": lambda X, y: (X, y.iloc[1:])}, "test row has no target"),
    ],
)
def test_what_cannot_be_judged_is_refused_before_any_training(
    error: type[Exception], changed: dict[str, Any], message: str, small: Any
) -> None:
    class Untrained(KNeighborsClassifier):  # type: ignore[misc]
        def fit(self, X: Any, y: Any) -> Any:
            raise AssertionError("trained")

    train, test = small
    options = {"subsets": CHOSEN, **changed}
    if "both" in options:
        train = test = options.pop("both")(*test)
    test = options.pop("test", lambda *pair: pair)(*test)
    with pytest.raises(error, match=message):
        judge(Untrained(), train, test, **options)


def test_an_ensemble_loses_if_all_features_are_significantly_better() -> None:
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(300, 4)), columns=list("abcd"))
    y = pd.Series((X["a"] + X["b"] > 0).astype(int))
    train, test = Rows(X[:200], y[:200]), Rows(X[200:], y[200:])

    def judge_subsets(*subsets: list[str]) -> Judgement:
        return judge_rows(SubsetEnsemble(GaussianNB(), list(subsets)), train, test)

    assert judge_subsets(["c"], ["d"]).loses
    assert not judge_subsets(["a", "b"], ["a", "b", "c"]).loses


def test_the_example_of_the_docstring_runs() -> None:
    assert doctest.testmod(swarm.validation.judgement).failed == 0

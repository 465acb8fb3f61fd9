"""An evaluation on rows that no search saw: its parts, its rivals, and its verdict."""

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
    def of(estimator: Any, y: Any, pos_label: Any = None) -> EvaluationTarget:
        return EvaluationTarget.of(estimator, y, y, pos_label)

    binary = of(GaussianNB(), ["well", "sick"])
    assert (binary.task, binary.pos_label, binary.positive) == ("binary", "well", 1)
    assert of(GaussianNB(), ["well", "sick"], "sick").positive == 0
    several = of(GaussianNB(), ["a", "b", "c"])
    assert (several.task, several.pos_label, several.positive) == ("multiclass", None, 0)
    assert several.classes.tolist() == ["a", "b", "c"]
    labels = of(GaussianNB(), [[0, 1], [1, 1]])
    assert (labels.task, labels.pos_label, labels.positive) == ("multilabel", None, 0)
    numbers = of(LinearRegression(), [1, 2])
    assert (numbers.task, numbers.test.dtype, len(numbers.classes)) == ("regression", float, 0)
    with pytest.raises(DataError, match="'a'"):
        of(GaussianNB(), ["a", "a"])
    with pytest.raises(DataError, match="several targets"):
        of(LinearRegression(), [[1, 2], [3, 4]])
    with pytest.raises(InputError, match=r"pos_label 'c' .*'a', 'b'"):
        of(GaussianNB(), ["a", "b"], "c")


# ---------------------------------------------------------------- contenders


def test_a_scorer_of_the_user_is_called_once_for_answers_that_it_cannot_tell_apart() -> None:
    n_calls = 0

    def sure(truth: Any, shares: Any) -> float:
        nonlocal n_calls
        n_calls += 1
        return float(np.where(truth == 1, shares, 1 - shares).mean())

    y = np.arange(40) % 2
    truth = EvaluationTarget.of(GaussianNB(), y, y, None)
    scorer = make_scorer(sure, response_method="predict_proba")
    scoring = resolve_scoring(scorer, GaussianNB(), y, "binary")
    # The last has the same predictions, with other probabilities.
    shares = [np.linspace(0.5, high, 40) for high in (0.7, 0.7, 0.9)]
    answers = [Answers(y, np.column_stack([1 - p, p]), classes=np.array([0, 1])) for p in shares]
    jackknife = Jackknife(40, np.arange(40) // 4)
    found = measure_metrics(answers, truth, ["sure"], jackknife, scoring)["sure"]
    assert n_calls == 2 * 11
    assert found[0] is found[1]
    for one, own in zip(found, shares, strict=True):
        assert one.value == pytest.approx(np.where(y == 1, own, 1 - own).mean())


def left_out(n_members: int, rows: Rows, seed: int = 0) -> list[Any]:
    """Rows that each member of a committee is not trained on."""
    dealt = committee_rows(rows, n_members, seed)
    return [np.setdiff1d(np.arange(rows.n_rows), each) for each in dealt]


def test_a_committee_leaves_each_row_out_once_and_classes_and_labels_in_proportion() -> None:
    labels = np.array(["a"] * 23 + ["b"] * 9)
    rows = Rows(None, labels, task="binary")
    parts = left_out(4, rows)
    assert sorted(np.concatenate(parts).tolist()) == list(range(32))
    for part in parts:
        assert (labels[part] == "a").sum() in (5, 6)
        assert (labels[part] == "b").sum() in (2, 3)
    assert [len(part) for part in left_out(1, rows)] == [0]
    assert [len(part) for part in left_out(33, rows)] == [0] * 33
    assert {len(part) for part in left_out(32, rows)} == {1}
    several = np.array([[0, 0], [0, 1]] * 8)
    some = left_out(4, Rows(None, several, task="multilabel"))
    assert [several[part, 1].sum() for part in some] == [2] * 4
    numbers = Rows(None, np.arange(12.0), task="regression")
    one, other = (left_out(3, numbers, seed) for seed in (0, 1))
    assert any(not np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def test_a_committee_leaves_groups_out_whole_by_their_class_unless_there_are_too_few() -> None:
    groups = np.repeat(np.arange(9), [1, 9, 3, 3, 2, 5, 4, 1, 8])
    rows = Rows(None, groups % 2, groups, task="binary")
    for out in left_out(4, rows, seed=1):
        kept = np.setdiff1d(np.arange(36), out)
        assert not set(groups[out]) & set(groups[kept])
        assert set(groups[kept] % 2) == {0, 1}
    assert [len(out) for out in left_out(12, rows, seed=1)] == [3] * 12


def codes(n_features: int, low: float, high: float, cost: float = 0.0, optimism: Any = None) -> Any:
    """Findings of a subset that costs 0.1 less than all four features on the test rows."""
    names = ["ensemble", "best_subset", "all_features", "random_subsets"]
    table = pd.DataFrame({"contender": names, "metric": "f1", "value": 0.5, "n_models": 1})
    table = table.assign(n_features=[4, n_features, 4, 4], difference=low)
    judged: Any = SimpleNamespace(
        first_metric=table.assign(difference_low=low, difference_high=high)
        .set_index("contender")
        .to_dict("index"),
        metrics=["f1"],
        outcome=lambda name: outcome_in("f1", low, high),
        costs={"all_features": (100 * cost + 10) / 100, "best_subset": cost},
        optimism=optimism,
        guessing=None,
    )
    return [each.code for each in judgement_findings(judged)]


def test_random_subsets_and_optimism_are_doubts_unless_all_features_are_the_result() -> None:
    assert codes(3, -0.1, 0.1) == ["SWM204"]
    assert codes(3, 0.1, 0.1 + 1e-17) == []
    assert codes(4, -0.1, 0.1, optimism=0.2) == []
    # As large as the gain, whatever the last digits.
    for cost in range(1, 90):
        optimism = difference(cost / 100, (cost - 10) / 100)
        assert codes(3, 0.1, 0.1, cost / 100, optimism) == ["SWM203"]


# ---------------------------------------------------------------- judged from training to verdict

Pair = tuple[pd.DataFrame, Any]


def planted(n_rows: int, seed: int, n_noise: int = 60, effect: float = 1.2) -> Pair:
    """Classes that differ in x0..x3 only, among noise columns that mislead k-NN."""
    rng = np.random.default_rng(seed)
    y = rng.integers(2, size=n_rows)
    values = rng.normal(size=(n_rows, 4 + n_noise))
    values[:, :4] += effect * y[:, None]
    table = pd.DataFrame(values, columns=[f"x{i}" for i in range(values.shape[1])])
    return table, pd.Series(np.where(y == 1, "sick", "well"), name="state")


def judge(model: Any, train: Any, test: Any, subsets: Any, **options: Any) -> Judgement:
    """Judge subsets of a model, or a fitted ensemble, on pairs of features and target."""
    parts = {name: options.pop(name, None) for name in ("vote", "pos_label", "test_groups")}
    ensemble = options.pop("fitted", None) or SubsetEnsemble(
        model, subsets, parts["vote"] or "auto", parts["pos_label"]
    )
    return judge_rows(ensemble, Rows(*train), Rows(*test, parts["test_groups"]), **options)


CHOSEN = [["x0", "x1", "x2"], ["x1", "x2", "x3"], ["x0", "x2", "x3"]]
KNN = KNeighborsClassifier(5)


@pytest.mark.parametrize("metric", ["accuracy", "log_loss"])
def test_a_model_that_ignores_the_features_is_beaten_by_signal_and_not_by_noise(
    metric: str,
) -> None:
    guesses = {}
    for effect in (1.2, 0.0):
        train, test = planted(150, 0, effect=effect), planted(200, 1, effect=effect)
        options: Any = {"metrics": [metric], "n_random": 1}
        judged = judge(GaussianNB(), train, test, CHOSEN, **options)
        dummy = DummyClassifier(strategy="prior").fit(*train)
        scorer = get_scorer({"log_loss": "neg_log_loss"}.get(metric, metric))
        guess = judged.guessing
        assert guess is not None
        assert guess.value == pytest.approx(abs(scorer(dummy, *test)))
        guesses[effect] = (guess.outcome, [f.code for f in judgement_findings(judged)])
        assert judgement_record(judged)["guessing"]["value"] == guess.value
    assert guesses[1.2][0] == "beaten"
    assert "SWM209" not in guesses[1.2][1]
    assert guesses[0.0][0] != "beaten"
    assert "SWM209" in guesses[0.0][1]


@pytest.mark.parametrize(
    ("model", "metric", "expected"),
    [
        # Always the positive class; the median; the most frequent labels together.
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
    drawn = rng.integers(0, 2, 160)
    target: Any = pd.Series(drawn)
    if metric == "mean_absolute_error":
        target = pd.Series(np.where(rng.random(160) < 0.3, 100.0, 0.0))
    if metric == "subset_accuracy":
        # Each label by itself is more often absent.
        pairs = np.array([[1, 0], [0, 1], [0, 0]])
        target = pd.DataFrame(pairs[rng.choice(3, 160, p=[0.45, 0.3, 0.25])])
    train, test = (table[:80], target[:80]), (table[80:], target[80:])
    options: Any = {"metrics": [metric], "n_random": 1}
    judged = judge(model, train, test, [["x0", "x1"]], **options)
    guess = judged.guessing
    assert guess is not None
    assert guess.value == pytest.approx(expected(np.asarray(test[1])))
    assert guess.outcome != "beaten"
    # Without an interval nothing is claimed.
    few = judge(model, train, test, [["x0", "x1"]], test_groups=np.arange(80) % 4, **options)
    assert few.guessing is not None
    assert few.guessing.outcome == "unclear"


@pytest.fixture(scope="module")
def small() -> tuple[Pair, Pair]:
    return planted(120, 3, n_noise=8), planted(171, 4, n_noise=8)


def test_every_figure_can_be_computed_from_the_predictions(small: Any) -> None:
    train, test = small
    judged = judge(KNN, train, test, CHOSEN, n_random=4, pos_label="sick")
    assert judged.pos_label == "sick"
    answers = judged.predictions
    assert answers["y_true"].tolist() == test[1].tolist()
    expected = SubsetEnsemble(KNN, CHOSEN).fit(*train).predict(test[0])
    assert (answers["ensemble"] == expected).all()
    alone = KNeighborsClassifier(5).fit(train[0][CHOSEN[0]], train[1]).predict(test[0][CHOSEN[0]])
    assert (answers["best_subset"] == alone).all()
    for row in judged.table.to_dict("records"):
        columns = [c for c in answers if c.startswith(row["contender"])]
        columns = columns if row["contender"] == "random_subsets" else [row["contender"]]
        scores = [
            by_scikit_learn(row["metric"], answers["y_true"], answers[c], "sick") for c in columns
        ]
        assert row["value"] == pytest.approx(np.mean(scores), abs=1e-12)
        assert row["low"] <= row["value"] <= row["high"]
    assert [c for c in answers if "random" in c] == [f"random_subsets_{i}" for i in (1, 2, 3, 4)]
    sizes = judged.table.set_index("contender")[["n_features", "n_models"]].drop_duplicates()
    assert sizes.index.tolist() == list(CONTENDERS)
    assert sizes.drop("random_subsets").to_numpy().tolist() == [[4, 3], [3, 1], [12, 1], [12, 3]]
    assert 3 <= sizes.loc["random_subsets", "n_features"] <= 9


def test_differences_are_ensemble_minus_contender_and_paired(small: Any) -> None:
    train, test = small
    judged = judge(KNN, train, test, [CHOSEN[0]], n_random=1)
    value = judged.table.set_index(["contender", "metric"])["value"]
    for row in judged.table.query("contender != 'ensemble'").to_dict("records"):
        expected = value["ensemble", row["metric"]] - value[row["contender"], row["metric"]]
        assert row["difference"] == pytest.approx(expected, abs=1e-12)
        assert row["difference_low"] <= row["difference"] <= row["difference_high"]
    # An ensemble of one is the best subset: paired, their difference has no width at all.
    same = judged.table.query("contender == 'best_subset'")
    assert (same[["difference", "difference_low", "difference_high"]] == 0.0).all(axis=None)
    assert judged.outcome("best_subset") == "no clear difference"


@pytest.mark.parametrize("metric", ["accuracy", "log_loss"])
def test_an_ensemble_beats_another_by_more_than_the_standard_error(small: Any, metric: str) -> None:
    judged = judge(KNN, *small, CHOSEN, n_random=1, metrics=[metric])
    sign = -1.0 if metric == "log_loss" else 1.0
    for gain, error, beats in (
        *((0.02, 0.01, True), (0.01, 0.01, False), (-0.02, 0.01, False)),
        (0.02, float("nan"), False),
    ):
        table = judged.table.assign(difference=sign * gain, difference_error=error)
        assert replace(judged, table=table).ensemble_beats("best_subset") == beats
    errors = judged.table.set_index("contender")["difference_error"]
    assert (errors.drop("ensemble") > 0.0).all()


def test_the_same_seed_judges_the_same_for_any_number_of_workers(
    small: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    forest = RandomForestClassifier(5)
    one = judge(forest, *small, CHOSEN, n_random=2, seed=7)
    # Workers do not wait for what takes long.
    monkeypatch.setattr("swarm.validation.serial_first.SERIAL_SECONDS", 0.0)
    two = judge(forest, *small, CHOSEN, n_random=2, seed=7, n_jobs=2)
    assert json.dumps(judgement_record(one)) == json.dumps(judgement_record(two))
    pd.testing.assert_frame_equal(one.predictions, two.predictions)
    other = judge(forest, *small, CHOSEN, n_random=2, seed=8)
    assert not other.predictions.equals(one.predictions)


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
        Rows(X[part], y[part], weight=weight[part]) for part in (slice(350), slice(350, 500))
    )
    ensemble = SubsetEnsemble(model(n_estimators=5, verbosity=-1, n_jobs=1), CHOSEN)
    options: Any = {"space": SearchSpace.build(list(X.columns), forbidden=["x7"]), "n_random": 2}
    dense = judge_rows(ensemble, train, test, **options)
    monkeypatch.setattr(boosted, "_is_small", lambda features: False)
    assert SparseRows.of(ensemble.estimator, train, test) is not None
    sparse = judge_rows(ensemble, train, test, **options)
    assert json.dumps(judgement_record(sparse)) == json.dumps(judgement_record(dense))
    pd.testing.assert_frame_equal(sparse.predictions, dense.predictions)
    # Whatever may read columns by name or position gets the table.
    assert SparseRows.of(GaussianNB(), train, test) is None
    assert SparseRows.of(model(colsample_bytree=0.5), train, test) is None
    text = Rows(test.features.astype({"x2": object}), test.target)
    assert SparseRows.of(ensemble.estimator, train, text) is None


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
    # One of the parts lacks a class.
    parts = tuple(np.flatnonzero(np.arange(40) % 4 != part) for part in (0, 2, 3))
    several = Contender("all_features_ensemble", (list("abc"), ["b"], ["a", "c"]), vote, parts)
    options = {"pos_label": None, "fitted": None, "cost_of": None}
    whole, _ = train_and_predict(model, several, train, train, **options)
    alone = [train_and_predict(model, one, train, train, **options)[0] for one in several.members()]
    assert combine_members(model, several, alone, train.target, None).equals(whole)


def test_random_subsets_have_the_sizes_of_the_chosen_and_obey_the_space() -> None:
    columns = [f"x{i}" for i in range(10)]
    space = SearchSpace.build(
        columns, groups={"pair": ["x4", "x5"]}, fixed=["x0"], forbidden=["x9"]
    )
    chosen = [["x0", "x1"], ["x0", "x4", "x5", "x7"]]
    everyone = make_contenders(space, chosen, "hard", [], n_random=30, seed=0)
    assert everyone[2].subsets == (columns[:9],)
    drawn = [c for c in everyone if c.name == "random_subsets"]
    for contender in drawn:
        masks = [space.mask(subset) for subset in contender.subsets]
        assert [int(mask.sum()) for mask in masks] == [2, 3]
        assert space.obeys(np.array(masks)).all()
    assert len({tuple(map(tuple, c.subsets)) for c in drawn}) > 10


def test_optimism_is_test_cost_minus_cv_cost_of_the_best_subset(small: Any) -> None:
    train, test = small

    scoring = resolve_scoring("accuracy", None, train[1], "binary")
    judged = judge(KNN, train, test, CHOSEN, scoring=scoring, cv_cost=0.05)
    alone = KNeighborsClassifier(5).fit(train[0][CHOSEN[0]], train[1])
    assert judged.costs["best_subset"] == 1 - alone.score(test[0][CHOSEN[0]], test[1])
    assert judged.optimism == pytest.approx(judged.costs["best_subset"] - 0.05)
    assert judgement_record(judged)["optimism"] == judged.optimism
    accuracy = judged.table.query("metric == 'accuracy'").set_index("contender")["value"]
    for name, cost in judged.costs.items():
        assert cost == pytest.approx(1.0 - accuracy[name])
    assert judge(KNN, train, test, CHOSEN, n_random=1).optimism is None


def test_a_fitted_ensemble_is_judged_as_it_is(small: Any) -> None:
    train, test = small
    other = SubsetEnsemble(DecisionTreeClassifier(random_state=0), CHOSEN).fit(*train)
    judged = judge(KNN, train, test, CHOSEN, fitted=other, n_random=1)
    assert (judged.predictions["ensemble"] == other.predict(test[0])).all()
    voting = SubsetEnsemble(KNN, CHOSEN, "any", pos_label="sick").fit(*train)
    judged = judge(KNN, train, test, CHOSEN, fitted=voting, n_random=1)
    assert (judged.vote, judged.pos_label) == ("any", "sick")


def test_one_group_has_no_interval_and_stays_valid_json(small: Any) -> None:
    train, test = small
    groups = np.zeros(len(test[0]))
    judged = judge(KNN, train, test, CHOSEN, n_random=1, test_groups=groups)
    assert judged.table[["low", "high"]].isna().all(axis=None)
    assert "On 171 unseen rows of 1 group the ensemble of 3 subsets" in judged.sentence()
    text = json.dumps(judgement_record(judged), allow_nan=False)
    told = json.loads(text)
    assert "which has no interval" in told["verdict"]
    assert told["intervals"]["unit"] == "group"
    rows = judge(KNN, train, test, CHOSEN, n_random=1)
    assert judgement_record(rows)["intervals"]["unit"] == "row"


LABELS = pd.DataFrame({"a": [0, 2] * 60, "b": [0, 1] * 60})


@pytest.mark.parametrize(
    ("error", "changed", "named"),
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
    error: type[Exception], changed: dict[str, Any], named: str, small: Any
) -> None:
    class Untrained(KNeighborsClassifier):  # type: ignore[misc]
        def fit(self, X: Any, y: Any) -> Any:
            raise AssertionError("trained")

    (train, test), options = small, {"subsets": CHOSEN, **changed}
    if "both" in options:
        train = test = options.pop("both")(*test)
    test = options.pop("test", lambda *pair: pair)(*test)
    with pytest.raises(error, match=named):
        judge(Untrained(), train, test, **options)


def test_an_ensemble_loses_if_all_features_are_significantly_better() -> None:
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(300, 4)), columns=list("abcd"))
    y = pd.Series((X["a"] + X["b"] > 0).astype(int))
    train, test = Rows(X[:200], y[:200]), Rows(X[200:], y[200:])

    def judged(*subsets: list[str]) -> Judgement:
        return judge_rows(SubsetEnsemble(GaussianNB(), list(subsets)), train, test)

    assert judged(["c"], ["d"]).loses
    assert not judged(["a", "b"], ["a", "b", "c"]).loses


def test_the_example_of_the_docstring_runs() -> None:
    assert doctest.testmod(swarm.validation.judgement).failed == 0

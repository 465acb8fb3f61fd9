"""The parts of an evaluation on test rows: targets, metrics, tables and the verdict."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn import metrics as sk
from sklearn.linear_model import LinearRegression
from sklearn.naive_bayes import GaussianNB

from swarm.errors import DataError, InputError
from swarm.findings.outcome import judgement_findings
from swarm.validation.answers import Answers, EvaluationTarget
from swarm.validation.contenders import (
    CONTENDERS,
    Contender,
    MeasuredContenders,
    committee_rows,
    mean_by_contender,
    prediction_table,
)
from swarm.validation.judgement import Judgement
from swarm.validation.metrics import (
    METRICS,
    check_metrics,
    default_metrics,
    metric_names,
    row_statistics,
)
from swarm.validation.scorer_metrics import Bootstrap, measure_metrics

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
    # A class that only the test rows have is a class.
    assert EvaluationTarget.of(GaussianNB(), [0, 1], [1, 2], None).classes.tolist() == [0, 1, 2]
    with pytest.raises(DataError, match="only the class 'a'; at least two are needed"):
        of(GaussianNB(), ["a", "a"])
    with pytest.raises(DataError, match="several targets is not supported"):
        of(LinearRegression(), [[1, 2], [3, 4]])
    with pytest.raises(InputError, match=r"pos_label 'c' is not .*; choose from 'a', 'b'"):
        of(GaussianNB(), ["a", "b"], "c")


# ---------------------------------------------------------------- metrics


def test_metrics_are_checked_and_each_is_listed_once() -> None:
    assert check_metrics(["recall", "f1", "recall"], "binary") == ["recall", "f1"]
    assert all(set(default_metrics(task)) <= set(known) for task, known in METRICS.items())
    names = metric_names()
    assert names == sorted(set(names))
    assert {"f1", "f1_macro", "hamming_loss", "r2"} <= set(names)


def test_the_positive_class_is_the_one_at_its_position() -> None:
    y, p = np.array([0, 1, 1, 1, 0, 1]), np.array([0, 1, 0, 0, 1, 1])
    sums = row_statistics("binary", y, p, np.array([0, 1])).sum(axis=0)
    for positive in (0, 1):
        for name in ("recall", "precision", "f1"):
            expected = getattr(sk, f"{name}_score")(y, p, pos_label=positive)
            assert METRICS["binary"][name](sums, positive) == pytest.approx(expected)


def test_r2_of_a_constant_target_is_1_if_predicted_exactly_and_0_otherwise() -> None:
    y = np.full(5, 1e6) / 3
    for p, expected in ((y, 1.0), (y + 1.0, 0.0)):
        sums = row_statistics("regression", y, p, np.empty(0)).sum(axis=0)
        assert METRICS["regression"]["r2"](sums, 0) == expected == sk.r2_score(y, p)
    # A spread that is small, beside the distance from the mean of all rows, is a spread.
    y = np.array([1.0, 1.001, -2.001])
    sums = row_statistics("regression", y, y + 1e-4, np.empty(0))[:2].sum(axis=0)
    expected = sk.r2_score(y[:2], y[:2] + 1e-4)
    assert METRICS["regression"]["r2"](sums, 0) == pytest.approx(expected)


# ---------------------------------------------------------------- resamples


def test_an_interval_cuts_the_same_share_off_both_ends() -> None:
    assert Bootstrap(7, level=0.9).interval(np.arange(101.0)) == pytest.approx((5.0, 95.0))
    assert Bootstrap(7, level=0.5).interval(np.arange(101.0)) == pytest.approx((25.0, 75.0))


def test_a_single_row_or_group_has_no_interval() -> None:
    for alone in (Bootstrap(1), Bootstrap(7, list("aaaaaaa"))):
        assert not alone.varies
        assert np.isnan(alone.interval(np.arange(101.0))).all()


def test_a_resample_draws_as_many_rows_as_there_are_and_another_seed_draws_others() -> None:
    ones = [np.column_stack([np.ones(20), np.arange(20.0)])]
    (sums,) = Bootstrap(20, None, 500, seed=0).sums(ones)
    assert sums.shape == (500, 2)
    assert (sums[:, 0] == 20).all()
    assert sums[:, 1].mean() == pytest.approx(190, rel=0.02)
    assert sums[:, 1].std() == pytest.approx(np.sqrt(20) * np.arange(20).std(), rel=0.1)
    assert not np.array_equal(sums, Bootstrap(20, None, 500, seed=1).sums(ones)[0])
    assert Bootstrap(7).n_groups is None
    assert Bootstrap(7, list("aabbccc")).n_groups == 3


@pytest.mark.parametrize("metric", ["accuracy", "hamming_loss"])
def test_a_difference_favours_whom_its_interval_says(metric: str) -> None:
    """The ensemble is right everywhere; the others are wrong in none, few or all of the rows."""
    y = np.random.default_rng(0).integers(0, 2, (40, 2))
    y = y if metric == "hamming_loss" else y[:, 0]
    truth = EvaluationTarget.of(GaussianNB(), y, y, None)
    names = [*CONTENDERS, "random_subsets"]
    contenders = [Contender(name, (["a"], ["a", "b"]), "hard") for name in names]
    contenders[-1] = Contender("random_subsets", (["a", "b", "c"], ["d", "e"]), "hard")
    few = y.copy()
    few[0] = 1 - few[0]
    wrong = [y, y, 1 - y, few, y, y]

    def told(predicted: Any, n_resamples: int = 200, groups: Any = None) -> Any:
        answers = [Answers(one) for one in predicted]
        bootstrap = Bootstrap(40, groups, n_resamples)
        measured = measure_metrics(answers, truth, [metric], bootstrap)
        return MeasuredContenders(contenders, measured, bootstrap).tables()

    table, gaps = told(wrong)
    assert gaps["favours"].tolist() == ["neither", "ensemble", "neither", "neither"]
    assert gaps["contender"].tolist() == list(CONTENDERS)[1:]
    sign = -1 if metric == "hamming_loss" else 1
    assert (sign * gaps["difference"]).tolist() == pytest.approx([0, 1, 1 / 40, 0])
    # The mean of two and five features, rounded; the draws have two members each.
    assert table.set_index("contender").loc["random_subsets", "n_features"] == round(3.5)
    assert (table["n_models"] == 2).all()
    swapped = [1 - y, y, y, y, y, y]
    _, gaps = told(swapped)
    assert gaps["favours"].tolist() == list(CONTENDERS)[1:]
    pairs = np.arange(40) < 20
    known, _ = told(swapped, 20, pairs)
    assert known["low"].notna().all()


def test_draws_are_averaged_and_numbered() -> None:
    names = [*CONTENDERS, "random_subsets"]
    contenders = [Contender(name, (["a"],), "hard") for name in names]
    assert mean_by_contender(contenders, [1, 2, 3, 4, 5, 8])["random_subsets"] == 6.5
    y = np.array([0, 1])
    truth = EvaluationTarget.of(GaussianNB(), y, y, None)
    table = prediction_table(contenders, [y] * 6, truth, pd.Index([7, 9]), None)
    assert table.columns.tolist() == [
        "y_true",
        *list(CONTENDERS)[:4],
        "random_subsets_1",
        "random_subsets_2",
    ]
    assert table.index.tolist() == [7, 9]
    both = np.array([[0, 1], [1, 1]])
    labels = EvaluationTarget.of(GaussianNB(), both, both, None)
    table = prediction_table(contenders[:1], [both], labels, pd.Index([0, 1]), None)
    assert table.columns.tolist() == ["y_true.0", "y_true.1", "ensemble.0", "ensemble.1"]
    assert table["ensemble.0"].tolist() == [0, 1]


def test_the_committee_deals_labels_together_and_ignores_groups_fewer_than_members() -> None:
    labels = np.array([[0, 0], [0, 1]] * 8)
    for rows in committee_rows(4, labels, 16, None, seed=0):
        out = np.setdiff1d(np.arange(16), rows)
        assert labels[out, 1].tolist().count(1) == 2
    assert [len(rows) for rows in committee_rows(3, None, 12, None, seed=0)] == [8, 8, 8]
    one, other = (committee_rows(3, None, 12, None, seed=s) for s in (0, 1))
    assert any(not np.array_equal(a, b) for a, b in zip(one, other, strict=True))
    # Groups are dealt by the class of their rows: two of eight and one of four to each part.
    twelve, kinds = np.repeat(np.arange(12), 3), np.repeat([0, 0, 1], 3)
    for rows in committee_rows(4, np.tile(kinds, 4), 36, twelve, seed=0):
        out = np.setdiff1d(np.arange(36), rows)
        assert np.tile(kinds, 4)[out].sum() == 3
    # As many groups as members are enough: each member leaves one group out.
    groups = np.repeat([0, 1, 2], 4)
    left_out = [
        set(groups) - set(groups[rows]) for rows in committee_rows(3, None, 12, groups, seed=0)
    ]
    assert sorted(map(tuple, left_out)) == [(0,), (1,), (2,)]


# ---------------------------------------------------------------- verdict


def judgement(value: float, other: float, gap: tuple[float, float, float], **known: Any) -> Any:
    difference, low, high = gap
    # Without an interval of the difference there is none of the values either.
    reach = np.nan if np.isnan(low) else 0.1
    contenders = (("ensemble", value), ("all_features_ensemble", other))
    rows = [(name, "f1", v, v - reach, v + reach, 4, 3) for name, v in contenders]
    table = pd.DataFrame(
        rows, columns=["contender", "metric", "value", "low", "high", "n_features", "n_models"]
    )
    table.loc[0, "n_models"] = known.pop("n_models", 3)
    gaps = pd.DataFrame(
        [("all_features_ensemble", "f1", difference, low, high, known.pop("favours", "neither"))],
        columns=["contender", "metric", "difference", "low", "high", "favours"],
    )
    given = {
        "table": table,
        "differences": gaps,
        "predictions": pd.DataFrame(),
        "costs": {"best_subset": 0.25},
        "cv_cost": 0.2,
        "optimism": 0.05,
        "task": "binary",
        "vote": "hard",
        "pos_label": np.str_("sick"),
        "n_rows": 1234,
        "n_groups": None,
        "n_resamples": 100,
        "level": 0.95,
        "seed": 0,
    }
    return Judgement(**{**given, **known})


def test_the_verdict_tells_numbers_intervals_and_whom_they_favour() -> None:
    told = judgement(0.75, 0.5, (0.25, 0.1, 0.4), favours="ensemble").verdict()
    assert told == (
        "On 1,234 unseen rows the ensemble of 3 subsets (4 columns together) scores F1 0.750 "
        "[0.650, 0.850] against 0.500 for all features with the same vote: a difference of 0.250 "
        "[0.100, 0.400], which favours the ensemble."
    )
    one = judgement(0.5, 0.5, (0.0, np.nan, np.nan), n_models=1, n_groups=1, n_rows=9).verdict()
    assert one == (
        "On 9 unseen rows of 1 group the ensemble of 1 subset (4 columns together) scores F1 0.500 "
        "against 0.500 for all features with the same vote: a difference of 0.000, which has no "
        "interval, as all rows belong to one group."
    )
    undefined = judgement(np.nan, np.nan, (np.nan,) * 3)
    assert undefined.verdict().endswith("no interval, as the metric is undefined on these rows.")
    drawn = undefined.differences.assign(contender="random_subsets")
    assert not judgement_findings(replace(undefined, differences=drawn))
    large = judgement(-1234.5, -99.5, (-1135.0, -2000.0, 100.0), n_groups=5000).verdict()
    assert "of 5,000 groups" in large
    assert "F1 -1,234 [-1,235, -1,234] against -99.500 for" in large
    assert "-1,135 [-2,000, 100], which is not distinguishable from none." in large


def test_random_subsets_are_no_doubt_about_all_features() -> None:
    told = judgement(0.7, 0.7, (0.0, -0.1, 0.1))
    drawn = told.differences.assign(contender="random_subsets")
    for size, codes in ((4, []), (3, ["SWM204"])):
        others = [
            told.table.iloc[:1].assign(contender=name, n_features=n)
            for name, n in (("best_subset", size), ("all_features", 4))
        ]
        found = judgement_findings(
            replace(told, differences=drawn, table=pd.concat([told.table, *others]))
        )
        assert [each.code for each in found] == codes
    noise = drawn.assign(low=0.1, high=0.1 + 1e-17)
    assert not judgement_findings(replace(told, differences=noise))


def test_a_judgement_is_written_as_json_types() -> None:
    told = judgement(0.75, 0.5, (0.25, np.nan, np.nan), n_groups=7).as_dict()
    assert told["contenders"]["ensemble"] == {
        "n_features": 4,
        "n_models": 3,
        "cost": None,
        "metrics": {"f1": {"value": 0.75, "low": None, "high": None}},
    }
    assert told["differences_from_ensemble"]["all_features_ensemble"]["f1"] == {
        "difference": 0.25,
        "low": None,
        "high": None,
        "favours": "neither",
    }
    assert (told["test_cost"], told["cv_cost"], told["optimism"]) == (0.25, 0.2, 0.05)
    assert (told["bootstrap"]["unit"], type(told["pos_label"])) == ("group", str)
    rows = judgement(0.75, 0.5, (0.25, 0.1, 0.4), costs={}, cv_cost=np.inf).as_dict()
    assert (rows["bootstrap"]["unit"], rows["test_cost"], rows["cv_cost"]) == ("row", None, None)

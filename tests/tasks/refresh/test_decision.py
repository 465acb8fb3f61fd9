"""Tests of the decision of a refresh: trained rows, the comparison, and its records."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import f1_score
from sklearn.naive_bayes import GaussianNB

from swarm.answers import Answers
from swarm.problem.problem import Problem
from swarm.rows import Rows
from tasks.refresh.decision import (
    compared_predictions,
    decision_files,
    find_trained_rows,
    labels_of,
    measure,
    record_of_rows,
    show_decision,
)
from tasks.table import Table

_TRAINED = np.arange(150) % 3 > 0


def table(**changes: Any) -> Table:
    rng = np.random.default_rng(0)
    features = pd.DataFrame(
        {
            "count": rng.integers(0, 9, 150),
            "size": rng.normal(size=150),
            "kind": rng.choice(["u", "v"], 150),
            "open": rng.random(150) < 0.5,
        }
    )
    target = pd.Series(rng.integers(0, 2, 150), name="y")
    return Table("made", "made", **({"features": features, "target": target} | changes))


def are_trained(train: Table, later: Table) -> list[bool]:
    trained = find_trained_rows(record_of_rows(train), later)
    assert trained is not None
    return trained.tolist()


@pytest.mark.parametrize(
    "change",
    [
        lambda X: X,
        lambda X: X.assign(later=1.0)[["later", "open", "kind", "size", "count"]],
        lambda X: X.astype({"count": float, "kind": "category", "open": int}),
        lambda X: X.astype({"kind": object, "count": "Int64"}),
    ],
    ids=["unchanged", "a new column and another order", "other types", "types of pandas"],
)
def test_trained_rows_are_found_in_a_later_table(change: Any) -> None:
    first = table()
    order = np.random.default_rng(1).permutation(150)
    later = table(features=change(first.features)).take(order)
    assert are_trained(first.take(_TRAINED), later) == _TRAINED[order].tolist()


def test_other_rows_are_not_taken_for_trained_ones() -> None:
    """The rows have another target, or columns where rows are equal by chance."""
    first = table()
    counted = table(features=first.features[["count", "kind", "open"]])
    assert not any(are_trained(first, table(target=1 - first.target)))
    assert find_trained_rows(record_of_rows(counted.take(_TRAINED)), counted) is None
    # Rows cannot be recognised without a column that they had in training.
    lacking = table(features=first.features.drop(columns="kind"))
    assert find_trained_rows(record_of_rows(first), lacking) is None


def test_rows_of_a_group_of_trained_rows_count_as_trained() -> None:
    later = table(groups=pd.Series(np.arange(150) // 2, name="who"))
    even = np.arange(0, 150, 2)[:74]
    assert np.flatnonzero(are_trained(later.take(even), later)).tolist() == list(range(148))


def test_the_comparison_is_that_of_the_scorer_with_its_weights_and_positive_class() -> None:
    rng = np.random.default_rng(0)
    words = pd.Series(np.where(rng.random(150) < 0.4, "no", "yes"), name="y")
    weight = pd.Series(rng.random(150) + 0.1)
    whole = table(target=words, weight=weight, groups=pd.Series(np.arange(150) // 5))
    train = whole.take(_TRAINED)
    test = whole.take(~_TRAINED)
    X = train.features[["count", "size"]]
    predictions = [np.where(rng.random(50) < share, test.target, "no") for share in (0.5, 0.9)]
    for weighted in (False, True):
        problem = Problem.build(
            X,
            train.target,
            GaussianNB(),
            scoring="f1",
            pos_label="yes",
            folds=3,
            weight=train.weight,
            weights_in_score=weighted,
        )
        answers = map(Answers, predictions)
        measured = measure(problem, train, test, *answers, metric="f1", margin=0.02, split="group")
        weights = test.weight if weighted else None
        scores = [
            f1_score(test.target, predicted, pos_label="yes", sample_weight=weights)
            for predicted in predictions
        ]
        assert [measured.champion, measured.challenger] == pytest.approx(scores)
        assert (measured.n_rows, measured.n_groups, measured.margin) == (50, 10 * 3, 0.02)


@pytest.mark.parametrize("kind", ["regression", "multilabel", "multiclass"])
def test_the_predictions_of_a_comparison_have_all_that_it_was_made_of(kind: str) -> None:
    rng = np.random.default_rng(0)
    n = 40
    shares = [np.column_stack([1 - p, p]) for p in rng.random((2, n))]
    target: Any = pd.Series(np.arange(n) % 3, name="y")
    proba = rng.dirichlet([1, 1, 1], n)
    answers = Answers(np.arange(n) % 3, proba, rng.random((n, 3)), np.arange(3))
    expected = {"champion": answers.predicted}
    if kind == "regression":
        target = pd.Series(rng.normal(size=n))
        answers = Answers(rng.normal(size=n))
        expected = {"champion": answers.predicted}
    elif kind == "multilabel":
        target = pd.DataFrame(rng.integers(0, 2, (n, 2)), columns=["a", "b"])
        predicted = np.column_stack([share[:, 1] > 0.5 for share in shares])
        answers = Answers(predicted, shares, None, [[0, 1]] * 2)
        expected = {f"champion.{label}": answers.predicted[:, i] for i, label in enumerate("ab")}
        expected |= {f"champion.proba.{label}": shares[i][:, 1] for i, label in enumerate("ab")}
    else:
        for name, values in (("proba", answers.proba), ("decision", answers.decision)):
            expected |= {f"champion.{name}.{i}": values[:, i] for i in range(3)}
    index = pd.DataFrame(index=range(n))
    predictions = pd.DataFrame({"row": np.arange(n)})
    bare = compared_predictions(predictions, Rows(index, target), {"champion": answers})
    assert bare.columns.tolist() == ["row", *expected]
    given = {"group": np.arange(n) // 4, "time": np.arange(n), "weight": rng.random(n)}
    test = Rows(index, target, given["group"], given["weight"], time=given["time"])
    whole = compared_predictions(predictions, test, {"champion": answers})
    expected = {**given, **expected}
    pd.testing.assert_frame_equal(whole, predictions.assign(**expected))


def test_labels_are_those_of_all_targets_whatever_their_type() -> None:
    whole = pd.Series([1, 0, 1])
    for target in (whole, whole.astype(float), whole.astype(bool), whole.astype(object)):
        labels = labels_of(target, whole[:2])
        assert set(labels) == {0, 1}
        assert json.loads(json.dumps(labels)) == labels
    days = pd.Series(pd.to_datetime(["2026-01-05", "2026-01-12"])).astype(object)
    assert labels_of(pd.Series(["b", "a"], dtype="category"), days)[2:] == ["a", "b"]


def test_the_decision_is_a_file_and_a_table_of_the_same_record(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shown: list[Any] = []
    monkeypatch.setattr("tasks.refresh.decision.show_table", lambda *args: shown.append(args))
    record: dict[str, Any] = {
        "decision": "promoted",
        "why": "it is better",
        "name": "Churn EU",
        "run": "a1b2",
        "winner": {"version": "2"},
        "loser": {"version": "1"},
        "duel": {"gain": 0.25, "chance": 0.99},
        "data": "file:rows.parquet",
    }
    show_decision(record)
    show_decision(record | {"loser": None, "duel": None})
    (key, (row,), text), (_, (first,), _) = shown
    assert (key, text) == ("decision-churn-eu", "it is better")
    assert row == {
        **{"decision": "promoted", "why": "it is better"},
        **{"winner": "version 2", "loser": "version 1"},
        **{"gain": 0.25, "chance": 0.99, "data": "file:rows.parquet", "run": "a1b2"},
    }
    assert (first["loser"], first["gain"], first["chance"]) == ("none", None, None)
    drift = pd.DataFrame({"feature": ["x"], "psi": [0.5]})
    files = decision_files(record, drift)
    assert json.loads(files["decision.json"]) == record
    assert files["drift.csv"].decode().splitlines() == ["feature,psi", "x,0.5"]

"""Tests of the decisions of a refresh by labels, sizes and outcomes, without a search."""

from __future__ import annotations

import re
from typing import Any, cast
from unittest.mock import Mock

import numpy as np
import pandas as pd
import pytest
from sklearn.naive_bayes import GaussianNB

from conf.load import from_yaml
from conf.schema import RefreshConfig
from conf.yaml_text import render
from flows.run.challenge import Challenge
from swarm.answers import Answers
from swarm.ensemble import SubsetEnsemble
from swarm.errors import DataError
from swarm.problem.problem import Problem
from tasks.refresh.champion import Champion
from tasks.table import Table


def table(labels: list[Any], n_rows: int, rare: int | None, groups: int | None) -> Table:
    """Return rows whose class follows from `a`; `b` predicts the opposite, and `c` nothing."""
    code = np.arange(n_rows) % len(labels)
    if rare is not None:
        code = np.where(np.arange(n_rows) < rare, len(labels) - 1, np.arange(n_rows) % 2)
    features = pd.DataFrame({"a": code - 0.5, "b": 0.5 - code, "c": np.full(n_rows, 0.5)})
    # In every fifth row `a` and `b` are wrong.
    features.iloc[::5] *= -1.0
    target = pd.Series(np.asarray(labels, dtype=object)[code], name="y").infer_objects()
    group = None if groups is None else pd.Series(np.arange(n_rows) % groups)
    return Table("made", "made", features, target, groups=group)


def decide(
    labels: list[Any],
    n_rows: int,
    champion: str = "c",
    challenger: str = "a",
    rare: int | None = None,
    groups: int | None = None,
    **champion_keys: Any,
) -> tuple[str, str]:
    """Return the decision on a champion of 400 rows with the labels 0 and 1, and why.

    Champion and challenger predict by the column that they name; `rare` test rows have the last
    label.
    """
    mapping = {
        "name": "churn",
        "data": {"source": "file", "path": "rows.csv", "target": "y"},
        "champion": champion_keys,
        "scoring": "accuracy",
    }
    config = from_yaml(render(mapping), env={})
    assert isinstance(config, RefreshConfig)
    train = table(labels, n_rows, None, groups)
    test = table(labels, n_rows, rare, groups)
    problem = Problem.build(train.features, train.target, GaussianNB(), scoring="accuracy")

    def predict(_: Champion, features: pd.DataFrame, classes: Any = None) -> Answers:
        labels = np.array([0, 1])
        return Answers(labels[(features[champion] > 0.0).astype(int)], classes=classes)

    champions: Any = Mock(trained_rows=Mock(return_value=None), predict=predict)
    current = Champion("churn", "1", "a1b2")
    challenge = Challenge(config, champions, current, 0)
    try:
        answer = {"labels": [0, 1], "n_rows": 400}
        challenge.check_rows(answer, cast(Any, Mock(train=train, test=test, problem=problem)))
    except DataError as error:
        return "stop", str(error)
    model = SubsetEnsemble(GaussianNB(), [[challenger]]).fit(train.features, train.target)
    run: Any = Mock(train=train, test=test)
    run.search.problem = problem
    outcome: Any = Mock(model=model, model_uri="models:/churn/2")
    outcome.result.interrupted = False
    outcome.judgement.predictions = pd.DataFrame({"y_true": test.target})
    decision, why, _ = challenge._compare(run, outcome)
    return decision, why


@pytest.fixture(autouse=True)
def unstored(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the configuration of the champion's run unknown."""
    monkeypatch.setattr("flows.run.challenge.stored_configuration", lambda *_: {})


SAME = [0, 1]
MORE = [0, 1, 2]
OTHER = [1, 2]


@pytest.mark.parametrize(
    ("labels", "n_rows", "options", "decision", "why"),
    [
        # Outcomes.
        (SAME, 400, {}, "promoted", "gain \\+0.3"),
        (SAME, 400, {"champion": "a"}, "kept", "gain \\+0.0000"),
        (SAME, 400, {"champion": "a", "challenger": "c"}, "kept", "gain -0.3"),
        (SAME, 400, {"champion": "b"}, "stop", "worse than guessing.*another meaning"),
        (SAME, 400, {"champion": "b", "on_missing": "replace"}, "replaced", "worse than guessing"),
        # Labels.
        (OTHER, 400, {}, "stop", "'y' are 1, 2, .* on 0, 1;.*champion.on_missing"),
        (OTHER, 400, {"allow": ["new_labels"]}, "stop", "'y' are 1, 2"),
        (OTHER, 400, {"on_missing": "replace"}, "replaced", "'y' are 1, 2"),
        (["0", "1"], 400, {}, "stop", "'y' are '0', '1', .* on 0, 1"),
        ([False, True], 400, {}, "promoted", "gain \\+0.3"),
        (MORE, 400, {}, "stop", "'y' are 0, 1, 2.*add new_labels to champion.allow"),
        (MORE, 400, {"on_missing": "replace"}, "stop", "new_labels"),
        (MORE, 400, {"allow": ["new_labels"]}, "promoted", "gain \\+"),
        # Sizes.
        (SAME, 99, {}, "stop", "198 rows.*400.*add fewer_rows to champion.allow"),
        (SAME, 99, {"on_missing": "replace"}, "stop", "fewer_rows"),
        (SAME, 99, {"allow": ["fewer_rows"]}, "kept", "at least 100 test rows, got 99"),
        (SAME, 100, {"allow": ["fewer_rows"]}, "promoted", "gain \\+0.3"),
        (SAME, 15, {"allow": ["fewer_rows"], "least_rows": 15}, "kept", "10 of each class, got 7"),
        (SAME, 400, {"least_rows": 401}, "kept", "at least 401 test rows, got 400"),
        (MORE, 400, {"allow": ["new_labels"], "rare": 9}, "kept", "each class, got 9 of 2"),
        (SAME, 400, {"groups": 4}, "kept", "at least 5 groups, got 4"),
    ],
)
def test_the_decision_follows_from_labels_sizes_and_outcome(
    labels: list[Any], n_rows: int, options: dict[str, Any], decision: str, why: str
) -> None:
    decided, reason = decide(labels, n_rows, **options)
    assert decided == decision, reason
    assert re.search(why, reason), reason

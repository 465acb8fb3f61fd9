"""Tests of the task that a target and a model pose."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import Ridge
from sklearn.naive_bayes import GaussianNB

from swarm.errors import DataError
from swarm.problem.target import task_of


@pytest.mark.parametrize(
    ("target", "model", "task"),
    [
        ([0, 1, 1], None, "binary"),
        (["a", "b", "c"], None, "multiclass"),
        ([1.0, 2.0, 3.0], None, "multiclass"),
        ([0.5, 2.0], None, "regression"),
        (list(range(21)), None, "regression"),
        (list(range(20)), None, "multiclass"),
        ([str(i) for i in range(40)], None, "multiclass"),
        # Grades are numbers to a regressor, but two values are classes that can be ranked.
        (list(range(5)), Ridge(), "regression"),
        (list(range(5)), GaussianNB(), "multiclass"),
        ([0, 1, 1], Ridge(), "binary"),
    ],
)
def test_the_task_follows_from_the_values_and_the_model(
    target: list[object], model: object, task: str
) -> None:
    assert task_of(pd.Series(target), model) == task
    assert task_of(np.array(target), model) == task


def test_labels_are_multilabel_and_gaps_dates_and_mixtures_are_refused() -> None:
    assert task_of(pd.DataFrame({"p": [0, 1], "q": [1, 1]})) == "multilabel"
    for target in ([1.0, np.nan], pd.to_datetime(["2020-01-01", "2021-01-01"]), [1, "a"]):
        with pytest.raises(DataError):
            task_of(pd.Series(target))

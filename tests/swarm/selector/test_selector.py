"""Tests of the interface of scikit-learn: `SubsetSelector` is a selector like any other."""

from __future__ import annotations

import doctest

import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.naive_bayes import GaussianNB
from sklearn.utils.estimator_checks import check_estimator

import swarm.selector.selector
from swarm import SubsetSelector
from tests.selecting import BRIEF, WINE

X, y = WINE


def test_fitting_changes_no_parameter_and_repeats() -> None:
    estimator = GaussianNB()
    selector = SubsetSelector(estimator, fixed=["ash"], groups={"two": ["hue", "proline"]}, **BRIEF)
    before = {name: repr(value) for name, value in selector.get_params().items()}
    history = selector.fit(*WINE).history_
    assert {name: repr(value) for name, value in selector.get_params().items()} == before
    assert selector.estimator is estimator
    assert not hasattr(estimator, "classes_")
    pd.testing.assert_frame_equal(history, selector.fit(*WINE).history_, check_exact=True)
    copied = clone(selector)
    assert not hasattr(copied, "subset_")
    pd.testing.assert_frame_equal(history, copied.fit(*WINE).history_, check_exact=True)
    reseeded = clone(selector).set_params(random_state=1).fit(*WINE)
    assert not reseeded.history_.equals(history)


def test_the_example_of_the_docstring_runs() -> None:
    outcome = doctest.testmod(swarm.selector.selector)
    assert outcome.attempted > 0
    assert outcome.failed == 0


@pytest.mark.filterwarnings("ignore")
def test_it_passes_every_check_of_scikit_learn() -> None:
    selector = SubsetSelector(GaussianNB(), strategy="random", budget=1, cv=2)
    results = check_estimator(selector, on_fail=None)
    failed = {
        check["check_name"]: check["exception"] for check in results if check["status"] == "failed"
    }
    assert not failed
    assert sum(check["status"] == "passed" for check in results) > 40

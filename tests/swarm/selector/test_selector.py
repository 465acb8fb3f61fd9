"""Claims on the scikit-learn face: it is a selector like any other, and keeps what it paid for."""

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
    inner = GaussianNB()
    selector = SubsetSelector(inner, fixed=["ash"], groups={"two": ["hue", "proline"]}, **BRIEF)
    before = {name: repr(value) for name, value in selector.get_params().items()}
    first = selector.fit(*WINE).history_
    assert {name: repr(value) for name, value in selector.get_params().items()} == before
    assert selector.estimator is inner
    assert not hasattr(inner, "classes_")
    pd.testing.assert_frame_equal(first, selector.fit(*WINE).history_, check_exact=True)
    copied = clone(selector)
    assert not hasattr(copied, "subset_")
    pd.testing.assert_frame_equal(first, copied.fit(*WINE).history_, check_exact=True)
    other = clone(selector).set_params(random_state=1).fit(*WINE)
    assert not other.history_.equals(first)


def test_the_example_of_the_docstring_runs() -> None:
    outcome = doctest.testmod(swarm.selector.selector)
    assert outcome.attempted > 0
    assert outcome.failed == 0


@pytest.mark.filterwarnings("ignore")
def test_it_passes_every_check_of_scikit_learn() -> None:
    selector = SubsetSelector(GaussianNB(), strategy="random", budget=1, cv=2)
    results = check_estimator(selector, on_fail=None)
    failed = {r["check_name"]: r["exception"] for r in results if r["status"] == "failed"}
    assert not failed
    assert sum(r["status"] == "passed" for r in results) > 40

"""Tests of the fingerprint: what changes it, and what does not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from lightgbm import LGBMClassifier
from sklearn.metrics import fbeta_score, make_scorer
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier

from swarm.problem.fingerprint import _array_bytes
from swarm.problem.problem import Problem
from swarm.problem.space import SearchSpace
from tests.swarm.storage.test_archive import numbers, run_python, table


def constant(estimator: Any, X: Any, y: Any) -> float:
    return 0.5


def other_constant(estimator: Any, X: Any, y: Any) -> float:
    return 0.5


def fingerprint(X: Any = None, y: Any = None, model: Any = None, **options: Any) -> str:
    default_X, default_y = numbers()
    model = DecisionTreeClassifier(max_depth=2) if model is None else model
    return Problem.build(
        default_X if X is None else X, default_y if y is None else y, model, **options
    ).fingerprint()


def test_the_fingerprint_changes_with_everything_a_cost_depends_on() -> None:
    X, y = numbers()
    changed_X = X.copy()
    changed_X.iloc[3, 2] += 1e-12
    changed_y = y.copy()
    changed_y.iloc[0] = 1 - changed_y.iloc[0]
    columns = list(X.columns)
    grouped = SearchSpace.build(columns, groups={"pair": ["x1", "x2"]})
    weight = np.ones(len(y))
    # The order of categories counts.
    with_categories = table()[0]
    reordered = with_categories.assign(
        kind=with_categories["kind"].cat.reorder_categories(["b", "a"])
    )
    prints = [
        fingerprint(),
        fingerprint(X=changed_X),
        fingerprint(X=X.astype({"x3": "float32"})),
        fingerprint(X=X.astype({"count": "float64"})),
        fingerprint(X=X.rename(columns={"x3": "renamed"})),
        fingerprint(X=X.iloc[::-1], y=y.iloc[::-1]),
        # Models may read the labels of rows, and depend on the order of columns.
        fingerprint(X=X.set_axis(np.arange(len(X)) + 5)),
        fingerprint(X=X.iloc[:, ::-1]),
        fingerprint(X=X.to_numpy()),
        fingerprint(y=y.to_numpy()),
        fingerprint(y=y.set_axis(np.arange(len(y)) + 6)),
        fingerprint(y=changed_y),
        fingerprint(weight=weight),
        fingerprint(weight=weight * 2),
        fingerprint(folds=4),
        fingerprint(seed=1),
        fingerprint(model=DecisionTreeClassifier(max_depth=3)),
        fingerprint(model=GaussianNB()),
        fingerprint(scoring="f1"),
        fingerprint(scoring="precision"),
        fingerprint(scoring=constant),
        fingerprint(scoring=other_constant),
        *(fingerprint(scoring=make_scorer(fbeta_score, beta=beta)) for beta in (1, 2)),
        fingerprint(importance="permutation"),
        fingerprint(importance="none"),
        fingerprint(space=grouped),
        *(
            fingerprint(X=frame, y=y, model=LGBMClassifier())
            for frame in (with_categories, reordered)
        ),
    ]
    assert len(set(prints)) == len(prints)


def test_a_missing_value_is_no_text_and_a_number_is_not_its_text() -> None:
    odd = (None, "nan", "None", 1, "1")
    assert len({_array_bytes(np.array(["a", value], dtype=object)) for value in odd}) == len(odd)
    gaps = (None, np.nan, pd.NA)
    assert len({_array_bytes(np.array(["a", value], dtype=object)) for value in gaps}) == 1


def test_the_fingerprint_does_not_change_with_what_cannot_change_a_cost() -> None:
    X, y = numbers()
    columns = list(X.columns)
    space = SearchSpace.build(columns, fixed=["x0"], forbidden=["x5"], min_size=2, max_size=4)
    forest = [KNeighborsClassifier(n_jobs=jobs) for jobs in (1, 2)]
    assert fingerprint() == fingerprint(space=space)
    assert fingerprint(model=forest[0]) == fingerprint(model=forest[1])
    assert fingerprint() == fingerprint(X=X.copy(), y=y.copy())


FRESH = """
import pandas as pd
from sklearn.naive_bayes import GaussianNB
from swarm.problem.fingerprint import _array_bytes
from swarm.problem.problem import Problem
X = pd.DataFrame({"a": range(12), "b": [0.5, 2.0, 1.0] * 4, "c": pd.Categorical(list("xyz") * 4)})
given = {"scoring": "f1", "folds": 3, "weight": [1.0] * 12}
print(Problem.build(X[["a", "b"]], [0, 1] * 6, GaussianNB(), **given).fingerprint())
"""


def test_the_fingerprint_is_the_same_in_a_fresh_process(capsys: pytest.CaptureFixture[str]) -> None:
    exec(FRESH, {})
    assert run_python(FRESH, PYTHONHASHSEED="77") == capsys.readouterr().out.strip()

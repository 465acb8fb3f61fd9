"""Claims on the fingerprint: what names a problem, and what does not."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from lightgbm import LGBMClassifier
from sklearn.calibration import CalibratedClassifierCV
from sklearn.metrics import fbeta_score, make_scorer
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.tree import DecisionTreeClassifier

from swarm import SubsetSelector
from swarm.errors import ConfigError
from swarm.evaluation.crossval import CrossValidation
from swarm.multilabel import MLkNN
from swarm.problem.fingerprint import _array_bytes
from swarm.problem.problem import Problem
from swarm.problem.space import SearchSpace
from swarm.storage.archive import Archive
from tests.test_archive import numbers, run_python, table


def constant(estimator: Any, X: Any, y: Any) -> float:
    return 0.5


def other_constant(estimator: Any, X: Any, y: Any) -> float:
    return 0.5


def fingerprint(X: Any = None, y: Any = None, model: Any = None, **options: Any) -> str:
    plain_X, plain_y = numbers()
    model = DecisionTreeClassifier(max_depth=2) if model is None else model
    return Problem.build(
        plain_X if X is None else X, plain_y if y is None else y, model, **options
    ).fingerprint()


def test_the_fingerprint_changes_with_everything_a_cost_depends_on() -> None:
    X, y = numbers()
    cell = X.copy()
    cell.iloc[3, 2] += 1e-12
    other = y.copy()
    other.iloc[0] = 1 - other.iloc[0]
    columns = list(X.columns)
    grouped = SearchSpace.build(columns, groups={"pair": ["x1", "x2"]})
    weight = np.ones(len(y))
    prints = [
        fingerprint(),
        fingerprint(X=cell),
        fingerprint(X=X.astype({"x3": "float32"})),
        fingerprint(X=X.astype({"count": "float64"})),
        fingerprint(X=X.rename(columns={"x3": "renamed"})),
        fingerprint(X=X.iloc[::-1], y=y.iloc[::-1]),
        fingerprint(y=other),
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
    ]
    assert len(set(prints)) == len(prints)


def test_a_missing_value_is_no_text_and_a_number_is_not_its_text() -> None:
    odd = (None, "nan", "None", 1, "1")
    assert len({_array_bytes(np.array(["a", value], dtype=object)) for value in odd}) == len(odd)
    gaps = (None, np.nan, pd.NA)
    assert len({_array_bytes(np.array(["a", value], dtype=object)) for value in gaps}) == 1


def test_categories_count_by_their_order() -> None:
    X, y = table()
    turned = X.assign(kind=X["kind"].cat.reorder_categories(["b", "a"]))
    plain, other = (fingerprint(X=frame, y=y, model=LGBMClassifier()) for frame in (X, turned))
    assert plain != other


def test_the_fingerprint_does_not_change_with_what_cannot_change_a_cost() -> None:
    X, y = numbers()
    columns = list(X.columns)
    space = SearchSpace.build(columns, fixed=["x0"], forbidden=["x5"], min_size=2, max_size=4)
    forest = [KNeighborsClassifier(n_jobs=jobs) for jobs in (1, 2)]
    assert fingerprint() == fingerprint(space=space)
    assert fingerprint(model=forest[0]) == fingerprint(model=forest[1])
    moved = X.set_axis(np.arange(len(X)) + 5)
    assert fingerprint() == fingerprint(X=moved, y=y.set_axis(moved.index))


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


def test_a_scorer_without_a_name_needs_an_archive_that_is_gone_with_the_process(
    tmp_path: Path,
) -> None:
    problem = Problem.build(*numbers(), GaussianNB(), scoring=lambda model, X, y: 0.25)
    mask = np.ones((1, problem.space.n_units), dtype=bool)
    with CrossValidation(problem) as evaluator:
        assert evaluator.evaluate(mask, np.array([np.inf]), np.arange(5)).costs[0] == -0.25
    with pytest.raises(ConfigError, match="by name"):
        CrossValidation(problem, Archive(f"sqlite:///{tmp_path / 'a.db'}"))
    with pytest.raises(ConfigError, match="no stable name"):
        fingerprint(scoring=make_scorer(lambda truth, told: 0.5))


def test_another_version_of_a_package_retires_the_costs_of_its_estimators(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    trees = LGBMClassifier(n_estimators=2)
    inside = [trees, make_pipeline(StandardScaler(), trees), CalibratedClassifierCV(trees)]
    before, other = [fingerprint(model=model) for model in inside], fingerprint()
    monkeypatch.setattr("lightgbm.__version__", "99")
    after = [fingerprint(model=model) for model in inside]
    assert not {*before} & {*after}
    assert fingerprint() == other


def test_another_version_of_swarmselect_retires_the_costs_of_its_own_estimators(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    X, y = numbers()
    labels = np.eye(2, dtype=int)[y]
    models = [MLkNN(3), make_pipeline(StandardScaler(), MLkNN(3))]
    own = [fingerprint(X, labels, model, scoring="subset_accuracy") for model in models]
    other = fingerprint()
    monkeypatch.setattr("swarm.__version__", "99", raising=False)
    assert fingerprint() == other
    for model, before in zip(models, own, strict=True):
        assert fingerprint(X, labels, model, scoring="subset_accuracy") != before


EDITED = [
    "def own(model, X, y): return model.score(X, y)",
    "def own(model, X, y): return 1 - model.score(X, y)",
    "def own(model, X, y, scale=2.0): return model.score(X, y)",
    "def own(model, X, y, scale=3.0): return model.score(X, y)",
    "SCALE = 2.0\ndef own(model, X, y): return SCALE * model.score(X, y)",
    "SCALE = 3.0\ndef own(model, X, y): return SCALE * model.score(X, y)",
    "def half(x): return x / 2\ndef own(model, X, y): return half(model.score(X, y))",
    "def half(x): return x / 3\ndef own(model, X, y): return half(model.score(X, y))",
    "def own(model, X, y, costs=(1, 5)): return model.score(X, y)",
    "def own(model, X, y, costs=(1, 50)): return model.score(X, y)",
    "COSTS = {'no': [1, 5]}\ndef own(model, X, y): return COSTS['no'][0]",
    "COSTS = {'no': [1, 50]}\ndef own(model, X, y): return COSTS['no'][0]",
    "COSTS = np.array([1, 5])\ndef own(model, X, y): return COSTS[1]",
    "COSTS = np.array([1, 50])\ndef own(model, X, y): return COSTS[1]",
    "COSTS = pd.DataFrame([[1, 2]], columns=['a', 'a'])\ndef own(model, X, y): return COSTS.sum()",
    "COSTS = pd.DataFrame([[1, 3]], columns=['a', 'a'])\ndef own(model, X, y): return COSTS.sum()",
    "half = partial(max, 1)\ndef own(model, X, y): return half(2)",
    "half = partial(max, 9)\ndef own(model, X, y): return half(2)",
    "SCORE = make_scorer(fbeta_score, beta=2)\ndef own(model, X, y): return SCORE(model, X, y)",
    "SCORE = make_scorer(fbeta_score, beta=3)\ndef own(model, X, y): return SCORE(model, X, y)",
    "class Cost:\n  def __init__(self, c): self.c = c\n  def at(self, m, X, y): return self.c\n"
    "own = Cost(1).at",
    "class Cost:\n  def __init__(self, c): self.c = c\n  def at(self, m, X, y): return self.c\n"
    "own = Cost(5).at",
    "def own(model, X, y): return sum(x in {'a', 'b'} for x in 'ab')",
    "def own(model, X, y): return sum(x in {'a', 'c'} for x in 'ab')",
]
MODELS = [
    "class own(GaussianNB):\n    share = 1",
    "class own(GaussianNB):\n    share = 2",
    "class own(GaussianNB):\n    def predict(self, X): return super().predict(X)",
    "class own(GaussianNB):\n    def predict(self, X): return super().predict(X)[::-1]",
    "class own(GaussianNB):\n    @property\n    def k(self): return 1",
    "class own(GaussianNB):\n    @property\n    def k(self): return 2",
    "class own(GaussianNB):\n    @staticmethod\n    def k(): return 1",
    "class own(GaussianNB):\n    @staticmethod\n    def k(): return 2",
]


def defined(text: str) -> Any:
    """Return what a cell of a notebook defines."""
    cell: dict[str, Any] = {"__name__": "__main__", "GaussianNB": GaussianNB, "np": np}
    cell |= {"pd": pd}
    cell |= {"partial": partial, "make_scorer": make_scorer, "fbeta_score": fbeta_score}
    exec(text, cell)
    return cell["own"]


def test_an_edited_scorer_or_model_of_ones_own_has_another_fingerprint() -> None:
    scorers = [fingerprint(scoring=defined(text)) for text in EDITED]
    models = [fingerprint(model=defined(text)()) for text in MODELS]
    steps = [
        fingerprint(model=make_pipeline(FunctionTransformer(defined(text)), GaussianNB()))
        for text in ("def own(X): return X + 1", "def own(X): return X + 2")
    ]
    assert len({*scorers, *models, *steps}) == len(EDITED) + len(MODELS) + 2
    # What a scorer notes while it runs is no code of it.
    for text in (
        "calls = []\ndef own(model, X, y):\n  calls.append(1)\n  return 0.5",
        "calls = {}\ndef own(model, X, y):\n  calls['n'] = 1\n  return 0.5",
        "class Cost:\n  n = 0\n  def at(self, m, X, y):\n    self.n += 1\n    return 0.5\n"
        "own = Cost().at",
    ):
        scorer = defined(text)
        before = fingerprint(scoring=scorer)
        scorer(None, None, None)
        assert fingerprint(scoring=scorer) == before
    noting = [defined(f"class own(GaussianNB):\n    calls = {calls}") for calls in ([], [1])]
    assert fingerprint(model=noting[0]()) == fingerprint(model=noting[1]())
    # The same cell again, on another line.
    assert scorers == [fingerprint(scoring=defined(f"\n\n{text}")) for text in EDITED]
    assert models == [fingerprint(model=defined(f"\n{text}")()) for text in MODELS]


SET_IN_CODE = """
import pandas as pd
from sklearn.naive_bayes import GaussianNB
from swarm.problem.fingerprint import _array_bytes
from swarm.problem.problem import Problem
def own(model, X, y): return len({"alpha", "beta", "gamma", "delta"} & set(X))
X = pd.DataFrame({"a": range(12), "b": [0.5, 2.0, 1.0] * 4})
print(Problem.build(X, [0, 1] * 6, GaussianNB(), scoring=own, folds=3).fingerprint())
"""


def test_code_of_ones_own_has_the_same_fingerprint_in_every_process() -> None:
    assert len({run_python(SET_IN_CODE, PYTHONHASHSEED=seed) for seed in ("1", "2", "3")}) == 1


def test_an_archive_has_no_costs_of_a_scorer_that_was_edited(tmp_path: Path) -> None:
    X, y = numbers()
    archive = tmp_path / "costs.db"
    costs = [
        SubsetSelector(
            GaussianNB(), budget=1, scoring=defined(text), archive=archive, pruning=False
        )
        .fit(X, y)
        .results_["cost"]
        for text in EDITED[:2]
    ]
    assert np.allclose(costs[0] + costs[1].iloc[: len(costs[0])], -1)

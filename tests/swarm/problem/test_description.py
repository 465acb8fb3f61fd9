"""Tests of names of code: what changes a name, what has none, and what is cached under it."""

from __future__ import annotations

import importlib
import json
import re
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import closing
from datetime import date
from functools import partial, wraps
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import lightgbm
import numpy as np
import pandas as pd
import pytest
import sklearn
from scipy.special import expit
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import accuracy_score, fbeta_score, get_scorer, make_scorer
from sklearn.model_selection import GroupKFold, StratifiedKFold
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from swarm.multilabel import MLkNN
from swarm.problem.description import Unnamed, describe
from swarm.storage.archive import Archive
from tests.fakes import evaluated
from tests.swarm.storage.test_archive import N_UNITS, problem_of, run_python

SCORERS = """
from sklearn.naive_bayes import GaussianNB
COSTS = [[0, 1], [5, 0]]
def score(model, X, y): return -COSTS[1][0] * (model.predict(X) != y).mean()
class Bayes(GaussianNB): pass
class Cost:
    def __init__(self, cost): self.cost = cost
    def __call__(self, model, X, y): return -self.cost
    def at(self, model, X, y): return -self.cost
"""


def name(value: Any) -> str:
    return json.dumps(describe(value), sort_keys=True)


@pytest.fixture
def user_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    (tmp_path / "own_scorers.py").write_text(SCORERS)
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module("own_scorers")
    del sys.modules["own_scorers"]


def edit(module: ModuleType, old: str, new: str) -> None:
    file = Path(str(module.__file__))
    file.write_text(file.read_text().replace(old, new))


def everything(user_module: ModuleType) -> list[Any]:
    named_scorers = [
        user_module.score,
        user_module.Cost(1),
        user_module.Cost(1).at,
        partial(user_module.score),
        make_scorer(user_module.score),
    ]
    return [
        *named_scorers,
        user_module.Bayes(),
        make_pipeline(FunctionTransformer(user_module.score)),
    ]


@pytest.mark.parametrize("new", ["[50, 0]]", "[5, 0]]  # a comment"])
def test_every_edit_of_its_file_is_a_new_name(user_module: ModuleType, new: str) -> None:
    before = [name(value) for value in everything(user_module)]
    assert len(set(before)) == len(before)
    edit(user_module, "[5, 0]]", new)
    after = [name(value) for value in everything(importlib.reload(user_module))]
    assert not {*before} & {*after}
    edit(user_module, new, "[5, 0]]")
    assert [name(value) for value in everything(importlib.reload(user_module))] == before


def test_code_of_before_an_edit_does_not_get_the_name_of_the_code_after(
    user_module: ModuleType,
) -> None:
    score = user_module.score
    cost = user_module.Cost(1)
    before = name(score)
    edit(user_module, "[5, 0]", "[50, 0]")
    assert name(score) == before
    importlib.reload(user_module)
    assert name(user_module.score) != before
    for edited in (score, cost, cost.at):
        with pytest.raises(Unnamed, match="import by its name"):
            describe(edited)


def test_parameters_are_part_of_the_name(user_module: ModuleType) -> None:
    for make in (
        user_module.Cost,
        lambda value: user_module.Cost(value).at,
        lambda value: partial(user_module.score, y=value),
        lambda value: make_scorer(fbeta_score, beta=value),
        lambda value: make_pipeline(StandardScaler(), GaussianNB(var_smoothing=value)),
        lambda value: StratifiedKFold(3, shuffle=True, random_state=value),
    ):
        assert name(make(1)) == name(make(1)) != name(make(2))


def test_installed_code_is_named_by_its_package_and_version() -> None:
    version = f"sklearn=={sklearn.__version__}"
    assert describe(accuracy_score) == ["sklearn.metrics._classification.accuracy_score", version]
    assert describe(expit)[0] == "scipy.special.expit"  # type: ignore[index]
    assert re.search(rf'"{version}", "swarm\.multilabel:\w{{64}}"', name(MLkNN()))
    trees = make_pipeline(FunctionTransformer(np.log1p), lightgbm.LGBMClassifier())
    text = name([trees, get_scorer("roc_auc")])
    assert f"lightgbm=={lightgbm.__version__}" in text
    assert ".py" not in text
    assert describe(max) == ["builtins.max", "python=={}.{}".format(*sys.version_info)]


def test_another_version_of_a_package_is_another_name(monkeypatch: pytest.MonkeyPatch) -> None:
    model = make_pipeline(StandardScaler(), lightgbm.LGBMClassifier(n_estimators=2))
    before = name(model)
    monkeypatch.setattr("lightgbm.__version__", "99")
    assert name(model) != before
    # The version of the distribution is used where the module has none.
    monkeypatch.delattr("lightgbm.__version__")
    assert name(model) == before


NAMELESS = """
import json, sys
from functools import partial
from sklearn.metrics import make_scorer
from sklearn.naive_bayes import GaussianNB
from swarm.problem.description import Unnamed, describe
def score(model, X, y): return 0.5
class Own(GaussianNB): pass
class Cost:
    def __init__(self, cost): self.cost = cost
    def at(self, model, X, y): return self.cost
for value in (score, Own(), Cost(1), Cost(1).at, partial(score, y=1), make_scorer(score)):
    try: print(describe(value))
    except Unnamed as error: assert "is defined in a notebook or in __main__" in str(error)
score.__version__ = Own.__version__ = Cost.__version__ = sys.argv[1]
print(json.dumps([describe(v) for v in (score, Own(), Cost(1), Cost(2).at, make_scorer(score))]))
"""


def test_main_defines_nothing_with_a_name_unless_it_has_a_version() -> None:
    first, same_version, other_version = (
        run_python(NAMELESS, version) for version in ("1.2", "1.2", "1.3")
    )
    assert first == same_version != other_version
    score, model, cost, method, _ = json.loads(first)
    assert score == ["__main__.score", "version", "1.2"]
    assert model["class"] == ["__main__.Own", "version", "1.2", f"sklearn=={sklearn.__version__}"]
    assert '[["cost", 1]]' in json.dumps(cost)
    assert '[["cost", 2]]' in json.dumps(method)


def test_lambdas_and_what_functions_define_have_no_name_unless_they_have_a_version() -> None:
    @wraps(accuracy_score)
    def score(*_: Any) -> float:
        return 0.5

    class Own(GaussianNB):  # type: ignore[misc]
        pass

    lock = threading.Lock()
    for value in (lambda: 0, score, Own(), partial(score, 1), SimpleNamespace(lock=lock)):
        with pytest.raises(Unnamed, match="not stored; give it a __version__"):
            describe(value)
        assert '{"unnamed": "' in json.dumps(describe(value, strict=False))
    Own.__version__ = score.__version__ = "1"  # type: ignore[attr-defined]
    assert name(score) != name(Own())
    # A subclass does not have the version of its base.
    with pytest.raises(Unnamed):
        describe(type("Sub", (Own,), {}))
    locked = [SimpleNamespace(lock=lock, cost=cost, __version__="1") for cost in (1, 2)]
    assert name(locked[0]) != name(locked[1])


def test_a_metadata_request_is_part_of_the_name_and_does_not_recurse() -> None:
    for make, method, key in (
        (GaussianNB, "set_fit_request", "sample_weight"),
        (partial(make_scorer, accuracy_score), "set_score_request", "sample_weight"),
        (partial(GroupKFold, 3), "set_split_request", "groups"),
    ):
        before = name(make())
        with sklearn.config_context(enable_metadata_routing=True):
            routed = [getattr(make(), method)(**{key: wanted}) for wanted in (True, False, True)]
        assert len({before, *map(name, routed)}) == 3
        assert name(routed[0]) == name(routed[2])
        assert name(make_pipeline(routed[0])) != name(make_pipeline(routed[1]))
        assert name(make()) == before


def test_an_object_that_refers_to_itself_has_no_name(user_module: ModuleType) -> None:
    cost = user_module.Cost(1)
    cost.owner = cost
    for value in (cost, cost.at, make_scorer(cost), FunctionTransformer(cost), [cost]):
        with pytest.raises(Unnamed, match="refers to itself"):
            describe(value)
        assert "unnamed" in describe(value, strict=False)  # type: ignore[operator]


def test_settings_are_described_by_their_values() -> None:
    table = pd.DataFrame({"a": [1, None], "b": pd.Categorical(["x", "y"])})
    a = table["a"]
    b = table["b"]
    matrix = np.ones((2, 3))
    # fmt: off
    distinct = [
        None, True, 1, 1.0, "1", b"1", 1j, [1], {1}, {1: 2}, {"1": 2}, range(3), pd.NA,
        date(2020, 1, 1), pd.Timestamp(2020, 1, 1), np.array([1]), np.array([1.0]), np.array([[1]]),
        np.array(["1"]), np.array(["1"], dtype=object), np.ma.array([1], mask=[False]),
        np.ma.array([1], mask=[True]), table, table.set_axis([1, 2]), table.columns, a,
        a.astype("Int64"), b, b.cat.reorder_categories(["y", "x"]), b.astype(str),
        np.random.RandomState(1), np.random.RandomState(2), np.random.default_rng(1),
    ]
    # fmt: on
    assert len({name(value) for value in distinct}) == len(distinct)
    assert name([1, 0.5, {"a": 1, "b": 2}, table, matrix]) == name(
        (np.int64(1), np.float64(0.5), {"b": 2, "a": 1}, table.assign(b=b), matrix.copy("F"))
    )


def test_a_fitted_state_counts_where_no_fit_replaces_it() -> None:
    first, second = (GaussianNB().fit([[1], [x]], [0, 1]) for x in (2, 3))
    assert name(first) == name(second) == name(GaussianNB())
    assert name(first.predict) != name(second.predict)
    assert name(FrozenEstimator(first)) != name(FrozenEstimator(second))
    assert name(SimpleNamespace(teacher=first)) != name(SimpleNamespace(teacher=second))


def fits_of(scorer: Any, *archives: Archive) -> list[int]:
    problem = problem_of(scoring=scorer)
    fits = []
    for archive in archives:
        fits.append(evaluated(problem, np.ones((1, N_UNITS), dtype=bool), archive).work.fits)
        assert archive.has_evaluations(problem)
    return fits


def test_a_problem_without_a_name_is_cached_until_its_archive_is_closed(tmp_path: Path) -> None:
    scorer = lambda model, X, y: 0.25  # noqa: E731
    url = f"sqlite:///{tmp_path / 'a.db'}"
    for _ in range(2):
        with closing(Archive(url)) as archive:
            with pytest.warns(UserWarning, match="lambda>' is .* not stored; give it") as issued:
                assert fits_of(scorer, archive, archive) == [3, 0]
            assert len(issued) == 1
    scorer.__version__ = "1"  # type: ignore[attr-defined]
    with warnings.catch_warnings(), closing(Archive(url)) as first, closing(Archive(url)) as second:
        warnings.simplefilter("error")
        assert fits_of(scorer, first, second) == [3, 0]
        assert fits_of(make_scorer(accuracy_score), first, second) == [3, 0]

"""Tests of the prefilter, which leaves units out before a search by the model's importances."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.datasets import load_diabetes
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import StratifiedKFold
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier

from conf.estimator import build_estimator
from flows.run.configured import fetch_as_configured, prepare_as_configured, search_as_configured
from flows.select import select
from swarm import SubsetSelector
from swarm.errors import ConfigError
from swarm.evaluation.crossval import CrossValidation
from swarm.problem.hints import Hints
from swarm.problem.problem import Problem
from swarm.problem.space import SearchSpace
from swarm.rows import derived_seed
from swarm.search.narrowed import Narrowed
from swarm.search.prefilter import Prefilter, cut_units, golden_section, most_cut_fits
from swarm.strategies.catalogue import make
from swarm.testing.planted import hints_for, plain_space
from tasks.steps import split_rows
from tests.small_run import Bench

FEW = {"least": 5}
N_COLUMNS = 24


def numbers() -> tuple[pd.DataFrame, Any]:
    """Return 24 columns, three of which determine the class."""
    rng = np.random.default_rng(3)
    X = pd.DataFrame(rng.normal(size=(90, N_COLUMNS)).round(2))
    X.columns = [f"x{i}" for i in range(N_COLUMNS)]
    return X, ((X["x9"] + X["x4"] - X["x17"] + rng.normal(size=90)) > 0).astype(int)


def selector(**options: Any) -> SubsetSelector:
    parameters = {
        "estimator": GaussianNB(),
        "budget": 2,
        "cv": 3,
        "prefilter": FEW,
        "confirm": False,
        **options,
    }
    return SubsetSelector(**parameters)


def answer(fitted: SubsetSelector) -> tuple[Any, ...]:
    history = fitted.history_.filter(regex="^(?!.*seconds)").to_dict("list")
    cut = fitted.prefilter_
    return (
        sorted(fitted.subset_),
        json.dumps(history),
        cut.kept.tolist(),
        cut.importances.tolist(),
        cut.costs.tolist(),
    )


@pytest.mark.parametrize("strategy", ["mlaco", "sffs", "exhaustive"])
def test_every_strategy_searches_the_kept_units_and_answers_for_the_whole_table(
    strategy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("swarm.selector.selector.column_findings", lambda *_, **__: [])
    X, y = numbers()
    options = {"strategy": strategy, "fixed": ["x23"], "forbidden": ["x9"]}
    if strategy == "exhaustive":
        options["prefilter"] = {"least": 3}
    url = f"sqlite:///{tmp_path}/archive.db"
    fitted = selector(**options, archive=url).fit(X, y)
    cut = fitted.prefilter_
    space = fitted.result_.space
    assert space.columns == tuple(X.columns)
    kept = set(space.subset(cut.kept))
    assert "x23" in kept
    assert "x9" not in kept
    assert 3 <= len(kept) < N_COLUMNS
    for record in fitted.result_.records:
        assert record.columns["mask"].shape[1] == N_COLUMNS
        assert not (record.columns["mask"] & ~cut.kept).any()
    assert "x23" in fitted.subset_
    assert set(fitted.subset_) <= kept
    assert X.columns[fitted.get_support()].tolist() == fitted.subset_
    assert fitted.n_fits_ == fitted.result_.state.counts.fits + cut.n_fits

    shuffled = X.iloc[:, np.random.default_rng(1).permutation(N_COLUMNS)]
    assert answer(selector(**options).fit(shuffled, y)) == answer(fitted)
    monkeypatch.setattr(CrossValidation, "_compute", lambda self, jobs, _: (jobs, 0))
    monkeypatch.setattr(CrossValidation, "_train", refuse_to_train)
    assert answer(selector(**options, archive=url).fit(X, y)) == answer(fitted)


def refuse_to_train(self: CrossValidation, jobs: list[Any], records: Any) -> tuple[int, float]:
    assert not jobs, "an evaluation is missing from the archive"
    return 0, 0.0


def test_each_fold_ranks_by_its_own_training_rows_and_costs_are_those_of_its_test_rows() -> None:
    X, y = numbers()
    model = LogisticRegression()
    cut = selector(estimator=model, strategy="full").fit(X, y).prefilter_
    folds = StratifiedKFold(3, shuffle=True, random_state=derived_seed(0, 0)).split(X, y)
    costs = []
    importances = []
    for train, test in folds:
        values = np.abs(clone(model).fit(X.iloc[train], y[train]).coef_[0])
        ranking = np.argsort(-values, kind="stable")
        importances.append(values)
        costs.append([])
        for size in cut.sizes:
            columns = np.sort(ranking[:size])
            fitted = clone(model).fit(X.iloc[train, columns], y[train])
            costs[-1].append(1 - fitted.score(X.iloc[test, columns], y[test]))
    assert cut.costs == pytest.approx(np.mean(costs, axis=0))
    assert cut.importances == pytest.approx(np.mean(importances, axis=0))
    best = np.argsort(-np.mean(importances, axis=0), kind="stable")[: cut.n_kept]
    assert sorted(best) == np.flatnonzero(cut.kept).tolist()
    assert cut.n_kept == cut.sizes[np.argmin(cut.costs)]
    assert cut.cost == cut.costs.min()


@pytest.mark.slow
def test_auto_cuts_tables_of_more_than_5000_columns_alone() -> None:
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(40, 5001))).add_prefix("x")
    y = np.arange(40) % 2
    options = {"strategy": "random", "prefilter": "auto", "budget": 1}
    fitted = selector(**options).fit(X, y)
    assert 20 <= fitted.prefilter_.n_kept <= 5001
    assert selector(**options).fit(X.iloc[:, :5000], y).prefilter_ is None


@given(st.integers(1, 3000), st.integers(1, 3000), st.integers(1, 3000))
def test_golden_section_finds_a_single_valley_to_a_tenth(least: int, most: int, low: int) -> None:
    least, most = min(least, most), max(least, most)
    low = min(max(low, least), most)
    sizes: list[int] = []

    def cost(size: int) -> float:
        sizes.append(size)
        return abs(np.log(size / low))

    size = golden_section(cost, least, most)
    assert least <= size <= most
    assert abs(np.log(size / low)) <= np.log(1.1) + 1 / low
    assert len(sizes) == len(set(sizes))


def test_no_more_columns_are_kept_than_a_search_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("swarm.search.prefilter.MAX_COLUMNS", 8)
    X, y = numbers()
    pair = {"pair": ["x9", "x4"]}
    for groups, most in (({}, 8), (pair, 7)):
        space = SearchSpace.build(list(X.columns), groups=groups)
        # Nearest neighbours use every column, and twelve columns are copies.
        table = X.assign(**{f"x{i}": X["x9"] for i in range(12)})
        problem = Problem.build(table, y, KNeighborsClassifier(3), folds=3, space=space)
        plan = Prefilter.of(problem, problem.folds, make("multiswarm"), 1)
        with CrossValidation(plan.problem) as evaluator:
            cut = cut_units(plan, evaluator)
        assert cut.sizes.tolist()[-2:] == [most, space.n_units]
        assert cut.n_kept <= most
        assert cut.n_fits <= most_cut_fits(plan)
    monkeypatch.setattr(CrossValidation, "_train", refuse_to_train)
    with pytest.raises(ConfigError, match=r"must keep 9 units, but keeps at most 8.*keep, fix or"):
        selector(prefilter={"least": 9}).fit(X, y)


def test_a_narrowed_strategy_starts_from_masks_of_the_whole_table() -> None:
    space = plain_space(9)
    kept = np.arange(9) < 6
    strategy = make("multiswarm", {"n_particles": 4, "n_swarms": 2})
    narrowed = Narrowed(strategy, kept, hints_for(space.restricted(kept)))
    warm = np.array([[1, 0, 1, 0, 0, 0, 1, 0, 0], [0] * 6 + [1] * 3, [0, 1] + [0] * 7], dtype=bool)
    state = narrowed.start(space, Hints(warm=warm), np.random.default_rng(0))
    masks = narrowed.propose(state, np.random.default_rng(1))[1].masks
    assert (masks[:2] == (warm & kept)[[0, 2]]).all()


def test_a_model_that_fails_on_all_features_is_refused_in_one_sentence() -> None:
    class Narrow(DecisionTreeClassifier):
        def fit(self, X: Any, y: Any, **params: Any) -> Any:
            if X.shape[1] > 20:
                raise ValueError("too many columns")
            return super().fit(X, y, **params)

    with pytest.raises(ConfigError, match=r"cannot be fitted .*all 24 features.*too many columns"):
        selector(estimator=Narrow()).fit(*numbers())


def keep_few(patch: pytest.MonkeyPatch) -> None:
    """Let a prefilter keep three of the eight units, where a run would keep twenty."""
    patch.setattr(Prefilter, "of", staticmethod(partial(Prefilter.of, least=3)))


@pytest.mark.slow
def test_a_run_logs_what_was_cut_and_resumes_to_the_same_bytes(
    prefect_server: str,
    bench: Bench,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    keep_few(monkeypatch)
    config = bench.config(prefilter="always", strategy={"name": "mlaco", "params": {}})
    outcome = select(config)
    cut = outcome.result.cut
    assert cut.sentence() in " ".join(capsys.readouterr().err.split())
    (run,) = bench.runs()
    assert run.data.tags["prefilter"] == f"{cut.n_kept} of 8 units"
    ranking = pd.read_csv(io.BytesIO(bench.artifact(outcome.run_id, "prefilter.csv")))
    space = outcome.result.space
    assert set(ranking["unit"][ranking["kept"]]) == set(space.subset(cut.kept))
    assert set(outcome.result.features) <= set(space.subset(cut.kept))
    answer = json.loads(bench.artifact(outcome.run_id, "features.json"))
    assert (answer["prefilter"]["kept"], answer["n_available"]) == (cut.n_kept, 8)
    before = bench.answer(outcome.run_id)
    paid = bench.paid_for()
    select(config, run_id=outcome.run_id)
    assert bench.answer(outcome.run_id) == before
    assert bench.paid_for() == paid


def test_the_test_rows_are_not_seen(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    keep_few(monkeypatch)
    config = bench.config(prefilter="always")
    table = fetch_as_configured(config)
    data = prepare_as_configured(config, table)
    estimator = build_estimator(config.model)
    rows = split_rows(
        table, config.split.kind, test_size=config.split.test_size, estimator=estimator
    ).test
    assert (table.features.iloc[rows].to_numpy() == data.test.features.to_numpy()).all()
    features = table.features.copy()
    features.iloc[rows] = 0.0
    changed_table = replace(table, features=features)
    changed_data = prepare_as_configured(config, changed_table)
    cuts = []
    for prepared in (data, changed_data):
        prefilter = search_as_configured(config, prepared).prefilter
        with CrossValidation(prefilter.problem) as evaluator:
            cuts.append(cut_units(prefilter, evaluator))
    assert cuts[0].importances.tolist() == cuts[1].importances.tolist()
    assert cuts[0].costs.tolist() == cuts[1].costs.tolist()


def test_a_proxy_on_some_rows_ranks_the_units_on_its_own_folds() -> None:
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    selector = SubsetSelector(Ridge(), prefilter=True, proxy={"rows": 0.5}, budget=1).fit(X, y)
    assert selector.prefilter_ is not None
    assert set(selector.subset_) <= set(X.columns)

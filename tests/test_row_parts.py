"""Searches that evaluate on parts of the rows first: what parts keep, and what they never do."""

from __future__ import annotations

import dataclasses
import math
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import make_multilabel_classification
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier

from flows.planning import plan_search
from flows.select import select
from swarm import SubsetSelector
from swarm.evaluation.crossval import CrossValidation
from swarm.evaluation.shipping import read_problem, write_problem
from swarm.multilabel import MLkNN
from swarm.problem.hints import Hints
from swarm.problem.problem import Problem
from swarm.problem.space import SearchSpace
from swarm.search.budget import Budget
from swarm.search.driver import Search, run
from swarm.search.packing import pack_masks, unpack_masks
from swarm.search.plan import SearchPlan
from swarm.search.row_parts import AUTO_ROWS, N_PROBES, evaluate_by_rows, nested_order, row_parts
from swarm.search.runner import FinishedSearch, SearchHooks, run_search
from swarm.storage.archive import Archive
from swarm.strategies.catalogue import make, registry
from swarm.testing.planted import Planted, everything, make_search, plain_space, planted
from tests.small_run import Bench

OPEN_ENDED = sorted(name for name in registry() if not make(name).ends_by_itself)
N_ROWS, SMALLEST, FEW = 480, 15, {"n_particles": 20}


def table(n_rows: int = N_ROWS) -> tuple[pd.DataFrame, Any]:
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(n_rows, 8)), columns=[f"x{i}" for i in range(8)])
    y = (X["x0"] + X["x2"] - X["x5"] + rng.normal(scale=0.7, size=n_rows) > 0.4).astype(int)
    return X, y


def posed(model: Any = None, **options: Any) -> Problem:
    return Problem.build(*table(), model or DecisionTreeClassifier(max_depth=3), folds=3, **options)


def plan(problem: Problem, rows: Any = SMALLEST, **options: Any) -> SearchPlan:
    options = {"budget": Budget(epochs=3), "parts": row_parts(problem, rows), **options}
    strategy = options.pop("strategy", make("bpso", FEW))
    return SearchPlan(problem, strategy, Hints(), **options)


def blurred(of: Planted, seed: int, noise: float) -> Planted:
    """The same problem on a part of the rows, which ranks masks a little differently."""
    weights = of.weights + np.random.default_rng(seed).normal(0, noise, of.weights.shape)
    base = of.base + 0.2 - np.minimum(weights - of.weights, 0).sum(axis=1).min()
    return dataclasses.replace(of, weights=weights, base=base, known={})


def by_rows(name: str, whole: Planted, parts: list[Planted], **limits: Any) -> Search:
    search = make_search(make(name), whole, seed=2, **limits)
    return dataclasses.replace(search, parts=parts, rows=(10, 30, 100))


# ---------------------------------------------------------------- the parts


def kinds() -> dict[str, tuple[Any, Any]]:
    rng = np.random.default_rng(1)
    labels = make_multilabel_classification(N_ROWS, 4, n_classes=3, random_state=0)[1]
    return {
        "rare": ((rng.random(N_ROWS) < 0.1).astype(int), LogisticRegression()),
        "multiclass": (rng.choice(["a", "b", "c"], N_ROWS, p=[0.6, 0.3, 0.1]), GaussianNB()),
        "numbers": (rng.exponential(size=N_ROWS), LinearRegression()),
        "multilabel": (labels, MLkNN()),
    }


@pytest.mark.parametrize("kind", kinds())
def test_parts_are_nested_and_keep_the_folds_and_the_share_of_every_class(kind: str) -> None:
    target, model = kinds()[kind]
    X = pd.DataFrame({"row": np.arange(N_ROWS, dtype=float), "noise": np.zeros(N_ROWS)})
    X["noise"] += np.random.default_rng(2).normal(size=N_ROWS)
    weight = np.arange(1.0, N_ROWS + 1) if kind == "rare" else None
    whole = Problem.build(X, target, model, folds=3, weight=weight)
    found = row_parts(whole, 60)
    assert found is not None
    assert found.rows == (60, 240, 480)
    kept = set[int]()
    for part in found.problems:
        rows = part.features["row"].to_numpy().astype(int)
        assert kept < set(rows.tolist())
        kept = set(rows.tolist())
        # Every row is where it was: in its fold, with its target and its weight.
        assert np.array_equal(part.target, whole.target[rows])
        assert weight is None or np.array_equal(part.weight, weight[rows])
        for (train, test), (all_train, all_test) in zip(part.folds, whole.folds, strict=True):
            assert rows[train].tolist() == [row for row in all_train.tolist() if row in kept]
            assert rows[test].tolist() == [row for row in all_test.tolist() if row in kept]
            share = len(test) / len(rows)
            assert share == pytest.approx(len(all_test) / N_ROWS, abs=0.06)
        if kind in ("rare", "multiclass"):
            for level in np.unique(target):
                expected = (target == level).sum() * len(rows) / N_ROWS
                # Each of three folds rounds to one row.
                assert abs((target[rows] == level).sum() - expected) <= 3
        if kind == "numbers":
            ranks = np.argsort(np.argsort(target))[rows]
            assert abs(ranks.mean() / N_ROWS - 0.5) < 0.03
    keys = [each.fingerprint() for each in (*found.problems, whole)]
    assert len(set(keys)) == 3
    assert [each.fingerprint() for each in row_parts(whole, 60).problems] == keys[:2]


def test_a_class_of_a_few_rows_is_not_drawn_first() -> None:
    problem = posed(GaussianNB())
    target = np.zeros(N_ROWS, dtype=int)
    target[:12] = 1
    drawn = [
        target[nested_order(dataclasses.replace(problem, target=target, seed=seed))[:40]].sum()
        for seed in range(60)
    ]
    # 12 of 480 rows: one of the first 40 on average.
    assert 0.6 < np.mean(drawn) < 1.4


def test_auto_is_off_below_100_000_rows_and_starts_with_10_000() -> None:
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(AUTO_ROWS, 2)).astype(np.float32), columns=["a", "b"])
    y = rng.integers(2, size=AUTO_ROWS)
    least = Problem.build(X, y, GaussianNB(), folds=2)
    fewer = Problem.build(X[:-1], y[:-1], GaussianNB(), folds=2)
    assert row_parts(least, "auto").rows == (10_000, 40_000, 100_000)
    assert row_parts(fewer, "auto") is None
    assert row_parts(least, None) is None
    assert row_parts(least, 50).rows == (50, 200, 800, 100_000)


# ---------------------------------------------------------------- an epoch


def test_a_quarter_survives_each_part_and_the_rest_has_no_cost() -> None:
    whole = planted(plain_space(12), 1)
    parts = [blurred(whole, 5, 0.002), blurred(whole, 6, 0.0005)]
    masks = np.random.default_rng(0).random((13, 12)) < 0.5
    masks[7] = masks[2]
    known, pruned = pack_masks(masks[[4, 5]])
    before = {known: 0b111 << 5, pruned: 0b011 << 5}
    order, no_limit = np.arange(3), np.full(13, np.inf)
    found = evaluate_by_rows(parts, whole, masks, no_limit, order, None, before)
    # Twelve distinct masks, of which one is known: 11, then 3, then 1.
    competing = [row for row in range(13) if row not in (4, 7)]
    first = sorted(competing, key=lambda row: parts[0].cost(masks[row]))[:3]
    second = sorted(first, key=lambda row: parts[1].cost(masks[row]))[:1]
    through = {4, *second} | ({7} if 2 in second else set())
    assert set(np.flatnonzero(np.isfinite(found.costs)).tolist()) == through
    for row in through:
        assert found.costs[row] == whole.cost(masks[row])
    out = ~np.isfinite(found.costs)
    assert found.censored[out].all()
    assert not found.needed[out].any()
    assert np.isnan(found.fold_costs[out]).all()
    assert found.on_parts is not None
    assert found.on_parts[competing, 0].all()
    assert set(np.flatnonzero(found.on_parts[:, 1].any(axis=1)).tolist()) == set(first)
    assert (parts[0].fits, parts[1].fits) == (33, 9)


def test_what_fails_on_a_part_is_a_failure_and_the_others_go_on() -> None:
    whole = planted(plain_space(10), 1)
    masks = np.random.default_rng(0).random((6, 10)) < 0.5
    part = dataclasses.replace(
        blurred(whole, 5, 0.0), fails=lambda mask: bool((mask == masks[3]).all())
    )
    found = evaluate_by_rows([part], whole, masks, np.full(6, np.inf), np.arange(3), None, {})
    assert np.flatnonzero(found.failed).tolist() == [3]
    assert not found.censored[3]
    assert "cannot fit" in str(found.first_error)
    assert np.isfinite(found.costs).sum() == 2


@pytest.mark.parametrize("name", OPEN_ENDED)
def test_every_cost_that_a_strategy_is_told_is_one_on_all_rows(name: str) -> None:
    whole = planted(plain_space(18), 3)
    parts = [blurred(whole, 5, 0.003), blurred(whole, 6, 0.001)]
    result = run(by_rows(name, whole, parts, epochs=8))
    members = result.state.strategy.members
    held = np.isfinite(members.costs)
    assert held.any()
    assert np.isfinite(result.records[0].particles["cost"]).any()
    # Exactly what the planted problem costs, or less a unit that no model uses.
    for mask, cost in zip(members.masks[held], members.costs[held], strict=True):
        assert cost == pytest.approx(whole.cost(mask), abs=1e-12)
    for record in result.records:
        told = record.particles
        finite = told[np.isfinite(told["cost"])]
        masks = np.array([[bit == "1" for bit in text] for text in finite["mask"]])
        assert finite["cost"].tolist() == [whole.cost(mask) for mask in masks]
    assert result.cost == pytest.approx(whole.cost(result.best_mask), abs=1e-12)
    on_all = sum(folds != 0 for folds in result.state.asked.values())
    assert on_all < 0.6 * result.state.counts.distinct


def test_parts_that_rank_alike_lose_little_and_cost_a_fraction() -> None:
    whole = planted(plain_space(24), 3)
    alike = [blurred(whole, 5, 1e-5), blurred(whole, 6, 1e-5)]
    plain = run(make_search(make("multiswarm"), planted(plain_space(24), 3), seed=2, epochs=20))
    fast = run(by_rows("multiswarm", whole, alike, epochs=20))
    assert fast.state.counts.fits < 0.4 * plain.state.counts.fits
    optimum = whole.cost(whole.weights.mean(axis=0) < 0)
    everywhere = whole.cost(np.ones(24, dtype=bool))
    assert fast.cost - optimum < 0.15 * (everywhere - optimum)


# ---------------------------------------------------------------- whole searches


@pytest.fixture(scope="module")
def searched() -> FinishedSearch:
    return run_search(plan(posed()), Archive())


def test_the_answer_and_all_that_is_listed_is_measured_on_all_rows(
    searched: FinishedSearch,
) -> None:
    result = searched.result
    complete = [key for key, folds in result.state.asked.items() if folds == 0b111 << 5]
    masks = unpack_masks(complete, 8)
    with CrossValidation(posed()) as evaluator:
        everywhere, order = np.full(len(masks), np.inf), np.arange(3)
        costs = evaluator.evaluate(masks, everywhere, order).costs
        best = evaluator.evaluate(result.best_mask[None, :], everywhere[:1], order).costs[0]
    assert result.cost == best == costs.min()
    parts = result.parts
    assert parts is not None
    assert parts.rows == (15, 60, 240, 480)
    assert list(parts.subsets) == sorted(parts.subsets, reverse=True)
    assert parts.subsets[0] > 4 * parts.subsets[-1] > 0
    assert parts.n_probes == N_PROBES
    assert all(-1 <= value <= 1 for value in parts.correlations)
    assert "rank correlation" in str(result)


def test_the_budget_counts_a_fit_on_a_part_as_its_share_of_the_rows(
    searched: FinishedSearch,
) -> None:
    state = searched.result.state
    on_all = sum(folds.bit_count() for folds in state.asked.values())
    per_part = np.zeros(3, dtype=int)
    for packed in state.asked_on_parts.values():
        bits = [bit == "1" for bit in format(packed, "016b")[:9]]
        per_part += np.reshape(bits, (3, 3)).sum(axis=1)
    assert state.counts.on_parts == tuple(per_part)
    share = (per_part * [15, 60, 240]).sum() / N_ROWS
    assert state.counts.fits == on_all + math.ceil(share)
    assert searched.fits == state.counts.fits
    # The seconds of the parts count as well.
    alone = dataclasses.replace(searched, on_parts=())
    assert searched.training_seconds > alone.training_seconds > 0
    ended = run_search(plan(posed(), budget=Budget(fits=30)), Archive()).result
    spent = [record.metrics["fits"] for record in ended.records]
    assert ended.reason == "fits"
    assert spent[-1] >= 30
    assert all(each < 30 for each in spent[:-1])


def test_a_search_is_the_same_after_an_interruption_with_two_workers_and_replayed(
    searched: FinishedSearch, tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path}/archive.db"
    trained = list[Any]()

    def fitted(mask: Any, record: Any) -> None:
        trained.append(record)
        if len(trained) == 40:
            raise KeyboardInterrupt

    with closing(Archive(url)) as archive:
        cut = run_search(plan(posed()), archive, SearchHooks(fits=fitted)).result
    assert cut.interrupted
    assert cut.parts is None
    with closing(Archive(url)) as archive:
        two = {"n_jobs": 2}
        resumed = run_search(plan(posed(), evaluation=two), archive, SearchHooks(fits=fitted))
    assert everything(resumed.result) == everything(searched.result)
    assert resumed.result.parts == searched.result.parts
    assert len(trained) > 40
    count = len(trained)
    with closing(Archive(url)) as archive:
        again = run_search(plan(posed()), archive, SearchHooks(fits=fitted))
    assert len(trained) == count
    assert everything(again.result) == everything(searched.result)
    assert again.training_seconds == resumed.training_seconds
    # A search on all rows finds what was evaluated on them, and is none the wiser for the parts.
    whole = run_search(plan(posed(), rows=None), Archive()).result
    with closing(Archive(url)) as archive:
        shared = run_search(plan(posed(), rows=None), archive).result
    assert everything(shared) == everything(whole)
    assert shared.work["hits"].sum() > whole.work["hits"].sum()


def test_a_race_and_prices_apply_to_what_survives() -> None:
    X, _ = table()
    space = SearchSpace.build(list(X), costs={"x0": 5.0}, cost_weight=0.01)
    problem = posed(space=space)
    result = run_search(plan(problem, racing=0.2), Archive()).result
    mask = result.best_mask[None, :]
    with CrossValidation(problem) as evaluator:
        cost = evaluator.evaluate(mask, np.full(1, np.inf), np.arange(3)).costs[0]
    assert result.cost == pytest.approx(cost)
    assert result.state.best_cost == pytest.approx(cost + float(space.penalty(mask)[0]))


# ---------------------------------------------------------------- from Python and YAML


def test_a_selector_searches_on_parts_and_lists_what_was_measured_on_all_rows() -> None:
    X, y = table()
    selector = SubsetSelector(DecisionTreeClassifier(max_depth=3), rows=24, epochs=4, cv=3)
    selector.set_params(strategy="bpso", strategy_params=FEW).fit(X, y)
    known = selector.results_.dropna(subset="cost")
    assert selector.cost_ == known["cost"].min()
    assert selector.result_.parts.subsets[0] > len(known) - N_PROBES
    assert selector.n_fits_ == selector.result_.state.counts.fits
    low = selector.result_.parts.correlations[0] < 0.8
    assert ("SWM208" in [each.code for each in selector.findings_]) == low


@pytest.mark.slow
@pytest.mark.usefixtures("plain", "prefect_server")
def test_a_run_logs_the_rank_correlation_and_resumes_without_training(bench: Bench) -> None:
    config = bench.config(budget={"epochs": 4, "rows": 18})
    assert plan_search(config).fits.typical < plan_search(bench.config()).fits.typical
    outcome = select(config, None, 0)
    parts = outcome.result.parts
    assert parts is not None
    run_ = bench.tracking.run(outcome.run_id)
    assert run_.metrics["rows/rank_correlation"] == parts.correlations[0]
    assert run_.metrics["rows/subsets_on_all"] == parts.subsets[-1]
    assert outcome.result.cost in outcome.result.confirmation.searched
    again = select(config, outcome.run_id, 0).result
    assert everything(again) == everything(outcome.result)
    assert again.work["fits"].sum() == 0


def test_a_worker_keeps_a_table_beside_parts_of_its_rows_but_not_beside_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("swarm.evaluation.shipping._kept", {})
    problem = posed()
    found = row_parts(problem, SMALLEST)
    assert found is not None
    folders = []
    for number, each in enumerate((*found.problems, problem, posed(GaussianNB()))):
        folders.append(str(tmp_path / str(number)))
        Path(folders[-1]).mkdir()
        write_problem(each, Path(folders[-1]))
    *parts, whole, other = folders
    first = [read_problem(folder) for folder in (*parts, whole)]
    assert [read_problem(folder) for folder in (*parts, whole)] == first
    assert read_problem(other).fingerprint() != first[-1].fingerprint()
    assert read_problem(whole) is not first[-1]

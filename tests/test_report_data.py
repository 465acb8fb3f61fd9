"""What a report gathers from a real search: a small one, by hand."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from flows.configured import fetched, plan_as_configured, prepare_as_configured
from swarm.report import ReportData
from swarm.search.result import SearchResult
from swarm.search.runner import run_search
from swarm.storage.archive import Archive
from swarm.storage.records import Record
from swarm.validation import Judgement
from swarm.validation.headline import headline
from tasks.report import _origin, costs_on_test, report_data
from tasks.steps import fit_ensemble, judge_answer
from tests.small_run import Bench

FIXED, FORBIDDEN = "x7", "x6"


@dataclass(frozen=True)
class Told:
    """A search, its judgement, and what the report makes of them."""

    result: SearchResult
    judgement: Judgement
    data: ReportData


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Told:
    bench = Bench(tmp_path_factory.mktemp("report"), "sqlite:///unused.db")
    space = {"fixed": [FIXED], "forbidden": [FORBIDDEN]}
    config = bench.config(space=space, budget={"epochs": 8})
    prepared = prepare_as_configured(config, fetched(config))
    problem, train, test = prepared.problem, prepared.train, prepared.test
    finished = run_search(plan_as_configured(config, prepared), Archive(bench.archive))
    result = finished.result
    subsets = [result.space.subset(mask) for mask in result.best_members(3)[0]]
    ensemble = fit_ensemble(problem, train, subsets, "auto")
    judgement = judge_answer(
        problem, train, test, ensemble, result.features, result.cost, by_group=False, n_resamples=20
    )
    data = report_data(
        finished,
        judgement,
        prepared.hints,
        3,
        title="t",
        headline=headline(result, problem.scoring, judgement),
        regroup_every=2,
        subset_test_costs=costs_on_test(problem, ensemble, test),
    )
    return Told(result, judgement, data)


def test_a_shrunk_subset_has_the_folds_of_the_one_it_was_shrunk_from() -> None:
    def record(*costs: float) -> Record:
        return Record(np.array(costs), np.zeros((2, 4)), np.zeros((2, 4), dtype=bool))

    other = np.array([True, False, True, False])
    wider = np.array([True, True, True, False])
    finished = [(other, record(0.1, 0.3)), (wider, record(0.3, 0.1)), (~other, record(0.2, 0.2))]
    shrunk = np.array([True, True, False, False])
    found = _origin(shrunk, 0.2, finished)
    assert found is not None
    assert found[1] is finished[1][1]
    assert _origin(shrunk, 0.25, finished) is None


def test_picks_obey_the_space_and_their_rules_and_the_answer_comes_first(told: Told) -> None:
    first = told.data.picks[0]
    assert (first.rule, list(first.features)) == ("best", told.result.features)
    assert first.cost == told.result.cost
    assert first.error > 0
    by_rule = {pick.rule: pick for pick in told.data.picks}
    for pick in by_rule.values():
        assert FIXED in pick.features
        assert FORBIDDEN not in pick.features
    small, best = by_rule["parsimonious"], by_rule["best"]
    assert len(small.features) <= len(best.features)
    assert small.cost <= best.cost + best.error + 1e-12


def test_agreement_is_over_the_different_subsets_that_are_held(told: Told) -> None:
    held, _ = told.result.best_members()
    found = told.data.agreement
    assert found is not None
    assert found.n_held == len(held) > 1
    assert found.shares.loc[FIXED, "held"] == 1.0
    assert FORBIDDEN not in found.shares.index
    assert found.n_near >= 1
    expected = dict(zip(told.result.space.names, held.mean(axis=0), strict=True))
    assert all(expected[str(name)] == share for name, share in found.shares["held"].items())


def test_test_costs_are_those_of_the_judgement(told: Told) -> None:
    data = told.data
    assert data.subset_test_costs[0] == pytest.approx(told.judgement.costs["best_subset"])
    assert len(data.subset_test_costs) == len(data.subsets)
    assert np.isfinite(data.subset_test_costs).all()
    assert list(data.figures["value"]) == list(told.judgement.table["value"])

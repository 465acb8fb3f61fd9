"""Every registered strategy keeps the contract of swarm.testing, and its golden result.

Each has one in ``tests/golden/<name>.json``. Make it, or make it anew after a change of the
trajectory that is meant, with::

    REFRESH_GOLDEN=1 python -m pytest tests/swarm/strategies/test_protocol.py -k golden
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from swarm.errors import ConfigError
from swarm.strategies.catalogue import STRATEGIES, catalogue, make, registry
from swarm.strategies.random import RandomSearch
from swarm.strategies.rfe import RecursiveElimination
from swarm.strategies.sequential import ForwardSelection
from swarm.testing import StrategyContract, plain_space, planted
from swarm.testing.planted import drive
from tests import ROOT

GOLDEN = ROOT / "tests" / "golden"

PROMISES: dict[str, dict[str, Any]] = {
    # The costs do not guide these strategies.
    "full": {"is_baseline": True},
    "rankings": {"is_baseline": True},
    "random": {"is_baseline": True},
    "rfe": {"is_baseline": True},
    # A position follows from the velocity without chance, so that the swarm gathers at one point,
    # as Hafiz et al. (2018) find. It has to come close to the optimum.
    "erfs": {"optimum_rank": 40},
    "pso42": {"optimum_rank": 40},
    # The path from 60 units to one takes 1,830 evaluations.
    "sbs": {"distinct": 2000},
    "sbfs": {"distinct": 2000},
    # 2^16 - 1 subsets are the most below its limit.
    "exhaustive": {"widest": 16},
}

# Options that make another search of a strategy; each keeps the contract and has a golden result.
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "bpso-recombine": ("bpso", {"step": "recombine"}),
    "bpso-ranked": ("bpso", {"init": "ranked"}),
    # The description has this step and this start; the others combine one of them with ours.
    "multiswarm-bpso": ("multiswarm", {"step": "bpso", "init": "clusters"}),
    "multiswarm-clusters": ("multiswarm", {"init": "clusters"}),
    "multiswarm-ranked": ("multiswarm", {"step": "bpso"}),
}


class TestEveryStrategy(StrategyContract):
    @pytest.fixture(autouse=True, params=[*sorted(STRATEGIES), *VARIANTS])
    def _made(self, request: pytest.FixtureRequest) -> None:
        self.strategy = make(*VARIANTS.get(request.param, (request.param,)))
        self.golden = GOLDEN / f"{request.param}.json"
        for name, value in PROMISES.get(request.param, {}).items():
            setattr(self, name, value)


@pytest.mark.parametrize(
    ("cls", "attribute", "value", "test"),
    [
        (RandomSearch, "is_deterministic", True, "test_different_seeds_give_different_runs"),
        (RandomSearch, "ends_by_itself", True, "test_it_terminates_by_itself"),
        (ForwardSelection, "takes_warm_start", True, "test_warm_start_masks_are_proposed_first"),
        (RandomSearch, "size_parameter", "batch_size", "test_the_result_has_the_requested_size"),
        (RecursiveElimination, "uses_importances", False, "test_importances_that_it_does_not"),
        (ForwardSelection, "epochs_in", lambda self, space: 99, "test_evaluations_and_epochs"),
    ],
)
def test_an_attribute_that_is_not_true_fails_the_contract(
    cls: type, attribute: str, value: object, test: str
) -> None:
    liar = type("Liar", (cls,), {attribute: value})
    contract = type("TestLiar", (StrategyContract,), {"strategy": liar()})()
    (name,) = (method for method in dir(contract) if method.startswith(test))
    with pytest.raises(AssertionError):
        getattr(contract, name)()


OUT_OF_RANGE: list[tuple[str, str, list[Any]]] = [
    ("multiswarm", "velocity_bound", [-1.0]),
    ("multiswarm", "n_swarms", [0, 17]),
    ("multiswarm", "local_search", ["ridge"]),
    ("multiswarm", "n_particles", [2.5, 10**9]),
    ("multiswarm", "inertia", [float("nan")]),
    ("bee_colony", "alpha", [0]),
    ("mlaco", "rho", [0]),
    ("memetic", "population_size", [1]),
    ("memetic", "crossover_prob", [-0.1, 1.1]),
    ("exhaustive", "limit", [0]),
    ("ranked", "size", [0]),
    ("rfe", "step", [-0.1, 1.5, True]),
    ("sfs", "size", [0, 2.5, "most", (3, 2), (1, 2, 3), [0, 2]]),
]


@pytest.mark.parametrize(("name", "parameter", "values"), OUT_OF_RANGE)
def test_a_parameter_out_of_range_is_refused_by_name(
    name: str, parameter: str, values: list[Any]
) -> None:
    for value in values:
        with pytest.raises(ConfigError, match=f"'{name}'.*{parameter}"):
            make(name, {parameter: value})


def test_every_strategy_has_a_line_and_a_text_for_each_parameter() -> None:
    entries = catalogue()
    assert [entry.name for entry in entries] == sorted(registry())
    assert len(registry()) == len(entries)
    for entry in entries:
        assert 10 < len(entry.line) < 100, entry
        strategy = make(entry.name)
        for parameter in entry.parameters:
            assert parameter.text, f"{entry.name}.{parameter.name} is not documented"
            assert getattr(strategy, parameter.name) == parameter.default


def test_random_search_draws_every_size_alike_whatever_is_fixed_or_forbidden() -> None:
    space = plain_space(9, fixed=["x0"], forbidden=["x1", "x2", "x3"], min_size=2, max_size=5)
    steps = drive(make("random"), planted(space), epochs=200)
    sizes = np.concatenate([step.proposal.masks.sum(axis=1) for step in steps])
    assert np.allclose(np.bincount(sizes)[2:] / len(sizes), 0.25, atol=0.03)


def test_every_golden_result_belongs_to_a_strategy() -> None:
    assert {path.stem for path in GOLDEN.glob("*.json")} <= {*STRATEGIES, *VARIANTS}

"""Every registered strategy keeps the contract of swarm.testing, and its golden result.

Each has one in ``tests/golden/<name>.json``. Make it, or make it anew after a change of the
trajectory that is meant, with::

    REFRESH_GOLDEN=1 python -m pytest tests/test_strategies_contract.py -k golden
"""

from __future__ import annotations

from pathlib import Path
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

GOLDEN = Path(__file__).parent / "golden"

PROMISES: dict[str, dict[str, Any]] = {
    # These do not search at all, or not by what they observed.
    "full": {"is_baseline": True},
    "random": {"is_baseline": True},
    "rfe": {"is_baseline": True},
    # Their swarms, without chance in the move from velocity to position, gather at one point and
    # stay there. Document 002 finds the same; they have to come close to the optimum.
    "erfs": {"optimum_rank": 40},
    "pso42": {"optimum_rank": 40},
    # From the full set of 60 units to the smallest, one at a time, takes 1,830 evaluations.
    "sbs": {"distinct": 2000},
    "sbfs": {"distinct": 2000},
    # 2^16 - 1 subsets are the most below its limit.
    "exhaustive": {"widest": 16},
}

# Options that make another search of a strategy; each keeps the contract and has a golden result.
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "bpso-recombine": ("bpso", {"step": "recombine"}),
    "bpso-ranked": ("bpso", {"init": "ranked"}),
    # Those of the description, and each of its two parts with ours in place of the other.
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
    ("kind", "attribute", "value", "test"),
    [
        (RandomSearch, "is_deterministic", True, "test_different_seeds_give_different_runs"),
        (ForwardSelection, "is_deterministic", False, "test_different_seeds_give_different_runs"),
        (RandomSearch, "ends_by_itself", True, "test_it_terminates_by_itself"),
        (ForwardSelection, "ends_by_itself", False, "test_it_terminates_by_itself"),
        (RandomSearch, "takes_warm_start", False, "test_warm_start_masks_are_proposed_first"),
        (ForwardSelection, "takes_warm_start", True, "test_warm_start_masks_are_proposed_first"),
        (RandomSearch, "size_parameter", "batch_size", "test_the_result_has_the_requested_size"),
        (RandomSearch, "crosses_size_bounds", True, "test_the_result_has_the_requested_size"),
        (RecursiveElimination, "uses_importances", False, "test_importances_that_it_does_not"),
        (RandomSearch, "evaluations_in", lambda self, space: (0, 3), "test_evaluations_and_epochs"),
        (ForwardSelection, "epochs_in", lambda self, space: 99, "test_evaluations_and_epochs"),
    ],
)
def test_an_attribute_that_is_not_true_fails_the_contract(
    kind: type, attribute: str, value: object, test: str
) -> None:
    liar = type("Liar", (kind,), {attribute: value})
    contract = type("TestLiar", (StrategyContract,), {"strategy": liar()})()
    (name,) = (each for each in dir(contract) if each.startswith(test))
    with pytest.raises(AssertionError):
        getattr(contract, name)()


@pytest.mark.parametrize(
    ("name", "params", "words"),
    [
        ("multiswarm", {"velocity_bound": -1.0}, "velocity_bound must be > 0, got -1.0"),
        ("multiswarm", {"n_swarms": 17}, "n_swarms must be <= 16, got 17"),
        ("multiswarm", {"local_search": "ridge"}, "must be a boolean, got 'ridge'"),
        ("multiswarm", {"init": "x"}, "one of 'ranked', 'clusters', 'bernoulli', got 'x'"),
        ("multiswarm", {"step": "jump"}, "one of 'bpso', 'recombine', got 'jump'"),
        ("multiswarm", {"n_particles": 2.5}, "n_particles must be a whole number, got 2.5"),
        ("multiswarm", {"n_particles": 10**9}, "n_particles must be <= 100000, got 1000000000"),
        ("multiswarm", {"inertia": float("nan")}, "inertia must be finite, got nan"),
        ("bee_colony", {"alpha": 0}, "alpha must be >= 1, got 0"),
        ("mlaco", {"rho": 0}, "rho must be > 0, got 0"),
        ("memetic", {"population_size": 1}, "population_size must be >= 2, got 1"),
        ("exhaustive", {"limit": 0}, "limit must be >= 1, got 0"),
        ("ranked", {"size": 0}, "size must be >= 1, got 0"),
        ("rfe", {"step": -0.1}, "step must be > 0, got -0.1"),
        ("rfe", {"step": 1.5}, "step must be a whole number, got 1.5"),
        ("rfe", {"step": True}, "step must be a number, got True"),
        ("sfs", {"size": 0}, "size must be >= 1, got 0"),
        ("sfs", {"size": 2.5}, "size must be a whole number, got 2.5"),
        ("sfs", {"size": "most"}, "'best' or 'parsimonious', got 'most'"),
        ("sfs", {"size": (3, 2)}, "with min <= max"),
        ("sfs", {"size": (1, 2, 3)}, "got 3 numbers"),
        ("sfs", {"size": [0, 2]}, "smallest size must be >= 1"),
    ],
)
def test_a_parameter_out_of_range_is_named_with_its_value(
    name: str, params: dict[str, Any], words: str
) -> None:
    with pytest.raises(ConfigError, match=f"^strategy '{name}' cannot be created: ") as caught:
        make(name, params)
    assert words in str(caught.value)


def test_every_strategy_has_a_line_and_a_text_for_each_parameter() -> None:
    entries = catalogue()
    assert [entry.name for entry in entries] == sorted(registry())
    assert len(registry()) == len(entries)
    for entry in entries:
        assert 10 < len(entry.line) < 100, entry
        made = make(entry.name)
        for parameter in entry.parameters:
            assert parameter.text, f"{entry.name}.{parameter.name} is not documented"
            assert getattr(made, parameter.name) == parameter.default


def test_random_search_draws_every_size_alike_whatever_is_fixed_or_forbidden() -> None:
    space = plain_space(9, fixed=["x0"], forbidden=["x1", "x2", "x3"], min_size=2, max_size=5)
    steps = drive(make("random"), planted(space), epochs=200)
    sizes = np.concatenate([step.proposal.masks.sum(axis=1) for step in steps])
    assert np.allclose(np.bincount(sizes)[2:] / len(sizes), 0.25, atol=0.03)


def test_every_golden_result_belongs_to_a_strategy() -> None:
    assert {path.stem for path in GOLDEN.glob("*.json")} <= {*STRATEGIES, *VARIANTS}

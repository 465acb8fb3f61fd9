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

from swarm.strategies.catalogue import STRATEGIES, make
from swarm.strategies.operators.steps import STEPS
from swarm.strategies.random import RandomSearch
from swarm.strategies.rfe import RecursiveElimination
from swarm.strategies.sfs import ForwardSelection
from swarm.testing import StrategyContract, plain_space, planted
from swarm.testing.trajectory import drive

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
    **{f"bpso-{step}": ("bpso", {"step": step}) for step in STEPS if step != "bpso"},
    "bpso-ranked": ("bpso", {"init": "ranked"}),
    # Those of the description, and each of its two parts with ours in place of the other.
    "multiswarm-bpso": ("multiswarm", {"step": "bpso", "init": "clusters"}),
    "multiswarm-clusters": ("multiswarm", {"init": "clusters"}),
    "multiswarm-ranked": ("multiswarm", {"step": "bpso"}),
    "multiswarm-thompson": ("multiswarm", {"local_search": "thompson"}),
    "multiswarm-sticky": ("multiswarm", {"step": "sticky", "init": "clusters"}),
    "multiswarm-v_shaped": ("multiswarm", {"step": "v_shaped", "init": "clusters"}),
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


def test_random_search_draws_every_size_alike_whatever_is_fixed_or_forbidden() -> None:
    space = plain_space(9, fixed=["x0"], forbidden=["x1", "x2", "x3"], min_size=2, max_size=5)
    steps = drive(make("random"), planted(space), epochs=200)
    sizes = np.concatenate([step.proposal.masks.sum(axis=1) for step in steps])
    assert np.allclose(np.bincount(sizes)[2:] / len(sizes), 0.25, atol=0.03)


def test_every_golden_result_belongs_to_a_strategy() -> None:
    assert {path.stem for path in GOLDEN.glob("*.json")} <= {*STRATEGIES, *VARIANTS}

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


class TestEveryStrategy(StrategyContract):
    @pytest.fixture(autouse=True, params=sorted(STRATEGIES))
    def _made(self, request: pytest.FixtureRequest) -> None:
        self.strategy = make(request.param)
        self.golden = GOLDEN / f"{request.param}.json"
        for name, value in PROMISES.get(request.param, {}).items():
            setattr(self, name, value)


def test_random_search_draws_every_size_alike_whatever_is_fixed_or_forbidden() -> None:
    space = plain_space(9, fixed=["x0"], forbidden=["x1", "x2", "x3"], min_size=2, max_size=5)
    steps = drive(make("random"), planted(space), epochs=200)
    sizes = np.concatenate([step.proposal.masks.sum(axis=1) for step in steps])
    assert np.allclose(np.bincount(sizes)[2:] / len(sizes), 0.25, atol=0.03)


def test_every_golden_result_belongs_to_a_strategy() -> None:
    assert {path.stem for path in GOLDEN.glob("*.json")} <= set(STRATEGIES)

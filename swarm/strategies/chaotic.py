"""Binary PSO with a chaotic inertia."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from swarm.checks import require
from swarm.strategies.operators.binary_swarm import BinarySwarm, BinarySwarmStrategy


def logistic(inertia: float) -> float:
    """Iterate the logistic map once with the parameter 4: ``4 w (1 - w)``."""
    return 4.0 * inertia * (1.0 - inertia)


@dataclass(frozen=True)
class ChaoticPso(BinarySwarmStrategy):
    """Binary PSO with an inertia from the logistic map (Chuang et al. 2011).

    Source: Chuang, Yang and Li (2011), Chaotic maps based on binary particle swarm optimization for
    feature selection; Hafiz et al. (2018), section 5.3 (logistic map,
    ``w(t+1) = 4 w(t) (1 - w(t))``, ``w(0)`` 0.48).

    Parameters
    ----------
    inertia
        Initial value, between 0 and 1. From 0, 0.25, 0.5, 0.75 and 1 the map is not chaotic.
    """

    inertia: float = 0.48

    name: ClassVar[str] = "chaotic"

    def __post_init__(self) -> None:
        super().__post_init__()
        require("inertia", self.inertia, at_most=1)

    def moved(self, swarm: BinarySwarm, rng: np.random.Generator) -> BinarySwarm:
        """Move every particle with the inertia of the epoch, and iterate the map."""
        return replace(super().moved(swarm, rng), inertia=logistic(swarm.inertia))

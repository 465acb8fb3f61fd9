"""Binary particle swarm optimisation with one swarm."""

from dataclasses import dataclass
from typing import ClassVar

from swarm.strategies.operators.binary_swarm import BinarySwarmStrategy
from swarm.strategies.operators.steps import Step, check_step


@dataclass(frozen=True)
class BinaryPso(BinarySwarmStrategy):
    """Binary PSO (Kennedy and Eberhart 1997).

    Plain binary particle swarm optimisation with one swarm, with a choice of steps.

    Source: Kennedy and Eberhart (1997), A discrete binary version of the particle swarm algorithm;
    parameters of Hafiz et al. (2018): 30 particles, inertia 1, c1 = c2 = 2, velocities in [-6, 6].
    Our choice where the papers are silent: initial velocities are zero.

    Parameters
    ----------
    step
        How particles move: ``"bpso"``, by velocities and a sigmoid; ``"recombine"``, uniform
        crossover of pbest and gbest, one unit dropped and one added on average, without velocities.

    References
    ----------
    Steps: Kennedy and Eberhart (1997); Syswerda (1989).
    """

    step: Step = "bpso"

    name: ClassVar[str] = "bpso"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_step(self, self.step)

    @property
    def _step(self) -> Step:
        return self.step

"""One file per algorithm; a strategy is known once it has a line here."""

from __future__ import annotations

from swarm.strategies.ant_colony import AntColony
from swarm.strategies.bee_colony import BeeColony
from swarm.strategies.bpso import BinaryPso
from swarm.strategies.catfish import CatfishPso
from swarm.strategies.chaotic import ChaoticPso
from swarm.strategies.erfs import ErrorRatePso
from swarm.strategies.exhaustive import Exhaustive
from swarm.strategies.full import FullSet
from swarm.strategies.genetic import Genetic
from swarm.strategies.memetic import Memetic
from swarm.strategies.mlaco import MultiLabelAnts
from swarm.strategies.multiswarm import MultiSwarm
from swarm.strategies.pso42 import MixedStartPso
from swarm.strategies.random import RandomSearch
from swarm.strategies.rfe import RecursiveElimination
from swarm.strategies.sbfs import FloatingBackwardSelection
from swarm.strategies.sbs import BackwardSelection
from swarm.strategies.sffs import FloatingForwardSelection
from swarm.strategies.sfs import ForwardSelection
from swarm.strategies.two_d import TwoD

STRATEGIES: dict[str, type] = {
    "ant_colony": AntColony,
    "bee_colony": BeeColony,
    "bpso": BinaryPso,
    "catfish": CatfishPso,
    "chaotic": ChaoticPso,
    "erfs": ErrorRatePso,
    "exhaustive": Exhaustive,
    "full": FullSet,
    "genetic": Genetic,
    "memetic": Memetic,
    "mlaco": MultiLabelAnts,
    "multiswarm": MultiSwarm,
    "pso42": MixedStartPso,
    "random": RandomSearch,
    "rfe": RecursiveElimination,
    "sbfs": FloatingBackwardSelection,
    "sbs": BackwardSelection,
    "sffs": FloatingForwardSelection,
    "sfs": ForwardSelection,
    "two_d": TwoD,
}

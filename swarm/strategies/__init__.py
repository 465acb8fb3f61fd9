"""One file per algorithm; a strategy is known once it has a line here."""

from __future__ import annotations

from swarm.strategies.bpso import BinaryPso
from swarm.strategies.full import FullSet
from swarm.strategies.multiswarm import MultiSwarm
from swarm.strategies.random import RandomSearch

STRATEGIES: dict[str, type] = {
    "bpso": BinaryPso,
    "full": FullSet,
    "multiswarm": MultiSwarm,
    "random": RandomSearch,
}

"""Sequential backward selection."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from swarm.strategies.operators.sequential import SequentialStrategy


@dataclass(frozen=True)
class BackwardSelection(SequentialStrategy):
    """Sequential backward selection, SBS (Ferri et al. 1994).

    Repeatedly drops the unit whose removal costs least, starting from all allowed units, which are
    evaluated first.

    References
    ----------
    Ferri et al., Comparative study of techniques for large-scale feature selection, Pattern
    Recognition in Practice IV (1994); documentation of mlxtend's SequentialFeatureSelector (2023).
    """

    forward: ClassVar[bool] = False

"""Sequential floating forward selection."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from swarm.strategies.operators.sequential import FloatingStrategy


@dataclass(frozen=True)
class FloatingForwardSelection(FloatingStrategy):
    """Sequential floating forward selection, SFFS (Pudil et al. 1994).

    Forward selection; every step is followed by conditional removals.

    References
    ----------
    Pudil, Novovicova and Kittler, Floating search methods in feature selection, Pattern
    Recognition Letters 15 (1994); documentation of mlxtend's SequentialFeatureSelector (2023).
    """

    forward: ClassVar[bool] = True

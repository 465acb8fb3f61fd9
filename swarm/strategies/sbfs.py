"""Sequential floating backward selection."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from swarm.strategies.operators.sequential import FloatingStrategy


@dataclass(frozen=True)
class FloatingBackwardSelection(FloatingStrategy):
    """Sequential floating backward selection, SBFS (Pudil et al. 1994).

    Backward selection; every step is followed by conditional additions.

    References
    ----------
    Pudil, Novovicova and Kittler, Floating search methods in feature selection, Pattern
    Recognition Letters 15 (1994); documentation of mlxtend's SequentialFeatureSelector (2015,
    2023).
    """

    forward: ClassVar[bool] = False

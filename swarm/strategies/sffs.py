"""Sequential floating forward selection: after an addition, drop units where that pays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from swarm.strategies.operators.add_drop import FloatingSettings

__all__ = ["FloatingForwardSelection"]


@dataclass(frozen=True)
class FloatingForwardSelection(FloatingSettings):
    """Sequential floating forward selection, SFFS (document 003).

    Forward selection whose every step is followed by conditional removals.

    References
    ----------
    Document 003; Pudil, Novovicova and Kittler, Floating search methods in feature selection,
    Pattern Recognition Letters 15 (1994).
    """

    forward: ClassVar[bool] = True

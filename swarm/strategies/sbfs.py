"""Sequential floating backward selection: after a removal, add units back where that pays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from swarm.strategies.operators.add_drop import FloatingSettings

__all__ = ["FloatingBackwardSelection"]


@dataclass(frozen=True)
class FloatingBackwardSelection(FloatingSettings):
    """Sequential floating backward selection, SBFS (documents 001 and 003).

    Backward selection whose every step is followed by conditional additions.

    References
    ----------
    Documents 001 and 003; Pudil, Novovicova and Kittler, Floating search methods in feature
    selection, Pattern Recognition Letters 15 (1994).
    """

    forward: ClassVar[bool] = False

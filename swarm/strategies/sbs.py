"""Sequential backward selection: drop the unit that is missed least, again and again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from swarm.strategies.operators.add_drop import SequentialSettings

__all__ = ["BackwardSelection"]


@dataclass(frozen=True)
class BackwardSelection(SequentialSettings):
    """Sequential backward selection, SBS (document 003).

    Starts from all units that are allowed, which are evaluated first.

    References
    ----------
    Document 003; Ferri et al., Comparative study of techniques for large-scale feature
    selection, Pattern Recognition in Practice IV (1994).
    """

    forward: ClassVar[bool] = False

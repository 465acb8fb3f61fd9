"""Sequential forward selection: add the unit that lowers the cost most, again and again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from swarm.strategies.operators.add_drop import SequentialSettings

__all__ = ["ForwardSelection"]


@dataclass(frozen=True)
class ForwardSelection(SequentialSettings):
    """Sequential forward selection, SFS (document 003).

    Starts from the fixed units. Choosing k of d units takes d + (d - 1) + ... + (d - k + 1)
    evaluations.

    References
    ----------
    Document 003; Ferri et al., Comparative study of techniques for large-scale feature
    selection, Pattern Recognition in Practice IV (1994).
    """

    forward: ClassVar[bool] = True

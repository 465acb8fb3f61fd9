"""Sequential forward selection."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from swarm.strategies.operators.sequential import SequentialStrategy


@dataclass(frozen=True)
class ForwardSelection(SequentialStrategy):
    """Sequential forward selection, SFS (Ferri et al. 1994).

    Repeatedly adds the unit that lowers the cost most, starting from the fixed units. Selecting k
    of d units takes d + (d - 1) + ... + (d - k + 1) evaluations.

    References
    ----------
    Ferri et al., Comparative study of techniques for large-scale feature selection, Pattern
    Recognition in Practice IV (1994); documentation of mlxtend's SequentialFeatureSelector (2023).
    """

    forward: ClassVar[bool] = True

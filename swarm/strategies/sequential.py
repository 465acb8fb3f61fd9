"""Sequential selection: forward and backward, plain and floating.

Sources: Ferri et al., Comparative study of techniques for large-scale feature selection, Pattern
Recognition in Practice IV (1994), for the plain ones; Pudil, Novovicova and Kittler, Floating
search methods in feature selection, Pattern Recognition Letters 15 (1994), for the floating ones;
documentation of mlxtend's SequentialFeatureSelector (2015, 2023).
"""

from dataclasses import dataclass
from typing import ClassVar

from swarm.strategies.operators.sequential import FloatingStrategy, SequentialStrategy


@dataclass(frozen=True)
class ForwardSelection(SequentialStrategy):
    """Sequential forward selection, SFS (Ferri et al. 1994).

    Repeatedly adds the unit that lowers the cost most, starting from the fixed units. Selecting k
    of d units takes d + (d - 1) + ... + (d - k + 1) evaluations.
    """

    forward: ClassVar[bool] = True


@dataclass(frozen=True)
class BackwardSelection(SequentialStrategy):
    """Sequential backward selection, SBS (Ferri et al. 1994).

    Repeatedly drops the unit whose removal costs least, starting from all allowed units, which are
    evaluated first.
    """

    forward: ClassVar[bool] = False
    starts_from_all: ClassVar[bool] = True


@dataclass(frozen=True)
class FloatingForwardSelection(FloatingStrategy):
    """Sequential floating forward selection, SFFS (Pudil et al. 1994).

    Forward selection; every step is followed by conditional removals.
    """

    forward: ClassVar[bool] = True


@dataclass(frozen=True)
class FloatingBackwardSelection(FloatingStrategy):
    """Sequential floating backward selection, SBFS (Pudil et al. 1994).

    Backward selection; every step is followed by conditional additions.
    """

    forward: ClassVar[bool] = False
    starts_from_all: ClassVar[bool] = True

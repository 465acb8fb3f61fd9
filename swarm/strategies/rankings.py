"""The best size of the better of two rankings, without a search.

The rankings are measured after its only epoch, see :mod:`swarm.search.rankings`.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from swarm.problem.hints import Hints
from swarm.problem.space import SearchSpace
from swarm.strategies.operators.memory import Memory, MemoryState
from swarm.strategies.operators.sequential import first_of_size
from swarm.strategies.operators.single import SingleMaskStrategy


@dataclass(frozen=True)
class RankingSizes(SingleMaskStrategy):
    """The first columns of two rankings, measured inside the folds, without a search.

    Columns are ranked by the F statistic and by extremely randomised trees, on the training rows of
    each fold anew. Sizes are in geometric progression within the constraints, up to all columns.
    The result is the best of them, or by the goal of the confirmation a smaller one; the ensemble
    has the sizes of both within one standard error. ``auto`` leaves tables to it that have more
    than ten times as many columns as rows. As many units as are allowed are evaluated first.

    References
    ----------
    Ambroise and McLachlan, Selection bias in gene extraction on the basis of microarray
    gene-expression data, PNAS 99 (2002).
    """

    owns_mask: ClassVar[bool] = True

    def start(self, space: SearchSpace, hints: Hints, rng: np.random.Generator) -> MemoryState:
        """Start from as many units as are allowed."""
        return MemoryState(space, 0, Memory.blank(first_of_size(np.array([space.max_size]), space)))

"""Asynchronous epochs: a worker that is idle gets the next mask without waiting for the others.

A generational search leaves workers idle until the slowest fit of an epoch ends. Here an epoch ends
as soon as a worker has nothing to do: the strategy observes what has been answered since the epoch
before, also of earlier proposals, and proposes the next masks (a steady-state swarm; asynchronous
PSO: Koh et al. 2006). Masks of this epoch that are not answered yet are observed as censored, like
masks beyond the budget, and again with their costs once they are answered. The last epoch that the
budget allows waits for all answers; where another limit ends the search, the masks that are still
in training are dropped, and count towards nothing.

The search is a function of its seed and of which masks each epoch observes. That is recorded in the
archive before the strategy observes it, so that the same search, run again, consumes the recorded
epochs first, from archived evaluations, and only then asks the workers.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from swarm.arrays import Bool, Int
from swarm.errors import StoreError
from swarm.evaluation.types import Evaluations, Evaluator, stacked
from swarm.problem.hints import Hints
from swarm.problem.space import SearchSpace
from swarm.search.priced import limits_without_prices
from swarm.strategies.base import Proposal, Strategy

if TYPE_CHECKING:
    # A configuration is checked without what evaluates and stores.
    from swarm.evaluation.stream import Stream
    from swarm.storage.archive import AnswerOrder


@dataclass(frozen=True)
class Unanswered:
    """Masks that a search has asked for, and whose costs its strategy has not observed.

    Attributes
    ----------
    proposal : Proposal
        The masks, in the order in which they were asked for.
    numbers : int (n,)
        Their place among all that the search has asked for, ascending.
    fold_order : int (n, n_folds)
        Order in which the folds of each are trained, fixed when it was asked for.
    n_asked : int
        Number of masks that the search has asked for.
    """

    proposal: Proposal
    numbers: Int
    fold_order: Int
    n_asked: int = 0

    @classmethod
    def none(cls, n_units: int, n_folds: int) -> Unanswered:
        """Return the start of a search."""
        blank = Proposal.plain(np.zeros((0, n_units), dtype=bool), "")
        return cls(blank, np.zeros(0, dtype=np.int64), np.zeros((0, n_folds), dtype=np.int64))

    def plus(self, proposal: Proposal, fold_order: Int) -> Unanswered:
        """Ask for the masks of a proposal."""
        n = len(proposal.masks)
        return Unanswered(
            self.proposal.plus(proposal),
            np.concatenate([self.numbers, self.n_asked + np.arange(n)]),
            np.vstack([self.fold_order, np.tile(fold_order, (n, 1))]),
            self.n_asked + n,
        )

    def rows(self, which: Int | Bool) -> Unanswered:
        """Return some of the masks."""
        return replace(
            self,
            proposal=self.proposal.rows(which),
            numbers=self.numbers[which],
            fold_order=self.fold_order[which],
        )

    def by_fold_order(self) -> Iterator[Unanswered]:
        """Yield successive masks with the same order of folds, which are those of an epoch."""
        orders = [order.tobytes() for order in self.fold_order]
        for _, same in groupby(range(len(orders)), key=orders.__getitem__):
            yield self.rows(np.array(list(same)))


class Steady:
    """Decides which masks each epoch observes, by the workers or by the record of an earlier run.

    Parameters
    ----------
    stream : Stream
    order : AnswerOrder
    """

    def __init__(self, stream: Stream, order: AnswerOrder) -> None:
        self._stream, self._order = stream, order
        # Numbers that the stream was asked for, and those that it has answered, not observed yet.
        self._asked, self._arrived = set[int](), list[int]()

    def answers(
        self,
        evaluator: Evaluator,
        space: SearchSpace,
        epoch: int,
        asked: Unanswered,
        *,
        is_last: bool,
    ) -> tuple[Unanswered, Evaluations, Unanswered]:
        """Return the masks that an epoch observes, their evaluations, and the masks that are left.

        Parameters
        ----------
        evaluator : Evaluator
            Finds in the archive what the stream has evaluated.
        space : SearchSpace
        epoch : int
        asked : Unanswered
            Masks that were left by the epochs before, and those of this one.
        is_last : bool
            Whether the budget allows no further epoch: all of them are then answered.

        Raises
        ------
        EvaluationError
            If a cost is NaN, or workers keep dying.
        StoreError
            If the archive has the answers of another search.
        """
        numbers = None if is_last else self._order.recorded(epoch)
        work = None
        if numbers is None:
            numbers = self._wait(asked, space, is_last)
            work = self._stream.save()
            if not is_last:
                numbers = self._order.record(epoch, numbers)
        if not np.isin(numbers, asked.numbers).all() or not len(numbers):
            raise StoreError(
                f"the order of answers in the archive does not fit epoch {epoch} of this search, "
                "as another version recorded it; use another archive or seed"
            )
        is_answered = np.isin(asked.numbers, numbers)
        found = asked.rows(is_answered)
        parts = [
            evaluator.evaluate(each.proposal.masks, each.proposal.incumbents, each.fold_order[0])
            for each in found.by_fold_order()
        ]
        evaluations = stacked(parts)
        if work is not None:
            # What was trained for these masks is found in the archive now.
            work = work.plus(evaluations.work, with_hits=False)
            evaluations = replace(evaluations, work=work)
        return found, evaluations, asked.rows(~is_answered)

    def close(self) -> None:
        """Drop the masks that are in training."""
        self._stream.close()
        self._asked, self._arrived = set(), []

    def _wait(self, asked: Unanswered, space: SearchSpace, is_last: bool) -> Int:
        """Return the numbers of answered masks: all, or at least one and until a worker is idle."""
        numbers = set(asked.numbers.tolist())
        self._asked &= numbers
        # Answers that an earlier attempt at this epoch waited for are not lost.
        self._arrived = [number for number in self._arrived if number in numbers]
        try:
            for each in asked.rows(~np.isin(asked.numbers, list(self._asked))).by_fold_order():
                masks = each.proposal.masks
                limits = limits_without_prices(each.proposal.incumbents, masks, space)
                self._asked |= set(each.numbers.tolist())
                self._stream.ask(each.numbers, masks, limits, each.fold_order[0])
            while len(self._arrived) < len(numbers) and (
                is_last or not self._arrived or not self._stream.has_idle_worker
            ):
                # Another process with the same search may have recorded some of them earlier.
                self._arrived += [each for each in self._stream.finished() if each in numbers]
        except BaseException:
            # What was in training is asked for again when the epoch is.
            self.close()
            raise
        return np.array(self._arrived, dtype=np.int64)


def search_name(
    problem: str,
    strategy: Strategy,
    space: SearchSpace,
    hints: Hints,
    seed: int,
    **options: Any,
) -> str:
    """Return the fingerprint under which the order of answers of a search is recorded.

    The budget is not part of it: a longer search begins like a shorter one.

    Parameters
    ----------
    problem : str
        Fingerprint of the problem, which covers the data but not the constraints.
    strategy, space, hints, seed
        As in :class:`swarm.search.driver.Search`; hints that are computed from the data alone are
        not read.
    **options
        Whatever else changes the proposals or what an epoch observes.
    """
    recipe = {
        "problem": problem,
        "strategy": f"{type(strategy).__module__}.{strategy!r}",
        "sizes": [space.min_size, space.max_size],
        "cost_weight": space.cost_weight,
        "seed": int(seed),
        **options,
    }
    digest = hashlib.sha256(json.dumps(recipe, sort_keys=True).encode())
    for array in (space.fixed, space.forbidden, space.unit_prices, hints.clusters, hints.warm):
        digest.update(b"none" if array is None else np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()

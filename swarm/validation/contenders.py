"""The ensemble and the baselines it has to be compared with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from swarm.problem.space import SearchSpace

__all__ = ["CONTENDERS", "Contender", "committee_rows", "line_up"]

IntArray = NDArray[np.intp]

# In the order of the table, with the words the verdict uses for them.
CONTENDERS = {
    "ensemble": "the ensemble",
    "best_subset": "the best single subset",
    "all_features": "all features with one model",
    "all_features_ensemble": "all features with the same vote",
    "random_subsets": "random subsets of the same sizes with the same vote",
}


@dataclass(frozen=True)
class Contender:
    """What is trained under a name: subsets, their vote, and the rows of each member.

    Attributes
    ----------
    name : str
        One of `CONTENDERS`. Draws of the random subsets share theirs.
    subsets : tuple of lists of str
        Columns of each member.
    vote : str
        Vote of the members; "auto" for a single model.
    rows : tuple of int arrays, optional
        Training rows of each member; None means all.
    """

    name: str
    subsets: tuple[list[str], ...]
    vote: str
    rows: tuple[IntArray, ...] | None = None

    @property
    def n_features(self) -> int:
        """Number of distinct columns in use."""
        return len({name for subset in self.subsets for name in subset})


def line_up(
    space: SearchSpace,
    subsets: Sequence[Sequence[str]],
    best: Sequence[str],
    vote: str,
    parts: Sequence[IntArray],
    n_random: int,
    seed: int,
) -> list[Contender]:
    """Every contender, the random ones drawn `n_random` times.

    Parameters
    ----------
    space : SearchSpace
        What random subsets obey; "all features" are its features that are not forbidden.
    subsets, best
        Subsets of the ensemble, and the best single one.
    vote : str
        Vote of the ensemble and of its two rivals of the same size.
    parts : one int array per subset
        Rows of each member of the committee with all features, see :func:`committee_rows`.
    n_random, seed : int
        Number of draws, and their seed.
    """
    everything = space.subset(~space.forbidden)
    chosen = [list(subset) for subset in subsets]
    members = [everything] * len(chosen)
    return [
        Contender("ensemble", tuple(chosen), vote),
        Contender("best_subset", (list(best),), "auto"),
        Contender("all_features", (everything,), "auto"),
        Contender("all_features_ensemble", tuple(members), vote, tuple(parts)),
        *_random(space, chosen, vote, n_random, seed),
    ]


def committee_rows(
    n_members: int, labels: NDArray[Any] | None, n_rows: int, groups: ArrayLike | None, seed: int
) -> list[IntArray]:
    """Training rows of each member of a cross-validated committee.

    Models of one deterministic learner on the same columns and rows are the same model, and
    their vote is worth nothing. So the rows are dealt into as many parts as there are members,
    and member i is trained on all rows but those of part i (Parmanto, Munro & Doyle, 1996,
    "Improving committee diagnosis with resampling techniques", NIPS 8).

    Parameters
    ----------
    n_members : int
        Number of members; a single one is trained on all rows.
    labels : (n_rows,) or (n_rows, n_labels), optional
        Classes that every part gets an even share of; None for a regression.
    n_rows : int
        Number of training rows.
    groups : (n_rows,), optional
        A group is dealt whole, the largest first; where there are fewer groups than members,
        rows are dealt one by one.
    seed : int
        Seed of the shuffle before dealing.

    Returns
    -------
    list of int (n_rows_of_member,)
        Ascending row positions.
    """
    if n_members == 1:
        return [np.arange(n_rows)]
    rng = np.random.default_rng([seed, 2])
    codes = np.zeros(n_rows, dtype=np.intp)
    if labels is not None:
        codes = np.unique(labels, axis=0, return_inverse=True)[1].ravel()
    owner = np.arange(n_rows)
    if groups is not None:
        names, of_row = np.unique(np.asarray(groups), return_inverse=True)
        if len(names) >= n_members:
            owner = of_row
    sizes = np.bincount(owner)
    # The class of a group is that of its first row, which is exact where groups are pure.
    kind = codes[np.unique(owner, return_index=True)[1]]
    shuffled = rng.permutation(len(sizes))
    order = shuffled[np.lexsort((-sizes[shuffled], kind[shuffled]))]
    part = np.empty(len(sizes), dtype=np.intp)
    part[order] = np.arange(len(sizes)) % n_members
    return [np.flatnonzero(part[owner] != member) for member in range(n_members)]


def _random(
    space: SearchSpace, subsets: list[list[str]], vote: str, n_random: int, seed: int
) -> Iterator[Contender]:
    """Random subsets with as many units as the chosen ones, within the constraints."""
    rng = np.random.default_rng([seed, 3])
    free = np.flatnonzero(~space.fixed & ~space.forbidden)
    sizes = [int(space.mask(subset).sum()) for subset in subsets]
    for _ in range(n_random):
        drawn = []
        for size in sizes:
            mask = space.fixed.copy()
            n_free = min(max(size - int(mask.sum()), 0), len(free))
            mask[rng.choice(free, n_free, replace=False)] = True
            drawn.append(space.subset(mask))
        yield Contender("random_subsets", tuple(drawn), vote)

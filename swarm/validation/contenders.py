"""The ensemble and its baselines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from swarm.problem.space import SearchSpace

__all__ = ["CONTENDERS", "Contender", "committee_rows", "make_contenders"]

IntArray = NDArray[np.intp]

# In the order of the table, with their names in the verdict.
CONTENDERS = {
    "ensemble": "the ensemble",
    "best_subset": "the best single subset",
    "all_features": "all features with one model",
    "all_features_ensemble": "all features with the same vote",
    "random_subsets": "random subsets of the same sizes with the same vote",
}


@dataclass(frozen=True)
class Contender:
    """A named set of models: their subsets, their vote and the training rows of each.

    Attributes
    ----------
    name : str
        A key of `CONTENDERS`. All draws of the random subsets have the same name.
    subsets : tuple of lists of str
        Columns of each member.
    vote : str
        Vote of the members; "auto" for a single model.
    rows : tuple of int arrays, optional
        Training rows of each member. Default: all rows.
    """

    name: str
    subsets: tuple[list[str], ...]
    vote: str
    rows: tuple[IntArray, ...] | None = None

    @property
    def n_features(self) -> int:
        """Number of distinct columns that the members use."""
        return len({name for subset in self.subsets for name in subset})


def make_contenders(
    space: SearchSpace,
    subsets: Sequence[Sequence[str]],
    best: Sequence[str],
    vote: str,
    parts: Sequence[IntArray],
    n_random: int,
    seed: int,
) -> list[Contender]:
    """Return the contenders, with `n_random` draws of the random subsets.

    Parameters
    ----------
    space : SearchSpace
        Constraints of the random subsets; "all features" are those that are not forbidden.
    subsets, best
        Subsets of the ensemble, and the best single one.
    vote : str
        Vote of the ensemble and of the two baselines with as many members.
    parts : one int array per subset
        Training rows of each member of `all_features_ensemble`, see :func:`committee_rows`.
    n_random, seed : int
        Number of draws of the random subsets, and their seed.
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
    """Return the training rows of each member of a cross-validated committee.

    A deterministic estimator fitted twice on the same columns and rows gives the same model, so
    a vote of such models has no effect. The rows are therefore split into as many parts as there
    are members, and member i is trained on all parts except part i (Parmanto, Munro & Doyle,
    1996, "Improving committee diagnosis with resampling techniques", NIPS 8).

    Parameters
    ----------
    n_members : int
        Number of members; a single member is trained on all rows.
    labels : (n_rows,) or (n_rows, n_labels), optional
        Classes to stratify the parts by; None for a regression.
    n_rows : int
        Number of training rows.
    groups : (n_rows,), optional
        Groups stay in one part and are assigned in order of decreasing size. If there are fewer
        groups than members, groups are ignored.
    seed : int
        Seed of the shuffle before the split.

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
    # A group has the class of its first row, which is exact if groups contain a single class.
    kind = codes[np.unique(owner, return_index=True)[1]]
    shuffled = rng.permutation(len(sizes))
    order = shuffled[np.lexsort((-sizes[shuffled], kind[shuffled]))]
    part = np.empty(len(sizes), dtype=np.intp)
    part[order] = np.arange(len(sizes)) % n_members
    return [np.flatnonzero(part[owner] != member) for member in range(n_members)]


def _random(
    space: SearchSpace, subsets: list[list[str]], vote: str, n_random: int, seed: int
) -> Iterator[Contender]:
    """Yield random subsets with as many units as the chosen ones, within the constraints."""
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

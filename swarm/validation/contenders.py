"""The ensemble and its baselines, their models and answers."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator

from swarm.answers import Answers
from swarm.arrays import Int
from swarm.ensemble import SubsetEnsemble
from swarm.problem.space import SearchSpace
from swarm.problem.table import keys_of
from swarm.rows import Rows, divide, most_folds
from swarm.threads import one_thread
from swarm.validation.answers import answers_of

# Contenders in the order of the table, with their names in sentences.
CONTENDERS = {
    "ensemble": "the ensemble",
    "best_subset": "the best single subset",
    "all_features": "all features with one model",
    "all_features_ensemble": "all features with the same vote",
    "random_subsets": "random subsets of the same sizes with the same vote",
}


@dataclass(frozen=True)
class Contender:
    """A named set of models.

    Attributes
    ----------
    name : str
        A key of `CONTENDERS`; all draws of the random subsets have the same name.
    subsets : tuple of lists of str
        Columns of each member.
    vote : str
        Vote of the members, ``auto`` for a single model.
    rows : tuple of int (n_train,), optional
        Training rows of each member. Default: all rows.
    """

    name: str
    subsets: tuple[list[str], ...]
    vote: str
    rows: tuple[Int, ...] | None = None

    @property
    def n_features(self) -> int:
        """Number of distinct columns that the members use."""
        return len({name for subset in self.subsets for name in subset})

    def members(self) -> list[Contender]:
        """Return a contender for each model."""
        if self.rows is None:
            return [Contender(self.name, (subset,), "auto") for subset in self.subsets]
        return [
            Contender(self.name, (subset,), "auto", (rows,))
            for subset, rows in zip(self.subsets, self.rows, strict=True)
        ]


def make_contenders(
    space: SearchSpace,
    subsets: Sequence[Sequence[str]],
    vote: str,
    committee: Sequence[Int],
    *,
    n_random: int,
    seed: int,
) -> list[Contender]:
    """Return the contenders, with `n_random` draws of the random subsets.

    The random subsets satisfy the constraints of the space, and all features are those that are
    not forbidden. `subsets` begin with the best one; `committee` has the training rows of each
    member of `all_features_ensemble`, see :func:`committee_rows`.
    """
    all_features = space.subset(~space.forbidden)
    selected = [list(subset) for subset in subsets]
    members = [all_features] * len(selected)
    return [
        Contender("ensemble", tuple(selected), vote),
        Contender("best_subset", (selected[0],), "auto"),
        Contender("all_features", (all_features,), "auto"),
        Contender("all_features_ensemble", tuple(members), vote, tuple(committee)),
        *_random(space, selected, vote, n_random, seed),
    ]


def committee_rows(rows: Rows, n_members: int, seed: int) -> list[Int]:
    """Return the training rows (ascending) of each member: those of all folds but one.

    Models of equal rows would be equal. Groups are ignored if there are fewer than members, and
    classes if none has as many rows. Source: Parmanto, Munro & Doyle (1996), Improving committee
    diagnosis with resampling techniques, NIPS 8.
    """
    if not 1 < n_members <= rows.n_rows:
        return [np.arange(rows.n_rows)] * n_members
    fold_kinds = (rows.kind, replace(rows, groups=None).kind, "random")
    fold_kind = next(kind for kind in fold_kinds if most_folds(rows, kind) >= n_members)
    with warnings.catch_warnings():
        # A class may have fewer rows than there are members.
        warnings.simplefilter("ignore", UserWarning)
        return [train for train, _ in divide(rows, fold_kind, n_members, seed=seed)]


def _random(
    space: SearchSpace, subsets: list[list[str]], vote: str, n_random: int, seed: int
) -> Iterator[Contender]:
    """Yield random subsets with as many units as the given ones, within the constraints."""
    rng = np.random.default_rng([seed, 3])
    free = np.flatnonzero(~space.fixed & ~space.forbidden)
    sizes = [int(space.mask(subset).sum()) for subset in subsets]
    for _ in range(n_random):
        random_subsets = []
        for size in sizes:
            mask = space.fixed.copy()
            n_free = min(max(size - int(mask.sum()), 0), len(free))
            mask[rng.choice(free, n_free, replace=False)] = True
            random_subsets.append(space.subset(mask))
        yield Contender("random_subsets", tuple(random_subsets), vote)


def mean_by_contender(
    contenders: Sequence[Contender], values: Sequence[Any], mean: Callable[[Any], Any]
) -> dict[str, Any]:
    """Return the value of each contender, averaged over its draws."""
    return {
        name: mean([v for c, v in zip(contenders, values, strict=True) if c.name == name])
        for name in CONTENDERS
    }


def train_and_predict(
    estimator: BaseEstimator,
    contender: Contender,
    train: Rows,
    test: Rows,
    *,
    pos_label: Any,
    fitted: SubsetEnsemble | None,
    cost_of: Callable[..., float] | None,
) -> tuple[Answers, float | None]:
    """Return the answers of a contender on the test rows, and its cost on them.

    A `fitted` ensemble is used instead of training one. `cost_of` is a function of model, features
    and target.
    """
    # Results of one thread are bit-identical in this process and in a worker.
    with one_thread():
        ensemble = fitted
        if ensemble is None:
            subsets = [keys_of(train.features, subset) for subset in contender.subsets]
            ensemble = SubsetEnsemble(estimator, subsets, contender.vote, pos_label)
            ensemble.fit(train.features, train.target, train.weight, contender.rows)
        answers = answers_of(ensemble, test.features)
        if cost_of is None:
            return answers, None
        if contender.vote == "auto":
            # The cost of a single model is based on its own scores, as in the search, not on votes.
            ((model, features),) = ensemble.members(test.features)
            return answers, float(cost_of(model, features, test.target))
        return answers, float(cost_of(ensemble, test.features, test.target))


def combine_members(
    estimator: BaseEstimator,
    contender: Contender,
    members: Sequence[Answers],
    target: Any,
    pos_label: Any,
) -> Answers:
    """Combine the answers of the single models of a contender; `target` is that of training."""
    subsets = [["row"]] * len(members)
    ensemble = SubsetEnsemble(estimator, subsets, contender.vote, pos_label)
    ensemble.with_models([answers.estimator() for answers in members], target)
    return answers_of(ensemble, pd.DataFrame({"row": np.arange(len(members[0].predicted))}))

"""The plan of a confirmation on fresh folds, and its result."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from swarm.arrays import Float, Int, read_only
from swarm.checks import require
from swarm.errors import check_known
from swarm.json_data import plain
from swarm.problem.problem import Problem
from swarm.rounding import difference, rounding_error
from swarm.search.candidates import GOALS, Candidates, Goal, pick, smallest
from swarm.statistics.resampled import (
    CONFIDENCE,
    CorrectedTTest,
    Outcome,
    corrected_t,
    outcome_of,
)
from swarm.storage.records import costs_of


@dataclass(frozen=True, eq=False)
class ConfirmationPlan:
    """How the best subsets of a search are confirmed.

    Attributes
    ----------
    problem : Problem
        The problem of the search on fresh folds, see
        :func:`swarm.search.fresh_folds.fresh_problem`.
    n_best : int
        Number of subsets with the lowest cost on the folds of the search.
    rankings : bool
        Whether up to half of them are the first units of rankings where units outnumber rows, and
        at a given size what the importances of the model keep, see :mod:`swarm.search.rankings` and
        :mod:`swarm.search.elimination`.
    goal : {"score", "balanced", "size"}
        Which of the confirmed subsets is the result. ``score``: the lowest cost. ``balanced``: the
        smallest that is not worse than the lowest by more than `margin`. ``size``: the smallest
        that is not worse than all features by more than `margin`. With the first two, what
        elimination leaves at a given size is the result unless another subset is better by more
        than half a standard error; where units outnumber rows many times, a ranking is unless the
        subset of the search is better by more than two.
    margin : float
        Mean difference in cost that does not matter, in standard errors of the paired difference
        over the fresh folds, corrected for the overlap of resamples.
    replaces_search : bool
        Whether the candidates are those of rankings alone, as nothing is searched.
    """

    problem: Problem
    n_best: int = 20
    rankings: bool = True
    goal: Goal = "balanced"
    margin: float = 0.25
    replaces_search: bool = False

    def __post_init__(self) -> None:
        require("n_best", self.n_best, at_least=1, whole=True)
        require("margin", self.margin, at_least=0)
        require("rankings", self.rankings, truth=True)
        check_known("goal", self.goal, GOALS)


@dataclass(frozen=True, eq=False)
class Confirmation:
    """The candidates of a search on fresh folds, and what decides among them."""

    candidates: Candidates  # by ascending cost on the fresh folds, smaller ones first
    baseline: Float  # (n_fresh,), of all features that are not forbidden
    # Mean numbers of rows of a fresh fold.
    n_train: float
    n_test: float
    goal: Goal
    margin: float
    # Models of the candidates and of all features, without those that the search has requested and
    # those of rankings within the fresh folds.
    n_fits: int
    # Origins of subsets that are preferred unless another is better by more than `doubt` standard
    # errors, as the search has seen the test rows of the fresh folds.
    preferred: tuple[str, ...] = ()
    doubt: float = 0.0
    # Whether nothing was searched; then the costs of the candidates are those on the fresh folds.
    replaces_search: bool = False

    def __post_init__(self) -> None:
        read_only(self.baseline)

    @property
    def n_folds(self) -> int:
        """Number of fresh folds."""
        return len(self.baseline)

    @cached_property
    def chosen(self) -> int:
        """Row of the result, by the goal; the lowest cost if no other subset is good enough."""
        costs, rows = self.candidates.fresh_fold_costs, np.arange(len(self.candidates))
        if self.goal == "size":
            return self._picked(rows, self.baseline)
        is_preferred = np.isin(self.candidates.origin, self.preferred)
        parts = [part for part in (rows[~is_preferred], rows[is_preferred]) if len(part)]
        chosen, *rival = (self._picked(part, costs[part[0]]) for part in parts)
        if rival and self._is_close(costs[chosen], rival[0], self.doubt):
            return rival[0]
        return chosen

    @cached_property
    def within_one_error(self) -> Int:
        """Rows of a vote: the result, then those within one standard error of the lowest cost."""
        costs = self.candidates.fresh_costs
        limit = float(costs[0] + self.errors[0])
        near = costs <= limit + rounding_error(limit)
        near[self.chosen] = True
        rows: Int = self.in_order[near[self.in_order]]
        return rows

    @property
    def n_in_partition(self) -> float:
        """Number of folds of a partition."""
        return (self.n_train + self.n_test) / self.n_test

    @property
    def errors(self) -> Float:
        """Standard errors (n,) of the costs; partitions are no more independent than one."""
        spread = np.std(self.candidates.fresh_fold_costs, axis=1, ddof=1)
        errors: Float = spread / self.n_in_partition**0.5
        return errors

    @property
    def bias_of_choice(self) -> float:
        """By how much the cost of the result is at most too low, as it is the lowest of several.

        The mean over the fresh folds of the cost of the result minus the lowest cost on that fold
        (Tibshirani and Tibshirani 2009, A bias correction for the minimum error rate in
        cross-validation, Annals of Applied Statistics 3). On gene tables it is more than the bias,
        as models of all rows are better than those of the folds, so that no score is corrected.
        """
        costs = self.candidates.fresh_fold_costs
        return float(difference(costs[self.chosen], costs.min(axis=0)).mean())

    @cached_property
    def in_order(self) -> Int:
        """All rows: the result, then the others by ascending cost."""
        rows = np.arange(len(self.candidates))
        return np.append(self.chosen, rows[rows != self.chosen])

    def _picked(self, rows: Int, reference: Float) -> int:
        """Return one of some rows, by the goal."""
        table = self.candidates.take(rows)

        def is_close(row: int) -> bool:
            return self._is_close(reference, int(rows[row]), self.margin)

        return int(rows[pick(self.goal, table.sizes, table.fresh_costs, is_close=is_close)])

    @cached_property
    def smallest(self) -> int | None:
        """Row of the smallest subset that is not worse than all features by the margin."""
        table = self.candidates
        is_close = partial(self._is_close, self.baseline, margin=self.margin)
        return smallest(table.sizes, table.fresh_costs, is_close)

    def _is_close(self, reference: Float, row: int, margin: float) -> bool:
        """Whether a subset is not worse than `reference` (n_fresh,) by more than a margin.

        The margin is a number of standard errors of the mean difference of their fold costs.
        """
        differences = difference(self.candidates.fresh_fold_costs[row], reference)
        if not np.isfinite(differences).all():
            return False
        test = corrected_t(differences, self.n_train, self.n_test)
        most = margin * test.error + rounding_error(self.candidates.fresh_costs[row])
        return bool(test.mean <= most)

    @property
    def missed(self) -> bool:
        """Whether the goal is the size, and no subset is close enough to all features."""
        wants_smallest = self.goal == "size" and bool(np.isfinite(self.baseline).all())
        return wants_smallest and self.smallest is None

    @property
    def cost(self) -> float:
        """Confirmed cost of the result."""
        return float(self.candidates.fresh_costs[self.chosen])

    @property
    def origin(self) -> str:
        """What proposed the result."""
        return str(self.candidates.origin[self.chosen])

    @property
    def searched_cost(self) -> float:
        """Cost of the result on the folds of the search."""
        return float(self.candidates.costs[self.chosen])

    @property
    def baseline_cost(self) -> float:
        """Cost of all features on the fresh folds."""
        return float(costs_of(self.baseline[None, :])[0])

    @cached_property
    def gain(self) -> CorrectedTTest | None:
        """Cost of all features minus that of the result; None if all features cannot be fitted."""
        differences = difference(self.baseline, self.candidates.fresh_fold_costs[self.chosen])
        if not np.isfinite(differences).all():
            return None
        return corrected_t(differences, self.n_train, self.n_test)

    @property
    def verdict(self) -> Outcome | None:
        """How the result does against all features, by the interval of the gain; None without."""
        return None if self.gain is None else outcome_of(self.gain.low, self.gain.high)

    def sentence(self) -> str:
        """State the confirmed cost, the gain over all features and the bias of the choice."""
        gain, cost, searched = self.gain, self.cost, self.searched_cost
        start = f"On {self.n_folds} fresh folds this subset costs {cost:.4f} and all features "
        if gain is None:
            start += "cannot be fitted"
        else:
            outcome = {"better": "a gain", "worse": "a loss"}.get(
                str(self.verdict), "no clear gain"
            )
            start += (
                f"cost {self.baseline_cost:.4f}: {outcome}, {gain.mean:+z.4f} "
                f"[{gain.low:+z.4f}, {gain.high:+z.4f}]"
            )
        if self.replaces_search:
            text = f"{start}. The choice makes its cost too low by at most about "
            text += f"{self.bias_of_choice:.4f}."
        else:
            curse = f"winner's curse {cost - searched:+z.4f}"
            text = f"{start}. In the search it cost {searched:.4f} ({curse})."
        return f"{text} It has the lowest cost: {self.reason_missed()}." if self.missed else text

    def reason_missed(self) -> str:
        """State why the goal was not reached, see :attr:`missed`."""
        return (
            f"none of {len(self.candidates):,} subsets is within {self.margin:g} standard errors "
            "of the cost of all features"
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the figures, for files and metrics."""
        gain = self.gain
        return {
            "cost": self.cost,
            "origin": self.origin,
            "searched_cost": self.searched_cost,
            "bias_of_choice": self.bias_of_choice,
            "all_features_cost": self.baseline_cost,
            "gain": None if gain is None else gain.mean,
            "gain_low": None if gain is None else plain(gain.low),
            "gain_high": None if gain is None else plain(gain.high),
            "confidence": CONFIDENCE,
            "n_folds": self.n_folds,
            "n_subsets": len(self.candidates),
            "verdict": self.verdict,
            "goal": self.goal,
            "missed": self.missed,
            "margin": self.margin,
        }

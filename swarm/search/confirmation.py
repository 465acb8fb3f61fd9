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
from swarm.search.candidates import GOALS, SEARCH, Candidates, Goal, pick, smallest
from swarm.search.rankings import allows_rankings
from swarm.statistics.resampled import (
    CONFIDENCE,
    CorrectedTTest,
    Outcome,
    corrected_t,
    outcome_of,
)
from swarm.storage.records import costs_of

# Standard errors by which a subset of the search has to be better than the best of rankings.
_DOUBT = 2.0


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
        Whether up to half of them are the first units of rankings where units outnumber rows, see
        :mod:`swarm.search.rankings`.
    goal : {"score", "balanced", "size"}
        Which of the confirmed subsets is the result. ``score``: the lowest cost. ``balanced``: the
        smallest that is not worse than the lowest by more than `margin`. ``size``: the smallest
        that is not worse than all features by more than `margin`. With the first two, the best of
        the rankings is preferred unless the subset of the search is better by more than two
        standard errors: the rows of the fresh folds have seen the search, but not the rankings.
    margin : float
        Mean difference in cost that does not matter, in standard errors of the paired difference
        over the fresh folds, corrected for the overlap of resamples.
    """

    problem: Problem
    n_best: int = 20
    rankings: bool = True
    goal: Goal = "balanced"
    margin: float = 0.25

    def __post_init__(self) -> None:
        require("n_best", self.n_best, at_least=1, whole=True)
        require("margin", self.margin, at_least=0)
        require("rankings", self.rankings, truth=True)
        check_known("goal", self.goal, GOALS)

    @property
    def uses_rankings(self) -> bool:
        """Whether rankings compete with the search."""
        return self.rankings and self.n_best > 1 and allows_rankings(self.problem)


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

    def __post_init__(self) -> None:
        read_only(self.baseline)

    @property
    def n_folds(self) -> int:
        """Number of fresh folds."""
        return len(self.baseline)

    @cached_property
    def chosen(self) -> int:
        """Row of the result, by the goal; the lowest cost if no other subset is good enough."""
        if self.goal == "size":
            return self._picked(np.arange(len(self.candidates)), self.baseline)
        searched, ranked = self._by_origin
        if not len(searched):
            return int(ranked[0])
        chosen = self._picked(searched, self.candidates.fresh_fold_costs[searched[0]])
        if len(ranked) and self._is_close(
            self.candidates.fresh_fold_costs[chosen], ranked[0], _DOUBT
        ):
            return int(ranked[0])
        return chosen

    @cached_property
    def in_turn(self) -> list[int]:
        """All rows: the result, then the best of rankings and of the search in turn."""
        # Members of a vote gain by their differences.
        order = [self.chosen]
        left = [[row for row in rows if row != self.chosen] for rows in map(list, self._by_origin)]
        turn = int(self.origin == SEARCH)
        while any(left):
            if left[turn]:
                order.append(int(left[turn].pop(0)))
            turn = 1 - turn
        return order

    @property
    def _by_origin(self) -> tuple[Int, Int]:
        """Rows of the search, and of rankings, by ascending cost."""
        of_search = self.candidates.origin == SEARCH
        return np.flatnonzero(of_search), np.flatnonzero(~of_search)

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
        """State the confirmed cost, the gain over all features and the winner's curse."""
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

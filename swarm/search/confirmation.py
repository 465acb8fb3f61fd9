"""The plan of a confirmation on fresh folds, and its result."""

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
        Whether up to half of the subsets are the first units of rankings, if units outnumber rows,
        and the result of recursive elimination at a given size, see :mod:`swarm.search.rankings`
        and :mod:`swarm.search.elimination`.
    goal : {"score", "balanced", "size"}
        Which of the confirmed subsets is the result. ``score``: the lowest cost. ``balanced``: the
        smallest that is not worse than the lowest by more than `margin`. ``size``: the smallest
        that is not worse than all features by more than `margin`. With the first two, recursive
        elimination at a given size is preferred unless another subset is better by more than half a
        standard error; if units outnumber rows many times, rankings are preferred unless the subset
        of the search is better by more than two.
    margin : float
        Mean difference in cost that does not matter, in standard errors of the paired difference
        over the fresh folds, corrected for the overlap of resamples.
    replaces_search : bool
        Whether nothing is searched, so that all candidates are from rankings.
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
    """The candidates of a search on fresh folds, and the choice among them.

    Attributes
    ----------
    candidates : Candidates
        Subsets by ascending cost on the fresh folds, the smaller ones of equal cost first.
    baseline : float64 (n_fresh,)
        Costs of all features that are not forbidden, on each fresh fold.
    n_train, n_test : float
        Mean numbers of rows of a fresh fold.
    goal, margin
        Those of the :class:`ConfirmationPlan`.
    n_fits : int
        Number of models of the candidates and of all features, without those that the search has
        requested and those of rankings within the fresh folds.
    preferred : tuple of str
        Origins that are preferred, as the search has seen the test rows of the fresh folds.
    doubt : float
        Number of standard errors by which another subset has to be better than a preferred one.
    replaces_search : bool
        Whether nothing was searched; the costs of the candidates are then those on fresh folds.
    """

    candidates: Candidates
    baseline: Float
    n_train: float
    n_test: float
    goal: Goal
    margin: float
    n_fits: int
    preferred: tuple[str, ...] = ()
    doubt: float = 0.0
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
        costs = self.candidates.fresh_fold_costs
        rows = np.arange(len(self.candidates))
        if self.goal == "size":
            return self._picked(rows, self.baseline)
        is_preferred = np.isin(self.candidates.origin, self.preferred)
        if is_preferred.all() or not is_preferred.any():
            return self._picked(rows, costs[0])
        searched, preferred = (
            self._picked(ranked, costs[ranked[0]])
            for ranked in (rows[~is_preferred], rows[is_preferred])
        )
        return preferred if self._is_close(costs[searched], preferred, self.doubt) else searched

    @cached_property
    def within_one_error(self) -> Int:
        """Rows of a vote: the result, then those within one standard error of the lowest cost."""
        costs = self.candidates.fresh_costs
        limit = float(costs[0] + self.errors[0])
        is_near = costs <= limit + rounding_error(limit)
        is_near[self.chosen] = True
        return self.in_order[is_near[self.in_order]]

    @property
    def n_in_partition(self) -> float:
        """Number of folds of a partition."""
        return (self.n_train + self.n_test) / self.n_test

    @property
    def errors(self) -> Float:
        """Standard errors (n,) of the costs; partitions are no more independent than one."""
        spread = np.std(self.candidates.fresh_fold_costs, axis=1, ddof=1)
        return spread / self.n_in_partition**0.5

    @property
    def bias_of_choice(self) -> float:
        """Largest bias of the cost of the result from its choice among several subsets.

        This is the mean over the fresh folds of the cost of the result minus the lowest cost on
        that fold (Tibshirani and Tibshirani 2009, A bias correction for the minimum error rate in
        cross-validation, Annals of Applied Statistics 3). On gene tables it exceeds the bias, as
        models of all rows are better than those of the folds, so that no score is corrected.
        """
        costs = self.candidates.fresh_fold_costs
        return float(difference(costs[self.chosen], costs.min(axis=0)).mean())

    @cached_property
    def in_order(self) -> Int:
        """All rows: the result, then the others by ascending cost."""
        rows = np.arange(len(self.candidates))
        return np.append(self.chosen, rows[rows != self.chosen])

    def _picked(self, rows: Int, reference: Float) -> int:
        """Return the one of `rows` that the goal picks."""
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
        limit = margin * test.error + rounding_error(self.candidates.fresh_costs[row])
        return bool(test.mean <= limit)

    @property
    def missed(self) -> bool:
        """Whether the goal is the size, and no subset is close enough to all features."""
        has_baseline = bool(np.isfinite(self.baseline).all())
        return self.goal == "size" and has_baseline and self.smallest is None

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
        """Outcome of the comparison with all features, by the interval of the gain."""
        return None if self.gain is None else outcome_of(self.gain.low, self.gain.high)

    def sentence(self) -> str:
        """State the confirmed cost, the gain over all features and the bias of the choice."""
        gain = self.gain
        text = f"On {self.n_folds} fresh folds this subset costs {self.cost:.4f} and all features "
        if gain is None:
            text += "cannot be fitted."
        else:
            outcomes = {"better": "a gain", "worse": "a loss"}
            text += (
                f"cost {self.baseline_cost:.4f}: {outcomes.get(str(self.verdict), 'no clear gain')}"
                f", {gain.mean:+z.4f} [{gain.low:+z.4f}, {gain.high:+z.4f}]."
            )
        if self.replaces_search:
            bias = self.bias_of_choice
            text += f" The choice makes its cost too low by at most about {bias:.4f}."
        else:
            curse = self.cost - self.searched_cost
            text += (
                f" In the search it cost {self.searched_cost:.4f} (winner's curse {curse:+z.4f})."
            )
        if self.missed:
            text += f" It has the lowest cost: {self.reason_missed()}."
        return text

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

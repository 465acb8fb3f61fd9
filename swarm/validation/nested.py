"""Nested resampling: the cost of a whole selection procedure, from rows that it never saw.

Each outer fold repeats the search, the confirmation and the ensemble on its training rows; its
test rows take part in nothing but the final scores. The means over the outer folds are nearly
unbiased for the procedure on that many training rows: Cawley and Talbot (2010), and Varma and Simon
(2006), Bias in error estimation when using cross-validation for model selection.

The outer folds share training rows, so their costs are not independent. The intervals use the
variance of Nadeau and Bengio (2003), for repeated cross-validation as in Bouckaert and Frank
(2004), Evaluating the replicability of significance tests for comparing learning algorithms. There
is no unbiased estimator of this variance (Bengio and Grandvalet, 2004): the level is approximate.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd

from swarm.errors import InputError
from swarm.statistics.resampled import CorrectedTTest, corrected_t
from swarm.validation.metrics import value_range

# The contender whose selection is under test, and the baselines of its gain.
_SELECTED = ("ensemble", "best_subset")
_BASELINES = ("all_features", "all_features_ensemble", "random_subsets")


@dataclass(frozen=True, eq=False)
class OuterScores:
    """Scores of one outer fold.

    Attributes
    ----------
    n_train, n_test : int
        Training and test rows of the outer fold.
    searched_cost : float
        Cost of the best subset in the search.
    confirmed_cost : float or None
        Its cost on fresh folds of the training rows; None without a confirmation.
    costs : mapping of str to float
        Cost of each contender on the test rows.
    table : DataFrame
        contender, metric, value, n_features; see :class:`swarm.validation.judgement.Judgement`.
    guess : float, optional
        Score of a model that ignores the features, in the metric of the search.
    """

    n_train: int
    n_test: int
    searched_cost: float
    confirmed_cost: float | None
    costs: dict[str, float]
    table: pd.DataFrame
    guess: float | None = None


@dataclass(frozen=True, eq=False)
class NestedEstimate:
    """The cost of a procedure, and its gain over baselines, over the outer folds.

    Attributes
    ----------
    n_folds : int
        Outer folds, all repetitions together.
    n_train, n_test : float
        Mean number of rows of an outer fold.
    level : float
        Confidence level of all intervals.
    costs : DataFrame
        One row per contender: contender, cost, low, high, sd (between outer folds), n_features
        (mean number of distinct columns in use).
    gains : DataFrame
        One row per selection (`ensemble`, `best_subset`) and baseline: contender, baseline, gain
        (cost of the baseline minus that of the contender on the same outer folds), low, high, p.
    metrics : DataFrame
        One row per contender and metric: contender, metric, value, low, high.
    optimism : CorrectedTTest
        Cost of the best subset on the test rows minus its cost in the search.
    optimism_confirmed : CorrectedTTest or None
        The same for its confirmed cost, if every outer fold has one.
    guess : float or None
        Mean score of a model that ignores the features, if it is known in every outer fold.
    """

    n_folds: int
    n_train: float
    n_test: float
    level: float
    costs: pd.DataFrame
    gains: pd.DataFrame
    metrics: pd.DataFrame
    optimism: CorrectedTTest
    optimism_confirmed: CorrectedTTest | None
    guess: float | None

    def cost(self, contender: str) -> pd.Series:
        """Return the row of a contender in `costs`."""
        return self.costs[self.costs["contender"] == contender].iloc[0]

    def gain(self, contender: str = "ensemble", baseline: str = "all_features") -> pd.Series:
        """Return the row of a contender and a baseline in `gains`."""
        chosen = (self.gains["contender"] == contender) & (self.gains["baseline"] == baseline)
        return self.gains[chosen].iloc[0]

    def verdict(
        self, contender: str = "ensemble", baseline: str = "all_features"
    ) -> Literal["better", "no clear difference", "worse"]:
        """How a contender compares with a baseline, at the confidence level."""
        gain = self.gain(contender, baseline)
        if gain["low"] > 0:
            return "better"
        return "worse" if gain["high"] < 0 else "no clear difference"


def estimate(
    folds: Sequence[OuterScores],
    level: float = 0.95,
    costs: tuple[float, float] = (-math.inf, math.inf),
) -> NestedEstimate:
    """Combine the scores of the outer folds.

    Intervals of costs and metrics end at their smallest and largest values.

    Parameters
    ----------
    folds : sequence of OuterScores
        At least two, with the same contenders and metrics.
    level : float
        Confidence level of the intervals.
    costs : tuple of float
        The smallest and the largest cost.

    Raises
    ------
    InputError
        If there are fewer than two outer folds.
    """
    if len(folds) < 2:
        raise InputError(f"a nested estimate needs at least 2 outer folds, got {len(folds)}")
    n_train = float(np.mean([fold.n_train for fold in folds]))
    n_test = float(np.mean([fold.n_test for fold in folds]))

    def test(values: Sequence[float]) -> CorrectedTTest:
        return _tested(values, n_train, n_test, level)

    contenders = list(folds[0].costs)
    of = {name: [fold.costs[name] for fold in folds] for name in contenders}
    everything = pd.concat([fold.table for fold in folds], ignore_index=True)
    sizes = everything.groupby("contender")["n_features"].mean()
    best = of["best_subset"]
    confirmed = [fold.confirmed_cost for fold in folds if fold.confirmed_cost is not None]
    guesses = [fold.guess for fold in folds if fold.guess is not None]
    return NestedEstimate(
        n_folds=len(folds),
        n_train=n_train,
        n_test=n_test,
        level=level,
        costs=pd.DataFrame(
            [
                {
                    "contender": name,
                    **_interval("cost", test(of[name]), costs),
                    "sd": float(np.std(of[name], ddof=1)),
                    "n_features": float(sizes[name]),
                }
                for name in contenders
            ]
        ),
        gains=pd.DataFrame(
            [
                {"contender": own, "baseline": rival, **_interval("gain", found), "p": found.p}
                for own in _SELECTED
                for rival in _BASELINES
                for found in [test(np.subtract(of[rival], of[own]).tolist())]
            ]
        ),
        metrics=pd.DataFrame(
            [
                {
                    "contender": name,
                    "metric": metric,
                    **_interval("value", test(values.tolist()), value_range(str(metric))),
                }
                for (name, metric), values in everything.groupby(
                    ["contender", "metric"], sort=False
                )["value"]
            ]
        ),
        optimism=test([b - fold.searched_cost for b, fold in zip(best, folds, strict=True)]),
        optimism_confirmed=test(np.subtract(best, confirmed).tolist())
        if len(confirmed) == len(folds)
        else None,
        guess=float(np.mean(guesses)) if len(guesses) == len(folds) else None,
    )


def _tested(values: Sequence[float], n_train: float, n_test: float, level: float) -> CorrectedTTest:
    """Test values over outer folds; all NaN if one of them is undefined."""
    if not np.isfinite(values).all():
        nan = float("nan")
        return CorrectedTTest(float(np.mean(values)), nan, nan, nan, len(values), nan)
    return corrected_t(values, n_train, n_test, level)


def _interval(
    name: str, found: CorrectedTTest, ends: tuple[float, float] = (-math.inf, math.inf)
) -> dict[str, float]:
    low, high = np.clip([found.low, found.high], *ends).tolist()
    return {name: found.mean, "low": low, "high": high}

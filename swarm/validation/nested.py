"""Nested resampling: the cost of a whole selection procedure, from rows that it never saw.

The means over the outer folds are nearly unbiased for the procedure on that many training rows:
Cawley and Talbot (2010), and Varma and Simon (2006), Bias in error estimation when using
cross-validation for model selection.

The outer folds share training rows, so their costs are not independent. The intervals use the
variance of Nadeau and Bengio (2003), for repeated cross-validation as in Bouckaert and Frank
(2004), Evaluating the replicability of significance tests for comparing learning algorithms. There
is no unbiased estimator of this variance (Bengio and Grandvalet, 2004): the level is approximate.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import pandas as pd

from swarm.errors import InputError
from swarm.metrics import value_range
from swarm.rounding import difference
from swarm.statistics.resampled import CorrectedTTest, Outcome, corrected_t, outcome_of

# Contenders whose gain is tested, and the baselines of the gain.
_SELECTED = ("ensemble", "best_subset")
_BASELINES = ("all_features", "all_features_ensemble", "random_subsets")


@dataclass(frozen=True, eq=False)
class OuterScores:
    """Scores of one outer fold."""

    n_train: int  # training and test rows of the outer fold
    n_test: int
    searched_cost: float  # cost of the best subset in the search
    # its cost on fresh folds of the training rows, if there was a confirmation
    confirmed_cost: float | None
    costs: dict[str, float]  # cost of each contender on the test rows
    table: pd.DataFrame  # contender, metric, value, n_features, as in `Judgement`
    # score of a model that ignores the features, in the metric of the search
    guess: float | None = None


@dataclass(frozen=True, eq=False)
class NestedEstimate:
    """The cost of a procedure, and its gain over baselines, over the outer folds."""

    n_folds: int  # outer folds, all repetitions together
    n_train: float  # mean number of rows of an outer fold
    n_test: float
    level: float  # confidence level of all intervals
    # One row per contender: contender, cost, low, high, sd (between outer folds), n_features (mean
    # number of distinct columns in use).
    costs: pd.DataFrame
    # One row per selection (`ensemble`, `best_subset`) and baseline: contender, baseline, gain
    # (cost of the baseline minus that of the contender on the same outer folds), low, high, p.
    gains: pd.DataFrame
    metrics: pd.DataFrame  # one row per contender and metric: contender, metric, value, low, high
    # cost of the best subset on the test rows minus its cost in the search
    optimism: CorrectedTTest
    # the same for its confirmed cost, if every outer fold has one
    optimism_confirmed: CorrectedTTest | None
    # mean score of a model that ignores the features, if every outer fold has it
    guess: float | None

    def cost(self, contender: str) -> pd.Series:
        """Return the row of a contender in `costs`."""
        return self.costs[self.costs["contender"] == contender].iloc[0]

    def gain(self, contender: str = "ensemble", baseline: str = "all_features") -> pd.Series:
        """Return the row of a contender and a baseline in `gains`."""
        chosen = (self.gains["contender"] == contender) & (self.gains["baseline"] == baseline)
        return self.gains[chosen].iloc[0]

    def verdict(self, contender: str = "ensemble", baseline: str = "all_features") -> Outcome:
        """How a contender compares with a baseline, at the confidence level."""
        gain = self.gain(contender, baseline)
        return outcome_of(gain["low"], gain["high"])


def estimate(
    folds: Sequence[OuterScores],  # with the same contenders and metrics
    level: float = 0.95,
    costs: tuple[float, float] = (-math.inf, math.inf),  # the smallest and the largest cost
) -> NestedEstimate:
    """Combine the scores of two or more outer folds; intervals end at the extreme values."""
    if len(folds) < 2:
        raise InputError(f"a nested estimate needs at least 2 outer folds, got {len(folds)}")
    n_train = float(np.mean([fold.n_train for fold in folds]))
    n_test = float(np.mean([fold.n_test for fold in folds]))

    def test(values: Sequence[float]) -> CorrectedTTest:
        return _tested(values, n_train, n_test, level)

    contenders = list(folds[0].costs)
    costs_of = {name: [fold.costs[name] for fold in folds] for name in contenders}
    gains = []
    for name, rival in product(_SELECTED, _BASELINES):
        gain = test(difference(costs_of[rival], costs_of[name]).tolist())
        gains.append({"contender": name, "baseline": rival, **_interval("gain", gain), "p": gain.p})
    everything = pd.concat([fold.table for fold in folds], ignore_index=True)
    sizes = everything.groupby("contender")["n_features"].mean()
    best = costs_of["best_subset"]
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
                    **_interval("cost", test(costs_of[name]), costs),
                    "sd": float(np.std(costs_of[name], ddof=1)),
                    "n_features": float(sizes[name]),
                }
                for name in contenders
            ]
        ),
        gains=pd.DataFrame(gains),
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
        optimism=test(difference(best, [fold.searched_cost for fold in folds]).tolist()),
        optimism_confirmed=test(difference(best, confirmed).tolist())
        if len(confirmed) == len(folds)
        else None,
        guess=float(np.mean(guesses)) if len(guesses) == len(folds) else None,
    )


def _tested(values: Sequence[float], n_train: float, n_test: float, level: float) -> CorrectedTTest:
    """Test values over outer folds; all NaN if one of them is undefined."""
    if not np.isfinite(values).all():
        nan = float("nan")
        return CorrectedTTest(mean=float(np.mean(values)), low=nan, high=nan, p=nan, error=nan)
    return corrected_t(values, n_train, n_test, level)


def _interval(
    name: str, test: CorrectedTTest, ends: tuple[float, float] = (-math.inf, math.inf)
) -> dict[str, float]:
    low, high = np.clip([test.low, test.high], *ends).tolist()
    return {name: test.mean, "low": low, "high": high}

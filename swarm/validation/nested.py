"""Nested resampling: the cost of a whole selection procedure, from rows that it never saw.

The means over the outer folds are nearly unbiased for the procedure on that many training rows:
Cawley and Talbot (2010), and Varma and Simon (2006), Bias in error estimation when using
cross-validation for model selection.

The outer folds share training rows, so their costs are not independent. The intervals use the
variance of Nadeau and Bengio (2003), for repeated cross-validation as in Bouckaert and Frank
(2004), Evaluating the replicability of significance tests for comparing learning algorithms. There
is no unbiased estimator of this variance (Bengio and Grandvalet, 2004): the level is approximate.
"""

import math
from dataclasses import dataclass
from itertools import product

import numpy as np
import pandas as pd

from swarm.arrays import Float
from swarm.errors import InputError
from swarm.metrics import value_range
from swarm.rounding import difference
from swarm.statistics.resampled import CONFIDENCE, CorrectedTTest, Outcome, corrected_t, outcome_of

# The gain of these contenders over the baselines is tested.
SELECTED = ("ensemble", "best_subset")
_BASELINES = ("all_features", "all_features_ensemble", "random_subsets")
_UNBOUNDED = -math.inf, math.inf


@dataclass(frozen=True, eq=False)
class NestedEstimate:
    """The cost of a procedure, and its gain over baselines, over the outer folds.

    Attributes
    ----------
    n_folds : int
        Number of outer folds in all repetitions.
    n_train, n_test : float
        Mean numbers of rows of an outer fold.
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
        Cost of the best subset on the test rows minus its confirmed cost, if every outer fold has
        one.
    guess : float or None
        Mean score of a model that ignores the features, if every outer fold has one.
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
        is_pair = (self.gains["contender"] == contender) & (self.gains["baseline"] == baseline)
        return self.gains[is_pair].iloc[0]

    def verdict(self, contender: str = "ensemble", baseline: str = "all_features") -> Outcome:
        """How a contender compares with a baseline, at the confidence level."""
        gain = self.gain(contender, baseline)
        return outcome_of(gain["low"], gain["high"])


def estimate(
    folds: pd.DataFrame,
    scores: pd.DataFrame,
    costs: tuple[float, float] = _UNBOUNDED,
) -> NestedEstimate:
    """Combine the scores of two or more outer folds.

    Parameters
    ----------
    folds : DataFrame
        One row per outer fold: n_train, n_test, searched_cost (of the best subset in the search),
        confirmed_cost (on fresh folds of the training rows), guess (score of a model that ignores
        the features) and, on the test rows, the ``cost_`` of each contender.
    scores : DataFrame
        Contender, metric, value and n_features on the test rows of each outer fold.
    costs : (float, float), optional
        The smallest and the largest possible cost, at which intervals end.

    Returns
    -------
    NestedEstimate
    """
    if len(folds) < 2:
        raise InputError(f"a nested estimate needs at least 2 outer folds, got {len(folds)}")
    n_train = float(folds["n_train"].mean())
    n_test = float(folds["n_test"].mean())

    def test(values: pd.Series | Float) -> CorrectedTTest:
        if not np.isfinite(values).all():
            nan = float("nan")
            return CorrectedTTest(mean=float(np.mean(values)), low=nan, high=nan, p=nan, error=nan)
        return corrected_t(np.asarray(values), n_train, n_test)

    def gap(first: str, second: str) -> CorrectedTTest:
        return test(difference(folds[first].astype(float), folds[second].astype(float)))

    sizes = scores.groupby("contender")["n_features"].mean()
    contenders = [str(name)[5:] for name in folds.columns if str(name).startswith("cost_")]
    gains = {
        (selected, baseline): gap(f"cost_{baseline}", f"cost_{selected}")
        for selected, baseline in product(SELECTED, _BASELINES)
    }
    by_metric = scores.groupby(["contender", "metric"], sort=False)["value"]
    has_confirmed = folds["confirmed_cost"].notna().all()
    has_guess = folds["guess"].notna().all()
    return NestedEstimate(
        n_folds=len(folds),
        n_train=n_train,
        n_test=n_test,
        level=CONFIDENCE,
        costs=pd.DataFrame(
            {
                "contender": name,
                **_interval("cost", test(folds[f"cost_{name}"]), costs),
                "sd": float(folds[f"cost_{name}"].std(ddof=1)),
                "n_features": float(sizes[name]),
            }
            for name in contenders
        ),
        gains=pd.DataFrame(
            {"contender": selected, "baseline": baseline, **_interval("gain", gain), "p": gain.p}
            for (selected, baseline), gain in gains.items()
        ),
        metrics=pd.DataFrame(
            {
                "contender": name,
                "metric": metric,
                **_interval("value", test(values), value_range(str(metric))),
            }
            for (name, metric), values in by_metric
        ),
        optimism=gap("cost_best_subset", "searched_cost"),
        optimism_confirmed=gap("cost_best_subset", "confirmed_cost") if has_confirmed else None,
        guess=float(folds["guess"].mean()) if has_guess else None,
    )


def _interval(
    name: str, test: CorrectedTTest, ends: tuple[float, float] = _UNBOUNDED
) -> dict[str, float]:
    low, high = np.clip([test.low, test.high], *ends).tolist()
    return {name: test.mean, "low": low, "high": high}

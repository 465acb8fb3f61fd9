"""Comparison of strategies over data sets and seeds: tables, ranks and tests.

The tables follow Hafiz et al. (2018): mean, standard deviation, improvement over all features
(equation 22), average size and its reduction, times T1 and T2; and Matijević (2022, table 3):
rank-sum tests with confidence intervals for each data set. Ranks and tests over data sets follow
Demsar (2006), Statistical comparisons of classifiers over multiple data sets.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd

from swarm.checks import require_package
from swarm.notebook import Drawn
from swarm.rounding import difference
from swarm.statistics.resampled import corrected_t
from swarm.storage.records import round_cost
from swarm.validation.location import Shift, rank_sum, signed_rank
from swarm.validation.stability import nogueira

Pair = tuple[str, str]
# Columns of the cells: required ones, and those that are averaged if present.
_REQUIRED_COLUMNS = ("dataset", "strategy", "seed", "cost", "size", "evaluations", "distinct")
_AVERAGED_COLUMNS = ("evaluations", "distinct", "fits", "seconds_algorithm", "seconds_evaluation")


@dataclass(frozen=True)
class Friedman:
    """Result of Friedman's test. Null hypothesis: all strategies have the same average rank.

    Attributes
    ----------
    chi2, p : float
        Tie-corrected statistic, and its p-value from the chi-squared distribution.
    f, f_p : float
        Less conservative statistic of Iman and Davenport, and its p-value.
    """

    chi2: float
    p: float
    f: float
    f_p: float


@dataclass(frozen=True)
class Comparison(Drawn):
    """Tables, ranks and tests of a comparison of strategies.

    Attributes
    ----------
    summary : DataFrame
        One row per data set and strategy: mean_cost, sd_cost, best_cost, mean_size, rank,
        improvement and size_reduction in percent of all features, and the mean evaluations and
        times. If judged by the test cost, also ``stability``: the index of Nogueira et al. (2018)
        of the subsets of the seeds.
    ranks : DataFrame (n_strategies, n_datasets + 1)
        Ranks by the mean of the cost `judged_by`, and their ``average``.
    friedman : Friedman or None
        Friedman's test of the ranks.
    critical_difference : float or None
        Average ranks that differ by less are not significantly different (Nemenyi).
    across : DataFrame
        One row per pair: signed-rank test of the mean costs over the data sets.
    within : DataFrame
        One row per data set and pair: rank-sum test of the costs over the seeds, or the corrected
        resampled t-test if each seed has test rows of its own.
    test_notes : mapping
        Reason why the test ``friedman``, ``across`` or ``within`` was not run, or cannot be
        significant.
    alpha : float
        Significance level of the tests; intervals have the confidence level ``1 - alpha``.
    judged_by : str
        ``cost`` (cross-validated) or ``test_cost``.
    is_resampled : bool
        Whether each seed has test rows of its own.
    """

    summary: pd.DataFrame
    ranks: pd.DataFrame
    friedman: Friedman | None
    critical_difference: float | None
    across: pd.DataFrame
    within: pd.DataFrame
    test_notes: Mapping[str, str]
    alpha: float
    judged_by: str = "cost"
    is_resampled: bool = False

    def __str__(self) -> str:
        ranks = self.ranks.sort_values("average", kind="stable")
        return f"ranks by mean {self.judged_by}:\n{ranks.to_string(float_format='{:.2f}'.format)}"

    @property
    def datasets(self) -> list[str]:
        """Names of the data sets."""
        return [name for name in self.ranks.columns if name != "average"]

    @property
    def strategies(self) -> list[str]:
        """Names of the strategies."""
        return [str(name) for name in self.ranks.index]


def compare(
    cells: pd.DataFrame,
    all_features: Mapping[str, tuple[float, int]],
    *,
    reference: str | None = None,
    alpha: float = 0.05,
    judged_by: str = "cost",
    resampled: Mapping[str, tuple[float, float]] | None = None,
    fixed: Mapping[str, Collection[str]] = MappingProxyType({}),
) -> Comparison:
    """Compare strategies on one row per search.

    Parameters
    ----------
    cells : DataFrame
        Columns dataset, strategy, seed, cost, size, evaluations and distinct; fits,
        seconds_algorithm, seconds_evaluation and test_cost are optional, and so is features (names
        as JSON), which adds the stability to a comparison by the test cost.
    all_features : mapping
        Cost (that of `judged_by`) and number of all features of each data set.
    reference : str, optional
        Strategy to test the others against. Default: all pairs are tested.
    alpha : float, default=0.05
        Significance level.
    judged_by : str, default="cost"
        ``cost`` or ``test_cost``.
    resampled : mapping, optional
        ``(n_train, n_test)`` of each data set, if each seed has test rows of its own.
    fixed : mapping, optional
        Columns of the data sets that every subset has; stability ignores them.

    Returns
    -------
    Comparison

    Raises
    ------
    ValueError
        If a column or a search is missing.
    """
    _check_cells(cells)
    # Costs of other origins, or of test rows, may be equal but for the last digits.
    costs = [name for name in ("cost", "test_cost") if name in cells]
    cells = cells.assign(**{name: cells[name].map(round_cost) for name in costs})
    datasets = list(cells["dataset"].unique())
    strategies = list(cells["strategy"].unique())
    summary = _summary(cells, all_features, judged_by, fixed)
    means = summary.pivot(index="dataset", columns="strategy", values=f"mean_{judged_by}")
    means = means.loc[datasets, strategies]
    ranks = means.rank(axis=1).T
    ranks["average"] = ranks.mean(axis=1)
    pairs = list(itertools.combinations(strategies, 2))
    if reference is not None:
        pairs = [(reference, other) for other in strategies if other != reference]
    test_notes: dict[str, str] = {}
    friedman = friedman_of_blocks(means, test_notes)
    across = _across(means, pairs, alpha, test_notes)
    within = _within(cells, pairs, alpha, test_notes, judged_by=judged_by, resampled=resampled)
    return Comparison(
        summary=summary,
        ranks=ranks,
        friedman=friedman,
        critical_difference=(
            None if friedman is None else critical_difference(len(strategies), len(datasets), alpha)
        ),
        across=across,
        within=within,
        test_notes=test_notes,
        alpha=alpha,
        judged_by=judged_by,
        is_resampled=resampled is not None,
    )


def critical_difference(n_strategies: int, n_datasets: int, alpha: float = 0.05) -> float:
    """Return the critical difference of the Nemenyi test (Demsar 2006, section 3.2.2)."""
    from scipy.stats import studentized_range

    q = float(studentized_range.ppf(1 - alpha, n_strategies, np.inf)) / math.sqrt(2)
    return q * math.sqrt(n_strategies * (n_strategies + 1) / (6 * n_datasets))


def _check_cells(cells: pd.DataFrame) -> None:
    missing = [name for name in _REQUIRED_COLUMNS if name not in cells.columns]
    if missing:
        raise ValueError(f"cells must have the column {missing[0]!r}")
    searches = set(zip(cells["dataset"], cells["strategy"], cells["seed"], strict=True))
    n_expected = math.prod(cells[name].nunique() for name in ("dataset", "strategy", "seed"))
    if len(cells) != n_expected or len(searches) != n_expected:
        raise ValueError(
            "cells must contain every seed of every strategy on every data set exactly once"
        )


def _mean(values: pd.Series) -> float:
    """Return a mean, rounded as costs are: equal ones must stay bit-identical."""
    numbers = [float(value) for value in values]
    return round_cost(math.fsum(numbers) / len(numbers))


def _summary(
    cells: pd.DataFrame,
    all_features: Mapping[str, tuple[float, int]],
    judged_by: str,
    fixed: Mapping[str, Collection[str]],
) -> pd.DataFrame:
    rows: list[dict[str, Any]] = []
    for (dataset, strategy), group in cells.groupby(["dataset", "strategy"], sort=False):
        full_cost, full_size = all_features[str(dataset)]
        size = _mean(group["size"])
        gain = full_cost - _mean(group[judged_by])
        row = {
            "dataset": dataset,
            "strategy": strategy,
            "mean_cost": _mean(group["cost"]),
            "sd_cost": float(group["cost"].std(ddof=1)) if len(group) > 1 else math.nan,
            "best_cost": float(group["cost"].min()),
            "mean_size": size,
            # Equation 22 of Hafiz et al.; costs below 0 are possible for unbounded scorers.
            "improvement": 100 * gain / abs(full_cost) if full_cost else math.nan,
            "size_reduction": 100 * (full_size - size) / full_size,
        }
        if "test_cost" in group and group["test_cost"].notna().any():
            row["mean_test_cost"] = _mean(group["test_cost"])
        if judged_by == "test_cost":
            row["stability"] = _stability(group, full_size, fixed.get(str(dataset), ()))
        row |= {name: _mean(group[name]) for name in _AVERAGED_COLUMNS if name in group}
        rows.append(row)
    summary = pd.DataFrame(rows)
    ranks = summary.groupby("dataset")[f"mean_{judged_by}"].rank()
    summary.insert(list(summary.columns).index("mean_size") + 1, "rank", ranks)
    return summary


def _stability(group: pd.DataFrame, n_features: int, fixed: Collection[str]) -> float:
    """Return the stability index of the subsets of one strategy; NaN for a single one."""
    n_free = n_features - len(fixed)
    if len(group) < 2 or n_free == 0 or "features" not in group:
        return math.nan
    subsets = [set(json.loads(features)) - set(fixed) for features in group["features"]]
    names = sorted(set().union(*subsets))
    masks = np.zeros((len(subsets), n_free), dtype=bool)
    # The order of columns does not matter, nor do names of features that no subset has.
    masks[:, : len(names)] = [[name in subset for name in names] for subset in subsets]
    return nogueira(masks).index


def friedman_of_blocks(means: pd.DataFrame, test_notes: dict[str, str]) -> Friedman | None:
    """Run Friedman's test on costs (n_blocks, n_strategies), or note why not."""
    from scipy.stats import f, friedmanchisquare

    n, k = means.shape
    if k < 3 or n < 2:
        test_notes["friedman"] = (
            f"Friedman's test needs at least 3 strategies and 2 data sets, got {k} and {n}"
        )
        return None
    if (means.nunique(axis=1) == 1).all():
        test_notes["friedman"] = "all strategies have the same mean cost on every data set"
        return None
    chi2, p = friedmanchisquare(*(means[name].to_numpy() for name in means.columns))
    rest = n * (k - 1) - chi2
    statistic = (n - 1) * chi2 / rest if rest > 1e-12 else math.inf
    f_p = float(f.sf(statistic, k - 1, (k - 1) * (n - 1)))
    return Friedman(float(chi2), float(p), float(statistic), f_p)


def _across(
    means: pd.DataFrame,
    pairs: Sequence[Pair],
    alpha: float,
    test_notes: dict[str, str],
) -> pd.DataFrame:
    """Test the mean costs (n_datasets, n_strategies) of each pair over the data sets."""
    n = len(means)
    if n < 2:
        test_notes["across"] = "a signed-rank test over data sets needs at least 2 data sets, got 1"
        return _family([], alpha)
    shifts = [signed_rank(difference(means[a], means[b]), 1 - alpha) for a, b in pairs]
    smallest = min(1.0, 2.0 ** (1 - n))
    test_notes |= _powerless("across", f"{n} data sets", smallest, len(pairs), alpha)
    return _family(list(map(_row, pairs, shifts)), alpha)


def _within(
    cells: pd.DataFrame,
    pairs: Sequence[Pair],
    alpha: float,
    test_notes: dict[str, str],
    judged_by: str,
    resampled: Mapping[str, tuple[float, float]] | None,
) -> pd.DataFrame:
    """Test the costs of each pair over the seeds, on each data set as a family of its own."""
    n = cells["seed"].nunique()
    if n < 2:
        test_notes["within"] = "a rank-sum test over seeds needs at least 2 seeds, got 1"
        return _family([], alpha)
    tables = []
    for dataset, group in cells.groupby("dataset", sort=False):
        costs = group.pivot(index="seed", columns="strategy", values=judged_by)
        rows = []
        for a, b in pairs:
            if resampled is None:
                shift = rank_sum(costs[a].to_numpy(), costs[b].to_numpy(), 1 - alpha)
            else:
                sizes = resampled[str(dataset)]
                test = corrected_t(difference(costs[a], costs[b]), *sizes, 1 - alpha)
                shift = Shift(test.p, test.mean, test.low, test.high)
            rows.append({"dataset": dataset, **_row((a, b), shift)})
        tables.append(_family(rows, alpha))
    # A t-test has no smallest possible p-value.
    smallest = 0.0 if resampled else min(1.0, 2.0 / math.comb(2 * n, n))
    test_notes |= _powerless("within", f"{n} seeds", smallest, len(pairs), alpha)
    return pd.concat(tables, ignore_index=True)


def _powerless(
    test: str, sizes: str, smallest: float, n_pairs: int, alpha: float
) -> dict[str, str]:
    """Return a note if no test can be significant: Holm's threshold is below the smallest p."""
    if n_pairs == 0:
        return {test: "there is only one strategy, so there is nothing to test"}
    if smallest * n_pairs <= alpha:
        return {}
    note = f"with {sizes} the smallest possible p is {smallest:.2g}"
    if n_pairs > 1:
        adjusted = min(1.0, smallest * n_pairs)
        note += f", {adjusted:.2g} after Holm's correction for {n_pairs} pairs"
    return {test: f"{note}: no difference, however clear, can be significant at {alpha:g}"}


def _row(pair: Pair, shift: Shift) -> dict[str, Any]:
    bounds = {"shift": shift.estimate, "low": shift.low, "high": shift.high, "p": shift.p}
    return {"first": pair[0], "second": pair[1], **bounds}


def _family(rows: Sequence[dict[str, Any]], alpha: float) -> pd.DataFrame:
    """Add Holm-adjusted p-values of one family of tests, and their significance."""
    if not rows:
        return pd.DataFrame(columns=["first", "second", "shift", "low", "high", "p", "p_holm"])
    table = pd.DataFrame(rows)
    table["p_holm"], table["significant"] = holm(table["p"], alpha)
    return table


def holm(p: pd.Series[float], alpha: float = 0.05) -> tuple[pd.Series[float], pd.Series[bool]]:
    """Adjust the p-values of one family by Holm's procedure, and say which are significant."""
    require_package("statsmodels", "report", "Holm's correction")
    from statsmodels.stats.multitest import multipletests

    significant, adjusted, *_ = multipletests(p.to_numpy(), alpha, method="holm")
    return pd.Series(adjusted, p.index), pd.Series(significant, p.index)

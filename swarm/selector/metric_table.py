"""Cost against size: the best subset of each size, as a table and as a plot."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd
from scipy.stats import t

from swarm.checks import require_package
from swarm.errors import ConfigError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["best_by_size", "plot_by_size", "with_interval"]

_BARS = ("se", "sd", "ci")


def with_interval(table: pd.DataFrame, n_folds: int, confidence: float) -> pd.DataFrame:
    """Return the table with `ci_low` and `ci_high` for a level of confidence.

    Raises
    ------
    ConfigError
        If `confidence` is not between 0 and 1.
    """
    is_number = isinstance(confidence, (int, float)) and not isinstance(confidence, bool)
    if not is_number or not 0 < confidence < 1:
        raise ConfigError(f"confidence must be > 0 and < 1, got {confidence!r}")
    reach = t.ppf(0.5 + confidence / 2, n_folds - 1) * table["se"]
    return table.assign(ci_low=table["cost"] - reach, ci_high=table["cost"] + reach)


def best_by_size(table: pd.DataFrame) -> pd.DataFrame:
    """Return the cheapest row of each size, indexed by size; the first wins a tie."""
    known = table[table["cost"].notna()].sort_values(["size", "cost"], kind="stable")
    return known.drop_duplicates("size").set_index("size")


def plot_by_size(table: pd.DataFrame, bars: str | None, ax: Any) -> Axes:
    """Plot the costs of :func:`best_by_size`, with `bars` of ``se``, ``sd`` or ``ci``, or none.

    Raises
    ------
    ConfigError
        If `bars` is unknown.
    """
    if bars is not None and bars not in _BARS:
        raise ConfigError(f"bars must be one of {', '.join(_BARS)} or None, got {bars!r}")
    require_package("matplotlib", "report", "a plot")
    from matplotlib.ticker import MaxNLocator

    if ax is None:
        from matplotlib import pyplot

        ax = pyplot.subplots()[1]
    cost = table["cost"]
    axes: Axes = ax
    line = axes.plot(table.index, cost, marker="o")[0]
    if bars is not None:
        low, high = (
            (table["ci_low"], table["ci_high"])
            if bars == "ci"
            else (cost - table[bars], cost + table[bars])
        )
        axes.fill_between(table.index, low, high, alpha=0.2, color=line.get_color())
    axes.set_xlabel("features")
    axes.set_ylabel("cost")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    return axes

"""What a comparison says, in sentences: never more than its tests can hold."""

from __future__ import annotations

import math

import pandas as pd

from swarm.report.words import counted
from swarm.validation.comparison import Comparison

__all__ = ["interval", "p_value", "pair", "sentences", "verdict"]


def p_value(p: float) -> str:
    """Write a p-value with two digits that count."""
    return "below 0.0001" if p < 1e-4 else f"{p:.2g}"


def interval(low: float, high: float) -> str:
    """Write an interval; one that has no end is none."""
    if math.isinf(low) and math.isinf(high):
        return "no finite one"
    return f"[{low:.4g}, {high:.4g}]"


def pair(row: pd.Series) -> str:
    """Say which of two strategies costs less, and by how much."""
    better, worse = row["first"], row["second"]
    if row["shift"] > 0:
        better, worse = worse, better
    return f"{better} below {worse} by {abs(row['shift']):.4g}"


def verdict(comparison: Comparison) -> str:
    """Say which strategy ranks best on average; a rank is an order, not a proof."""
    ranks = comparison.ranks["average"]
    first = ranks[ranks == ranks.min()].index
    names = ", ".join(str(name) for name in first)
    return (
        f"Lowest average rank by mean cost: {names}, {ranks.min():.2f} among "
        f"{len(ranks)} strategies over {counted(len(comparison.datasets), 'data set')}."
    )


def sentences(comparison: Comparison) -> list[str]:
    """Say what the tests found, or why they can find nothing: a sentence or two for each."""
    return [
        verdict(comparison),
        _friedman(comparison),
        _tests(
            comparison,
            "across",
            "Wilcoxon's signed-rank tests of the mean costs over the data sets",
        ),
        _tests(comparison, "within", "Wilcoxon's rank-sum tests of the costs over the seeds"),
    ]


def _friedman(comparison: Comparison) -> str:
    found, alpha = comparison.friedman, comparison.alpha
    if found is None:
        return f"No test over all strategies: {comparison.silent['friedman']}."
    told = "the strategies differ" if found.p <= alpha else f"not significant at {alpha:g}"
    text = (
        f"Friedman's test on the mean costs, with the data sets as blocks: chi2 {found.chi2:.2f}, "
        f"p {p_value(found.p)} ({told}); Iman and Davenport's F {found.f:.2f}, "
        f"p {p_value(found.f_p)}."
    )
    return text + (
        f" Average ranks less than {comparison.critical_difference:.2f} apart are not told apart "
        f"(Nemenyi, {alpha:g})."
    )


def _tests(comparison: Comparison, which: str, name: str) -> str:
    table = comparison.across if which == "across" else comparison.within
    reason = comparison.silent.get(which)
    if not len(table):
        return f"No {name.partition(' of ')[0]}: {reason}."
    significant = table[table["significant"].astype(bool)]
    text = f"{name}, Holm-corrected: {len(significant)} of {counted(len(table), 'difference')}"
    text += f" significant at {comparison.alpha:g}"
    if 0 < len(significant) <= 3:
        told = [
            (f"on {row['dataset']} " if "dataset" in row else "")
            + f"{pair(row)} (p {p_value(row['p_holm'])})"
            for _, row in significant.iterrows()
        ]
        text += ": " + "; ".join(told)
    return text + (f"; {reason}." if reason else ".")

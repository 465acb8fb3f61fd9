"""A comparison as one HTML page that needs nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pandas as pd

from swarm.report import words
from swarm.report.canvas import DARK, LIGHT
from swarm.report.comparison_figures import comparison_figures, on_page
from swarm.report.comparison_page import COLUMNS, TIMES, shown
from swarm.report.comparison_words import interval, p_value, sentences
from swarm.report.page import template
from swarm.validation.comparison import Comparison

__all__ = ["ComparisonData", "render_comparison"]

# More pairs than this nobody reads at once.
_PAIRS_SHOWN = 12


@dataclass(frozen=True, eq=False)
class ComparisonData:
    """Everything the page of a comparison shows.

    Parameters
    ----------
    title : str
    description : str or None
    facts : mapping
        What was compared, one line each.
    comparison : Comparison
    everything : mapping of data set to (cost, size)
        Of all features.
    cost_labels : mapping of data set to str
    histories : mapping of data set to mapping of strategy to histories
        One for each seed; distinct_evaluations and best_cost are all that is shown of them.
    versions : mapping
        Of packages.
    """

    title: str
    description: str | None
    facts: Mapping[str, object]
    comparison: Comparison
    everything: Mapping[str, tuple[float, int]]
    cost_labels: Mapping[str, str]
    histories: Mapping[str, Mapping[str, Sequence[pd.DataFrame]]]
    versions: Mapping[str, str] = field(default_factory=dict)

    def figures(self) -> dict[str, bytes]:
        """Draw the figures: files by path."""
        return comparison_figures(
            self.comparison, self.histories, self.everything, self.cost_labels
        )


@dataclass(frozen=True)
class _Table:
    header: list[str]
    rows: list[list[str]]


def render_comparison(data: ComparisonData, figures: Mapping[str, bytes] | None = None) -> str:
    """Write the page of a comparison as a single HTML file.

    It loads nothing from anywhere and runs no script; it follows the light or dark setting of
    the reader, fits a phone and prints.

    Parameters
    ----------
    data : ComparisonData
    figures : mapping of path to bytes, optional
        What `data.figures()` gives, where it is at hand.
    """
    from markupsafe import Markup

    files = data.figures() if figures is None else figures
    svgs = {path: Markup(on_page(svg)) for path, svg in files.items() if path.endswith(".svg")}
    comparison = data.comparison
    told = sentences(comparison)
    return template("comparison.html.j2").render(
        data=data,
        title=words.plain(data.title),
        light=LIGHT,
        dark=DARK,
        answer=told[0],
        sentences=told[1:],
        facts=[(name, words.plain(value)) for name, value in data.facts.items()],
        ranks=_ranks(comparison.ranks),
        ranks_figure=svgs.get("figures/ranks.svg"),
        datasets=[_dataset(data, name, svgs) for name in comparison.datasets],
        tests=_tests(comparison),
        level=f"{100 * (1 - comparison.alpha):g}%",
        pairs_shown=_PAIRS_SHOWN,
        words=words,
    )


def _ranks(ranks: pd.DataFrame) -> _Table:
    ordered = ranks.sort_values("average", kind="stable")
    first = ["strategy", "average", *(str(c) for c in ranks.columns[:-1])]
    rows = [
        [str(name), f"{row['average']:.2f}", *(f"{row[c]:g}" for c in ranks.columns[:-1])]
        for name, row in ordered.iterrows()
    ]
    return _Table(first, rows)


def _dataset(data: ComparisonData, name: str, svgs: Mapping[str, object]) -> dict[str, object]:
    summary = data.comparison.summary
    own = summary[summary["dataset"] == name]
    cost, size = data.everything[name]
    return {
        "name": name,
        "all": f"All {words.counted(size, 'feature')} cost {cost:.5f} "
        f"({words.plain(data.cost_labels[name])}).",
        "table": _frame(own.sort_values("rank", kind="stable"), COLUMNS),
        "times": _frame(own, TIMES) if "seconds_algorithm" in summary else None,
        "figure": svgs.get(f"figures/convergence_{name}.svg"),
    }


def _frame(frame: pd.DataFrame, columns: Mapping[str, tuple[str, str]]) -> _Table:
    there = {key: value for key, value in columns.items() if key in frame}
    rows = [
        [shown(row[key], form) for key, (_, form) in there.items()] for _, row in frame.iterrows()
    ]
    return _Table([name for name, _ in there.values()], rows)


def _tests(comparison: Comparison) -> list[tuple[str, _Table]]:
    found = []
    for title, table in (
        ("Over the data sets: signed-rank tests of the mean costs", comparison.across),
        ("On each data set: rank-sum tests over the seeds", comparison.within),
    ):
        if not len(table):
            continue
        ordered = table.sort_values("p_holm", kind="stable")
        rows = [
            [
                f"{row['first']} – {row['second']}"
                + (f", {row['dataset']}" if "dataset" in table else ""),
                words.signed(0.0) if row["shift"] == 0 else f"{row['shift']:+.4g}",
                interval(row["low"], row["high"]),
                p_value(row["p"]),
                p_value(row["p_holm"]),
            ]
            for _, row in ordered.iterrows()
        ]
        found.append((title, _Table(["pair", "shift", "interval", "p", "p, Holm"], rows)))
    return found

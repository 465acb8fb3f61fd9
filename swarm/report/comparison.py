"""The report of a comparison, as Markdown and as a single HTML page."""

from __future__ import annotations

import itertools
import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pandas as pd

from swarm.problem.scoring import Scoring
from swarm.report import formatting
from swarm.report.formatting import metric_name, plain, signed
from swarm.report.table import TextTable
from swarm.validation.comparison import Comparison
from swarm.wording import counted

if TYPE_CHECKING:
    from swarm.report.drawing import Drawing

# A column of the summary has a key, a heading and a format; costs are shown as scores.
_COLUMNS = {
    "strategy": ("strategy", "{}"),
    "mean_cost": ("mean score", "{:.4f}"),
    "sd_cost": ("SD", "{:.5f}"),
    "best_cost": ("best", "{:.4f}"),
    "mean_test_cost": ("test score", "{:.4f}"),
    "mean_size": ("size", "{:.1f}"),
    "improvement": ("improvement %", "{:.1f}"),
    "size_reduction": ("fewer %", "{:.1f}"),
    "evaluations": ("evaluations", "{:.0f}"),
    "distinct": ("distinct", "{:.0f}"),
    "fits": ("fits", "{:.0f}"),
    "stability": ("stability", "{:.2f}"),
    "rank": ("rank", "{:g}"),
    "seconds_algorithm": ("algorithm s", "{:.2f}"),
    "seconds_evaluation": ("evaluation s", "{:.1f}"),
}
_COSTS = ("mean_cost", "best_cost", "mean_test_cost")
# These columns are shown only if ranks are about the test rows.
_WITH_TEST_ROWS = ("fits", "stability")
# Columns are left out in this order until a row fits on a line.
_LEFT_OUT = (
    "evaluations",
    "seconds_evaluation",
    "seconds_algorithm",
    "best_cost",
    "size_reduction",
    "improvement",
    "distinct",
    "fits",
    "stability",
    "sd_cost",
)
# Columns are three spaces apart, with one space on both sides of the table.
_GAP = 3
_EDGES = 2
_TEST_LEGEND = (
    "Ranks, improvements and tests are about the score on the test rows, which no search saw. The "
    "mean score is cross-validated on the training rows. Stability is the index of Nogueira et al. "
    "over the subsets of the seeds: 1 if all are the same, 0 as by chance."
)
# Further columns of a strategy are counted.
_MAX_COLUMNS = 60
# A table with more pairs is collapsed.
_MAX_PAIRS = 12


@dataclass(frozen=True)
class ComparedDataset:
    """A data set of a comparison; numbers are means over its resamples.

    Attributes
    ----------
    scoring : Scoring
    n_features : int
    fixed : sequence of str
        Columns of every subset.
    positive : str or None
        Positive class, if there are two classes.
    cost : float
        Cost of all features.
    test_cost : float or None
        Cost of all features on the test rows, if there are any.
    n_train, n_test : float
        Numbers of training and of test rows.
    """

    scoring: Scoring
    n_features: int
    fixed: Sequence[str]
    positive: str | None
    cost: float
    test_cost: float | None
    n_train: float
    n_test: float

    def describe(self) -> str:
        """State the score of all features, and their test score if there are test rows."""
        natural = self.scoring.natural
        score = f"{metric_name(self.scoring.metric)} {natural(self.cost):.4f}"
        text = f"{score} with all {counted(self.n_features, 'feature')}"
        if self.test_cost is None:
            return text
        return f"{text}, {natural(self.test_cost):.4f} on the test rows"


@dataclass(frozen=True, eq=False)
class ComparisonData:
    """The data of the report of a comparison.

    Attributes
    ----------
    title : str
    description : str or None
    facts : mapping
        Settings of the comparison, one line each.
    comparison : Comparison
    datasets : mapping of str to ComparedDataset
    cells : DataFrame
        A row per search, with its features as JSON.
    histories : mapping of (data set, strategy) to sequence of DataFrame
        A history per seed, of which `distinct_evaluations` and `best_cost` are used.
    versions : mapping of str to str
        Versions of packages.
    """

    title: str
    description: str | None
    facts: Mapping[str, object]
    comparison: Comparison
    datasets: Mapping[str, ComparedDataset]
    cells: pd.DataFrame
    histories: Mapping[tuple[str, str], Sequence[pd.DataFrame]]
    versions: Mapping[str, str]


# ---------------------------------------------------------------- sentences


def sentences(comparison: Comparison) -> list[str]:
    """Return a sentence or two for each test: its result, or why it cannot be significant."""
    score = judged_score(comparison)
    across = f"Wilcoxon's signed-rank tests of the mean {score}s over the data sets"
    within = f"Wilcoxon's rank-sum tests of the {score}s over the seeds"
    if comparison.is_resampled:
        within = f"Corrected resampled t-tests of the {score}s over the seeds"
    return [
        _best_rank(comparison),
        *_on_test_rows(comparison),
        _friedman(comparison),
        _pairwise(across, comparison.across, comparison.test_notes.get("across"), comparison.alpha),
        _pairwise(within, comparison.within, comparison.test_notes.get("within"), comparison.alpha),
    ]


def judged_cost(comparison: Comparison) -> str:
    """Return the name of the cost that ranks and tests are about."""
    return "test cost" if comparison.judged_by == "test_cost" else "cost"


def judged_score(comparison: Comparison) -> str:
    """Return the name of the score that ranks and tests are about."""
    return judged_cost(comparison).replace("cost", "score")


def _best_rank(comparison: Comparison) -> str:
    ranks = comparison.ranks["average"]
    names = ", ".join(str(name) for name in ranks[ranks == ranks.min()].index)
    rank = f"average rank by mean {judged_score(comparison)}: {names}, {ranks.min():.2f}"
    among = f"among {len(ranks)} strategies over {counted(len(comparison.datasets), 'data set')}"
    if comparison.friedman is None:
        return f"Lowest {rank} {among}."
    if comparison.friedman.p <= comparison.alpha:
        return f"Lowest {rank} {among}, which differ significantly."
    return f"No significant difference {among}; lowest {rank}."


def _on_test_rows(comparison: Comparison) -> list[str]:
    """State which strategy scores best on rows that no search saw, or that there are none."""
    summary = comparison.summary
    if "mean_test_cost" not in summary:
        return [
            "No rows were held out, so nothing here was judged on unseen rows; set split to do so."
        ]
    if comparison.judged_by == "test_cost":
        return []
    best = []
    for dataset in comparison.datasets:
        rows = summary[(summary["dataset"] == dataset) & summary["mean_test_cost"].notna()]
        if len(rows):
            lowest = rows["mean_test_cost"].min()
            names = rows.loc[rows["mean_test_cost"] == lowest, "strategy"]
            best.append(f"{', '.join(map(str, names))} on {dataset}")
    return [f"Best mean score on test rows that no search saw: {'; '.join(best)}."]


def _friedman(comparison: Comparison) -> str:
    test = comparison.friedman
    alpha = comparison.alpha
    if test is None:
        return f"No test over all strategies: {comparison.test_notes['friedman']}."
    verdict = "the strategies differ" if test.p <= alpha else f"not significant at {alpha:g}"
    corrected = ""
    # F is infinite if all data sets rank the strategies alike.
    if math.isfinite(test.f):
        corrected = f"; Iman and Davenport's F {test.f:.2f}, p {_p_value(test.f_p)}"
    return (
        f"Friedman's test on the mean {judged_score(comparison)}s, with the data sets as blocks: "
        f"chi2 {test.chi2:.2f}, p {_p_value(test.p)} ({verdict}){corrected}. Average ranks "
        f"less than {comparison.critical_difference:.2f} "
        f"apart are not significantly different (Nemenyi, {alpha:g})."
    )


def _pairwise(name: str, table: pd.DataFrame, reason: str | None, alpha: float) -> str:
    if not len(table):
        return f"No {name.partition(' of ')[0]}: {reason}."
    significant = table[table["significant"].astype(bool)]
    text = f"{name}, Holm-corrected: {len(significant)} of {counted(len(table), 'difference')}"
    text += f" significant at {alpha:g}"
    if 0 < len(significant) <= 3:
        text += ": " + "; ".join(_difference(row) for _, row in significant.iterrows())
    return text + (f"; {reason}." if reason else ".")


def _difference(row: pd.Series) -> str:
    """State which of two strategies scores better, and by how much."""
    better, worse = row["first"], row["second"]
    if row["shift"] > 0:
        better, worse = worse, better
    where = f"on {row['dataset']} " if "dataset" in row else ""
    p = _p_value(row["p_holm"])
    return f"{where}{better} ahead of {worse} by {abs(row['shift']):.4g} (p {p})"


def _p_value(p: float) -> str:
    return "below 0.0001" if p < 1e-4 else f"{p:.2g}"


def _interval(low: float, high: float) -> str:
    return "unbounded" if math.isinf(low) and math.isinf(high) else f"[{low:.4g}, {high:.4g}]"


# ---------------------------------------------------------------- tables


def summary_tables(data: ComparisonData, width: int | None = None) -> dict[str, TextTable]:
    """Return a table of scores, sizes and work for each data set, the best strategy first.

    The least important columns are left out until a row fits into `width` characters.
    """
    comparison = data.comparison
    summary = comparison.summary.sort_values("rank", kind="stable")
    texts = {}
    for key, (heading, template) in _COLUMNS.items():
        is_shown = comparison.judged_by == "test_cost" or key not in _WITH_TEST_ROWS
        if key in summary and is_shown:
            values = [
                data.datasets[dataset].scoring.natural(value) if key in _COSTS else value
                for dataset, value in zip(summary["dataset"], summary[key], strict=True)
            ]
            texts[key] = [heading, *(_formatted(value, template) for value in values)]
    widths = {key: max(map(len, column)) + _GAP for key, column in texts.items()}
    for key in _LEFT_OUT:
        needed = sum(widths[shown] for shown in texts) + _EDGES
        if key in texts and width is not None and needed > width:
            del texts[key]
    header, *rows = map(list, zip(*texts.values(), strict=True))
    names = summary["dataset"]
    return {
        dataset: TextTable(
            header,
            [row for row, name in zip(rows, names, strict=True) if name == dataset],
            f"{dataset}: {data.datasets[dataset].describe()}",
        )
        for dataset in comparison.datasets
    }


def _formatted(value: object, template: str) -> str:
    """Format a value of a table; a missing value is a dash."""
    return "-" if isinstance(value, float) and math.isnan(value) else template.format(value)


def rank_table(comparison: Comparison) -> TextTable:
    """Return average ranks, and the rank on each of more data sets; the best strategy first."""
    datasets = comparison.datasets if len(comparison.datasets) > 1 else []
    rows = [
        [str(name), f"{row['average']:.2f}", *(f"{row[dataset]:g}" for dataset in datasets)]
        for name, row in comparison.ranks.sort_values("average", kind="stable").iterrows()
    ]
    title = f"Ranks by mean {judged_score(comparison)}"
    return TextTable(["strategy", "average", *datasets], rows, title)


def _chosen_columns(data: ComparisonData, dataset: str) -> Iterable[tuple[str, str]]:
    """Yield the columns of each strategy by the number of seeds, the most frequent first."""
    cells = data.cells[data.cells["dataset"] == dataset]
    for strategy, chosen in cells.groupby("strategy", sort=False)["features"]:
        counts = Counter(name for features in chosen for name in json.loads(features))
        ranked = sorted(counts, key=lambda name: -counts[name])
        groups = [
            (f"{count} of {len(chosen)}: " if len(chosen) > 1 else "")
            + ", ".join(plain(name) for name in names)
            for count, names in itertools.groupby(ranked[:_MAX_COLUMNS], counts.__getitem__)
        ]
        text = "; ".join(groups)
        if len(ranked) > _MAX_COLUMNS:
            text += f" and {len(ranked) - _MAX_COLUMNS} more"
        yield str(strategy), text


def _tests(comparison: Comparison) -> Iterable[TextTable]:
    """Yield the table of both kinds of pairwise tests, by increasing p-value."""
    cost = judged_cost(comparison)
    within = "corrected resampled t-tests" if comparison.is_resampled else "rank-sum tests"
    for title, table in (
        (f"Over the data sets: signed-rank tests of the mean {cost}s", comparison.across),
        (f"On each data set: {within} over the seeds", comparison.within),
    ):
        if not len(table):
            continue
        rows = [
            [
                f"{row['first']} – {row['second']}"
                + (f", {row['dataset']}" if "dataset" in table else ""),
                signed(0.0) if row["shift"] == 0 else f"{row['shift']:+z.4g}",
                _interval(row["low"], row["high"]),
                _p_value(row["p"]),
                _p_value(row["p_holm"]),
            ]
            for _, row in table.sort_values("p_holm", kind="stable").iterrows()
        ]
        yield TextTable(["pair", "shift", "interval", "p", "p, Holm"], rows, title)


def _tests_legend(comparison: Comparison) -> str:
    exact = "p-values are exact given the ties"
    if comparison.is_resampled:
        exact = (
            "p-values over the data sets are exact given the ties. On each data set the shift is "
            "the mean difference, and the t-test is corrected for resamples that share rows "
            "(Nadeau and Bengio, 2003)"
        )
    return (
        f"Shift of the first strategy's {judged_cost(comparison)} above the second's "
        f"(Hodges-Lehmann) with its {100 * (1 - comparison.alpha):g}% confidence interval. "
        f"{exact}; Holm's correction is applied to each data set separately. Rows are sorted by p."
    )


# ---------------------------------------------------------------- pages


def render_comparison(data: ComparisonData, drawings: Mapping[str, Drawing]) -> str:
    """Write the report as one HTML file, without scripts and external resources."""
    from markupsafe import Markup

    from swarm.report.drawing import PAGE_DARK, PAGE_LIGHT
    from swarm.report.page import template

    svgs = {name: Markup(drawing.element()) for name, drawing in drawings.items()}
    comparison = data.comparison
    answer, *more_sentences = sentences(comparison)
    return template("comparison.html.j2").render(
        data=data,
        light=PAGE_LIGHT,
        dark=PAGE_DARK,
        answer=answer,
        sentences=more_sentences,
        ranks=rank_table(comparison),
        ranks_figure=svgs.get("ranks"),
        datasets=[
            _section(data, name, table, svgs) for name, table in summary_tables(data).items()
        ],
        tests=list(_tests(comparison)),
        tests_legend=_tests_legend(comparison),
        pairs_shown=_MAX_PAIRS,
        score=judged_score(comparison),
        test_legend=_TEST_LEGEND if comparison.judged_by == "test_cost" else None,
        f=formatting,
        counted=counted,
    )


def _section(
    data: ComparisonData, name: str, table: TextTable, svgs: Mapping[str, object]
) -> dict[str, Any]:
    dataset = data.datasets[name]
    text = formatting.sentence(dataset.describe())
    if dataset.positive is not None:
        text += f" Positive class: {plain(dataset.positive)}."
    return {
        "name": name,
        "all": text,
        "table": table,
        "chosen": list(_chosen_columns(data, name)),
        "figure": svgs.get(f"convergence_{name}"),
    }

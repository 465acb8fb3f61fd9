"""The report of a select run as a self-contained HTML page."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING

import numpy as np

from swarm.checks import require_package
from swarm.report import formatting
from swarm.report.contenders import (
    contender_rows,
    is_single,
    lower_is_better,
    paired_differences,
    rows_of,
)
from swarm.report.data import PRICED_RULES, RULES, Pick, ReportData
from swarm.report.drawing import DARK, LIGHT, Drawing
from swarm.report.figures import MOST_FREQUENT, draw_figures, metric_figure_name
from swarm.report.formatting import (
    cost,
    counted,
    duration,
    interval,
    metric_name,
    number,
    plain,
    shortened,
)
from swarm.report.model_figures import model_figures
from swarm.search.result import listed
from swarm.validation.judgement import ALL

if TYPE_CHECKING:
    from jinja2 import Template

Tile = tuple[str, str, str]

_ROWS_SHOWN = 20
_ROWS_MOST = 300
_NAMED_IN_ANSWER = 8
_NAMED_IN_PICK = 12
_NAME_LENGTH = 40
_CELLS = 16
# Facts that are shown in the section on work.
_WORK = ("archive_hits", "fallbacks", "seconds_training", "seconds_elsewhere")


def render(data: ReportData, drawings: Mapping[str, Drawing] | None = None) -> str:
    """Write the report of a select run as a single HTML file.

    The page loads no external resources, runs no scripts, supports light and dark mode and small
    screens, and can be printed.

    Parameters
    ----------
    data : ReportData
    drawings : mapping of name to Drawing, optional
        Return value of :func:`swarm.report.figures.draw_figures` for `data`. Default: draw the
        figures.

    Returns
    -------
    str
        Identical for the same data and the same version of matplotlib.
    """
    from markupsafe import Markup

    drawings = draw_figures(data, png=False) if drawings is None else drawings
    svgs = {name: Markup(drawing.element()) for name, drawing in drawings.items()}
    chosen, others = feature_rows(data)
    return template("report.html.j2").render(
        data=data,
        light=LIGHT,
        dark=DARK,
        head=data.head(),
        names=_names(data),
        tiles=_tiles(data),
        chosen=chosen[:_ROWS_MOST],
        others=others[:_ROWS_MOST],
        unlisted=[row.name for row in [*chosen[_ROWS_MOST:], *others[_ROWS_MOST:]]],
        rows_shown=_ROWS_SHOWN,
        rivals=paired_differences(data),
        contenders=contender_rows(data),
        single=is_single(data),
        has_intervals=bool(data.metrics) and bool(data.figures["low"].notna().any()),
        lower_is_better=lower_is_better(data),
        metrics=[metric_name(metric) for metric in data.metrics],
        svgs=svgs,
        forests=[svgs[metric_figure_name(metric)] for metric in data.metrics],
        n_together=len(data.frequency()),
        n_shown=len(data.shown_features()),
        nearest=data.nearest_left_out(),
        optimism=optimism_sentence(data),
        cost_bars=_cost_bars(data),
        subset_optimism=_subset_optimism(data),
        model=data.diagnostics,
        model_figures={} if data.diagnostics is None else model_figures(data.diagnostics),
        rules=PRICED_RULES if data.prices else RULES,
        listed=lambda pick: _listed(data, pick),
        agreement=data.agreement,
        most_frequent=MOST_FREQUENT,
        stability=_stability(data),
        stability_tiles=_stability_tiles(data),
        work=work_counts(data),
        facts=_fact_rows(data.facts),
        f=formatting,
    )


def template(name: str) -> Template:
    """Load a template of this package; values are escaped."""
    require_package("jinja2", "report", "a report")
    from jinja2 import Environment, FunctionLoader, StrictUndefined
    from markupsafe import Markup, escape

    def breakable(value: object) -> object:
        """Let a browser break a long name after an underscore rather than between letters."""
        if not isinstance(value, str) or isinstance(value, Markup):
            return value
        return escape(value).replace("_", Markup("_<wbr>"))

    folder = files("swarm.report")

    def source(name: str) -> str:
        return (folder / name).read_text(encoding="utf-8")

    environment = Environment(
        loader=FunctionLoader(source),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=breakable,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(name)


# ---------------------------------------------------------------- the answer


def _names(data: ReportData) -> str:
    """List the features to keep, by importance; empty where all are to be kept."""
    if not data.head().names_features:
        return ""
    names = [shortened(name, _NAME_LENGTH) for name in data.ranked()]
    if len(names) > _NAMED_IN_ANSWER:
        return listed(names, _NAMED_IN_ANSWER)
    return " and ".join(part for part in (", ".join(names[:-1]), names[-1]) if part)


def _tiles(data: ReportData) -> list[Tile]:
    """Return the key figures: value, label and note."""
    together = len(data.frequency())
    more = "in the best subset"
    if len(data.subsets) > 1:
        more = f"the ensemble of {len(data.subsets):,} uses {together:,}"
    tiles = [(f"{len(data.features):,}", f"of {counted(data.n_available, 'feature')}", more)]
    tiles += [
        (
            number(one.chosen),
            f"{metric_name(one.metric)} with them, {number(one.everything)} with all",
            f"difference {one.difference_and_interval().replace('-', '−')}, on {one.rows}",
        )
        if one.subset != ALL
        else (number(one.chosen), f"{metric_name(one.metric)} with {ALL}", f"on {one.rows}")
        for one in data.head().evidence
    ]
    single = is_single(data)
    ensemble = [] if single or not data.metrics else [data.metrics[0]]
    for row in [row for metric in ensemble for row in rows_of(data.figures, metric, "ensemble")]:
        label = f"test {metric_name(data.metrics[0])} of the ensemble"
        models, used = counted(row["n_models"], "model"), counted(row["n_features"], "feature")
        bounds = interval(row["low"], row["high"]) or "no interval"
        tiles.append((number(row["value"]), label, f"{models}, {used} together, {bounds}"))
    tiles += [
        (rival.difference, f"{rival.metric} gain over all features, same vote", rival.bounds)
        for rival in paired_differences(data)
        if rival.is_all_features and not single
    ]
    if data.head().evidence:
        # The same comparisons in the metric of the search.
        return tiles
    if data.confirmation is not None:
        note = f"{cost(data.confirmation['all_features_cost'])} with all features"
        tiles.append((cost(data.confirmation["cost"]), "cost on fresh folds", note))
    if data.cv_cost is not None and data.test_cost is not None:
        label = "test cost of the best subset"
        tiles.append((cost(data.test_cost), label, f"{cost(data.cv_cost)} in cross-validation"))
    elif data.cv_cost is not None:
        tiles.append((cost(data.cv_cost), "cost of the best subset", "cross-validated"))
    return tiles


@dataclass(frozen=True)
class FeatureRow:
    """A feature, its share of the importances and the subsets that contain it."""

    name: str
    share: float | None
    width: float
    count: int
    cells: tuple[bool, ...]


def feature_rows(data: ReportData) -> tuple[list[FeatureRow], list[FeatureRow]]:
    """Return the chosen features by importance, and those in other subsets only."""
    weights: dict[str, float] = {}
    if data.importances is not None:
        weights = {
            str(name): float(value)
            for name, value in data.importances.items()
            if math.isfinite(value) and value > 0.0
        }
    total, most = sum(weights.values()), max(weights.values(), default=0.0)
    members = [frozenset(names) for names, _ in data.subsets]
    shown = members if len(members) <= _CELLS else []
    chosen = set(data.features)
    rows = [
        FeatureRow(
            name=plain(name),
            share=weights.get(name, 0.0) / total if total and name in chosen else None,
            width=100.0 * weights.get(name, 0.0) / most if most else 0.0,
            count=count,
            cells=tuple(name in member for member in shown),
        )
        for name, count in data.frequency().items()
    ]
    return rows[: len(chosen)], rows[len(chosen) :]


def _listed(data: ReportData, pick: Pick) -> str:
    """List the features of a pick; those of the best subset by importance."""
    ranked = data.ranked() if pick.rule == "best" else pick.features
    return listed([shortened(name, _NAME_LENGTH) for name in ranked], _NAMED_IN_PICK)


# ---------------------------------------------------------------- optimism


def optimism_sentence(data: ReportData) -> str:
    """State the cross-validated and test cost of the best subset, and the optimism."""
    if data.cv_cost is None or data.test_cost is None:
        return ""
    name = f" ({plain(data.cost_label)})" if data.cost_label != "cost" else ""
    start = (
        f"The cost{name} of the best subset is {cost(data.cv_cost)} in cross-validation and "
        f"{cost(data.test_cost)} on the test rows."
    )
    gap = data.test_cost - data.cv_cost
    if not math.isfinite(gap):
        return start
    share = f" ({abs(gap / data.cv_cost):.0%})" if abs(gap) < 2.0 * abs(data.cv_cost) else ""
    start += f" Optimism: {'+' if gap > 0 else ''}{cost(gap)}{share}."
    if gap > 0:
        return (
            f"{start} Some optimism is expected: a search selects the subsets that do best on its "
            "own folds. Trust the test results, not the cost of the search."
        )
    if gap < 0:
        return (
            f"{start} There is no sign that the search overfitted its folds, but the test rows "
            "may also be easier by chance."
        )
    return start


def _cost_bars(data: ReportData) -> list[tuple[str, str, float]]:
    """Return label, value and bar length in % of the cross-validated and the test cost."""
    if data.cv_cost is None or data.test_cost is None:
        return []
    values = (data.cv_cost, data.test_cost)
    most = max(values)
    if not all(math.isfinite(v) and v >= 0.0 for v in values) or most == 0.0:
        return []
    names = ("in cross-validation", "on the test rows")
    return [(n, cost(v), 100.0 * v / most) for n, v in zip(names, values, strict=True)]


def _subset_optimism(data: ReportData) -> str:
    """State how many subsets of the ensemble cost more on the test rows, and how much."""
    cv, test = data.cost_pairs()
    if len(cv) < 2:
        return ""
    gap = float(np.mean(test - cv))
    text = (
        f"{int((test > cv).sum())} of {len(cv)} cost more on the test rows than in "
        f"cross-validation; the mean difference is {cost(gap)}. "
    )
    if gap > 0 and gap >= float(cv.max() - cv.min()):
        return text + (
            "That is more than the whole range of their cross-validated costs, so their order "
            "does not show which of them is best."
        )
    return text + "Subsets above the dashed line cost more on the test rows, those below it less."


# ---------------------------------------------------------------- stability


def _stability_tiles(data: ReportData) -> list[Tile]:
    """Return the stability index, the mean overlap, and the number of frequent features."""
    found = data.agreement
    if found is None or math.isnan(found.overlap):
        return []
    tiles = []
    if not math.isnan(found.index):
        bounds = f"[{number(found.low)}, {number(found.high)}], {found.word}"
        tiles.append((number(found.index), "stability index (Nogueira)", bounds))
    tiles.append((f"{found.overlap:.0%}", "overlap of two subsets", "mean Jaccard index"))
    always = int((found.shares["held"] == 1.0).sum())
    tiles.append((f"{always:,}", f"{'feature' if always == 1 else 'features'} in every subset", ""))
    often = int((found.shares["held"] > 0.5).sum())
    tiles.append((f"{often:,}", "in more than half of them", ""))
    return tiles


def _stability(data: ReportData) -> str:
    """Describe the agreement of the final subsets, and its limits."""
    found = data.agreement
    if found is None:
        return ""
    caution = (
        "One run does not show what another seed or other rows would select; repeat the search "
        "to find out (swarm stability, or other values of random_state)."
    )
    if found.n_held < 2:
        return f"The search ended with a single subset, so there is nothing to compare. {caution}"
    start = f"The search ended with {counted(found.n_held, 'distinct subset')}."
    if math.isnan(found.index):
        return f"{start} {caution}"
    poor = (
        " Their agreement is poor: many subsets do about as well, so a feature may matter less, "
        "or be easier to replace, than its place in one of them suggests."
        if found.word == "poor"
        else ""
    )
    return (
        f"{start}{poor} The index is 1 if all are equal, and about 0 if they agree as random "
        "subsets of the same sizes would. The subsets come from one search on the same rows, so "
        "index and interval are optimistic: a low value is a warning, a high value no evidence. "
        f"{caution}"
    )


# ---------------------------------------------------------------- work and facts


def work_counts(data: ReportData) -> list[tuple[str, str]]:
    """Return the counts and times of the run: value and label."""
    history, facts = data.history, data.facts
    last = dict(history.iloc[-1]) if len(history) else {}
    found = [
        (f"{int(last[column]):,}", label)
        for column, label in (
            ("epoch", "epochs"),
            ("evaluations", "evaluations requested"),
            ("distinct_evaluations", "of distinct subsets"),
            ("fits", "models trained on a fold"),
        )
        if column in last
    ]
    if "folds_pruned" in last:
        pruned, fits = int(history["folds_pruned"].sum()), int(last.get("fits", 0))
        share = f" ({pruned / (pruned + fits):.0%})" if pruned + fits else ""
        found.append((f"{pruned:,}", f"fits saved by pruning{share}"))
    if "archive_hits" in facts:
        found.append(
            (f"{int(float(str(facts['archive_hits']))):,}", "evaluations from the archive")
        )
    if fallbacks := int(float(str(facts.get("fallbacks", 0)))):
        found.append((f"{fallbacks:,}", "fallbacks of the fast path to fitted models"))
    for name, label in (("seconds_training", "in training"), ("seconds_elsewhere", "elsewhere")):
        if name in facts:
            found.append((duration(float(str(facts[name]))), label))
    return found


def _fact_rows(facts: Mapping[str, object]) -> list[tuple[str, str]]:
    """Return keys and values as text; a nested mapping becomes one row per key."""
    rows: list[tuple[str, str]] = []
    for name, value in facts.items():
        if name in _WORK:
            continue
        if isinstance(value, Mapping):
            rows += [(f"{plain(name)}: {plain(key)}", plain(inner)) for key, inner in value.items()]
        else:
            shown = f"{value:,.6g}" if isinstance(value, float) else plain(value)
            rows.append((plain(name).replace("_", " "), shown))
    return rows

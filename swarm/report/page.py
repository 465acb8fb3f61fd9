"""The report of a run or of a selector as a self-contained HTML page."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.resources import files
from typing import TYPE_CHECKING

from swarm.checks import require_package
from swarm.metrics import is_lower_better
from swarm.report import formatting
from swarm.report.columns import column_records, columns_in_rows
from swarm.report.contenders import contender_rows, is_single, paired_differences
from swarm.report.data import ReportData
from swarm.report.drawing import PAGE_DARK, PAGE_LIGHT, Drawing
from swarm.report.figures import draw_figures
from swarm.report.formatting import duration, metric_name, plain, shortened
from swarm.report.table import TextTable
from swarm.validation.sentences import against_baseline, positive_class_sentence
from swarm.wording import counted, listed

if TYPE_CHECKING:
    from jinja2 import Template

# Further rows are collapsed, and beyond the limit only named.
_N_OPEN_ROWS = 20
_MAX_ROWS = 300
_MAX_NAMES = 8
_MAX_CELLS = 16


def render(data: ReportData, drawings: Mapping[str, Drawing] | None = None) -> str:
    """Write the report of a run or a selector as a single HTML file.

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
    chosen, not_chosen = feature_rows(data)
    judgement = data.judgement
    metrics = [] if judgement is None else judgement.metrics
    return template("report.html.j2").render(
        data=data,
        light=PAGE_LIGHT,
        dark=PAGE_DARK,
        head=data.headline,
        names=_names(data),
        evidence=_more_evidence(data),
        judgement=judgement,
        chosen=chosen[:_MAX_ROWS],
        others=not_chosen[:_MAX_ROWS],
        unlisted=[row.name for row in [*chosen[_MAX_ROWS:], *not_chosen[_MAX_ROWS:]]],
        rows_shown=_N_OPEN_ROWS,
        rivals=paired_differences(judgement),
        contenders=contender_rows(judgement),
        single=judgement is not None and is_single(judgement),
        has_intervals=judgement is not None and bool(judgement.table["low"].notna().any()),
        lower_is_better=[metric_name(metric) for metric in metrics if is_lower_better(metric)],
        metrics=[metric_name(metric) for metric in metrics],
        svgs=svgs,
        n_together=len(data.frequency()),
        n_shown=len(data.shown_features()),
        columns=_column_table(data),
        columns_most=_MAX_ROWS,
        nearest=data.nearest_left_out(),
        work=work_counts(data),
        facts=_fact_rows(data.facts),
        f=formatting,
        counted=counted,
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
    """List the features to keep, by importance; empty if all are to be kept."""
    if not data.headline.names_features:
        return ""
    names = [shortened(name) for name in data.ranked()]
    if len(names) > _MAX_NAMES:
        return listed(names, _MAX_NAMES)
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _more_evidence(data: ReportData) -> list[str]:
    """Return the sentences on the answer that are not shown at once."""
    texts = [*data.headline.sentences()[1:], data.headline.searched]
    judgement = data.judgement
    if judgement is not None:
        # The headline has compared a single model with all features.
        ensemble = "" if is_single(judgement) else against_baseline(judgement)
        texts += [ensemble, positive_class_sentence(judgement)]
    return [text for text in texts if text]


@dataclass(frozen=True)
class FeatureRow:
    """A feature, its share of the importances and the subsets that contain it."""

    name: str
    share: float | None
    width: float
    count: int
    cells: tuple[bool, ...]


def feature_rows(data: ReportData) -> tuple[list[FeatureRow], list[FeatureRow]]:
    """Return the chosen features by importance, and the features of other subsets only."""
    weights: dict[str, float] = {}
    if data.importances is not None:
        weights = {
            str(name): float(value)
            for name, value in data.importances.items()
            if math.isfinite(value) and value > 0.0
        }
    total = sum(weights.values())
    highest = max(weights.values(), default=0.0)
    members = [frozenset(names) for names, _ in data.subsets]
    shown_members = members if len(members) <= _MAX_CELLS else []
    chosen = set(data.features)
    rows = [
        FeatureRow(
            name=plain(name),
            share=weights.get(name, 0.0) / total if total and name in chosen else None,
            width=100.0 * weights.get(name, 0.0) / highest if highest else 0.0,
            count=count,
            cells=tuple(name in member for member in shown_members),
        )
        for name, count in data.frequency().items()
    ]
    return rows[: len(chosen)], rows[len(chosen) :]


def _column_table(data: ReportData) -> TextTable | None:
    """Return why columns are in or out, as texts that HTML allows."""
    if data.columns is None:
        return None
    table = columns_in_rows(column_records(data.columns))
    rows = [[plain(text) if text else "" for text in row] for row in table.rows]
    return replace(table, rows=rows)


# ---------------------------------------------------------------- work and facts


def work_counts(data: ReportData) -> list[tuple[str, str]]:
    """Return the counts and times of the run: value and label."""
    work = data.work
    last = data.history.iloc[-1]
    fits = int(last["fits"])
    pruned = int(data.history["folds_pruned"].sum())
    share = f" ({pruned / (pruned + fits):.0%})" if pruned + fits else ""
    training = float(work["training_seconds"].sum())
    elsewhere = max(0.0, float(work["seconds"].sum()) - training)
    fallbacks = int(work["fallbacks"].sum())
    return [
        (f"{int(last['epoch']):,}", "epochs"),
        (f"{int(last['evaluations']):,}", "evaluations requested"),
        (f"{int(last['distinct_evaluations']):,}", "of distinct subsets"),
        (f"{fits:,}", "models trained on a fold"),
        (f"{pruned:,}", f"fits saved by pruning{share}"),
        (f"{work['hits'].sum():,}", "evaluations from the archive"),
        *([(f"{fallbacks:,}", "fallbacks of the fast path to fitted models")] if fallbacks else []),
        (duration(training), "in training"),
        (duration(elsewhere), "elsewhere"),
    ]


def _fact_rows(facts: Mapping[str, object]) -> list[tuple[str, str]]:
    """Return keys and values as text; a nested mapping becomes one row per key."""
    rows: list[tuple[str, str]] = []
    for name, value in facts.items():
        if isinstance(value, Mapping):
            rows += [(f"{plain(name)}: {plain(key)}", plain(inner)) for key, inner in value.items()]
        else:
            text = f"{value:,.6g}" if isinstance(value, float) else plain(value)
            rows.append((plain(name).replace("_", " "), text))
    return rows

"""The report as one HTML page that needs nothing else."""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING

from swarm.checks import require_package
from swarm.report import comparison, content, reliance, words
from swarm.report.canvas import DARK, LIGHT
from swarm.report.data import ReportData
from swarm.report.figures import figure_svgs, metric_plot_name
from swarm.report.frequency import MOST
from swarm.report.heatmap import shown_features, stand_ins

if TYPE_CHECKING:
    from jinja2 import Template

__all__ = ["render", "template"]

_ROWS_SHOWN = 20
_ROWS_MOST = 300
_STAND_INS = 10


def render(data: ReportData) -> str:
    """Write the report of a select run as a single HTML file.

    It loads nothing from anywhere and runs no script; it follows the light or dark setting of
    the reader, fits a phone and prints.

    Parameters
    ----------
    data : ReportData

    Returns
    -------
    str
        The same text for the same data and the same version of matplotlib.
    """
    from markupsafe import Markup

    chosen, others = content.feature_rows(data)
    svgs = {name: Markup(svg) for name, svg in figure_svgs(data).items()}
    return template("report.html.j2").render(
        data=data,
        title=words.plain(data.title),
        light=LIGHT,
        dark=DARK,
        answer=content.answer(data),
        tiles=content.tiles(data),
        chosen=chosen[:_ROWS_MOST],
        others=others[:_ROWS_MOST],
        unlisted=[row.name for row in [*chosen[_ROWS_MOST:], *others[_ROWS_MOST:]]],
        rows_shown=_ROWS_SHOWN,
        rivals=comparison.rivals(data),
        contenders=comparison.contender_rows(data),
        has_intervals=bool(data.metrics) and bool(data.figures["low"].notna().any()),
        lower_is_better=comparison.lower_is_better(data),
        metrics=[words.metric_name(metric) for metric in data.metrics],
        svgs=svgs,
        forests=[svgs[metric_plot_name(metric)] for metric in data.metrics],
        n_together=len(data.frequency()),
        n_shown=len(shown_features(data)),
        stand_ins=stand_ins(data, _STAND_INS),
        calibration=_calibration(data),
        promised=content.promised(data),
        kept=reliance.kept(data),
        pick_rows=reliance.pick_rows(data),
        agreement=data.agreement,
        frequency_most=MOST,
        agreed=reliance.agreed(data),
        agreement_tiles=reliance.agreement_tiles(data),
        spent=content.spent(data),
        facts=content.fact_rows(data.facts),
        words=words,
    )


def template(name: str) -> Template:
    """Load a template of this folder: what is put into it is text, whatever it looks like."""
    require_package("jinja2", "report", "a report")
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    folder = files("swarm.report")

    def source(name: str) -> str:
        return (folder / name).read_text(encoding="utf-8")

    environment = Environment(
        loader=FunctionLoader(source),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(name)


def _calibration(data: ReportData) -> str | None:
    if data.cv_cost is None or data.test_cost is None:
        return None
    return words.calibration(data.cv_cost, data.test_cost, data.cost_label)

"""One self-contained HTML page, and separate figures, of a select run."""

from swarm.report.data import ReportData
from swarm.report.figures import draw_figures
from swarm.report.page import render

__all__ = ["ReportData", "draw_figures", "render"]

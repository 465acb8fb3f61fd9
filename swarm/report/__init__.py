"""Reports as self-contained HTML pages, with their figures."""

from swarm.report.data import ReportData, report_data
from swarm.report.figures import draw_figures
from swarm.report.page import render

__all__ = ["ReportData", "draw_figures", "render", "report_data"]

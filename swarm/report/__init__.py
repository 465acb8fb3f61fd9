"""One self-contained HTML page, and separate figures, of a select run."""

from swarm.report.data import ReportData
from swarm.report.figures import figure_files
from swarm.report.page import render

__all__ = ["ReportData", "figure_files", "render"]

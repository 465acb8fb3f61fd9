"""Evaluation without models, for estimators whose predictions follow from sums over features."""

from __future__ import annotations

from swarm.evaluation.exact.choose import ExactPath, exact_path
from swarm.evaluation.exact.run import fold_costs

__all__ = ["ExactPath", "exact_path", "fold_costs"]

"""Evaluation without models, for estimators whose predictions follow from sums over features."""

from __future__ import annotations

from swarm.fastpaths.answers import Answers
from swarm.fastpaths.choose import ExactPath, exact_path
from swarm.fastpaths.run import find_answers, fold_costs

__all__ = ["Answers", "ExactPath", "exact_path", "find_answers", "fold_costs"]

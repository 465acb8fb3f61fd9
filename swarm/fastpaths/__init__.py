"""Fast paths: evaluate masks without fitting models, for estimators that sum over features."""

from __future__ import annotations

from swarm.fastpaths.answers import Answers
from swarm.fastpaths.choose import ExactPath, exact_path
from swarm.fastpaths.run import find_answers, fold_costs

__all__ = ["Answers", "ExactPath", "exact_path", "find_answers", "fold_costs"]

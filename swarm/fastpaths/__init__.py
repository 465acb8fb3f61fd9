"""Fast paths: evaluate masks without fitting models, for estimators that sum over features."""

from __future__ import annotations

from swarm.fastpaths.choose import ExactPath, exact_path
from swarm.fastpaths.path_result import PathResult
from swarm.fastpaths.run import evaluate_masks, fold_costs

__all__ = ["ExactPath", "PathResult", "evaluate_masks", "exact_path", "fold_costs"]

"""Fast paths: evaluate masks without fitting models, for estimators that sum over features."""

from swarm.fastpaths.choose import ExactPath, PathResult, evaluate_masks, exact_path

__all__ = ["ExactPath", "PathResult", "evaluate_masks", "exact_path"]

"""Fast paths: evaluate masks without fitting models, for estimators that sum over features."""

from __future__ import annotations

from swarm.fastpaths.choose import ExactPath, exact_path, require_device
from swarm.fastpaths.device import DEVICES, Device, open_device
from swarm.fastpaths.path_result import PathResult
from swarm.fastpaths.run import evaluate_masks, fold_costs

__all__ = [
    "DEVICES",
    "Device",
    "ExactPath",
    "PathResult",
    "evaluate_masks",
    "exact_path",
    "fold_costs",
    "open_device",
    "require_device",
]

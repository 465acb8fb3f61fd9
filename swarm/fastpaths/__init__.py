"""Fast paths: evaluate masks without fitting models, for estimators that sum over features."""

from __future__ import annotations

from swarm.fastpaths.choose import (
    ExactPath,
    PathResult,
    evaluate_masks,
    exact_path,
    require_device,
)
from swarm.fastpaths.device import DEVICES, Device, open_device

__all__ = [
    "DEVICES",
    "Device",
    "ExactPath",
    "PathResult",
    "evaluate_masks",
    "exact_path",
    "open_device",
    "require_device",
]

"""Names under which figures are sent to MLflow, which draws those of one prefix together.

Its pages sort the groups by name: what a person looks for first, the cost, comes first.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TypeVar

__all__ = ["charted", "charted_name"]

T = TypeVar("T")

_NAMES = {
    "best_cost": "cost/best",
    "pbest_cost_mean": "cost/pbest_mean",
    "pbest_cost_median": "cost/pbest_median",
    "proxy_best_cost": "proxy/best_cost",
    "confirmed_best_cost": "proxy/confirmed_cost",
    "proxy_rank_correlation": "proxy/rank_correlation",
    "best_size": "size/best",
    "size_mean": "size/mean",
    "diversity": "swarms/diversity",
    "evaluations": "spent/evaluations",
    "distinct_evaluations": "spent/distinct_evaluations",
    "fits": "spent/fits",
    "folds_pruned": "spent/folds_pruned",
    "failed_evaluations": "spent/failed_evaluations",
    "optimism": "test/optimism",
}
_PATTERNS = (
    (r"swarm_(\d+)_best_cost", r"swarms/\1_best_cost"),
    # What this machine really did; `spent` is the same whatever an archive knew.
    (r"work_(.+)", r"work/\1"),
    (r"test_(.+)", r"test/\1"),
    (r"baseline_(.+)", r"test_baselines/\1"),
)


def charted_name(name: str) -> str:
    """Return the name of a figure with its group before a slash: ``cost/best``."""
    if name in _NAMES:
        return _NAMES[name]
    for pattern, named in _PATTERNS:
        if re.fullmatch(pattern, name):
            return re.sub(pattern, named, name)
    return name


def charted(values: Mapping[str, T]) -> dict[str, T]:
    """Return figures under the names that MLflow gets."""
    return {charted_name(name): value for name, value in values.items()}

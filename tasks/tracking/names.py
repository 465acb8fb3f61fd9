"""Names and values of metrics, parameters and tags in MLflow."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar

__all__ = [
    "PARAM_LENGTH",
    "TAG_LENGTH",
    "accepted_key",
    "batches",
    "cut",
    "metric_key",
]

T = TypeVar("T")

PARAM_LENGTH = 6000
TAG_LENGTH = 8000
KEY_LENGTH = 250

# MLflow groups the charts of metrics by prefix and sorts the groups by name, so that the cost,
# which is the most important, comes first.
_NAMES = {
    "best_cost": "cost/best",
    "pbest_cost_mean": "cost/pbest_mean",
    "pbest_cost_median": "cost/pbest_median",
    "proxy_best_cost": "proxy/best_cost",
    "confirmed_best_cost": "proxy/confirmed_cost",
    "proxy_rank_correlation": "proxy/rank_correlation",
    "rows_rank_correlation": "rows/rank_correlation",
    "rows_subsets_on_all": "rows/subsets_on_all",
    "confirmed_cost": "confirm/cost",
    "confirmed_cost_all_features": "confirm/cost_all_features",
    "confirmed_gain": "confirm/gain",
    "confirmed_gain_low": "confirm/gain_low",
    "confirmed_gain_high": "confirm/gain_high",
    "winners_curse": "confirm/winners_curse",
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
    # Work of this process; `spent` also includes evaluations from the archive.
    (r"work_(.+)", r"work/\1"),
    (r"test_(.+)", r"test/\1"),
    (r"baseline_(.+)", r"test_baselines/\1"),
)


def metric_key(name: str) -> str:
    """Return the name of a metric with its group as a prefix: ``cost/best``."""
    if name in _NAMES:
        return _NAMES[name]
    for pattern, named in _PATTERNS:
        if re.fullmatch(pattern, name):
            return re.sub(pattern, named, name)
    return name


def batches(items: Iterable[T], size: int = 100) -> Iterator[list[T]]:
    """Yield `items` in lists of at most `size`; MLflow accepts 100 params or tags at once."""
    rest = iter(items)
    while batch := list(islice(rest, size)):
        yield batch


def accepted_key(name: str) -> str:
    """Replace every character that MLflow does not allow in a key by ``_``."""
    return re.sub(r"[^\w.\- :/]", "_", name)[:KEY_LENGTH]


def cut(value: object, length: int) -> str:
    """Return a value as text, strings unchanged and others as JSON, truncated to `length`."""
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return text if len(text) <= length else text[: length - 3] + "..."

"""Names and values of figures, parameters and tags, as MLflow takes and shows them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import TypeVar

__all__ = [
    "PARAM_LENGTH",
    "TAG_LENGTH",
    "accepted_key",
    "batches",
    "charted",
    "charted_name",
    "cut",
]

T = TypeVar("T")

PARAM_LENGTH = 6000
TAG_LENGTH = 8000
KEY_LENGTH = 250

# MLflow draws figures of one prefix together, and sorts the groups by name: what a person looks
# for first, the cost, comes first.
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


def batches(items: Iterable[T], size: int = 100) -> Iterator[list[T]]:
    """Yield `items` in lists of at most `size`; 100 is what MLflow takes of params and tags."""
    rest = iter(items)
    while batch := list(islice(rest, size)):
        yield batch


def accepted_key(name: str) -> str:
    """Return `name` with every character that MLflow refuses in a key replaced by ``_``."""
    return re.sub(r"[^\w.\- :/]", "_", name)[:KEY_LENGTH]


def cut(value: object, length: int) -> str:
    """Return a value as text, strings as they are and others as JSON, cut to `length`."""
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return text if len(text) <= length else text[: length - 3] + "..."

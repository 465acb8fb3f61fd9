"""Keys that the configuration has gained, and the values with which nothing changes.

Runs, comparisons, refreshes and studies are recognised by a hash of their configuration, or by its
values. A key at the value of this table is left out of them, so that those of an earlier version
resume.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from conf.sections import CsvSection, PrefilterSection

# By dotted key; a new key with an effect on results belongs here.
_LATER: Mapping[str, Any] = {
    "resample": False,
    "data.csv": CsvSection().model_dump(mode="json"),
    "data.dates": {},
    "data.weights_in_score": False,
    "data.horizon": None,
    "data.on_missing_target": "stop",
    "split.gap": 0,
    "split.max_train_size": None,
    "model.search": {},
    "model.steps": [],
    "model.early_stopping": None,
    "folds.repeats": 1,
    "folds.rotate": 0,
    "folds.gap": 0,
    "folds.max_train_size": None,
    "folds.test_size": None,
    "folds.embargo": 0,
    "space.costs": {},
    "space.cost_weight": 0.0,
    "prefilter": PrefilterSection(when="auto").model_dump(mode="json"),
    "warm": None,
    "evaluation.asynchronous": False,
    "evaluation.device": "cpu",
    "budget.noise_floor": None,
    "budget.rows": None,
    "confirm.min_gain": 0.0,
    "ensemble.union_at_most": None,
    "test.explain": True,
}
# Keys whose default is not what happened before they existed. Tables that are not wide are searched
# alike with both values, so that neither is part of a hash.
_BEFORE: Mapping[str, Any] = {"prefilter": None}


def without_later_keys(dumped: Mapping[str, Any]) -> dict[str, Any]:
    """Return a dumped configuration, or some of its sections, without later keys at their values.

    Parameters
    ----------
    dumped : mapping
        Nested, as of ``model_dump(mode="json")``; sections may be missing or None.
    """
    kept = dict(dumped)
    for path, value in _LATER.items():
        section, _, key = path.rpartition(".")
        inside = kept.get(section) if section else kept
        values = (value, _BEFORE.get(path, value))
        if isinstance(inside, Mapping) and key in inside and inside[key] in values:
            left = {name: each for name, each in inside.items() if name != key}
            kept = {**kept, section: left} if section else left
    return kept


def later_values() -> dict[str, Any]:
    """Return what every key meant before it existed, by dotted key as :func:`conf.load.flatten`."""
    values = {}
    for path, value in {**_LATER, **_BEFORE}.items():
        leaves = value if isinstance(value, dict) and value else {"": value}
        values.update({f"{path}.{name}".rstrip("."): leaf for name, leaf in leaves.items()})
    return values


def earlier_values(stored: Mapping[str, Any]) -> list[str]:
    """Return what to ``--set`` so that a stored configuration means what it meant when it ran.

    Parameters
    ----------
    stored : mapping
        The keys of the configuration as they were written.
    """
    return [f"{key}={json.dumps(value)}" for key, value in _BEFORE.items() if key not in stored]

"""Serialization of report data as JSON, so that a page can be rendered without the run.

Numbers are restored exactly. Values without a JSON type (NaN, infinities, tables) are stored as
an object with a single key that starts with ``$``.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from swarm.errors import InputError
from swarm.report.comparison import ComparisonData
from swarm.report.data import Agreement, Pick, ReportData
from swarm.validation.comparison import Comparison, Friedman
from swarm.validation.diagnostics import Diagnostics
from swarm.validation.headline import Headline
from swarm.validation.metrics import natural_name

_REPORT, _COMPARISON = "swarm-report-1", "swarm-comparison-1"
_DRAWN = ["distinct_evaluations", "best_cost"]


def report_text(data: ReportData) -> str:
    """Serialize the data of a report, with only those distances that the page shows."""
    return _pack({"format": _REPORT, "report": replace(data, distance=_shown(data))})


def report_of(text: str) -> ReportData:
    """Deserialize the data of a report.

    Raises
    ------
    InputError
        If the text is not report data, or was written by another version.
    """
    held = _unpack(text, _REPORT)
    with _readable():
        held = held["report"]
        held["picks"] = [Pick(**{**p, "features": tuple(p["features"])}) for p in held["picks"]]
        if held.get("headline") is not None:
            held["headline"] = Headline.of_dict(held["headline"])
        if held.get("diagnostics") is not None:
            held["diagnostics"] = Diagnostics.of_dict(held["diagnostics"])
        for table in ("figures", "differences"):
            held[table] = _natural(held[table])
        if held["agreement"] is not None:
            held["agreement"] = Agreement(**held["agreement"])
        return ReportData(**held)


def _natural(table: pd.DataFrame) -> pd.DataFrame:
    """Give metrics of earlier versions, such as ``neg_root_mean_squared_error``, their own sign."""
    if not len(table):
        return table
    old = table["metric"].astype(str).str.startswith("neg_")
    if not old.any():
        return table
    table = table.copy()
    turned = [name for name in ("value", "difference") if name in table]
    table.loc[old, turned] = -table.loc[old, turned]
    table.loc[old, ["low", "high"]] = -table.loc[old, ["high", "low"]].to_numpy()
    table["metric"] = table["metric"].map(lambda name: natural_name(str(name)))
    return table


def comparison_text(data: ComparisonData) -> str:
    """Serialize the data of a comparison, with only the history columns that are drawn."""
    drawn = {
        name: {strategy: [one[_DRAWN] for one in each] for strategy, each in own.items()}
        for name, own in data.histories.items()
    }
    return _pack({"format": _COMPARISON, "comparison": replace(data, histories=drawn)})


def comparison_of(text: str) -> ComparisonData:
    """Deserialize the data of a comparison.

    Raises
    ------
    InputError
        If the text is not comparison data, or was written by another version.
    """
    held = _unpack(text, _COMPARISON)
    with _readable():
        held = held["comparison"]
        found = held["comparison"]
        if found["friedman"] is not None:
            found["friedman"] = Friedman(**found["friedman"])
        held["comparison"] = Comparison(**found)
        return ComparisonData(**held)


@contextmanager
def _readable() -> Iterator[None]:
    try:
        yield
    except (AttributeError, KeyError, TypeError) as error:
        raise InputError(
            f"the stored data of the report cannot be read ({error}); use the stored page"
        ) from None


def _pack(value: Mapping[str, Any]) -> str:
    """Serialize a mapping as one line of JSON."""
    return json.dumps(_packed(value), ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _unpack(text: str, form: str) -> dict[str, Any]:
    """Deserialize the output of :func:`_pack`.

    Raises
    ------
    InputError
        If it is not JSON, or its key ``format`` is not `form`.
    """
    try:
        found = json.loads(text, object_hook=_unpacked)
    except ValueError:
        found = None
    if not isinstance(found, dict) or found.get("format") != form:
        got = found.get("format") if isinstance(found, dict) else "no JSON"
        raise InputError(
            f"the stored data of the report has the format {got!r}, not {form!r}; "
            "use the stored page, or the version that wrote the data"
        )
    return found


def _shown(data: ReportData) -> pd.DataFrame | None:
    """Return the distances between the features of the heat map and of the table beside it."""
    if data.distance is None:
        return None
    pairs = data.nearest_left_out()
    wanted = {*data.shown_features(), *(name for pair in pairs for name in pair[:2])}
    at = [i for i, name in enumerate(data.distance.columns) if str(name) in wanted]
    return data.distance.iloc[at, at]


def _packed(value: Any) -> Any:
    if isinstance(value, Headline):
        value = value.as_dict()
    elif is_dataclass(value):
        value = {one.name: getattr(value, one.name) for one in fields(value)}
    if isinstance(value, pd.Series):
        return {"$series": [_packed(list(value.index)), _packed(value.tolist())]}
    if isinstance(value, pd.DataFrame):
        plain = isinstance(value.index, pd.RangeIndex)
        columns = [[str(c), _packed(value.iloc[:, i].tolist())] for i, c in enumerate(value)]
        return {"$table": [None if plain else _packed(list(value.index)), columns]}
    if isinstance(value, Mapping):
        return {str(key): _packed(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_packed(inner) for inner in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return {"$float": str(value)}
    if value is None or isinstance(value, bool | int | float):
        return value
    # A lone surrogate cannot be encoded.
    return str(value).encode("utf-8", "replace").decode()


def _unpacked(found: dict[str, Any]) -> Any:
    if len(found) != 1:
        return found
    if "$float" in found:
        return float(found["$float"])
    if "$series" in found:
        index, values = found["$series"]
        return pd.Series(values, index=index)
    if "$table" in found:
        index, columns = found["$table"]
        frame = pd.DataFrame(dict(columns), index=index)
        return frame if columns else pd.DataFrame(index=index)
    return found

"""Values as JSON data, which has neither NumPy's types nor numbers that are not finite."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import is_dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd


def plain(value: Any) -> Any:
    """Convert NumPy scalars to Python types, NaN and infinities to None."""
    value = value.item() if hasattr(value, "item") else value
    return None if isinstance(value, float) and not math.isfinite(value) else value


def records(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows of a table as JSON data; undefined values are null."""
    rows = table.to_dict("records")
    return [{str(key): plain(value) for key, value in row.items()} for row in rows]


def as_json(value: Any) -> Any:
    """Return dataclasses, tables and numbers as JSON data; undefined values are null."""
    if isinstance(value, Mapping):
        return {str(key): as_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(item) for item in value]
    if hasattr(value, "to_dict"):
        return records(value)
    return as_json(vars(value)) if is_dataclass(value) else plain(value)


def json_file(value: object) -> bytes:
    """Return a value as the content of a JSON file; undefined and unbounded numbers are null."""
    data = as_json(value)
    return (json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode()

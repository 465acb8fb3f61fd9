"""Contents of files, and local files that readers find whole, before and after they change."""

from __future__ import annotations

import contextlib
import io
import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd


def write_atomically(path: Path, text: str, mode: int) -> None:
    """Write a file by its side and move it, with these permissions."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, mode)
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise


def plain(value: Any) -> Any:
    """Convert NumPy scalars to Python types, and NaN to None, as JSON needs."""
    value = value.item() if hasattr(value, "item") else value
    return None if isinstance(value, float) and value != value else value


def records(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows of a table as JSON data; undefined values are null."""
    rows = table.to_dict("records")
    return [{str(key): plain(value) for key, value in row.items()} for row in rows]


def as_json(value: Any) -> Any:
    """Return dataclasses, tables and numbers as JSON data; undefined values are null."""
    if isinstance(value, Mapping):
        return {str(key): as_json(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(each) for each in value]
    if hasattr(value, "to_dict"):
        return records(value)
    return as_json(vars(value)) if is_dataclass(value) else plain(value)


def json_file(value: object) -> bytes:
    """Return JSON data as the content of a file."""
    return (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode()


def parquet(frame: pd.DataFrame) -> bytes:
    """Return a frame as Parquet, byte-identical for equal frames."""
    buffer = io.BytesIO()
    frame.to_parquet(buffer, index=False)
    return buffer.getvalue()

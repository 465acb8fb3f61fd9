"""CSV and Parquet files, local or at any fsspec URL."""

from __future__ import annotations

import codecs
import os
import re
import socket
from collections.abc import Sequence
from datetime import datetime
from inspect import signature
from pathlib import Path, PurePosixPath
from typing import Any, Literal

import pandas as pd

from swarm.errors import DataError, StoreError
from swarm.findings.columns import constant_columns
from swarm.wording import quoted
from tasks.secrets import expand, reason
from tasks.sources.raw import Raw, duplicates, large_numbers, release_memory

_PATTERN = re.compile(r"\{date(?::([^{}]*))?\}")
_USUAL = "%Y-%m-%d"


def read_file(
    path: str,
    *,
    separator: str = ",",  # of CSV files, like the following ones
    decimal: str = ".",
    encoding: str = "utf-8",
    na_values: Sequence[str] = (),  # further marks of missing values
    text: Sequence[str] = (),  # columns that are text, whatever they look like
) -> Raw:
    """Read a file by its extension; with ``{date}`` in the name, the file of the latest date.

    A saved index (named in Parquet, an unnamed first column of row numbers in CSV) can have a role
    but is never a feature.
    """
    try:
        codecs.lookup(encoding)
    except LookupError:
        raise DataError(
            f"unknown encoding {encoding!r}; set data.csv.encoding to one of Python's, such as"
            " utf-8 or cp1252"
        ) from None
    style = {
        "separator": separator,
        "decimal": decimal,
        "encoding": encoding,
        "na_values": list(na_values),
    }
    csv = {
        "sep": separator,
        "decimal": decimal,
        "encoding": encoding,
        "na_values": list(na_values) or None,
        "dtype": dict.fromkeys(text, str) or None,
    }
    path = os.fspath(path)
    values: list[str] = []
    remote = "://" in path

    def note(_: int, value: str) -> str:
        values.append(value)
        return value

    full = os.path.expandvars(os.path.expanduser(expand(path, "path", note)))
    # A variable may hold a token if the file is remote. In a local path it is a folder, which
    # the message should show.
    shown = _redact(path) if remote else full
    error: Exception | None = None
    try:
        full = newest(full)
        stem, kind = _kind(full, shown)
        if not remote:
            _refuse_stream(full, shown)
        parts = _read_parquet(full) if kind == "parquet" else _read_csv(full, kind, shown, csv)
    except DataError:
        raise
    except FileNotFoundError:
        error = FileNotFoundError("there is no such file")
    except pd.errors.EmptyDataError:
        error = ValueError("the file is empty")
    except UnicodeError as caught:
        raise DataError(
            f"cannot read {shown!r}: it is not {encoding} text ({reason(caught)}); set"
            " data.csv.encoding to its encoding, often cp1252 or utf-16"
        ) from None
    except Exception as caught:  # every fsspec backend has its own exceptions
        error = caught
    if error is not None:
        # Raised out here so that no traceback carries the original message and its secrets.
        secrets = _secrets(full, values) if remote else []
        text = f"cannot read {shown!r}: {reason(error, secrets)}; check the path and the file"
        # Of urllib, whose own error hides it. A deployed flow tries again where a server is away.
        cause = getattr(error, "reason", error)
        away = remote and isinstance(cause, (ConnectionError, TimeoutError, socket.gaierror))
        raise StoreError(text) if away else DataError(text)
    source = _redact(path) if remote else path
    if "{date" in path:
        # The name of the snapshot that was read.
        folder = source[: source.rindex("/") + 1] if "/" in source else ""
        source = folder + PurePosixPath(full).name
    csv_style = None if kind == "parquet" else style
    return Raw(name=stem, source=f"file:{source}", csv=csv_style, **parts)


def _refuse_stream(full: str, shown: str) -> None:
    """Refuse a pipe, a device or a socket: reading it may never end, and it is read twice."""
    path = Path(full)
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise DataError(
            f"cannot read {shown!r}: it is a pipe, a device or a socket; write its rows to a file"
        )


def _kind(full: str, shown: str) -> tuple[str, str]:
    file = PurePosixPath(full.split("?")[0]).name if "://" in full else Path(full).name
    for extension, kind in (
        (".csv", "csv"),
        (".csv.gz", "gzip"),
        (".parquet", "parquet"),
        (".pq", "parquet"),
    ):
        if file.lower().endswith(extension):
            return file[: -len(extension)], kind
    raise DataError(
        f"cannot read {shown!r}: its extension is unknown; use .csv, .csv.gz or .parquet"
    )


def _read_csv(full: str, kind: str, shown: str, csv: dict[str, Any]) -> dict[str, Any]:
    """Return the parts of a :class:`Raw` that a file gives."""
    compression: Literal["gzip"] | None = "gzip" if kind == "gzip" else None
    # pandas silently renames a repeated name to 'a.1', so the header is read separately.
    plain = {"sep": csv["sep"], "encoding": csv["encoding"], "compression": compression}
    first = pd.read_csv(full, header=None, nrows=1, dtype=str, keep_default_na=False, **plain)
    header = [str(name) for name in first.iloc[0]]
    _refuse_duplicates([name for name in header if name], shown)
    other = re.search(r"[;\t|,]", header[0]) if len(header) == 1 else None
    if other:
        raise DataError(
            f"cannot read {shown!r}: its header {header[0][:60]!r} is one column; "
            f"set data.csv.separator to {other[0]!r}"
        )
    frame = pd.read_csv(full, compression=compression, low_memory=False, **csv)
    texts = _unlike_numbers(full, frame, {"compression": compression, **csv})
    frame = frame.assign(**texts) if texts else frame
    # If rows have more fields than names, pandas uses the first columns as an index.
    if not frame.index.equals(pd.RangeIndex(len(frame))):
        raise DataError(
            f"cannot read {shown!r}: its rows have more fields than the {len(header)} names of "
            "the header; name every column"
        )
    numbers = frame.iloc[:, 0].to_numpy()
    is_index = not header[0] and pd.api.types.is_integer_dtype(numbers)
    is_index = is_index and len(frame) > 0 and (numbers - numbers[0] == range(len(frame))).all()
    aside = (str(frame.columns[0]),) if is_index else ()
    return {"frame": frame, "aside": aside, "as_text": tuple(texts)}


def _unlike_numbers(full: str, frame: pd.DataFrame, csv: dict[str, Any]) -> dict[str, pd.Series]:
    """Return the text of columns in which different whole numbers, or codes, became equal.

    Long ones lose digits as floats, beside empty cells, and 1, 01 and 1.0 are one number.
    """
    large = large_numbers(frame)
    constant = constant_columns(frame.select_dtypes("number"))
    if not large and not constant:
        return {}
    texts = pd.read_csv(full, usecols=[*large, *constant], **{**csv, "dtype": str})
    return {
        name: column
        for name, column in texts.items()
        if (name in large and column.dropna().str.fullmatch(r"[+-]?[0-9]+").all())
        or (name in constant and column.str.strip().nunique() > 1)
    }


def _read_parquet(full: str) -> dict[str, Any]:
    import pyarrow.parquet as pq

    if Path(full).is_file():
        _refuse_duplicates(pq.read_schema(full).names, full)
    # Arrow's copy of a column is freed once it is in the frame (from pandas 3 on).
    frugal = "to_pandas_kwargs" in signature(pd.read_parquet).parameters
    options: dict[str, Any] = {"to_pandas_kwargs": {"self_destruct": True}} if frugal else {}
    frame = pd.read_parquet(full, engine="pyarrow", **options)
    # Now, as the table is copied next; its frame is released after that.
    release_memory()
    columns = set(frame.columns)
    saved = [n for n in frame.index.names if n is not None and n not in columns]
    frame = frame.reset_index(level=saved) if saved else frame
    large = large_numbers(frame)
    exact = pd.read_parquet(full, columns=large, dtype_backend="numpy_nullable") if large else frame
    texts = [name for name in large if exact[name].dtype.kind in "iu"]
    frame = frame.assign(**{name: exact[name].astype("string").astype(str) for name in texts})
    aside = tuple(str(name) for name in saved)
    return {"frame": frame, "aside": aside, "as_text": tuple(texts)}


def _refuse_duplicates(names: list[str], shown: str) -> None:
    if twice := duplicates(names):
        raise DataError(
            f"duplicate column names in {shown!r}: {quoted(twice)}; give each column its own name"
        )


def _redact(url: str) -> str:
    """Hide user and password, and the query, which may contain signatures and tokens."""
    url = re.sub(r"://[^/]*@", "://***@", url)
    return url.split("?")[0] + "?***" if "?" in url else url


def _secrets(full: str, values: list[str]) -> list[str]:
    user = re.search(r"://([^/]*)@", full)
    secrets = [*values, full, *full.split("?")[1:]]
    return [*secrets, user[1], *user[1].split(":")] if user else secrets


def newest(path: str) -> str:
    """Resolve ``{date}`` or ``{date:%Y%m%d}`` in the last part of a path or URL to the latest date.

    A path without a date is returned unchanged. DataError if there is no such file, or the pattern
    is misplaced.
    """
    match = _PATTERN.search(path)
    if match is None:
        return path
    form = match[1] or _USUAL
    name = PurePosixPath(path).name
    if match[0] not in name or len(_PATTERN.findall(path)) > 1:
        raise DataError(
            f"cannot read {path!r}: one {{date}} belongs in the name of the file, as in"
            " sales_{date:%Y-%m-%d}.parquet"
        )
    before, after = name.split(match[0])
    folder = path[: len(path) - len(name)]
    dated = []
    for each in _names(folder):
        if not (each.startswith(before) and each.endswith(after)):
            continue
        middle = each[len(before) : len(each) - len(after)]
        try:
            dated.append((datetime.strptime(middle, form), each))
        except ValueError:
            continue
    if not dated:
        raise DataError(
            f"cannot read {path!r}: no file there has a date of the form {form!r} in its name;"
            " check the folder and the pattern"
        )
    return folder + max(dated)[1]


def _names(folder: str) -> list[str]:
    if "://" not in folder:
        place = Path(folder or ".").expanduser()
        return [each.name for each in place.iterdir()] if place.is_dir() else []
    import fsspec

    store, place = fsspec.core.url_to_fs(folder)
    return [PurePosixPath(str(each)).name for each in store.ls(place, detail=False)]

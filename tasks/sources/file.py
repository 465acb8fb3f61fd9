"""Text, Excel and Parquet files, local or at any fsspec URL."""

import codecs
import os
import re
import socket
from collections.abc import Sequence
from contextlib import suppress
from csv import QUOTE_NONE, reader
from datetime import datetime
from importlib.util import find_spec
from inspect import signature
from pathlib import Path, PurePosixPath
from typing import Any

import pandas as pd

from swarm.errors import DataError, StoreError
from swarm.findings.columns import constant_columns, is_text
from swarm.wording import quoted
from tasks.secrets import expand, reason
from tasks.sources.raw import Raw, duplicates, large_numbers, release_memory
from tasks.sources.sniff import separator_of

_DATE_PATTERN = re.compile(r"\{date(?::([^{}]*))?\}")
_DEFAULT_DATE_FORMAT = "%Y-%m-%d"
_KINDS = {
    **dict.fromkeys((".csv", ".tsv", ".txt"), "text"),
    **dict.fromkeys((".xlsx", ".xlsm"), "excel"),
    **dict.fromkeys((".parquet", ".pq"), "parquet"),
}
# pandas has these names for the compressions of text files.
_COMPRESSIONS = {".gz": "gzip", ".bz2": "bz2", ".xz": "xz", ".zip": "zip"}
# The separator is looked for in the first lines.
_N_FIRST_LINES = 200


def read_file(
    path: str,
    *,
    separator: str | None = None,
    decimal: str = ".",
    encoding: str = "utf-8",
    na_values: Sequence[str] = (),
    text: Sequence[str] = (),
) -> Raw:
    """Read a file by its extension; with ``{date}`` in the name, the file of the latest date.

    A saved index (named in Parquet, an unnamed first column of row numbers elsewhere) can have a
    role but is never a feature. The first sheet of a workbook is read.

    Parameters
    ----------
    path : str
        Path or fsspec URL.
    separator : str, optional
        Separator of a text file; None finds it.
    decimal : str
        Decimal separator of numbers in text.
    encoding : str
        Encoding of a text file.
    na_values : sequence of str
        Further marks of missing values, except in Parquet.
    text : sequence of str
        Columns that are text, whatever they look like.
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
    is_remote = "://" in path

    def note(_: int, value: str) -> str:
        values.append(value)
        return value

    full = os.path.expandvars(os.path.expanduser(expand(path, "path", note)))
    # A variable may be a token if the file is remote. In a local path it is a folder, which the
    # message should show.
    shown = _redact(path) if is_remote else full
    error: Exception | None = None
    try:
        full = newest(full)
        stem, extension, compression = _split_name(full, shown)
        kind = _KINDS[extension]
        if not is_remote:
            _refuse_stream(full, shown)
        if kind == "text":
            if extension == ".tsv":
                csv["sep"] = separator or "\t"
            fields = _read_csv(full, shown, {**csv, "compression": compression})
        elif kind == "parquet":
            fields = _read_parquet(full)
        else:
            fields = _read_excel(full, shown, csv)
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
        secrets = _secrets(full, values) if is_remote else []
        message = f"cannot read {shown!r}: {reason(error, secrets)}; check the path and the file"
        # An error of urllib hides its cause.
        cause = getattr(error, "reason", error)
        is_away = is_remote and isinstance(cause, (ConnectionError, TimeoutError, socket.gaierror))
        # A deployed flow tries again after a StoreError.
        raise StoreError(message) if is_away else DataError(message)
    source = _redact(path) if is_remote else path
    if "{date" in path:
        folder = source[: source.rindex("/") + 1] if "/" in source else ""
        source = folder + PurePosixPath(full).name
    csv_style = None if kind == "parquet" else style
    return Raw(name=stem, source=f"file:{source}", csv=csv_style, **fields)


def _refuse_stream(full: str, shown: str) -> None:
    """Refuse a pipe, a device or a socket: reading it may never end, and it is read twice."""
    path = Path(full)
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise DataError(
            f"cannot read {shown!r}: it is a pipe, a device or a socket; write its rows to a file"
        )


def kind_of(path: str) -> str:
    """Return "text", "excel" or "parquet", by the extension of a path or URL."""
    return _KINDS[_split_name(path, path)[1]]


def _split_name(full: str, shown: str) -> tuple[str, str, str | None]:
    """Return the name of a file without its extension, the extension, and the compression."""
    file = PurePosixPath(full.split("?")[0]).name if "://" in full else Path(full).name
    stem, extension = os.path.splitext(file)
    compression = _COMPRESSIONS.get(extension.lower())
    if compression is not None:
        stem, extension = os.path.splitext(stem)
    extension = extension.lower()
    kind = _KINDS.get(extension)
    if kind is None or (compression is not None and kind != "text"):
        raise DataError(
            f"cannot read {shown!r}: its extension is unknown; use .csv, .tsv or .txt, also"
            f" compressed ({', '.join(_COMPRESSIONS)}), .xlsx or .parquet"
        )
    return stem, extension, compression


def _read_csv(full: str, shown: str, csv: dict[str, Any]) -> dict[str, Any]:
    """Read the fields of a :class:`Raw` from a text file."""
    # pandas silently renames a repeated name to 'a.1', so the header is read separately.
    first = pd.read_csv(
        full,
        sep="\x01",
        quoting=QUOTE_NONE,
        header=None,
        nrows=_N_FIRST_LINES,
        dtype=str,
        keep_default_na=False,
        encoding=csv["encoding"],
        compression=csv["compression"],
    )
    lines = first.iloc[:, 0].tolist()
    csv = {**csv, "sep": csv["sep"] or separator_of(lines)}
    header = next(reader(lines, delimiter=csv["sep"]))
    _refuse_duplicates([name for name in header if name], shown)
    other_separator = re.search(r"[;\t|,]", header[0]) if len(header) == 1 else None
    if other_separator:
        raise DataError(
            f"cannot read {shown!r}: its header {header[0][:60]!r} is one column; "
            f"set data.csv.separator to {other_separator[0]!r}"
        )
    frame = pd.read_csv(full, low_memory=False, **csv)
    texts = _equal_numbers_as_text(full, frame, csv)
    frame = frame.assign(**texts) if texts else frame
    # If rows have more fields than names, pandas uses the first columns as an index.
    if not frame.index.equals(pd.RangeIndex(len(frame))):
        raise DataError(
            f"cannot read {shown!r}: its rows have more fields than the {len(header)} names of "
            "the header; name every column"
        )
    return {"frame": frame, "aside": _saved_index(frame, header), "as_text": tuple(texts)}


def _saved_index(frame: pd.DataFrame, header: list[str]) -> tuple[str, ...]:
    """Return the name that pandas gives an unnamed first column of row numbers, if there is one."""
    numbers = frame.iloc[:, 0].to_numpy()
    if header[0] or not len(frame) or not pd.api.types.is_integer_dtype(numbers):
        return ()
    is_index = (numbers - numbers[0] == range(len(frame))).all()
    return (str(frame.columns[0]),) if is_index else ()


def _read_excel(full: str, shown: str, csv: dict[str, Any]) -> dict[str, Any]:
    """Read the fields of a :class:`Raw` from the first sheet of a workbook."""
    if find_spec("openpyxl") is None:
        raise DataError(
            f"cannot read {shown!r}: Excel files need the package 'openpyxl', which is not"
            " installed; run `pip install 'swarmselect[excel]'`"
        )
    first = pd.read_excel(
        full, engine="openpyxl", header=None, nrows=1, dtype=str, keep_default_na=False
    )
    options: dict[str, Any] = {name: csv[name] for name in ("decimal", "na_values", "dtype")}
    frame = pd.read_excel(full, engine="openpyxl", **options)
    header = [] if first.empty else [str(name) for name in first.iloc[0]]
    named = [name for name in header if name]
    if 2 * len(named) <= len(header):
        raise DataError(
            f"cannot read {shown!r}: its first sheet has {quoted(named) or 'nothing'} in the first"
            " row; put the table on that sheet, with the names of its columns in the first row"
        )
    _refuse_duplicates(named, shown)
    # Cells of one column may have different types.
    texts = {
        name: column.map(str, na_action="ignore")
        for name, column in frame.items()
        if is_text(column)
    }
    frame = frame.assign(**texts)
    return {"frame": frame, "aside": _saved_index(frame, header)}


def _equal_numbers_as_text(
    full: str, frame: pd.DataFrame, csv: dict[str, Any]
) -> dict[str, pd.Series]:
    """Return the text of columns in which different whole numbers, or codes, became equal.

    Long numbers lose digits as floats, beside empty cells, and 1, 01 and 1.0 are one number.
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
    options: dict[str, Any] = {}
    if "to_pandas_kwargs" in signature(pd.read_parquet).parameters:
        # From pandas 3 on, Arrow's copy of a column is freed once it is in the frame.
        options["to_pandas_kwargs"] = {"self_destruct": True}
    frame = pd.read_parquet(full, engine="pyarrow", **options)
    # The memory is released before the table is copied, and again after that.
    release_memory()
    columns = set(frame.columns)
    saved = [name for name in frame.index.names if name is not None and name not in columns]
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
    match = _DATE_PATTERN.search(path)
    if match is None:
        return path
    date_format = match[1] or _DEFAULT_DATE_FORMAT
    name = PurePosixPath(path).name
    if match[0] not in name or len(_DATE_PATTERN.findall(path)) > 1:
        raise DataError(
            f"cannot read {path!r}: one {{date}} belongs in the name of the file, as in"
            " sales_{date:%Y-%m-%d}.parquet"
        )
    before, after = name.split(match[0])
    folder = path[: len(path) - len(name)]
    snapshots = []
    for file in _names(folder):
        if not (file.startswith(before) and file.endswith(after)):
            continue
        middle = file[len(before) : len(file) - len(after)]
        with suppress(ValueError):
            snapshots.append((datetime.strptime(middle, date_format), file))
    if not snapshots:
        raise DataError(
            f"cannot read {path!r}: no file there has a date of the form {date_format!r} in its"
            " name; check the folder and the pattern"
        )
    return folder + max(snapshots)[1]


def _names(folder: str) -> list[str]:
    """List the names of the files in a local folder, or in one at a URL."""
    if "://" not in folder:
        local = Path(folder or ".").expanduser()
        return [file.name for file in local.iterdir()] if local.is_dir() else []
    import fsspec

    store, path = fsspec.core.url_to_fs(folder)
    return [PurePosixPath(str(file)).name for file in store.ls(path, detail=False)]

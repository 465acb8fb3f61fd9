"""Data sources: `fetch` reads a table from any source and validates it.

To add a source, write a function that returns a :class:`~tasks.sources.raw.Raw`, and add a line in
`_SOURCES`.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from swarm.errors import DataError, check_known
from tasks.sources.assembly import assemble
from tasks.sources.file import kind_of, newest, read_file
from tasks.sources.raw import Raw, name_list, release_memory, with_numbers
from tasks.sources.repositories import read_bundled, read_uci
from tasks.sources.sql import read_sql
from tasks.table import Table

__all__ = ["fetch", "kind_of", "newest", "read_raw"]

# Each source has a function that reads it, and its arguments.
_SOURCES: dict[str, tuple[Callable[..., Raw], tuple[str, ...]]] = {
    "bundled": (read_bundled, ("name",)),
    "file": (read_file, ("path",)),
    "sql": (read_sql, ("url", "query")),
    "uci": (read_uci, ("name",)),
}


def fetch(
    source: str,
    *,
    target: str | Sequence[str] | None,
    name: str | int | None = None,
    path: str | None = None,
    url: str | None = None,
    query: str | None = None,
    drop: Sequence[str] = (),
    categorical: Sequence[str] = (),
    group: str | None = None,
    time: str | None = None,
    weight: str | None = None,
    part: str | None = None,
    fold: str | None = None,
    dates: Mapping[str, str | None] | None = None,
    csv: Mapping[str, Any] | None = None,
    on_missing_target: str = "stop",
) -> Table:
    """Read a table and assign every column its role; arguments of other sources are refused.

    Parameters
    ----------
    source : {"bundled", "file", "uci", "sql"}
    target : str, sequence of str or None
        Column, 0/1 columns of a multi-label problem, or None for the target of the source.
    name : str or int, optional
        Data set of scikit-learn or UCI; a number is an id of UCI.
    path : str, optional
        Path or fsspec URL; with ``{date:%Y-%m-%d}`` the newest file is read.
    url : str, optional
        URL of SQLAlchemy; a value for ``${VAR}`` needs no escaping.
    query : str, optional
        SELECT statement.
    drop : sequence of str
        Columns that are not features.
    categorical : sequence of str
        Features to cast to pandas "category".
    group, time, weight, part, fold : str, optional
        Columns with the roles of :class:`~tasks.table.Table`, which are never features.
    dates : dict, optional
        Formats of columns of dates; None for ISO 8601.
    csv : dict, optional
        Keywords of :func:`~tasks.sources.file.read_file`.
    on_missing_target : {"stop", "drop"}
        Whether rows without a target are refused or left out.

    Raises
    ------
    DataError
        If the source cannot be read or the table cannot be used.
    """
    table = assemble(
        read_raw(source, name=name, path=path, url=url, query=query, csv=csv, dates=dates or {}),
        target=target,
        drop=name_list(drop),
        categorical=name_list(categorical),
        roles=dict(group=group, time=time, weight=weight, part=part, fold=fold),
        dates=dates or {},
        on_missing_target=on_missing_target,
    )
    # The columns that were read are in Arrow's memory, which is no longer needed.
    release_memory()
    return table


def read_raw(
    source: str,
    *,
    csv: Mapping[str, Any] | None = None,
    dates: Collection[str] = (),
    **arguments: Any,
) -> Raw:
    """Read a table before columns have roles; see :func:`fetch`.

    Columns of `dates` remain text, though 10.24 may be a number too.
    """
    _check_arguments(source, arguments)
    read, keys = _SOURCES[source]
    style = (csv or {}) if source == "file" else {}
    return with_numbers(read(**{key: arguments[key] for key in keys}, **style), dates)


def _check_arguments(source: str, arguments: dict[str, Any]) -> None:
    check_known("source", source, _SOURCES, DataError)
    keys = _SOURCES[source][1]
    for key, value in arguments.items():
        if value is not None and key not in keys:
            raise DataError(f"source {source!r} does not take {key!r}, got {value!r}; remove it")
    for key in keys:
        if not arguments[key]:
            raise DataError(f"source {source!r} needs {key!r}; set it")

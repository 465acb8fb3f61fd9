"""Lists of columns for the programs after a selection: SQL, pandera and Feast."""

import json
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any, Literal, get_args

import pandas as pd
from pandas.api.types import is_bool_dtype, is_datetime64_any_dtype, is_numeric_dtype

from swarm.errors import InputError, check_known
from swarm.json_data import plain
from swarm.reader import Column, Reader, parsed_dates

Format = Literal["txt", "json", "yaml", "sql", "pandera", "feast"]
_FORMATS: tuple[str, ...] = get_args(Format)
_BY_ENDING = {".yml": "yaml", ".py": "pandera"} | {f".{name}": name for name in _FORMATS[:4]}
# A column of more texts has no list of them.
_MAX_LEVELS = 1000
_NUMBERS = {"long": "int64", "double": "float64"}
_SCHEMA = '''\
"""The columns of {table} that are needed, with what their training rows have."""

import pandas as pd
import pandera.pandas as pa
{note}
schema = pa.DataFrameSchema(
    {{
{columns}
    }}
)
'''


def format_of(path: str) -> str:
    """Return the format of a file by its ending; InputError for another ending."""
    ending = PurePath(path).suffix
    if ending not in _BY_ENDING:
        known = ", ".join(_BY_ENDING)
        raise InputError(f"{path!r} must end in one of {known}, or pass as_, such as as_='feast'")
    return _BY_ENDING[ending]


def describe_columns(cells: pd.DataFrame, reader: Reader | None = None) -> list[dict[str, Any]]:
    """Describe columns as in the source, in plain data for JSON.

    Parameters
    ----------
    cells : DataFrame
        Training rows, as in the source.
    reader : Reader, optional
        How the rows were read. Default: the cells are features as they are.

    Returns
    -------
    list of dict
        For each column: `name`, `dtype`, `nullable`, and where they are known `low` and `high`,
        or `levels`, the distinct texts or categories; of dates also their `format`.
    """
    reader = Reader.learn(cells) if reader is None else reader
    return [_describe(column, cells[column.name]) for column in reader.columns]


def _describe(column: Column, values: pd.Series) -> dict[str, Any]:
    present = values.dropna()
    facts: dict[str, Any] = {
        "name": column.name,
        "dtype": {"string": "str", "boolean": "bool"}.get(column.type, column.type),
        "nullable": bool(values.isna().any()),
    }
    if column.is_date:
        facts["format"] = column.form or "ISO8601"
        present = parsed_dates(present, None if column.type == "datetime" else column.form)
    if column.type in ("long", "double"):
        is_plain = is_numeric_dtype(values.dtype)
        facts["dtype"] = str(values.dtype).lower() if is_plain else _NUMBERS[column.type]
    elif column.type == "boolean" and facts["nullable"]:
        facts["dtype"] = "boolean"
    is_text = column.type == "string" and column.number is None and not column.is_date
    if column.is_category or is_text:
        levels = [plain(level) for level in present.unique()]
        if len(levels) <= _MAX_LEVELS:
            facts["levels"] = sorted(levels, key=lambda level: (type(level).__name__, level))
    elif is_datetime64_any_dtype(present.dtype) and len(present):
        facts |= {"low": present.min().isoformat(), "high": present.max().isoformat()}
    elif is_numeric_dtype(present.dtype) and not is_bool_dtype(present.dtype) and len(present):
        # A reader may also make such numbers of texts, as 12.5 of "12.5 %".
        facts |= {"low": plain(present.min()), "high": plain(present.max())}
    return facts


def export_columns(
    names: Sequence[str],
    form: str,
    *,
    table: str,
    query: str | None = None,
    columns: Sequence[Mapping[str, Any]] = (),
    csv: Mapping[str, Any] | None = None,
) -> str:
    """Return a list of columns as text.

    Parameters
    ----------
    names : sequence of str
    form : {"txt", "json", "yaml", "sql", "pandera", "feast"}
    table : str
        Name of the table for SQL and pandera, and of the feature view for Feast.
    query : str, optional
        For SQL: a query that returns the table.
    columns : sequence of dict
        For pandera: what :func:`describe_columns` returns, of at least these columns.
    csv : mapping, optional
        For pandera: see :class:`swarm.reader.Reader`.
    """
    check_known("format", form, _FORMATS, InputError)
    if form == "txt":
        return "".join(f"{name}\n" for name in names)
    if form == "yaml":
        # Any JSON text is a YAML scalar.
        return "".join(f"- {json.dumps(name, ensure_ascii=False)}\n" for name in names)
    if form == "sql":
        return _select(names, table, query)
    if form == "pandera":
        by_name = {column["name"]: column for column in columns}
        return _pandera([by_name[name] for name in names], table, csv)
    # Feast refers to a feature by its view.
    references = [f"{table}:{name}" for name in names] if form == "feast" else list(names)
    return json.dumps(references, indent=2, ensure_ascii=False) + "\n"


def _select(names: Sequence[str], table: str, query: str | None) -> str:
    """Return a SELECT statement, quoted as in standard SQL, SQLite and PostgreSQL."""
    columns = ",\n".join(f"  {_quoted(name)}" for name in names)
    if query is None:
        return f"SELECT\n{columns}\nFROM {_quoted(table)}\n"
    # The query is on lines of its own, as it may end in a comment.
    inner = query.strip().removesuffix(";").rstrip()
    return f"SELECT\n{columns}\nFROM (\n{inner}\n) AS {_quoted(table)}\n"


def _quoted(name: str) -> str:
    doubled = name.replace('"', '""')
    return f'"{doubled}"'


def _pandera(
    columns: Sequence[Mapping[str, Any]], table: str, csv: Mapping[str, Any] | None
) -> str:
    """Return a module with a schema of pandera."""
    lines = [f"        {column['name']!r}: {_column(column)}," for column in columns]
    options = {
        "sep": csv and csv["separator"] != "," and csv["separator"],
        "decimal": csv and csv["decimal"] != "." and csv["decimal"],
        "na_values": csv and csv["na_values"],
    }
    arguments = "".join(f", {name}={value!r}" for name, value in options.items() if value)
    note = f"\n# For rows as pandas.read_csv(path{arguments}) gives them." if arguments else ""
    escaped = json.dumps(table, ensure_ascii=False)[1:-1]
    return _SCHEMA.format(table=escaped, note=note, columns="\n".join(lines))


def _column(facts: Mapping[str, Any]) -> str:
    """Return the code of a column."""
    dtype = facts["dtype"]
    low, high = facts.get("low"), facts.get("high")
    check = ""
    if ("format" in facts or dtype == "datetime") and low is not None:
        check = f"pa.Check.in_range(pd.Timestamp({low!r}), pd.Timestamp({high!r}))"
        if dtype == "str":
            read = (
                f"pd.to_datetime(cells, format={facts['format']!r}, utc=True).dt.tz_localize(None)"
            )
            check = f"pa.Check(lambda cells: {read}.between({low!r}, {high!r}))"
    elif facts.get("levels"):
        check = f"pa.Check.isin({facts['levels']!r})"
    elif low is not None and dtype != "str":
        check = f"pa.Check.in_range({low!r}, {high!r})"
    options = [{"str": "str", "datetime": "pa.DateTime"}.get(dtype, repr(dtype))]
    if check:
        options.append(check)
    # Whole numbers become fractions, but a text must not become a truth value.
    if not dtype.startswith("bool"):
        options.append("coerce=True")
    if facts["nullable"]:
        options.append("nullable=True")
    return f"pa.Column({', '.join(options)})"

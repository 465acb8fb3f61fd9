"""How the cells of a table become the columns that models read.

The same code reads the rows that a model is trained on and those that it predicts. A stored model
contains a copy of this file, so it imports nothing of this project.
"""

from __future__ import annotations

import csv
import io
import re
import warnings
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api.types import (
    infer_dtype,
    is_bool_dtype,
    is_datetime64_any_dtype,
    is_numeric_dtype,
    is_object_dtype,
    is_string_dtype,
    pandas_dtype,
)

# What pandas reads as missing in a CSV file by default.
MISSING = frozenset(
    (
        *("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND"),
        *("1.#QNAN", "<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null"),
    )
)
# Prefixes of the pandas dtypes that have a mask of missing values.
_NULLABLE = {"i": "Int", "u": "UInt", "f": "Float"}
# Formats of dates with hours.
_HOURS = ("%H", "%I", "%c", "%X", "ISO8601")
_PARTS = {"year": "year", "month": "month", "day": "day", "weekday": "day_of_week"}
# New categories that a warning names.
_MOST_NAMED = 5


@dataclass(frozen=True)
class Column:
    """A column of the source, and the features that are made of it."""

    name: str
    type: str  # of its cells in the source: "long", "double", "boolean", "string" or "datetime"
    optional: bool  # whether cells were missing in training
    # dtypes of the features by name: of the column itself, or of the parts of its dates
    features: dict[str, Any]
    is_date: bool = False
    form: str | None = None  # of its dates, None for ISO 8601

    @property
    def kind(self) -> str:
        """Type of its values, or of its categories."""
        return _type(next(iter(self.features.values())))

    @property
    def is_category(self) -> bool:
        """Whether the feature is a category."""
        return isinstance(next(iter(self.features.values())), pd.CategoricalDtype)

    @property
    def is_percentage(self) -> bool:
        """Whether texts such as ``12.5%`` are numbers."""
        return self.type == "string" and not self.is_date and self.kind != "string"


@dataclass(frozen=True)
class Reader:
    """The columns of a source that are features, and how their cells are read.

    Attributes
    ----------
    columns : tuple of Column
        In the order of the source.
    csv : dict, optional
        Keywords of :func:`tasks.sources.file.read_file`; None if the source was no CSV file, in
        which words such as ``NA`` are missing values.
    """

    columns: tuple[Column, ...]
    csv: dict[str, Any] | None = None
    # Texts and numbers that are missing values.
    _marks: frozenset[str] = field(init=False, repr=False, compare=False)
    _sentinels: tuple[float, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        marks, sentinels = set[str](), set[float]()
        for mark in () if self.csv is None else self.csv["na_values"]:
            marks.add(mark)
            try:
                number = float(mark)
            except ValueError:
                continue
            if np.isfinite(number):
                sentinels.add(number)
                # The same number may be written in these ways, as pandas assumes.
                marks |= {str(number), f"{int(number)}"} if number.is_integer() else {str(number)}
        known = frozenset() if self.csv is None else MISSING
        object.__setattr__(self, "_marks", known | marks)
        object.__setattr__(self, "_sentinels", tuple(sorted(sentinels)))

    @classmethod
    def learn(
        cls,
        cells: pd.DataFrame,
        *,
        dates: Mapping[str, str | None] | None = None,
        categorical: Collection[str] = (),
        percentages: Collection[str] = (),
        csv: Mapping[str, Any] | None = None,
    ) -> Reader:
        """Return the reader of a table, which has all of its cells.

        Parameters
        ----------
        cells : DataFrame
            Columns of the source that are features, as pandas reads them.
        dates : dict, optional
            Formats of the columns of dates, None for ISO 8601. Each gives the features
            ``NAME_year`` and so on.
        categorical : list of str
            Columns to cast to pandas' ``category``.
        percentages : list of str
            Columns whose cells are percentages in the source, and numbers in `cells`.
        csv : dict, optional
            See the attribute.
        """
        formats, gaps = dates or {}, cells.isna().any().to_numpy()
        columns = []
        for at, (name, dtype) in enumerate(cells.dtypes.items()):
            label, is_date = str(name), name in formats
            values = _with_model_dtype(cells.iloc[:, at]) if _may_change(dtype) else None
            if is_date:
                parts = _date_parts(parsed_dates(cells.iloc[:, at], formats[label]), formats[label])
                features = {f"{label}_{part}": each.dtype for part, each in parts.items()}
            elif label in categorical:
                values = cells.iloc[:, at] if values is None else values
                features = {label: _with_model_dtype(values.astype("category")).dtype}
            else:
                features = {label: dtype if values is None else values.dtype}
            is_percentage = label in percentages
            kind = "string" if is_percentage else _type(dtype if values is None else values.dtype)
            columns.append(
                Column(
                    label,
                    type=kind,
                    optional=bool(gaps[at]),
                    features=features,
                    is_date=is_date,
                    form=formats.get(label),
                )
            )
        return cls(tuple(columns), None if csv is None else dict(csv))

    @property
    def inputs(self) -> list[str]:
        """Names of the columns in the source."""
        return [column.name for column in self.columns]

    @property
    def texts(self) -> list[str]:
        """The columns whose cells are text, so that ``007`` is not the number 7."""
        return [column.name for column in self.columns if column.type == "string"]

    def restricted(self, features: Collection[str]) -> Reader:
        """Return the reader of the columns that some features are made of."""
        kept = []
        for column in self.columns:
            used = {name: dtype for name, dtype in column.features.items() if name in features}
            if used:
                kept.append(replace(column, features=used))
        return replace(self, columns=tuple(kept))

    def sources(self, features: Collection[str]) -> list[str]:
        """Return the columns of the source that some features are made of, in their order."""
        made_of = {name: column.name for column in self.columns for name in column.features}
        return list(dict.fromkeys(made_of[name] for name in features))

    def read(self, cells: pd.DataFrame) -> pd.DataFrame:
        """Return the features of some rows, in the order of training.

        Parameters
        ----------
        cells : DataFrame
            Contains the columns of the source; others are ignored. Cells may be as in the source,
            or numbers and timestamps already.

        Raises
        ------
        ValueError
            If a column is missing, or a cell cannot be read.
        """
        missing = [name for name in self.inputs if name not in cells.columns]
        if missing:
            raise ValueError(f"the table has no column {missing[0]!r}; the model needs it")
        whole = [column for column in self.columns if not column.is_date]
        table = cells[[column.name for column in whole]].copy()
        if table.shape[1] != len(whole):
            raise ValueError("the table has two columns of the same name; rename one")
        changed: dict[int, Any] = {}
        for at, (column, dtype) in enumerate(zip(whole, table.dtypes, strict=True)):
            # Most columns of a wide table are numbers that are read already.
            is_plain = isinstance(dtype, np.dtype) and dtype.kind in "iufb"
            if is_plain and dtype == column.features[column.name] and not self._sentinels:
                continue
            values = table.iloc[:, at]
            read = _cast(self._values(values, column), column.name, column.features[column.name])
            if read is not values:
                changed[at] = read
        for at, read in changed.items():
            table.isetitem(at, read)
        parts: dict[str, pd.Series] = {}
        for column in self.columns:
            if column.is_date:
                # Texts in place of timestamps, as in a request, are ISO 8601.
                form = None if column.type == "datetime" else column.form
                moments = parsed_dates(self._values(cells[column.name], column), form)
                for part, values in _date_parts(moments, column.form).items():
                    name = f"{column.name}_{part}"
                    if name in column.features:
                        parts[name] = _cast(values, name, column.features[name])
        return pd.concat([table, pd.DataFrame(parts)], axis=1) if parts else table

    def as_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        columns = [
            {**vars(column), "features": {n: _described(d) for n, d in column.features.items()}}
            for column in self.columns
        ]
        return {"csv": self.csv, "columns": columns}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Reader:
        """Return the reader that :meth:`as_dict` has described."""
        columns = [
            Column(**{**each, "features": {n: _dtype(d) for n, d in each["features"].items()}})
            for each in data["columns"]
        ]
        return cls(tuple(columns), data["csv"])

    def _values(self, values: pd.Series, column: Column) -> pd.Series:
        """Return the values that the cells of a column stand for."""
        if _is_text(values.dtype):
            is_text = values.map(lambda cell: isinstance(cell, str)).to_numpy(dtype=bool)
            # Other cells may be lists, which have no hash.
            gaps = np.zeros(len(values), dtype=bool)
            gaps[is_text] = values[is_text].isin(self._marks)
            values = values.mask(gaps) if gaps.any() else values
            is_text = is_text & ~gaps
            if is_text.any() and not column.is_date and column.kind != "string":
                values = self._parsed(values, is_text, column)
        if _may_change(values.dtype):
            values = _with_model_dtype(values)
        is_number = is_numeric_dtype(values.dtype) and not is_bool_dtype(values.dtype)
        if self._sentinels and is_number and not column.is_percentage:
            gaps = values.isin(self._sentinels).to_numpy()
            values = values.mask(gaps) if gaps.any() else values
        return values

    def _parsed(self, values: pd.Series, is_text: NDArray[np.bool_], column: Column) -> pd.Series:
        """Return a column with numbers, or truth values, in place of its texts."""
        texts = values[is_text]
        if column.is_percentage:
            numbers = percentages(texts, self._decimal)
        else:
            numbers = self._numbers(texts, column.kind)
        if numbers is None and column.is_category:
            # A text that is no number is a new category.
            plain = texts.str.strip(" %") if column.is_percentage else texts
            each = pd.to_numeric(plain.str.replace(self._decimal, "."), errors="coerce")
            numbers = each.astype(object).where(each.notna(), texts)
        if numbers is None:
            wrong = [not self._is_number(text, column) for text in texts]
            at = wrong.index(True) if any(wrong) else 0
            what = "percentage" if column.is_percentage else _WORDS[column.kind]
            raise ValueError(
                f"column {column.name!r} has {texts.iloc[at]!r} in row "
                f"{np.flatnonzero(is_text)[at]}, which is no {what}; correct it"
            )
        if is_text.all():
            return numbers
        # By position, as the index may have labels twice.
        mixed = values.to_numpy(dtype=object, copy=True)
        mixed[is_text] = numbers.to_numpy(dtype=object)
        return pd.Series(mixed, index=values.index, name=values.name, dtype=object)

    def _numbers(self, texts: pd.Series, kind: str) -> pd.Series | None:
        """Return texts as pandas reads them in a CSV file; None if some are no numbers."""
        written = texts.to_csv(index=False, header=False, quoting=csv.QUOTE_ALL)
        options: dict[str, Any] = {"low_memory": False, "skip_blank_lines": False}
        read = pd.read_csv(io.StringIO(written), header=None, decimal=self._decimal, **options)
        numbers: pd.Series = read.iloc[:, 0].set_axis(texts.index)
        if _is_text(numbers.dtype) or (is_bool_dtype(numbers.dtype) and kind != "boolean"):
            return None
        return numbers

    @property
    def _decimal(self) -> str:
        return "." if self.csv is None else str(self.csv["decimal"])

    def _is_number(self, text: str, column: Column) -> bool:
        """Whether a text can be a cell of a column of numbers."""
        mark = re.escape(self._decimal)
        if column.is_percentage:
            return _percentage(self._decimal).fullmatch(text) is not None
        if column.kind == "boolean":
            return text.lower() in ("true", "false")
        form = rf"\s*[-+]?(\d+({mark}\d*)?|{mark}\d+)([eE][-+]?\d+)?\s*"
        return re.fullmatch(form, text) is not None


_WORDS = {"long": "number", "double": "number", "boolean": "truth value", "datetime": "date"}


def _is_text(dtype: Any) -> bool:
    return bool(is_object_dtype(dtype)) or isinstance(dtype, pd.StringDtype)


def _type(dtype: Any) -> str:
    """Name the type of the values of a dtype as MLflow does."""
    if isinstance(dtype, pd.CategoricalDtype):
        return _type(dtype.categories.dtype)
    if is_bool_dtype(dtype):
        return "boolean"
    if is_datetime64_any_dtype(dtype):
        return "datetime"
    if not is_numeric_dtype(dtype):
        return "string"
    return "double" if dtype.kind == "f" else "long"


def _described(dtype: Any) -> dict[str, Any]:
    """Return a dtype as plain data."""
    if not isinstance(dtype, pd.CategoricalDtype):
        return {"dtype": str(dtype)}
    levels = dtype.categories
    return {
        "dtype": str(levels.dtype),
        "categories": levels.to_numpy().tolist(),
        "ordered": bool(dtype.ordered),
    }


def _dtype(data: Mapping[str, Any]) -> Any:
    """Return the dtype that :func:`_described` has described."""
    if "categories" not in data:
        return pandas_dtype(data["dtype"])
    return pd.CategoricalDtype(pd.Index(data["categories"], dtype=data["dtype"]), data["ordered"])


def _cast(values: pd.Series, name: str, dtype: Any) -> pd.Series:
    """Cast a column to the dtype of training; whole numbers with missing values stay floats."""
    if isinstance(dtype, pd.CategoricalDtype):
        return _categorical(values, name, dtype)
    if values.dtype == dtype:
        return values
    if _is_text(dtype):
        return values.astype(object).map(_text, na_action="ignore").astype(dtype)
    is_extension = not isinstance(dtype, np.dtype)
    if dtype.kind not in "iufb" or is_extension:
        return values.astype(dtype)
    try:
        numbers = pd.to_numeric(values).to_numpy(dtype=np.float64, na_value=np.nan)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"column {name!r} has a value that is no number ({error}); correct it"
        ) from None
    same = numbers if dtype.kind == "f" else np.where(np.isnan(numbers), 0, numbers)
    with np.errstate(invalid="ignore", over="ignore"):
        cast = same.astype(dtype)
    exact = dtype.kind == "f" or np.array_equal(cast.astype(np.float64), numbers)
    return pd.Series(cast if exact else numbers, index=values.index, name=values.name)


def _categorical(values: pd.Series, name: str, dtype: pd.CategoricalDtype) -> pd.Series:
    """Cast a column to the categories of training; others are missing, with a warning."""
    levels, cells = dtype.categories, values
    if is_bool_dtype(levels):
        # A gap makes a column of truth values one of objects, and a file may have their text.
        levels = levels.astype(object)
        values = values.astype(object).map(_truth, na_action="ignore")
    elif is_string_dtype(levels):
        # Dates and the like are their text, and a gap makes integers floats.
        values = values.astype(object).map(_text, na_action="ignore")
    elif is_numeric_dtype(levels) and not is_numeric_dtype(values):
        # One code with a letter makes all of a column text.
        values = pd.to_numeric(values.astype(object), errors="coerce")
    codes = levels.get_indexer(pd.Index(values))
    new = cells[(codes < 0) & cells.notna().to_numpy()]
    if len(new):
        names = list(dict.fromkeys(map(repr, new.tolist())))
        shown = ", ".join(names[:_MOST_NAMED]) + (", ..." if len(names) > _MOST_NAMED else "")
        warnings.warn(
            f"column {name!r} has categories that were not in the training rows ({shown}, in "
            f"{len(new)} rows); they count as missing",
            UserWarning,
            stacklevel=2,
        )
    return pd.Series(
        pd.Categorical.from_codes(codes, dtype=dtype), index=values.index, name=values.name
    )


def _text(value: Any) -> str:
    whole = isinstance(value, (float, np.floating)) and float(value).is_integer()
    return str(int(value)) if whole else str(value)


def _truth(value: Any) -> Any:
    return {"true": True, "1": True, "false": False, "0": False}.get(_text(value).lower())


def with_model_dtypes(table: pd.DataFrame, unchanged: Collection[str | None] = ()) -> pd.DataFrame:
    """Return a table with columns that models read, except for `unchanged`.

    Booleans with missing values become pandas `boolean`, decimals floats, durations seconds,
    numbers as objects or in Arrow's memory those of NumPy or pandas, and categories such as
    intervals text.
    """
    columns: dict[int, Any] = {
        position: _with_model_dtype(table.iloc[:, position])
        for position, (name, dtype) in enumerate(table.dtypes.items())
        if name not in unchanged and _may_change(dtype)
    }
    changed = {at: new for at, new in columns.items() if new.dtype != table.dtypes.iloc[at]}
    if changed:
        table = table.copy(deep=False)
        for position, column in changed.items():
            table.isetitem(position, column)
    return table


def _with_model_dtype(column: pd.Series) -> pd.Series:
    dtype: Any = column.dtype
    if has_odd_categories(dtype):
        return column.cat.rename_categories(str)
    is_arrow = isinstance(dtype, pd.ArrowDtype)
    kind = infer_dtype(column, skipna=True)
    if kind == "boolean":
        return column.astype("boolean") if column.isna().any() else column.astype(bool)
    if kind == "decimal":
        return _as_float(column)
    if kind in ("timedelta", "timedelta64"):
        return _as_float(pd.to_timedelta(column).dt.total_seconds())
    if kind in ("integer", "floating", "mixed-integer-float"):
        if is_arrow:
            # pandas has no 16-bit floats with a mask.
            bits = max(8 * dtype.itemsize, 32 if dtype.kind == "f" else 8)
            number: Any = f"{_NULLABLE[dtype.kind]}{bits}"
            return column.astype(number)
        return pd.to_numeric(column)
    return column


def _may_change(dtype: Any) -> bool:
    if isinstance(dtype, np.dtype):
        return dtype.kind in "Om"
    return isinstance(dtype, pd.ArrowDtype) or has_odd_categories(dtype)


def _as_float(column: pd.Series) -> pd.Series:
    values = column.to_numpy(dtype=np.float64, na_value=np.nan)
    return pd.Series(values, index=column.index, name=column.name)


def has_odd_categories(dtype: Any) -> bool:
    """Whether a column has categories other than text, numbers and booleans."""
    return (
        isinstance(dtype, pd.CategoricalDtype)
        and not is_numeric_dtype(dtype.categories)
        and not all(isinstance(each, (str, int, float)) for each in dtype.categories)
    )


def percentages(column: pd.Series, decimal: str = ".") -> pd.Series | None:
    """Return a text column of percentages as their numbers, 12.5 for ``12.5%``; None of others."""
    form = _percentage(decimal)
    head = column.dropna().iloc[:20].tolist()
    if not head or not all(form.fullmatch(str(text)) for text in head):
        return None
    texts = column.astype("string")
    if not texts.dropna().str.fullmatch(form.pattern).all():
        return None
    numbers = texts.str.replace(decimal, ".").str.strip(" %").str.strip()
    return pd.Series(numbers.astype("Float64").to_numpy(np.float64, na_value=np.nan), column.index)


def _percentage(decimal: str) -> re.Pattern[str]:
    return re.compile(rf"\s*[-+]?\d+(?:{re.escape(decimal)}\d+)?\s*%\s*")


def parsed_dates(column: pd.Series, form: str | None) -> pd.Series:
    """Return texts or timestamps as timestamps; missing values stay missing.

    `form` is for :meth:`datetime.strptime`, None for ISO 8601. ValueError if a value has another.
    """
    if is_datetime64_any_dtype(column):
        zone = getattr(column.dtype, "tz", None)
        return column if zone is None else column.dt.tz_convert("UTC").dt.tz_localize(None)
    moments = timestamps(column, form)
    wrong = column[moments.isna() & column.notna()]
    if len(wrong):
        raise ValueError(
            f"date column {column.name!r} has {str(wrong.tolist()[0])!r} in {len(wrong)} rows, "
            f"which is not of the form {form or 'ISO 8601'}; correct its format in data.dates"
        )
    return moments


def timestamps(column: pd.Series, form: str | None) -> pd.Series:
    """Return text as timestamps without a zone, those with an offset in UTC."""
    # `form` is a format, None or "ISO8601" for ISO 8601; values of another form are missing.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if column.dtype.kind == "f" and (column.dropna() % 1 == 0).all():
            # Numbers such as 20240131 become floats with a gap.
            column = column.astype("Int64")
        text = column.astype("string").str.strip()
        moments = pd.to_datetime(text, format=form or "ISO8601", errors="coerce", utc=True)
    return moments.dt.tz_localize(None)


def _date_parts(moments: pd.Series, form: str | None) -> dict[str, pd.Series]:
    """Return year, month, day and weekday of dates, and the hour if their format has one.

    Numbers, from 0 for Monday for the weekday; missing where the date is missing.
    """
    wanted = dict(_PARTS)
    if any(mark in (form or "") for mark in _HOURS):
        wanted["hour"] = "hour"
    number = np.float64 if moments.isna().any() else np.int64
    return {part: getattr(moments.dt, name).astype(number) for part, name in wanted.items()}

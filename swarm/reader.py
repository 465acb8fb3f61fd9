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
# What may divide thousands, by the decimal mark; spaces may be of any width.
_THOUSANDS = {".": (",", " ", "'"), ",": (".", " ", "'")}
_CURRENCY = (
    r"(?:US|CA|AU|R|A|C)?\$|[€£¥₹₽₩₺₪฿]|zł|kr\.?|Fr\.|Rs\.?|USD|EUR|GBP|CHF|JPY|CNY|INR|CAD|AUD|SEK|NOK"
    r"|DKK|PLN|CZK|BRL|MXN|ZAR|TRY"
)
# A currency is before or after a number, any other unit after it. ``(5)`` and ``5-`` are negative.
_NUMBER = re.compile(
    rf"(?P<open>\()?\s*(?P<sign>[-+\u2212])?\s*(?P<before>{_CURRENCY})?\s*(?P<inner>[-+\u2212])?"
    r"(?P<digits>\d[\d.,'\u2019\s]*(?<!\s)|[.,]\d+)(?P<power>[eE][-+]?\d+)?(?P<space>\s*)"
    rf"(?P<after>{_CURRENCY}|[%‰°]|[°µ]?[A-Za-z]{{1,8}}(?:[/.][A-Za-z]+)?[²³23]?)?"
    r"\s*(?P<last>[-\u2212])?\s*(?(open)\))"
)
_MOST_DIGITS = 15
# Cells of a text column that are looked at before all are.
_HEAD = 20


@dataclass(frozen=True)
class NumberFormat:
    """How the numbers of a text column are written, such as ``$1,243.56`` or ``743,61 €``."""

    example: str  # a cell
    decimal: str
    thousands: str  # a mark that may be left out
    unit: str  # of all cells, a currency of some; before or after the number

    @classmethod
    def of(cls, column: pd.Series, decimal: str = ".") -> NumberFormat | None:
        """Return the format of all cells of a text column that are not missing, else None.

        Digits alone may be codes, and are no format. Where two formats fit, that with the decimal
        mark of the table is preferred.
        """
        cells = column.dropna()
        if not all(_NUMBER.fullmatch(str(cell).strip()) for cell in cells.iloc[:_HEAD].tolist()):
            return None
        texts = list(dict.fromkeys(map(str, cells.tolist())))
        parts = [_NUMBER.fullmatch(text.strip()) for text in texts]
        matches = [part for part in parts if part is not None]
        if len(matches) < len(texts) or all(map(str.isdecimal, texts)):
            return None
        # Years such as (1999) are not negative.
        if all(part["open"] for part in matches):
            return None
        units = {part["before"] or part["after"] or "" for part in matches}
        units -= {""} if any(re.fullmatch(_CURRENCY, unit) for unit in units) else set()
        if len(units) != 1:
            return None
        (unit,) = units
        digits = [part["digits"] for part in matches]
        for mark, thousands in _marks_of(digits, decimal, unit):
            form = cls(texts[0], mark, thousands, unit)
            if all(form.number(text) is not None for text in texts):
                return form
        return None

    def number(self, text: str) -> float | None:
        """Return the number of a cell; None if it has another format."""
        part = _NUMBER.fullmatch(text.strip())
        if part is None or (part["before"] and part["after"]):
            return None
        unit = part["before"] or part["after"] or ""
        if unit != self.unit and (unit or not re.fullmatch(_CURRENCY, self.unit)):
            return None
        digits = re.sub(r"\s", " ", part["digits"]).replace("\u2019", "'")
        whole, _, fraction = digits.partition(self.decimal)
        first, *groups = whole.split(self.thousands)
        if groups and (not 1 <= len(first) <= 3 or any(len(group) != 3 for group in groups)):
            return None
        whole = "".join([first, *groups])
        is_padded = len(whole) > 1 and whole[0] == "0"
        plain = (whole or "0") + (fraction or "0")
        if not plain.isdecimal() or is_padded or len(whole) > _MOST_DIGITS:
            return None
        negative = [bool(part["open"]), part["last"] is not None]
        negative += [part[sign] not in (None, "+") for sign in ("sign", "inner")]
        if sum(negative) > 1:
            return None
        sign = "-" if any(negative) else ""
        return float(f"{sign}{whole or '0'}.{fraction or '0'}{part['power'] or ''}")

    def numbers(self, texts: pd.Series) -> pd.Series:
        """Return the numbers of cells, missing where a cell is missing or has another format."""
        known = {text: self.number(str(text)) for text in texts.dropna().unique()}
        return texts.map(known).astype(np.float64)


def is_number(text: object) -> bool:
    """Whether a text is one number, perhaps with a sign, a currency or the word of a unit."""
    part = _NUMBER.fullmatch(str(text).strip())
    # Other letters belong to a code, such as 12A.
    is_code = part and part["after"] and part["after"].isalpha() and not part["space"]
    return part is not None and (not is_code or bool(re.fullmatch(_CURRENCY, part["after"])))


def _marks_of(digits: list[str], decimal: str, unit: str) -> list[tuple[str, str]]:
    """Return the decimal marks and those of thousands that may be meant, the likeliest first."""
    other = "," if decimal == "." else "."
    marks = [(decimal, each) for each in _THOUSANDS[decimal]]
    others = [(other, each) for each in _THOUSANDS[other]]
    # Money has no thousandths: 1.244 € are more than a thousand.
    grouped = rf"[1-9]\d{{0,2}}(?:{re.escape(decimal)}\d{{3}})+"
    marked = [each for each in digits if not each.isdecimal()]
    is_money = re.fullmatch(_CURRENCY, unit) and max(map(len, {*digits} - {*marked}), default=0) < 4
    if is_money and marked and all(re.fullmatch(grouped, each) for each in marked):
        return [(other, decimal)]
    # Pairs such as 1,3 may be answers of a survey.
    if not unit and max(map(len, digits)) <= len("1,3"):
        others = []
    return marks + others


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
    number: NumberFormat | None = None  # if its texts are numbers

    @property
    def kind(self) -> str:
        """Type of its values, or of its categories."""
        return _type(next(iter(self.features.values())))

    @property
    def is_category(self) -> bool:
        """Whether the feature is a category."""
        return isinstance(next(iter(self.features.values())), pd.CategoricalDtype)


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
        numbers: Mapping[str, NumberFormat] | None = None,
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
        numbers : dict, optional
            Formats of the columns whose cells are texts in the source, and numbers in `cells`.
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
            number = (numbers or {}).get(label)
            kind = "string" if number else _type(dtype if values is None else values.dtype)
            columns.append(
                Column(
                    label,
                    type=kind,
                    optional=bool(gaps[at]),
                    features=features,
                    is_date=is_date,
                    form=formats.get(label),
                    number=number,
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
            {
                **vars(column),
                "features": {n: _described(d) for n, d in column.features.items()},
                "number": column.number and vars(column.number),
            }
            for column in self.columns
        ]
        return {"csv": self.csv, "columns": columns}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Reader:
        """Return the reader that :meth:`as_dict` has described."""
        columns = [
            Column(
                **{
                    **each,
                    "features": {n: _dtype(d) for n, d in each["features"].items()},
                    "number": each["number"] and NumberFormat(**each["number"]),
                }
            )
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
        if self._sentinels and is_number and column.number is None:
            gaps = values.isin(self._sentinels).to_numpy()
            values = values.mask(gaps) if gaps.any() else values
        return values

    def _parsed(self, values: pd.Series, is_text: NDArray[np.bool_], column: Column) -> pd.Series:
        """Return a column with numbers, or truth values, in place of its texts."""
        texts, form = values[is_text], column.number
        numbers = self._numbers(texts, column.kind) if form is None else form.numbers(texts)
        if form is not None and numbers is not None and numbers.isna().any():
            numbers = None
        if numbers is None and column.is_category:
            # A text that is no number is a new category.
            plain = texts.str.replace(self._decimal, ".")
            each = form.numbers(texts) if form else pd.to_numeric(plain, errors="coerce")
            numbers = each.astype(object).where(each.notna(), texts)
        if numbers is None:
            wrong = [not self._is_number(text, column) for text in texts]
            at = wrong.index(True) if any(wrong) else 0
            what = f"number such as {form.example!r}" if form else _WORDS[column.kind]
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
        if column.number is not None:
            return column.number.number(text) is not None
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
    number = np.float64 if moments.isna().any() else np.int64
    return {
        part: getattr(moments.dt, name).astype(number) for part, name in date_parts(form).items()
    }


def date_parts(form: str | None) -> dict[str, str]:
    """Return the parts that a format of dates gives, and their names in pandas."""
    has_hours = any(mark in (form or "") for mark in _HOURS)
    return {**_PARTS, "hour": "hour"} if has_hours else _PARTS

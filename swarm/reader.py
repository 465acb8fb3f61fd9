"""How the cells of a table become the columns that models read.

The same code reads the rows of training and of prediction. A stored model contains a copy of this
file, so it imports nothing of this project.
"""

import csv
import io
import re
import warnings
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

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

# By default, pandas reads these texts as missing in a CSV file.
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
# A warning names no more new categories.
_MAX_NAMED = 5
# Marks of thousands by the decimal mark; spaces may be of any width.
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
_MAX_DIGITS = 15
# Most columns of text have no number in their first cells.
_N_HEAD = 20


@dataclass(frozen=True)
class NumberFormat:
    """How the numbers of a text column are written, such as ``$1,243.56`` or ``743,61 €``.

    Attributes
    ----------
    example : str
        The longest cell, which shows most of the format.
    decimal : str
        Decimal mark.
    thousands : str
        Mark of thousands, which may be left out.
    unit : str
        Unit of all cells, or currency of some, before or after the number.
    """

    example: str
    decimal: str
    thousands: str
    unit: str

    @classmethod
    def of(cls, column: pd.Series, decimal: str = ".") -> Self | None:
        """Return the format of all cells of a text column that are not missing, else None.

        Digits alone may be codes, and are no format. If two formats fit, the one with the decimal
        mark of the table is preferred.
        """
        cells = column.dropna()
        if not all(_NUMBER.fullmatch(str(cell).strip()) for cell in cells.iloc[:_N_HEAD].tolist()):
            return None
        texts = list(dict.fromkeys(map(str, cells.tolist())))
        all_matches = [_NUMBER.fullmatch(text.strip()) for text in texts]
        matches = [match for match in all_matches if match is not None]
        if len(matches) < len(texts) or all(map(str.isdecimal, texts)):
            return None
        # Years such as (1999) are not negative.
        if all(match["open"] for match in matches):
            return None
        units = {match["before"] or match["after"] or "" for match in matches}
        if any(re.fullmatch(_CURRENCY, unit) for unit in units):
            units.discard("")
        if len(units) != 1:
            return None
        unit = units.pop()
        digits = [match["digits"] for match in matches]
        for mark, thousands in _marks_of(digits, decimal, unit):
            number_format = cls(max(texts, key=len), mark, thousands, unit)
            if all(number_format.number(text) is not None for text in texts):
                return number_format
        return None

    def number(self, text: str) -> float | None:
        """Return the number of a cell; None if it has another format."""
        match = _NUMBER.fullmatch(text.strip())
        if match is None or (match["before"] and match["after"]):
            return None
        unit = match["before"] or match["after"] or ""
        if unit != self.unit and (unit or not re.fullmatch(_CURRENCY, self.unit)):
            return None
        digits = re.sub(r"\s", " ", match["digits"]).replace("\u2019", "'")
        whole, _, fraction = digits.partition(self.decimal)
        first, *groups = whole.split(self.thousands)
        if groups and (not 1 <= len(first) <= 3 or any(len(group) != 3 for group in groups)):
            return None
        whole = "".join([first, *groups])
        is_padded = len(whole) > 1 and whole[0] == "0"
        is_decimal = ((whole or "0") + (fraction or "0")).isdecimal()
        if not is_decimal or is_padded or len(whole) > _MAX_DIGITS:
            return None
        signs = [bool(match["open"]), match["last"] is not None]
        signs += [match[sign] not in (None, "+") for sign in ("sign", "inner")]
        if sum(signs) > 1:
            return None
        sign = "-" if any(signs) else ""
        return float(f"{sign}{whole or '0'}.{fraction or '0'}{match['power'] or ''}")

    def numbers(self, texts: pd.Series) -> pd.Series:
        """Return the numbers of cells, NaN if a cell is missing or has another format."""
        by_text = {text: self.number(str(text)) for text in texts.dropna().unique()}
        return texts.map(by_text).astype(np.float64)


def is_number(text: object) -> bool:
    """Whether a text is one number, perhaps with a sign, a currency or the word of a unit."""
    match = _NUMBER.fullmatch(str(text).strip())
    if match is None:
        return False
    unit = match["after"]
    # Letters without a space belong to a code, such as 12A, unless they are a currency.
    is_code = unit and unit.isalpha() and not match["space"]
    return not is_code or bool(re.fullmatch(_CURRENCY, unit))


def _marks_of(digits: list[str], decimal: str, unit: str) -> list[tuple[str, str]]:
    """Return pairs of a decimal mark and a mark of thousands, the likeliest first."""
    other_decimal = "," if decimal == "." else "."
    marks = [(decimal, thousands) for thousands in _THOUSANDS[decimal]]
    other_marks = [(other_decimal, thousands) for thousands in _THOUSANDS[other_decimal]]
    # Money has no thousandths: 1.244 € are more than a thousand.
    grouped = rf"[1-9]\d{{0,2}}(?:{re.escape(decimal)}\d{{3}})+"
    with_mark = [text for text in digits if not text.isdecimal()]
    longest = max(map(len, {*digits} - {*with_mark}), default=0)
    is_money = re.fullmatch(_CURRENCY, unit) and longest < 4
    if is_money and with_mark and all(re.fullmatch(grouped, text) for text in with_mark):
        return [(other_decimal, decimal)]
    # Pairs such as 1,3 may be answers of a survey.
    if not unit and max(map(len, digits)) <= len("1,3"):
        return marks
    return marks + other_marks


@dataclass(frozen=True)
class Column:
    """A column of the source, and the features that are made of it.

    Attributes
    ----------
    name : str
    type : {"long", "double", "boolean", "string", "datetime"}
        Type of its cells in the source.
    optional : bool
        Whether cells were missing in training.
    features : dict
        Dtypes of the features by name: the column itself, or the parts of its dates.
    is_date : bool
    form : str, optional
        Format of its dates, None for ISO 8601.
    number : NumberFormat, optional
        Format of its texts, if they are numbers.
    """

    name: str
    type: str
    optional: bool
    features: dict[str, Any]
    is_date: bool = False
    form: str | None = None
    number: NumberFormat | None = None

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
        Columns in the order of the source.
    csv : dict, optional
        Keywords of :func:`tasks.sources.file.read_file`; None if the source was no CSV file, in
        which words such as ``NA`` are missing values.
    """

    columns: tuple[Column, ...]
    csv: dict[str, Any] | None = None
    # These texts and numbers are missing values.
    _marks: frozenset[str] = field(init=False, repr=False, compare=False)
    _sentinels: tuple[float, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        marks: set[str] = set()
        sentinels: set[float] = set()
        for mark in () if self.csv is None else self.csv["na_values"]:
            marks.add(mark)
            try:
                number = float(mark)
            except ValueError:
                continue
            if np.isfinite(number):
                sentinels.add(number)
                # Like pandas, accept the other ways to write the same number.
                marks.add(str(number))
                if number.is_integer():
                    marks.add(str(int(number)))
        defaults = frozenset() if self.csv is None else MISSING
        object.__setattr__(self, "_marks", defaults | marks)
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
    ) -> Self:
        """Learn the reader of a table from all of its cells.

        Parameters
        ----------
        cells : DataFrame
            Columns of the source that are features, as pandas reads them.
        dates : dict, optional
            Formats of the columns of dates, None for ISO 8601. A column gives the features
            ``NAME_year`` and so on.
        categorical : list of str
            Columns to cast to pandas' ``category``.
        numbers : dict, optional
            Formats of the columns whose cells are texts in the source, and numbers in `cells`.
        csv : dict, optional
            See the attribute.
        """
        formats = dates or {}
        has_gaps = cells.isna().any().to_numpy()
        columns = []
        for position, (name, dtype) in enumerate(cells.dtypes.items()):
            label = str(name)
            is_date = name in formats
            model_dtype: Any = dtype
            if _may_change(dtype):
                model_dtype = _with_model_dtype(cells.iloc[:, position]).dtype
            if is_date:
                moments = parsed_dates(cells.iloc[:, position], formats[label])
                parts = _date_parts(moments, formats[label])
                features = {f"{label}_{part}": values.dtype for part, values in parts.items()}
            elif label in categorical:
                column = cells.iloc[:, position]
                if _may_change(dtype):
                    column = _with_model_dtype(column)
                features = {label: _with_model_dtype(column.astype("category")).dtype}
            else:
                features = {label: model_dtype}
            number = (numbers or {}).get(label)
            columns.append(
                Column(
                    label,
                    type="string" if number else _type(model_dtype),
                    optional=bool(has_gaps[position]),
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

    def restricted(self, features: Collection[str]) -> Self:
        """Return the reader of the columns that some features are made of."""
        columns = []
        for column in self.columns:
            used = {name: dtype for name, dtype in column.features.items() if name in features}
            if used:
                columns.append(replace(column, features=used))
        return replace(self, columns=tuple(columns))

    def sources(self, features: Collection[str]) -> list[str]:
        """Return the columns of the source that some features are made of, in their order."""
        source_of = {name: column.name for column in self.columns for name in column.features}
        return list(dict.fromkeys(source_of[name] for name in features))

    def read(self, cells: pd.DataFrame) -> pd.DataFrame:
        """Return the features of some rows, in the order of training.

        Parameters
        ----------
        cells : DataFrame
            Columns of the source, and others, which are ignored. Cells may be as in the source, or
            numbers and timestamps already.

        Raises
        ------
        ValueError
            If a column is missing, or a cell cannot be read.
        """
        missing = [name for name in self.inputs if name not in cells.columns]
        if missing:
            raise ValueError(f"the table has no column {missing[0]!r}; the model needs it")
        columns = [column for column in self.columns if not column.is_date]
        table = cells[[column.name for column in columns]].copy()
        if table.shape[1] != len(columns):
            raise ValueError("the table has two columns of the same name; rename one")
        changed: dict[int, Any] = {}
        for position, (column, dtype) in enumerate(zip(columns, table.dtypes, strict=True)):
            # Most columns of a wide table are numbers of the right dtype.
            is_plain = isinstance(dtype, np.dtype) and dtype.kind in "iufb"
            feature_dtype = column.features[column.name]
            if is_plain and dtype == feature_dtype and not self._sentinels:
                continue
            values = table.iloc[:, position]
            feature = _cast(self._values(values, column), column.name, feature_dtype)
            if feature is not values:
                changed[position] = feature
        for position, feature in changed.items():
            table.isetitem(position, feature)
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
                "features": {name: _described(dtype) for name, dtype in column.features.items()},
                "number": column.number and vars(column.number),
            }
            for column in self.columns
        ]
        return {"csv": self.csv, "columns": columns}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Return the reader that :meth:`as_dict` has described."""
        columns = []
        for fields in data["columns"]:
            features = {name: _dtype(dtype) for name, dtype in fields["features"].items()}
            number = fields["number"] and NumberFormat(**fields["number"])
            columns.append(Column(**{**fields, "features": features, "number": number}))
        return cls(tuple(columns), data["csv"])

    def _values(self, values: pd.Series, column: Column) -> pd.Series:
        """Return the values of the cells of a column."""
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
        texts = values[is_text]
        number_format = column.number
        if number_format is None:
            numbers = self._numbers(texts, column.kind)
        else:
            numbers = number_format.numbers(texts)
            if numbers.isna().any():
                numbers = None
        if numbers is None and column.is_category:
            # A text that is no number is a new category.
            if number_format is None:
                plain = texts.str.replace(self._decimal, ".")
                known = pd.to_numeric(plain, errors="coerce")
            else:
                known = number_format.numbers(texts)
            numbers = known.astype(object).where(known.notna(), texts)
        if numbers is None:
            is_wrong = [not self._is_number(text, column) for text in texts]
            first = is_wrong.index(True) if any(is_wrong) else 0
            if number_format is None:
                what = _WORDS[column.kind]
            else:
                what = f"number such as {number_format.example!r}"
            raise ValueError(
                f"column {column.name!r} has {texts.iloc[first]!r} in row "
                f"{np.flatnonzero(is_text)[first]}, which is no {what}; correct it"
            )
        if is_text.all():
            return numbers
        # The index may have duplicate labels, so cells are replaced by position.
        mixed = values.to_numpy(dtype=object, copy=True)
        mixed[is_text] = numbers.to_numpy(dtype=object)
        return pd.Series(mixed, index=values.index, name=values.name, dtype=object)

    def _numbers(self, texts: pd.Series, kind: str) -> pd.Series | None:
        """Return texts as pandas reads them in a CSV file; None if not all are numbers."""
        file = io.StringIO(texts.to_csv(index=False, header=False, quoting=csv.QUOTE_ALL))
        options: dict[str, Any] = {"low_memory": False, "skip_blank_lines": False}
        table = pd.read_csv(file, header=None, decimal=self._decimal, **options)
        numbers = table.iloc[:, 0].set_axis(texts.index)
        if _is_text(numbers.dtype) or (is_bool_dtype(numbers.dtype) and kind != "boolean"):
            return None
        return numbers

    @property
    def _decimal(self) -> str:
        return "." if self.csv is None else str(self.csv["decimal"])

    def _is_number(self, text: str, column: Column) -> bool:
        """Whether a text can be a cell of a column of numbers."""
        if column.number is not None:
            return column.number.number(text) is not None
        if column.kind == "boolean":
            return text.lower() in ("true", "false")
        mark = re.escape(self._decimal)
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
    is_float = dtype.kind == "f"
    complete = numbers if is_float else np.where(np.isnan(numbers), 0, numbers)
    with np.errstate(invalid="ignore", over="ignore"):
        cast = complete.astype(dtype)
    is_exact = is_float or np.array_equal(cast.astype(np.float64), numbers)
    return pd.Series(cast if is_exact else numbers, index=values.index, name=values.name)


def _categorical(values: pd.Series, name: str, dtype: pd.CategoricalDtype) -> pd.Series:
    """Cast a column to the categories of training; others are missing, with a warning."""
    levels = dtype.categories
    cells = values
    if is_bool_dtype(levels):
        # Truth values are objects beside a gap, and text in a file.
        levels = levels.astype(object)
        values = values.astype(object).map(_truth, na_action="ignore")
    elif is_string_dtype(levels):
        # Dates and other objects become their text; integers are floats beside a gap.
        values = values.astype(object).map(_text, na_action="ignore")
    elif is_numeric_dtype(levels) and not is_numeric_dtype(values):
        # A column with a single code with a letter is text.
        values = pd.to_numeric(values.astype(object), errors="coerce")
    codes = levels.get_indexer(pd.Index(values))
    new = cells[(codes < 0) & cells.notna().to_numpy()]
    if len(new):
        names = list(dict.fromkeys(map(repr, new.tolist())))
        shown = ", ".join(names[:_MAX_NAMED]) + (", ..." if len(names) > _MAX_NAMED else "")
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

    Booleans with missing values become pandas `boolean`, decimals become floats, durations
    seconds, categories such as intervals text, and numbers that are objects or in Arrow's memory
    become numbers of NumPy or pandas.
    """
    changed: dict[int, Any] = {}
    for position, (name, dtype) in enumerate(table.dtypes.items()):
        if name not in unchanged and _may_change(dtype):
            column = _with_model_dtype(table.iloc[:, position])
            if column.dtype != dtype:
                changed[position] = column
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
        and not all(isinstance(level, (str, int, float)) for level in dtype.categories)
    )


def parsed_dates(column: pd.Series, form: str | None) -> pd.Series:
    """Return texts or timestamps as timestamps; missing values stay missing.

    `form` is a format of :meth:`datetime.strptime`, None for ISO 8601. ValueError if a value has
    another one.
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
    """Return text as timestamps without a zone; offsets are converted to UTC."""
    # `form` is a format, None or "ISO8601" for ISO 8601; values of another form become missing.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if column.dtype.kind == "f" and (column.dropna() % 1 == 0).all():
            # Numbers such as 20240131 are floats beside a gap.
            column = column.astype("Int64")
        text = column.astype("string").str.strip()
        moments = pd.to_datetime(text, format=form or "ISO8601", errors="coerce", utc=True)
    return moments.dt.tz_localize(None)


def _date_parts(moments: pd.Series, form: str | None) -> dict[str, pd.Series]:
    """Return year, month, day and weekday of dates, and the hour if their format has one.

    The weekday is 0 for Monday. All parts of a missing date are missing.
    """
    number = np.float64 if moments.isna().any() else np.int64
    return {
        part: getattr(moments.dt, name).astype(number) for part, name in date_parts(form).items()
    }


def date_parts(form: str | None) -> dict[str, str]:
    """Return the names in pandas of the parts that a format of dates gives."""
    has_hours = any(mark in (form or "") for mark in _HOURS)
    return {**_PARTS, "hour": "hour"} if has_hours else _PARTS

"""How a CSV file is written: separator, decimal mark, encoding, marks of missing values."""

import codecs
import csv
import re
from collections import Counter
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

import fsspec

from swarm.errors import DataError
from swarm.reader import MISSING, is_number

# pandas reads cells of any length.
csv.field_size_limit(2**31 - 1)
_MAX_BYTES = 50_000_000
_MAX_ROWS = 5000
_SEPARATORS = (",", ";", "\t", "|")
_COMMA = re.compile(r"\s*[-+]?\d*,\d+\s*%?\s*")
_POINT = re.compile(r"\s*[-+]?\d*\.\d+(?:[eE][-+]?\d+)?\s*%?\s*")
_NUMBER = re.compile(r"\s*[-+]?(?:\d+[.,]?\d*|[.,]\d+)(?:[eE][-+]?\d+)?\s*")
# These texts are marks in a column of text; in a column of numbers any short text may be one.
_MARKS = frozenset(
    (
        *("-", "--", "---", "?", ".", "na", "none", "missing", "unknown", "NULL", "\\N", "(null)"),
        *("k.A.", "k. A.", "n.a.", "N.A.", "unbekannt", "keine Angabe", "#NV", "#N/V"),
    )
)
# The decimal mark of such numbers may also divide thousands.
_THOUSANDS = {
    ".": re.compile(r"[-+]?[1-9]\d{0,2}(?:\.\d{3})+"),
    ",": re.compile(r"[-+]?[1-9]\d{0,2}(?:,\d{3})+"),
}
_PAIR = re.compile(r"\d,\d")
_MIN_SHARE_NUMBERS = 0.6
_MAX_MARKS = 2
_MAX_MARK_LENGTH = 25


@dataclass(frozen=True)
class CsvStyle:
    """How a CSV file is written; see the section ``data.csv`` of a configuration."""

    separator: str = ","
    decimal: str = "."
    encoding: str = "utf-8"
    na_values: tuple[str, ...] = ()


def sniff(path: str, target: str = "") -> CsvStyle:
    """Look at the first rows of a local CSV file, plain or compressed by gzip.

    Words of the column `target` are classes, and no marks of missing values.

    Raises
    ------
    DataError
        If the file cannot be read.
    """
    data = _first_bytes(path)
    encoding = _encoding(data)
    lines = _lines(data, encoding)
    separator = separator_of(lines)
    header, *rows = csv.reader(lines, delimiter=separator)
    decimal = "."
    if separator != "," or any('"' in line for line in lines):
        decimal = _decimal(rows, separator)
    return CsvStyle(separator, decimal, encoding, _marks(header, rows, target))


def cell_notes(path: str, style: CsvStyle) -> dict[str, str]:
    """Describe cells in the first rows of a CSV file that are read as something else, by column."""
    rows = list(csv.reader(_lines(_first_bytes(path), style.encoding), delimiter=style.separator))
    header = rows[0] if rows else []
    notes = {}
    for name, column in zip(header, zip_longest(*rows[1:], fillvalue=""), strict=False):
        note = _note([cell.strip() for cell in column], style)
        if note:
            notes[name] = note
    return notes


def _note(cells: list[str], style: CsvStyle) -> str:
    """Say what is read as something else, and what to do if that is wrong."""
    distinct = set(cells) - {""}
    marks = [mark for mark in dict.fromkeys((*style.na_values, *MISSING)) if mark in distinct]
    values = [cell for cell in cells if cell and cell not in marks]
    notes = []
    # The usual marks are no words in a column of numbers.
    if all(map(_NUMBER.fullmatch, values)):
        marks = [mark for mark in marks if mark in style.na_values]
    for mark in marks:
        is_key = mark in style.na_values
        remedy = "remove it from data.csv.na_values" if is_key else "rename it in the table"
        notes.append(f"{mark!r} is read as missing; if it is a value, {remedy}")
    zero = next((cell for cell in values if len(cell) > 1 and cell[0] == "0"), None)
    if zero is not None and all(map(str.isdecimal, values)):
        notes.append(
            f"{zero!r} is read as the number {int(zero)}, without leading zeros; if it is a code, "
            "list the column in data.categorical"
        )
    grouped = [cell for cell in values if _THOUSANDS[style.decimal].fullmatch(cell)]
    plain = sum(map(str.isdecimal, values))
    if grouped and plain and len(grouped) + plain == len(values):
        notes.append(
            f"{grouped[0]!r} is read as a fraction; if {style.decimal!r} divides thousands there, "
            "remove it from the numbers of the table"
        )
    return "; ".join(notes)


def _first_bytes(path: str) -> bytes:
    """Read the beginning of a file."""
    try:
        with fsspec.open(str(Path(path).expanduser()), "rb", compression="infer") as file:
            data = bytes(file.read(_MAX_BYTES))
    except Exception as error:  # every compression has its own exceptions
        reason = getattr(error, "strerror", None) or str(error)
        raise DataError(f"cannot read {path!r}: {reason}; check the path and the file") from None
    if not data.strip():
        raise DataError(f"cannot read {path!r}: the file is empty; check the path and the file")
    return data


def _lines(data: bytes, encoding: str) -> list[str]:
    """Return the first lines that are not blank, and are read completely."""
    text = data.decode(encoding, errors="replace").removeprefix("\ufeff")
    lines = [line for line in text.splitlines()[: _MAX_ROWS + 1] if line.strip()]
    is_cut_off = len(data) == _MAX_BYTES and len(lines) <= _MAX_ROWS
    return lines[:-1] if is_cut_off else lines


def _encoding(data: bytes) -> str:
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    # The last character may be cut off.
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        decoder.decode(data)
    except UnicodeDecodeError:
        pass
    else:
        return "utf-8"
    # charset-normalizer takes German and French text in cp1252 for cp1250 or cp1255.
    try:
        data.decode("cp1252")
    except UnicodeDecodeError:
        return "latin-1"
    return "cp1252"


def separator_of(lines: list[str]) -> str:
    """Return the separator that divides the header and the rows into most columns."""
    return max(_SEPARATORS, key=lambda separator: _n_columns(lines, separator))


def _n_columns(lines: list[str], separator: str) -> float:
    """Return the number of columns that the header has too, times the share of such rows."""
    # csv.Sniffer takes the apostrophes of "it's, isn't" for quotes and fails.
    try:
        widths = [len(row) for row in csv.reader(lines[:200], delimiter=separator)]
    except csv.Error:
        return 0.0
    if not widths:
        return 0.0
    width, count = Counter(widths).most_common(1)[0]
    # Decimal commas divide the rows but not the header.
    width = min(width, widths[0])
    return (width if width > 1 else 0) * count / len(widths)


def _decimal(rows: list[list[str]], separator: str) -> str:
    cells = [cell for row in rows for cell in row]
    commas = sum(1 for cell in cells if _COMMA.fullmatch(cell))
    if separator == ",":
        # A quoted 12,345 has a mark of thousands then, and 1,3 may be two answers of a survey.
        commas -= sum(1 for cell in cells if _THOUSANDS[","].fullmatch(cell))
        commas -= sum(1 for cell in cells if _PAIR.fullmatch(cell))
    points = sum(1 for cell in cells if _POINT.fullmatch(cell))
    return "," if commas > points else "."


def _marks(header: list[str], rows: list[list[str]], target: str) -> tuple[str, ...]:
    """Return the marks of missing values that pandas does not know."""
    marks: dict[str, None] = {}
    # Words that are values of a column are no marks.
    values: set[str] = set()
    for name, column in zip(header, zip_longest(*rows, fillvalue=""), strict=False):
        cells = [cell.strip() for cell in column if cell.strip() not in MISSING]
        # A number with a separator of thousands is no mark.
        words = Counter(
            cell for cell in cells if not _NUMBER.fullmatch(cell) and not is_number(cell)
        )
        is_numeric = sum(words.values()) <= (1.0 - _MIN_SHARE_NUMBERS) * len(cells)
        are_short = max(map(len, words), default=0) <= _MAX_MARK_LENGTH
        if is_numeric and are_short and len(words) <= _MAX_MARKS:
            marks |= dict.fromkeys(words)
        elif name == target:
            values |= words.keys()
        else:
            marks |= dict.fromkeys(word for word in words if word in _MARKS)
            values |= words.keys() - _MARKS
    return tuple(mark for mark in marks if mark not in values)

"""Tests of the reader: cells become the same columns in training and in prediction."""

from __future__ import annotations

import io
import json
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest

from swarm.reader import NumberFormat, Reader

STYLE: dict[str, Any] = {"separator": ",", "decimal": ".", "encoding": "utf-8", "na_values": []}


def stored(reader: Reader) -> Reader:
    """Return the reader as a stored model has it."""
    return Reader.from_dict(json.loads(json.dumps(reader.as_dict())))


def read(text: str, marks: list[str] | None = None, **options: Any) -> pd.DataFrame:
    return pd.read_csv(io.StringIO(text), na_values=marks, **options)


@pytest.mark.parametrize("decimal", [".", ","])
def test_texts_of_numbers_are_parsed_to_the_bit_as_in_the_file(decimal: str) -> None:
    rng = np.random.default_rng(0)
    numbers = rng.normal(size=3000) ** 9
    digits = rng.integers(1, 20, 3000)
    values = [f"{x:.{d}g}" for x, d in zip(numbers, digits, strict=True)]
    values += ["1e5", " 3", "+7", ".5", "-0", "12345678901234567890", "inf", "?", "-999", "-999.0"]
    texts = pd.Series(values).str.replace(".", decimal)
    written = texts.to_frame("x").to_csv(index=False, sep=";")
    marks = ["?", "-999"]
    options = {"sep": ";", "decimal": decimal, "low_memory": False}
    trained = read(written, marks, **options)
    reader = stored(Reader.learn(trained, csv={**STYLE, "decimal": decimal, "na_values": marks}))
    for batch in (trained, texts.to_frame("x"), read(written, sep=";")):
        pd.testing.assert_frame_equal(reader.read(batch), trained, check_exact=True)
    # Labels of rows may occur twice, and some cells may be numbers already.
    mixed = texts.astype(object)
    mixed.iloc[:2000] = trained["x"].iloc[:2000]
    doubled = mixed.set_axis(np.arange(len(mixed)) // 2).to_frame("x")
    assert np.array_equal(reader.read(doubled), trained, equal_nan=True)


def test_a_percentage_of_the_size_of_a_sentinel_is_a_value() -> None:
    rates = pd.Series(["5%", "12.5%", None, "5%"], name="rate")
    trained = pd.DataFrame({"rate": [5.0, 12.5, np.nan, 5.0], "x": [1.0, np.nan, 2.0, 3.0]})
    style = {**STYLE, "na_values": ["5"]}
    for categorical in ((), ("rate",)):
        options: Any = {
            "numbers": {"rate": NumberFormat("5%", ".", ",", "%")},
            "categorical": categorical,
            "csv": style,
        }
        reader = stored(Reader.learn(trained, **options))
        expected = reader.read(trained)
        assert expected["rate"].isna().tolist() == [False, False, True, False]
        batch = pd.DataFrame({"rate": rates, "x": [1, 5, 2, 3]})
        pd.testing.assert_frame_equal(reader.read(batch), expected)
        assert reader.texts == ["rate"]


@pytest.mark.parametrize(
    ("cells", "decimal", "numbers"),
    [
        ("$1,243.56|$5|-$3.20|($7.00)", ".", [1243.56, 5, -3.2, -7]),
        ("743,61 €|1.200,00 €|5 €", ".", [743.61, 1200, 5]),
        ("1.244 €|999 €", ".", [1244, 999]),
        ("1,244|999|12,300,001", ".", [1244, 999, 12300001]),
        ("(1,234)|55|1,000.5-", ".", [-1234, 55, -1000.5]),
        ("1.244|999", ",", [1244, 999]),
        ("1,2%|7 %|-8%", ",", [1.2, 7, -8]),
        ("CHF 1’200.50|CHF 3", ".", [1200.5, 3]),
        ("1 244,5 kg|3\u202f000 kg", ".", [1244.5, 3000]),
        ("36 months|60 months", ".", [36, 60]),
        ("743,61|3,5", ".", [743.61, 3.5]),
    ],
)
def test_numbers_are_read_as_people_write_them(
    cells: str, decimal: str, numbers: list[float]
) -> None:
    texts = pd.Series([*cells.split("|"), None], name="x")
    form = NumberFormat.of(texts, decimal)
    assert form is not None
    trained = form.numbers(texts).to_frame()
    assert trained["x"].tolist()[:-1] == numbers
    reader = stored(Reader.learn(trained, numbers={"x": form}, csv={**STYLE, "decimal": decimal}))
    for batch in (texts.to_frame(), trained, texts.iloc[:1].to_frame()):
        pd.testing.assert_frame_equal(reader.read(batch), trained.iloc[: len(batch)])
    with pytest.raises(ValueError, match=r"'a lot'.*no number such as"):
        reader.read(pd.DataFrame({"x": ["a lot"]}))


CODES = "007|012 P001|P002 12A|13B 1st|2nd 10\tMB|2\tGB 5€|$7 5%|high (1999)|(2000) 01.2024|12.2023"
CODES += " 192.168.1.1|10.0.0.1 1,3|2,4|1 1234567890123456789€|2€"


@pytest.mark.parametrize("cells", CODES.split(" "))
def test_codes_lists_and_numbers_in_several_units_stay_text(cells: str) -> None:
    assert NumberFormat.of(pd.Series(cells.split("|")), ".") is None


def test_dates_may_be_texts_timestamps_or_numbers_and_only_used_parts_are_made() -> None:
    days = pd.Series(["31.01.2024 07:30", None, "01.02.2024 23:00"], name="day")
    form = "%d.%m.%Y %H:%M"
    reader = Reader.learn(days.to_frame(), dates={"day": form}, csv=STYLE)
    trained = reader.read(days.to_frame())
    assert trained["day_hour"].tolist()[::2] == [7, 23]
    restricted = stored(reader.restricted(["day_hour", "day_month"]))
    assert (restricted.inputs, restricted.sources(["day_hour"])) == (["day"], ["day"])
    moments = pd.to_datetime(days, format=form)
    for batch in (days, moments, moments.dt.tz_localize("UTC")):
        columns = restricted.read(batch.to_frame().assign(more=1))
        pd.testing.assert_frame_equal(columns, trained[["day_month", "day_hour"]])
    # Timestamps of a table are ISO 8601 in a request.
    stamped = stored(Reader.learn(moments.to_frame(), dates={"day": None}))
    texts = moments.astype("string").to_frame()
    pd.testing.assert_frame_equal(stamped.read(texts), stamped.read(moments.to_frame()))


def test_what_a_database_returns_is_read_alike() -> None:
    frame = pd.DataFrame(
        {
            "price": [Decimal("1.5"), None, Decimal("2")],
            "open": [True, None, False],
            "wait": pd.to_timedelta([1, 2, 3], unit="s"),
            "code": ["NA", "7", "8"],
            "tags": [["a"], None, ["b", "c"]],  # The check of a model refuses lists.
        }
    )
    reader = stored(Reader.learn(frame, categorical=["code"]))
    types = {column.name: (column.type, column.optional) for column in reader.columns}
    assert types == {
        "price": ("double", True),
        "open": ("boolean", True),
        "wait": ("double", False),
        "code": ("string", False),
        "tags": ("string", True),
    }
    columns = reader.read(frame)
    # NA in a database is a text like any other.
    assert columns["code"].tolist() == ["NA", "7", "8"]
    assert columns["wait"].tolist() == [1.0, 2.0, 3.0]
    texts = frame.astype({"wait": object}).assign(wait=["1", "2", "3"], price=["1.5", None, "2"])
    pd.testing.assert_frame_equal(reader.read(texts), columns)

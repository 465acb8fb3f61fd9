"""Cells become the same columns in training and in prediction, in whatever form they come."""

from __future__ import annotations

import io
import json
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest

from swarm.reader import Reader

STYLE: dict[str, Any] = {"separator": ",", "decimal": ".", "encoding": "utf-8", "na_values": []}


def again(reader: Reader) -> Reader:
    """The reader as a stored model has it."""
    return Reader.from_dict(json.loads(json.dumps(reader.as_dict())))


def read(text: str, marks: list[str] | None = None, **options: Any) -> pd.DataFrame:
    return pd.read_csv(io.StringIO(text), na_values=marks, **options)


@pytest.mark.parametrize("decimal", [".", ","])
def test_texts_of_numbers_are_parsed_to_the_bit_as_in_the_file(decimal: str) -> None:
    rng = np.random.default_rng(0)
    numbers, digits = rng.normal(size=3000) ** 9, rng.integers(1, 20, 3000)
    values = [f"{x:.{d}g}" for x, d in zip(numbers, digits, strict=True)]
    values += ["1e5", " 3", "+7", ".5", "-0", "12345678901234567890", "inf", "?", "-999", "-999.0"]
    texts = pd.Series(values).str.replace(".", decimal)
    written = texts.to_frame("x").to_csv(index=False, sep=";")
    marks, options = ["?", "-999"], {"sep": ";", "decimal": decimal, "low_memory": False}
    trained = read(written, marks, **options)
    reader = again(Reader.learn(trained, csv={**STYLE, "decimal": decimal, "na_values": marks}))
    for batch in (trained, texts.to_frame("x"), read(written, sep=";")):
        pd.testing.assert_frame_equal(reader.read(batch), trained, check_exact=True)
    # Labels of rows may be there twice, and some cells be numbers already.
    mixed = texts.astype(object)
    mixed.iloc[:2000] = trained["x"].iloc[:2000]
    doubled = mixed.set_axis(np.arange(len(mixed)) // 2).to_frame("x")
    assert np.array_equal(reader.read(doubled), trained, equal_nan=True)


def test_a_percentage_of_the_size_of_a_sentinel_is_a_value() -> None:
    rates = pd.Series(["5%", "12.5%", None, "5%"], name="rate")
    trained = pd.DataFrame({"rate": [5.0, 12.5, np.nan, 5.0], "x": [1.0, np.nan, 2.0, 3.0]})
    style = {**STYLE, "na_values": ["5"]}
    for categorical in ((), ("rate",)):
        options: Any = {"percentages": ["rate"], "categorical": categorical, "csv": style}
        reader = again(Reader.learn(trained, **options))
        expected = reader.read(trained)
        assert expected["rate"].isna().tolist() == [False, False, True, False]
        batch = pd.DataFrame({"rate": rates, "x": [1, 5, 2, 3]})
        pd.testing.assert_frame_equal(reader.read(batch), expected)
        assert reader.texts == ["rate"]


def test_dates_may_be_texts_timestamps_or_numbers_and_only_used_parts_are_made() -> None:
    days = pd.Series(["31.01.2024 07:30", None, "01.02.2024 23:00"], name="day")
    form = "%d.%m.%Y %H:%M"
    reader = Reader.learn(days.to_frame(), dates={"day": form}, csv=STYLE)
    trained = reader.read(days.to_frame())
    assert trained["day_hour"].tolist()[::2] == [7, 23]
    some = again(reader.restricted(["day_hour", "day_month"]))
    assert (some.inputs, some.sources(["day_hour"])) == (["day"], ["day"])
    moments = pd.to_datetime(days, format=form)
    for batch in (days, moments, moments.dt.tz_localize("UTC")):
        told = some.read(batch.to_frame().assign(more=1))
        pd.testing.assert_frame_equal(told, trained[["day_month", "day_hour"]])
    # Timestamps of a table are ISO 8601 in a request.
    stamped = again(Reader.learn(moments.to_frame(), dates={"day": None}))
    texts = moments.astype("string").to_frame()
    pd.testing.assert_frame_equal(stamped.read(texts), stamped.read(moments.to_frame()))


def test_what_a_database_returns_is_read_alike() -> None:
    frame = pd.DataFrame(
        {
            "price": [Decimal("1.5"), None, Decimal("2")],
            "open": [True, None, False],
            "wait": pd.to_timedelta([1, 2, 3], unit="s"),
            "code": ["NA", "7", "8"],
            "tags": [["a"], None, ["b", "c"]],  # which the check of a model refuses
        }
    )
    reader = again(Reader.learn(frame, categorical=["code"]))
    types = {column.name: (column.type, column.optional) for column in reader.columns}
    assert types == {
        "price": ("double", True),
        "open": ("boolean", True),
        "wait": ("double", False),
        "code": ("string", False),
        "tags": ("string", True),
    }
    told = reader.read(frame)
    # Of a database, NA is a text as any other.
    assert told["code"].tolist() == ["NA", "7", "8"]
    assert told["wait"].tolist() == [1.0, 2.0, 3.0]
    texts = frame.astype({"wait": object}).assign(wait=["1", "2", "3"], price=["1.5", None, "2"])
    pd.testing.assert_frame_equal(reader.read(texts), told)

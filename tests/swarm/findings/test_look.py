"""Tests of the look at a table: kinds, order, groups, and columns with the same information."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.naive_bayes import GaussianNB

from swarm import SubsetSelector
from swarm.findings.look import look_at
from swarm.findings.table import column_findings
from tests.three_tables import churn, wages

RNG = np.random.default_rng(5)
N = 300


def test_a_pandas_and_a_polars_frame_look_the_same() -> None:
    for frame, target, task in ((churn(), "churned", "binary"), (wages(), "lwage", "regression")):
        features = frame.drop(columns=target)
        values = frame[target].to_numpy()
        look = look_at(features, values, task)
        assert look == look_at(pl.from_pandas(features), values, task)
        assert look == look_at(features.set_axis(range(7, 7 + len(features))), values, task)
        nullable = features.convert_dtypes(convert_boolean=False)
        assert look == look_at(nullable, values, task)


def test_every_column_has_a_kind() -> None:
    frame = churn().assign(
        empty=np.nan,
        since=pd.date_range("2020-01-01", periods=600)[RNG.permutation(600)].strftime("%d.%m.%Y"),
        note=[" ".join(RNG.choice(list("abcdef"), 6)) for _ in range(600)],
    )
    look = look_at(frame)
    kinds = {column.name: column.kind for column in look.columns}
    expected = {"customer": "identifier", "months": "number", "contract": "category"}
    expected |= {"country": "constant", "empty": "empty", "since": "date", "note": "text"}
    assert {name: kinds[name] for name in expected} == expected
    assert next(column.form for column in look.columns if column.name == "since") == "%d.%m.%Y"


@pytest.mark.parametrize(
    ("derive", "words"),
    [
        (lambda x: x["flag"].map({0: "N", 1: "Y"}), "'flag' in other codes"),
        (lambda x: 1 - x["flag"], "'flag' in other codes"),
        (lambda x: x["town"].map(dict(zip("abcd", (7, 1, 3, 2), strict=True))), "'town' in other"),
        (lambda x: 12 * x["age"], "'age' in another unit (times 12)"),
        (lambda x: -x["size"], "'size' reversed"),
        (lambda x: (x["size"] * 1.8 + 32).round(1), "'size' in another unit (times 1.8)"),
        (lambda x: x["gaps"] / 2.54, "'gaps' in another unit"),
    ],
)
def test_a_column_that_says_the_same_is_one_finding(derive: Any, words: str) -> None:
    frame = pd.DataFrame(
        {
            "flag": RNG.integers(0, 2, N),
            "town": RNG.choice(list("abcd"), N),
            "age": RNG.integers(18, 80, N),
            "size": RNG.normal(170, 10, N).round(1),
            "gaps": np.where(RNG.random(N) < 0.1, np.nan, RNG.normal(size=N)),
        }
    )
    target = RNG.integers(0, 2, N)
    assert column_findings(frame, target, "binary") == []
    (finding,) = column_findings(frame.assign(again=derive(frame)), target, "binary")
    assert (finding.code, finding.columns) == ("SWM113", ("again",))
    assert words in finding.text


def test_columns_that_are_only_alike_are_left_alone() -> None:
    people = RNG.permutation(np.repeat(np.arange(75), 4))
    incomes = RNG.permutation(np.arange(75) * 997 + 20_000) + RNG.integers(0, 900, 75)
    x = RNG.normal(size=N)
    frame = pd.DataFrame(
        {
            "person": [f"P{i:03d}" for i in people],
            "income": incomes[people],
            "x": x,
            "cube": x**3,
            "near": x + RNG.normal(scale=0.02, size=N),
            "rounded": x.round(0),
        }
    )
    flaws = [flaw for column in look_at(frame).columns for flaw in column.flaws]
    assert "SWM113" not in {flaw.code for flaw in flaws}


def test_years_in_order_are_time_if_the_target_drifts_and_never_groups() -> None:
    year = np.repeat(np.arange(1980, 2010), 10)
    region = RNG.permutation(30)[year - 1980] % 7
    frame = pd.DataFrame({"year": year, "cpi": RNG.normal(size=30)[year - 1980], "region": region})
    frame["x"] = RNG.normal(size=N)
    noise = RNG.normal(size=N)
    drifting = look_at(frame, 0.1 * (year - 1980) + noise, "regression")
    assert (drifting.time, drifting.groups) == ("year", ())
    stationary = look_at(frame, noise, "regression")
    assert (stationary.time, stationary.groups) == (None, ())
    shuffled = frame.sample(frac=1, random_state=1)
    assert look_at(shuffled, 0.1 * (shuffled["year"].to_numpy() - 1980), "").time is None
    # Measurements by which the rows are sorted are no time.
    sizes = pd.DataFrame({"size": np.sort(RNG.integers(0, 40, N))})
    assert look_at(sizes, sizes["size"].to_numpy() + noise, "regression").time is None


def test_another_identifier_of_known_groups_is_named() -> None:
    frame = wages()
    features = frame.drop(columns=["person", "card_no", "lwage"])
    person = frame["person"]
    findings = column_findings(features, frame["lwage"].to_numpy(), "regression", groups=person)
    identifiers = [finding.columns for finding in findings if finding.code == "SWM111"]
    assert any("badge" in columns for columns in identifiers)
    # Groups are passed to a fit beside the table.
    numbers = frame[["badge", "hours", "age"]]
    selector = SubsetSelector(GaussianNB(), budget=1, cv=3)
    selector.fit(numbers, (frame["lwage"] > frame["lwage"].median()).astype(int), groups=person)
    columns_of = {finding.code: finding.columns for finding in selector.findings_}
    assert columns_of["SWM111"] == ("badge",)
    assert "SWM106" not in columns_of


def test_a_column_that_most_of_the_score_depends_on_is_named_but_kept() -> None:
    target = RNG.integers(0, 2, 600)
    weak = {f"x{i}": target * 0.3 + RNG.normal(size=600) for i in range(5)}
    frame = pd.DataFrame({**weak, "calls": RNG.poisson(np.where(target == 1, 4, 1))})
    (finding,) = column_findings(frame, target, "binary")
    assert (finding.code, finding.columns) == ("SWM211", ("calls",))
    assert look_at(frame, target, "binary").columns[-1].reason == ""
    # A column that another one can replace is not decisive by itself.
    similar = frame["calls"] + RNG.integers(0, 2, 600)
    assert column_findings(frame.assign(again=similar), target, "binary") == []

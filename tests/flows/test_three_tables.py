"""Tests of `swarm init` and `swarm check` on three tables as people have them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from conf.load import load_as
from conf.schema import SelectConfig
from flows.run.checking import all_findings
from flows.run.configured import fetch_as_configured
from tests.command import Swarm
from tests.three_tables import churn, genes, wages

DROPPED: dict[str, dict[str, str]] = {
    "churn": {
        "customer": "a value of its own in every row",
        "paid": "'fee' in another unit",
        "data": "numbers as text",
        "account": "an identifier",
        "years": "'months' in another unit",
        "contract_no": "'contract' in other codes",
        "country": "one value in all rows",
        "reason": "alone predicts the target",
        "mail": "'paperless' in other codes",
    },
    "wages": {
        "card_no": "'person' in other codes",
        "badge": "'person' in other codes",
        "age_months": "'age' in another unit (times 12)",
        "is_married": "'married' in other codes",
        "free": "'hours' reversed (times -1)",
    },
    "genes": {},
}
KEYS: dict[str, dict[str, Any]] = {
    "churn": {"categorical": ["contract", "version"], "group": None, "time": None},
    "wages": {"categorical": [], "group": "person", "time": "year"},
    "genes": {"categorical": [], "group": None, "time": None},
}
# The code, the columns and words of the text of each finding, by table.
FINDINGS: dict[str, list[tuple[str, tuple[str, ...], str]]] = {
    "churn": [
        ("SWM106", ("account",), "40 values"),
        ("SWM211", ("calls",), "alone predicts"),
        ("SWM115", ("data",), "'80 GB'"),
        ("SWM006", ("version",), "read as text"),
    ],
    "wages": [("SWM107", ("year",), "orders the rows in time")],
    "genes": [],
}
TABLES = {"churn": (churn, "churned"), "wages": (wages, "lwage"), "genes": (genes, "tumour")}


@pytest.mark.parametrize("name", TABLES)
def test_init_writes_what_a_table_needs_and_check_finds_the_rest(
    name: str, tmp_path: Path, swarm: Swarm
) -> None:
    make, target = TABLES[name]
    file = tmp_path / f"{name}.csv"
    out = tmp_path / f"{name}.yaml"
    make().to_csv(file, index=False)
    result = swarm("init", str(file), "--target", target, "--out", str(out))
    assert result.status == 0, result
    config = load_as(SelectConfig, out)
    assert config.data.drop == list(DROPPED[name])
    lines = dict(line[8:].split(": ", 1) for line in result.out.splitlines() if "dropped " in line)
    assert all(words in lines[column] for column, words in DROPPED[name].items())
    assert {key: getattr(config.data, key) for key in KEYS[name]} == KEYS[name]
    findings = all_findings(str(out))[1]
    assert [(finding.code, finding.columns) for finding in findings] == [
        (code, columns) for code, columns, _ in FINDINGS[name]
    ]
    for finding, (_, _, words) in zip(findings, FINDINGS[name], strict=True):
        assert words in finding.text


def test_money_and_the_like_are_the_numbers_that_they_are(tmp_path: Path, swarm: Swarm) -> None:
    rows = churn()
    file = tmp_path / "churn.csv"
    out = tmp_path / "churn.yaml"
    rows.to_csv(file, index=False)
    swarm("init", str(file), "--target", "churned", "--out", str(out))
    features = fetch_as_configured(load_as(SelectConfig, out)).features
    for name in ("fee", "points", "balance", "used"):
        texts = rows[name].str.replace(r"[$,%)]", "", regex=True).str.replace("(", "-")
        assert features[name].tolist() == texts.astype(float).tolist()
    assert set(features["version"].cat.categories) == {"1", "01", "1.0"}
    assert features["sensor"].min() > -999


def test_check_finds_what_a_configuration_leaves_in_the_table(tmp_path: Path, swarm: Swarm) -> None:
    file = tmp_path / "wages.csv"
    out = tmp_path / "wages.yaml"
    wages().to_csv(file, index=False)
    swarm("init", str(file), "--target", "lwage", "--out", str(out))
    random = ["data.drop=[]", "data.categorical=[is_married]", "data.group=null", "data.time=null"]
    random += ["split.kind=random", "folds.kind=random"]
    findings = all_findings(str(out), random)[1]
    columns = {finding.code: finding.columns for finding in findings}
    assert columns["SWM107"] == ("year",)
    assert columns["SWM106"] == ("person",)
    assert columns["SWM113"] == ("card_no", "badge", "age_months", "is_married", "free")
    # A second identifier of known groups is left among the features.
    grouped = ["data.drop=[card_no]"]
    findings = all_findings(str(out), grouped)[1]
    columns = {finding.code: finding.columns for finding in findings}
    assert "badge" in columns["SWM111"]

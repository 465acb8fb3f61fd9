"""Lists of columns for SQL, pandera and Feast."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml
from sklearn.datasets import load_wine
from sklearn.naive_bayes import GaussianNB

from swarm import SubsetSelector
from swarm.errors import InputError
from swarm.reader import NumberFormat, Reader
from swarm.storage.exports import describe_columns, export_columns

ODD = ["plain", 'with "quotes"', "a: b", "größe, m²", "select"]


def cells() -> pd.DataFrame:
    """Ten rows of each kind of column."""
    return pd.DataFrame(
        {
            "count": range(10),
            "size": [0.5, None, *([2.5] * 8)],
            "plan": pd.Series(["pro", "basic"] * 5).astype("category"),
            "paid": [True, False] * 5,
            "since": [f"{day:02d}.02.2024" for day in range(1, 11)],
            "rate": ["12.5%"] * 10,
        }
    )


def described() -> dict[str, dict[str, Any]]:
    table = cells()
    read = table.assign(rate=12.5)
    numbers = {"rate": NumberFormat.of(table["rate"])}
    reader = Reader.learn(read, dates={"since": "%d.%m.%Y"}, categorical=["plan"], numbers=numbers)
    return {each["name"]: each for each in describe_columns(table, reader)}


def test_names_survive_every_format() -> None:
    assert export_columns(ODD, "txt", table="t").splitlines() == ODD
    assert json.loads(export_columns(ODD, "json", table="t")) == ODD
    assert yaml.safe_load(export_columns(ODD, "yaml", table="t")) == ODD
    assert json.loads(export_columns(ODD, "feast", table="t")) == [f"t:{name}" for name in ODD]


@pytest.mark.parametrize("query", [None, "select * from t -- all", " select * from t where 1; "])
def test_the_select_gives_these_columns_of_the_table_or_the_query(query: str | None) -> None:
    with sqlite3.connect(":memory:") as connection:
        pd.DataFrame([[1] * 6], columns=[*ODD, "other"]).to_sql("t", connection, index=False)
        text = export_columns(ODD, "sql", table="t", query=query)
        assert list(pd.read_sql_query(text, connection)) == ODD


def test_columns_are_described_as_in_the_source() -> None:
    found = described()
    assert found["count"] == {
        "name": "count", "dtype": "int64", "nullable": False, "low": 0, "high": 9,
    }  # fmt: skip
    assert found["size"] | {"name": ""} == {
        "name": "", "dtype": "float64", "nullable": True, "low": 0.5, "high": 2.5,
    }  # fmt: skip
    assert found["plan"]["levels"] == ["basic", "pro"]
    assert (found["since"]["dtype"], found["since"]["format"]) == ("str", "%d.%m.%Y")
    assert found["since"]["high"].startswith("2024-02-10")
    assert found["rate"]["dtype"] == "str"
    assert "low" not in found["paid"]


def test_pandera_accepts_the_rows_of_training_and_refuses_others() -> None:
    pytest.importorskip("pandera", reason="pandera is no dependency: pip install pandera")
    names, space = list(cells()), dict[str, Any]()
    exec(export_columns(names, "pandera", table="t", columns=list(described().values())), space)
    schema = space["schema"]
    assert len(schema.validate(cells())) == 10
    as_text = cells().assign(plan=cells()["plan"].astype(str))
    assert len(schema.validate(as_text)) == 10
    for name, value in {"count": 99, "plan": "gold", "since": "01.01.1999"}.items():
        with pytest.raises(space["pa"].errors.SchemaError):
            schema.validate(as_text.assign(**{name: value}))


def test_a_selector_writes_its_columns_by_the_ending_of_the_file(tmp_path: Path) -> None:
    X, y = load_wine(return_X_y=True, as_frame=True)
    selector = SubsetSelector(GaussianNB(), budget=2, confirm=False).fit(X, y)
    written = selector.export(tmp_path / "columns.yaml").read_text()
    assert yaml.safe_load(written) == selector.subset_
    references = selector.export(tmp_path / "feast_features.json", as_="feast", table="wine")
    assert json.loads(references.read_text())[0] == f"wine:{selector.subset_[0]}"
    code = selector.export(tmp_path / "schema.py", X).read_text()
    first = X[selector.subset_[0]]
    assert f"pa.Check.in_range({first.min()}, {first.max()})" in code
    for file, options in {"columns.doc": {}, "schema.py": {}, "c.txt": {"as_": "xml"}}.items():
        with pytest.raises(InputError):
            selector.export(tmp_path / file, **options)

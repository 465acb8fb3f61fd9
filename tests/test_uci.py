"""The real UCI client against a loopback server that speaks its protocol."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest
import ucimlrepo.fetch

from swarm.errors import DataError
from tasks.sources import fetch
from tasks.split import split
from tests.servers import free_port
from tests.uci_server import UciSet, serve_uci


def musk_like() -> UciSet:
    rng = np.random.default_rng(0)
    molecule = np.repeat([f"MUSK-{i}" for i in range(12)], 5)
    frame = pd.DataFrame(
        {
            "molecule_name": molecule,
            "conformation_name": [f"{m}+{i}" for i, m in enumerate(molecule)],
            "f1": rng.normal(size=60),
            "shape": rng.choice(["ring", "chain"], size=60),
            "code": rng.integers(0, 3, size=60),
            "class": np.repeat([0, 1] * 6, 5),
            "strength": rng.normal(size=60),
        }
    )
    return UciSet(
        id=75,
        name="Musk (Version 2)",
        frame=frame,
        variables={
            "molecule_name": ("ID", "Categorical"),
            "conformation_name": ("ID", "Categorical"),
            "f1": ("Feature", "Continuous"),
            "shape": ("Feature", "Categorical"),
            "code": ("Feature", "Categorical"),
            "class": ("Target", "Binary"),
            "strength": ("Target", "Continuous"),
        },
    )


@pytest.fixture
def missing_status() -> int:
    return 200


@pytest.fixture
def uci(missing_status: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    with serve_uci(musk_like(), missing_status=missing_status) as base:
        monkeypatch.setattr(ucimlrepo.fetch, "API_BASE_URL", base)
        yield base


@pytest.mark.parametrize("asked", [{"id": 75}, {"name": "Musk"}])
def test_a_set_is_found_by_id_and_by_name(uci: str, asked: dict[str, Any]) -> None:
    table = fetch("uci", target="class", group="molecule_name", **asked)
    assert (table.name, table.source) == ("Musk (Version 2)", "uci:75")
    # Ids and the target that was not picked are no features.
    assert list(table.features) == ["f1", "shape", "code"]
    assert table.target.equals(musk_like().frame["class"])


def test_only_non_numeric_categorical_variables_become_categories(uci: str) -> None:
    kinds = fetch("uci", id=75, target="class").features.dtypes.astype(str)
    assert kinds.to_dict() == {"f1": "float64", "shape": "category", "code": "int64"}


def test_an_id_column_serves_as_group(uci: str) -> None:
    table = fetch("uci", id=75, target="class", group="molecule_name")
    rows = split(table, "group")
    assert table.groups is not None
    assert not set(table.groups[rows.train]) & set(table.groups[rows.test])


def test_several_targets_that_are_no_labels_must_be_narrowed_to_one(uci: str) -> None:
    with pytest.raises(DataError, match=r"several targets \('class', 'strength'\).*one column"):
        fetch("uci", id=75, target=None)


@pytest.mark.parametrize("missing_status", [200, 404])
@pytest.mark.parametrize("asked", [{"id": 9999}, {"name": "no such set"}])
def test_an_unknown_set_is_named(uci: str, asked: dict[str, Any]) -> None:
    with pytest.raises(DataError, match=r"no (usable )?UCI data set with") as caught:
        fetch("uci", target=None, **asked)
    assert str(next(iter(asked.values()))) in str(caught.value)


def test_a_server_out_of_reach_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    nobody = f"http://127.0.0.1:{free_port()}/api/dataset"
    monkeypatch.setattr(ucimlrepo.fetch, "API_BASE_URL", nobody)
    with pytest.raises(DataError, match="cannot reach the UCI repository for id 75"):
        fetch("uci", id=75, target=None)


def test_name_and_id_together_or_neither_are_refused() -> None:
    refused: list[dict[str, Any]] = [{}, {"id": 75, "name": "Musk"}]
    for asked in refused:
        with pytest.raises(DataError, match="either a 'name' or an 'id'"):
            fetch("uci", target=None, **asked)

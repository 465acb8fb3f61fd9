"""Tests of the UCI client against answers of the repository that are stored in files."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import ucimlrepo.fetch

from swarm.errors import DataError, StoreError
from tasks.sources import fetch
from tasks.split import split
from tests.servers import free_port

NAME = "Musk (Version 2)"
# Each column has a role and a type.
VARIABLES = {
    "molecule_name": ("ID", "Categorical"),
    "conformation_name": ("ID", "Categorical"),
    "f1": ("Feature", "Continuous"),
    "shape": ("Feature", "Categorical"),
    "code": ("Feature", "Categorical"),
    "class": ("Target", "Binary"),
    "strength": ("Target", "Continuous"),
}


def musk_like() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    molecule = np.repeat([f"MUSK-{i}" for i in range(12)], 5)
    return pd.DataFrame(
        {
            "molecule_name": molecule,
            "conformation_name": [f"{name}+{i}" for i, name in enumerate(molecule)],
            "f1": rng.normal(size=60),
            "shape": rng.choice(["ring", "chain"], size=60),
            "code": rng.integers(0, 3, size=60),
            "class": np.repeat([0, 1] * 6, 5),
            "strength": rng.normal(size=60),
        }
    )


@pytest.fixture(autouse=True)
def uci(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write the answers of the repository to files with the names that the client requests."""
    musk_like().to_csv(tmp_path / "data.csv", index=False)
    rest = {"demographic": None, "description": None, "units": None, "missing_values": "no"}
    musk = {
        "uci_id": 75,
        "name": NAME,
        "data_url": str(tmp_path / "data.csv"),
        "additional_info": {"summary": "served from files"},
        "intro_paper": None,
        "variables": [
            {"name": name, "role": role, "type": variable_type, **rest}
            for name, (role, variable_type) in VARIABLES.items()
        ],
    }
    answer = {"status": 200, "data": musk}
    unknown = {"status": 404, "message": "not found"}
    answers = {"?id=75": answer, "?name=Musk": answer, "?id=9999": unknown}
    for query, content in answers.items():
        (tmp_path / f"dataset{query}").write_text(json.dumps(content))
    monkeypatch.setattr(ucimlrepo.fetch, "API_BASE_URL", f"{tmp_path.as_uri()}/dataset")


@pytest.mark.parametrize("name", [75, "Musk"])
def test_a_set_is_found_by_id_and_by_name(name: str | int) -> None:
    table = fetch("uci", target="class", group="molecule_name", name=name)
    assert (table.name, table.source) == (NAME, "uci:75")
    # Ids and the other target are no features, and numbers are no categories.
    dtypes = table.features.dtypes.astype(str).to_dict()
    assert dtypes == {"f1": "float64", "shape": "category", "code": "int64"}
    assert table.target.equals(musk_like()["class"])
    # An id serves as the group.
    rows = split(table, "group")
    assert table.groups is not None
    assert not set(table.groups[rows.train]) & set(table.groups[rows.test])


@pytest.mark.parametrize(
    ("name", "words"),
    [(9999, "9999"), (75, "'class', 'strength'"), (None, "needs 'name'")],
)
def test_a_set_that_is_unknown_or_ambiguous_is_refused(name: int | None, words: str) -> None:
    with pytest.raises(DataError, match=words):
        fetch("uci", target=None, name=name)


def test_a_server_out_of_reach_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    nobody = f"http://127.0.0.1:{free_port()}/api/dataset"
    monkeypatch.setattr(ucimlrepo.fetch, "API_BASE_URL", nobody)
    with pytest.raises(StoreError, match="75"):
        fetch("uci", name=75, target=None)

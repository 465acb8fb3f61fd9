"""The real UCI client against a loopback server that speaks its protocol."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pandas as pd
import pytest
import ucimlrepo.fetch

from swarm.errors import DataError
from tasks.sources import fetch
from tasks.split import split
from tests.servers import free_port

NAME = "Musk (Version 2)"
# Each column with its role and its type.
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
            "conformation_name": [f"{m}+{i}" for i, m in enumerate(molecule)],
            "f1": rng.normal(size=60),
            "shape": rng.choice(["ring", "chain"], size=60),
            "code": rng.integers(0, 3, size=60),
            "class": np.repeat([0, 1] * 6, 5),
            "strength": rng.normal(size=60),
        }
    )


def metadata(base: str) -> dict[str, Any]:
    """Give what the server says about the set."""
    rest = {"demographic": None, "description": None, "units": None, "missing_values": "no"}
    return {
        "uci_id": 75,
        "name": NAME,
        "data_url": f"{base}/static/public/75/data.csv",
        "num_instances": 60,
        "additional_info": {"summary": "served from memory"},
        "intro_paper": None,
        "variables": [
            {"name": name, "role": role, "type": kind, **rest}
            for name, (role, kind) in VARIABLES.items()
        ],
    }


class Handler(BaseHTTPRequestHandler):
    """Answers ``/api/dataset?id=N`` and ``/api/dataset?name=PART`` as the repository does.

    Metadata come in JSON, whose ``data_url`` is of the same server.
    """

    def do_GET(self) -> None:
        asked = urlsplit(self.path)
        if asked.path == "/static/public/75/data.csv":
            return self.answer(200, "text/csv", musk_like().to_csv(index=False))
        query = {key: values[0] for key, values in parse_qs(asked.query).items()}
        by_name = "name" in query and query["name"].lower() in NAME.lower()
        if asked.path == "/api/dataset" and (query.get("id") == "75" or by_name):
            data = metadata(f"http://{self.headers['Host']}")
            body = {"status": 200, "statusText": "OK", "data": data}
            return self.answer(200, "application/json", json.dumps(body))
        body = {"status": 404, "statusText": "Not Found", "message": "Dataset not found"}
        return self.answer(200, "application/json", json.dumps(body))

    def answer(self, status: int, kind: str, text: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture(scope="module", autouse=True)
def uci() -> Iterator[None]:
    with (
        ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server,
        pytest.MonkeyPatch.context() as patch,
    ):
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        address = f"http://127.0.0.1:{server.server_port}/api/dataset"
        patch.setattr(ucimlrepo.fetch, "API_BASE_URL", address)
        yield
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("asked", [{"id": 75}, {"name": "Musk"}])
def test_a_set_is_found_by_id_and_by_name(asked: dict[str, Any]) -> None:
    table = fetch("uci", target="class", group="molecule_name", **asked)
    assert (table.name, table.source) == (NAME, "uci:75")
    # Ids and the target that was not picked are no features; numbers are no categories.
    kinds = table.features.dtypes.astype(str).to_dict()
    assert kinds == {"f1": "float64", "shape": "category", "code": "int64"}
    assert table.target.equals(musk_like()["class"])
    # An id serves as group.
    rows = split(table, "group")
    assert table.groups is not None
    assert not set(table.groups[rows.train]) & set(table.groups[rows.test])


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"id": 9999}, "9999"),
        ({"name": "no such set"}, "no such set"),
        ({"id": 75}, "'class', 'strength'"),
        ({}, "'name'.*'id'"),
        ({"id": 75, "name": "Musk"}, "'name'.*'id'"),
    ],
)
def test_a_set_that_is_unknown_or_ambiguous_is_refused(asked: dict[str, Any], words: str) -> None:
    with pytest.raises(DataError, match=words):
        fetch("uci", target=None, **asked)


def test_a_server_out_of_reach_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    nobody = f"http://127.0.0.1:{free_port()}/api/dataset"
    monkeypatch.setattr(ucimlrepo.fetch, "API_BASE_URL", nobody)
    with pytest.raises(DataError, match="75"):
        fetch("uci", id=75, target=None)

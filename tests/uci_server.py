"""A loopback server that speaks the UCI repository's protocol, for the real `ucimlrepo` client.

``/api/dataset?id=N`` and ``/api/dataset?name=PART`` answer with metadata in JSON, whose
``data_url`` points at a CSV on the same server.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pandas as pd

__all__ = ["UciSet", "serve_uci"]


@dataclass(frozen=True)
class UciSet:
    """A data set to serve; `variables` maps each column to its (role, type)."""

    id: int
    name: str
    frame: pd.DataFrame
    variables: dict[str, tuple[str, str]]

    def metadata(self, base: str) -> dict[str, Any]:
        """Give what the server says about the set."""
        return {
            "uci_id": self.id,
            "name": self.name,
            "data_url": f"{base}/static/public/{self.id}/data.csv",
            "num_instances": len(self.frame),
            "additional_info": {"summary": "served from memory"},
            "intro_paper": None,
            "variables": [
                {
                    "name": name,
                    "role": role,
                    "type": kind,
                    "demographic": None,
                    "description": None,
                    "units": None,
                    "missing_values": "no",
                }
                for name, (role, kind) in self.variables.items()
            ],
        }


@contextmanager
def serve_uci(*sets: UciSet, missing_status: int = 200) -> Iterator[str]:
    """Serve the sets and yield the API's base URL.

    `missing_status` is the HTTP status of the answer for an unknown set, whose body says 404.
    """

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked = urlsplit(self.path)
            base = f"http://{self.headers['Host']}"
            for one in sets:
                if asked.path == f"/static/public/{one.id}/data.csv":
                    return self.answer(200, "text/csv", one.frame.to_csv(index=False))
                query = {key: values[0] for key, values in parse_qs(asked.query).items()}
                by_id = query.get("id") == str(one.id)
                by_name = "name" in query and query["name"].lower() in one.name.lower()
                if asked.path == "/api/dataset" and (by_id or by_name):
                    body = {"status": 200, "statusText": "OK", "data": one.metadata(base)}
                    return self.answer(200, "application/json", json.dumps(body))
            body = {"status": 404, "statusText": "Not Found", "message": "Dataset not found"}
            return self.answer(missing_status, "application/json", json.dumps(body))

        def answer(self, status: int, kind: str, text: str) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/api/dataset"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()

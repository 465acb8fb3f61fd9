"""Tests that what commands print with `--json` follows `docs/output.schema.json`."""

from __future__ import annotations

import json
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from conf.yaml_text import render
from tests import ROOT
from tests.command import Swarm
from tests.small_run import BAYES, Bench, leave_report_out

SCHEMA = json.loads((ROOT / "docs" / "output.schema.json").read_text(encoding="utf-8"))


def check(command: str, printed: str) -> Any:
    """Validate what a command printed, and return it."""
    Draft202012Validator.check_schema(SCHEMA)
    answer = json.loads(printed)
    schema = {"$ref": f"#/$defs/{command}", "$defs": SCHEMA["$defs"]}
    errors = list(Draft202012Validator(schema).iter_errors(answer))
    assert not errors, [(error.json_path, error.message) for error in errors]
    return answer


def documented(command: str) -> set[str]:
    return set(SCHEMA["$defs"][command]["properties"])


@pytest.mark.usefixtures("prefect_server")
def test_every_command_prints_what_the_schema_says(
    swarm: Swarm, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave_report_out(monkeypatch)
    config = bench.file(model=BAYES, budget={"epochs": 2})
    at = ("--tracking-uri", bench.uri)
    check("check", swarm("check", config, "--json").out)
    runs = []
    for seed in ("0", "1"):
        said = swarm("select", config, "--quiet", "--json", "--set", f"split.seed={seed}")
        answer = check("select", said.out)
        assert set(answer) == documented("select")
        runs.append(answer["run_id"])
    listed = check("features", swarm("features", runs[0], "--json", *at).out)
    assert documented("features") <= set(listed)
    changed = check("diff", swarm("diff", *runs, "--json", *at).out)
    assert set(changed) == documented("diff")
    mapping = bench.mapping(model=BAYES, budget={"epochs": 2}) | {"name": bench.experiment}
    refresh = bench.folder / "refresh.yaml"
    refresh.write_text(render({**mapping, "champion": {"margin": 0.0}}), encoding="utf-8")
    decided = check("refresh", swarm("refresh", str(refresh), "--quiet", "--json").out)
    assert set(decided) == documented("refresh")
    check("refresh", swarm("refresh", str(refresh), "--quiet", "--json").out)

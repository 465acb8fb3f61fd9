"""Tests of deploy/: services listen locally, keep the password out, and use the lock."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from conf.load import from_environment, load
from conf.schema import SelectConfig
from tasks.refresh.champion import Champion
from tasks.refresh.decision import emit_change
from tests import ROOT

DEPLOY = ROOT / "deploy"
COMPOSE = (DEPLOY / "compose.yaml").read_text(encoding="utf-8")
SERVICES: dict[str, dict[str, Any]] = yaml.safe_load(COMPOSE)["services"]
WORKER = SERVICES["worker"]


def settings() -> dict[str, str]:
    lines = (DEPLOY / ".env.example").read_text(encoding="utf-8").splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


def filled(text: str) -> str:
    """Return a value with its variables replaced, as Compose does, by those of the example."""
    values = {**settings(), "POSTGRES_PASSWORD": "hush"}
    text = re.sub(r"(?<!\$)\$\{(\w+)(?::[-?][^}]*)?\}", lambda match: values[match[1]], text)
    return text.replace("$$", "$")


def test_only_loopback_hears_unless_it_is_told_otherwise() -> None:
    published = [port for service in SERVICES.values() for port in service.get("ports", ())]
    assert published
    assert all(port.startswith("${BIND:-127.0.0.1}:") for port in published)
    assert settings()["BIND"] == "127.0.0.1"


def test_every_setting_is_in_the_example_with_its_default_and_no_password_is_written_down() -> None:
    asked = re.findall(r"(?<!\$)\$\{(\w+)(?::-([^}]*))?", COMPOSE)
    assert {name for name, _ in asked} == set(settings())
    assert all(settings()[name] == default for name, default in asked if default)
    assert settings()["POSTGRES_PASSWORD"] == ""
    assert ".env" in (ROOT / ".gitignore").read_text().split()


def test_the_worker_finds_the_stores_and_no_configuration_holds_the_password() -> None:
    env = {key: filled(value) for key, value in WORKER["environment"].items()}
    config_values = {
        ".".join(keys): value for keys, value, *_ in from_environment(env, SelectConfig)
    }
    assert config_values["tracking.uri"] == "http://mlflow:5000"
    assert env["PREFECT_API_URL"] == "http://prefect:4200/api"
    assert "${POSTGRES_PASSWORD}" in config_values["archive.url"]
    assert env["POSTGRES_PASSWORD"] == "hush"


def test_served_configurations_have_a_schedule() -> None:
    mounts = WORKER["volumes"]
    (folder,) = (mount.split(":")[0] for mount in mounts if mount.split(":")[1] == "/configs")
    served = [DEPLOY / folder / Path(word).name for word in WORKER["command"][2:]]
    assert served
    assert all(load(file).schedule is not None for file in served)


def test_the_image_copies_files_that_are_there() -> None:
    text = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
    copied = [word for line in re.findall(r"^COPY (.*)$", text, re.M) for word in line.split()[:-1]]
    assert copied
    assert all((ROOT / name).exists() for name in copied)
    allowed = (DEPLOY / "Dockerfile.dockerignore").read_text().split()
    assert {f"!{name}" for name in copied} <= set(allowed)


def test_automations_listen_to_what_flows_and_promotions_tell(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Prefect decides whether they fire."""
    text = (DEPLOY / "automations.yaml").read_text(encoding="utf-8")
    shipped = yaml.safe_load(text)["automations"]
    refresh, crash, champion = (automation["trigger"] for automation in shipped)
    assert refresh["match_related"][-1]["prefect.resource.name"] == "refresh"
    assert crash["match_related"][-1]["prefect.resource.id"] == "prefect.tag.swarm"
    events: list[dict[str, Any]] = []
    monkeypatch.setattr("prefect.events.emit_event", lambda **event: events.append(event))
    emit_change(Champion("churn", "3", "0" * 32), "promoted", "it is better")
    assert [event["event"] for event in events] == champion["expect"]
    assert events[0]["resource"]["prefect.resource.id"].startswith("swarm.champion.")
    (action,) = shipped[2]["actions"]
    assert action["parameters"].keys() <= events[0]["payload"].keys()

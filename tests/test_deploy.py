"""What deploy/ starts is what is installed, listens here alone, and is what the page describes."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from sqlalchemy import make_url

from conf.load import from_environment, load
from conf.schema import SelectConfig

ROOT = Path(__file__).parents[1]
DEPLOY = ROOT / "deploy"
PAGE = (ROOT / "docs" / "deploy.md").read_text(encoding="utf-8")
COMPOSE = (DEPLOY / "compose.yaml").read_text(encoding="utf-8")
LOCK = dict(
    re.findall(r"^([\w.-]+)(?:\[.*?\])?==(\S+)", (ROOT / "requirements.lock").read_text(), re.M)
)

STACK = yaml.safe_load(COMPOSE)
SERVICES: dict[str, dict[str, Any]] = STACK["services"]
OURS = {name: service for name, service in SERVICES.items() if "build" in service}
# The keys of the compose format that are used here; any other is a slip.
KEYS = {"image", "restart", "healthcheck", "build", "command", "environment"}
KEYS |= {"ports", "volumes", "depends_on", "stop_grace_period"}
HEALTH = {"test", "interval", "timeout", "retries", "start_period"}


def settings() -> dict[str, str]:
    lines = (DEPLOY / ".env.example").read_text(encoding="utf-8").splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


def filled(text: str) -> str:
    """A value as the compose program hands it over, with the settings of the example."""
    known = {**settings(), "POSTGRES_PASSWORD": "hush"}
    text = re.sub(r"(?<!\$)\$\{(\w+)(?::[-?][^}]*)?\}", lambda found: known[found[1]], text)
    return text.replace("$$", "$")


def all_of(key: str) -> list[str]:
    """What the services list under a key."""
    return [each for service in SERVICES.values() for each in service.get(key, ())]


def test_services_restart_once_healthy_and_have_no_key_of_their_own() -> None:
    assert set(SERVICES) == {"postgres", "mlflow", "prefect", "worker"}
    for service in SERVICES.values():
        assert set(service) <= KEYS
        assert re.fullmatch(r"\w+:\d+\.\d+(\.\d+)?(-\w+)?", service["image"])
        assert service["restart"] == "unless-stopped"
        assert HEALTH - {"start_period"} <= set(service["healthcheck"]) <= HEALTH
        for condition in service.get("depends_on", {}).values():
            assert condition == {"condition": "service_healthy"}


def test_services_wait_only_for_services_and_use_only_volumes_that_are_there() -> None:
    assert set(all_of("depends_on")) <= set(SERVICES)
    sources = {volume.split(":")[0] for volume in all_of("volumes")}
    files = {source for source in sources if source.startswith(".")}
    assert all((DEPLOY / file).exists() for file in files)
    assert sources - files == set(STACK["volumes"])


def test_only_loopback_hears_unless_it_is_told_otherwise() -> None:
    published = all_of("ports")
    assert len(published) == 2
    assert all(port.startswith("${BIND:-127.0.0.1}:") for port in published)
    assert settings()["BIND"] == "127.0.0.1"
    assert "ports" not in SERVICES["postgres"]


def test_every_setting_is_in_the_example_with_its_default_and_no_password_is_written_down() -> None:
    asked = re.findall(r"(?<!\$)\$\{(\w+)(?::-([^}]*))?", COMPOSE)
    assert {name for name, _ in asked} == set(settings())
    assert all(settings()[name] == default for name, default in asked if default)
    assert settings()["POSTGRES_PASSWORD"] == ""
    assert "POSTGRES_PASSWORD" not in " ".join(all_of("command"))
    assert ".env" in (ROOT / ".gitignore").read_text().split()


@pytest.mark.parametrize("name", sorted(OURS))
@pytest.mark.slow
def test_every_command_is_there_and_knows_its_options(name: str) -> None:
    program, *rest = OURS[name]["command"]
    words = [word for word in rest if not word.startswith(("-", "/"))]
    installed = Path(sys.executable).parent / program
    told = subprocess.run([installed, *words, "--help"], capture_output=True, text=True, check=True)
    for option in (word.split("=")[0] for word in rest if word.startswith("-")):
        assert re.search(rf"(?<![\w-]){option}(?![\w-])", told.stdout), option


def test_health_is_asked_where_a_service_listens() -> None:
    for name, service in OURS.items():
        kind, program, flag, code = service["healthcheck"]["test"]
        assert (kind, program, flag) == ("CMD", "python", "-c")
        compile(code, name, "exec")
        for port in service.get("ports", ()):
            assert f"127.0.0.1:{port.rsplit(':', 1)[1]}/" in code
            assert f"--port={port.rsplit(':', 1)[1]}" in service["command"]


def test_the_worker_finds_the_stores_and_no_configuration_holds_the_password() -> None:
    env = {key: filled(value) for key, value in SERVICES["worker"]["environment"].items()}
    found = {".".join(keys): value for keys, value, _ in from_environment(env, SelectConfig)}
    assert found["tracking.uri"] == "http://mlflow:5000"
    assert "mlflow:5000" in " ".join(SERVICES["mlflow"]["command"])
    assert env["PREFECT_API_URL"] == "http://prefect:4200/api"
    assert "${POSTGRES_PASSWORD}" in found["archive.url"]
    assert env["POSTGRES_PASSWORD"] == "hush"
    asked = {
        make_url(filled(value)).database
        for service in OURS.values()
        for value in service.get("environment", {}).values()
        if filled(value).startswith("postgresql")
    }
    made = re.findall(r"CREATE DATABASE (\w+);", (DEPLOY / "databases.sql").read_text())
    assert asked == set(made)


def test_served_configurations_have_a_schedule() -> None:
    command, mounts = SERVICES["worker"]["command"], SERVICES["worker"]["volumes"]
    (folder,) = (mount.split(":")[0] for mount in mounts if mount.split(":")[1] == "/configs")
    served = [DEPLOY / folder / Path(word).name for word in command[2:]]
    assert served
    for file in served:
        config = load(file)
        assert config.schedule is not None


def test_the_image_is_made_of_the_lock_and_of_files_that_are_there() -> None:
    text = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
    assert "--require-hashes -r requirements.lock" in text
    assert re.search(r"^FROM python:3\.11\.\d+-", text, re.M), "the lock is made for 3.11 and up"
    copied = [word for line in re.findall(r"^COPY (.*)$", text, re.M) for word in line.split()[:-1]]
    assert copied
    assert all((ROOT / name).exists() for name in copied)
    allowed = (DEPLOY / "Dockerfile.dockerignore").read_text().split()
    assert {f"!{name}" for name in copied} <= set(allowed)
    packages = re.search(r"^only-include = \[(.*)\]$", (ROOT / "pyproject.toml").read_text(), re.M)
    assert packages
    assert set(re.findall(r'"([\w.]+)"', packages[1])) <= set(copied)
    assert "USER swarm" in text
    version = re.search(r'^version = "(.*)"$', (ROOT / "pyproject.toml").read_text(), re.M)
    assert version
    assert {service["image"] for service in OURS.values()} == {f"swarmselect:{version[1]}"}


def test_the_page_names_what_is_pinned() -> None:
    postgres = SERVICES["postgres"]["image"].split(":")[1].split("-")[0]
    for name, version in (
        ("PostgreSQL", postgres),
        ("MLflow", LOCK["mlflow"]),
        ("Prefect", LOCK["prefect"]),
    ):
        assert f"{name} {version}" in PAGE
    for word in re.findall(r"docker compose (?:exec|run|logs|stop|start)\b(.*)", PAGE):
        assert set(word.split()) & set(SERVICES), word

"""What deploy/ starts is installed, listens here alone, and is what the page describes."""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml
from sqlalchemy import make_url

from conf.check import check
from conf.load import from_environment, load
from conf.schema import SelectConfig

ROOT = Path(__file__).parents[1]
DEPLOY = ROOT / "deploy"
PAGE = (ROOT / "docs" / "deploy.md").read_text(encoding="utf-8")
COMPOSE = (DEPLOY / "compose.yaml").read_text(encoding="utf-8")
LOCK = dict(
    re.findall(r"^([\w.-]+)(?:\[.*?\])?==(\S+)", (ROOT / "requirements.lock").read_text(), re.M)
)
(VERSION,) = re.findall(r'^version = "(.*)"$', (ROOT / "pyproject.toml").read_text(), re.M)

STACK = yaml.safe_load(COMPOSE)
SERVICES: dict[str, dict[str, Any]] = STACK["services"]
OURS = {name: service for name, service in SERVICES.items() if "build" in service}
# The keys of the compose format that are used here; any other is a slip.
KEYS = {"image", "restart", "healthcheck", "build", "command", "environment"}
KEYS |= {"ports", "volumes", "depends_on", "stop_grace_period"}
HEALTH = {"test", "interval", "timeout", "retries", "start_period"}

SLURM = DEPLOY / "slurm"
CLUSTER, JOB = yaml.safe_load_all((DEPLOY / "kubernetes" / "search.yaml").read_text())
WORKER = CLUSTER["spec"]["worker"]["spec"]["containers"][0]
SCHEDULER = CLUSTER["spec"]["scheduler"]["spec"]["containers"][0]
SELECT = JOB["spec"]["template"]["spec"]["containers"][0]


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


def knows(command: list[str], options: list[str]) -> None:
    """Assert that a command is installed here and has these options."""
    program, *words = command
    asked = [Path(sys.executable).parent / program, *words, "--help"]
    told = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
    missing = [each for each in options if not re.search(rf"(?<![\w-]){each}(?![\w-])", told)]
    assert not missing, told


@pytest.mark.parametrize("name", sorted(OURS))
@pytest.mark.slow
def test_every_command_is_there_and_knows_its_options(name: str) -> None:
    program, *rest = OURS[name]["command"]
    words = [word for word in rest if not word.startswith(("-", "/"))]
    knows([program, *words], [word.split("=")[0] for word in rest if word.startswith("-")])


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
    started = [*OURS.values(), WORKER, SCHEDULER, SELECT]
    assert {each["image"] for each in started} == {f"swarmselect:{VERSION}"}


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


# ---------------------------------------------------------------- clusters

COMPARISON = """
name: c
datasets: {w: {data: {source: bundled, name: wine}}}
strategies: {random: {}}
model: {estimator: sklearn.naive_bayes.GaussianNB}
"""


@pytest.fixture(scope="module")
def search() -> ModuleType:
    pytest.importorskip("dask_jobqueue")
    spec = spec_from_file_location("search", SLURM / "search.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def options_of(words: list[Any]) -> list[str]:
    return sorted({str(word) for word in words if str(word).startswith("--")})


def accepted(words: list[str], file: Path) -> Any:
    """Return the configuration that the --set options of a command make of a file."""
    sets = [value for flag, value in itertools.pairwise(words) if flag == "--set"]
    assert sets
    config = load(file, sets)
    check(config)
    return config


@pytest.mark.slow
@pytest.mark.parametrize("container", [WORKER, SCHEDULER, SELECT], ids=lambda each: each["name"])
def test_every_pod_of_a_cluster_runs_a_command_that_is_installed(container: dict[str, Any]) -> None:
    program, command, *rest = container["args"]
    knows([program, command], options_of(rest))


def test_the_search_of_the_pod_is_on_the_scheduler_of_the_cluster() -> None:
    # The operator names the service of a scheduler after its cluster.
    service = CLUSTER["spec"]["scheduler"]["service"]
    assert service["selector"]["dask.org/cluster-name"] == CLUSTER["metadata"]["name"]
    address = f"tcp://{CLUSTER['metadata']['name']}-scheduler:{service['ports'][0]['port']}"
    words = SELECT["args"]
    config = accepted(words, DEPLOY / "configs" / Path(words[2]).name)
    assert (config.evaluation.backend, config.evaluation.address) == ("dask", address)
    assert Path(words[2]).parent == Path(SELECT["volumeMounts"][0]["mountPath"])
    listening = {port["name"] for port in SCHEDULER["ports"]}
    assert {port["targetPort"] for port in service["ports"]} == listening


@pytest.mark.slow
def test_a_slurm_cluster_starts_workers_of_one_thread(search: ModuleType) -> None:
    import dask
    from dask_jobqueue import SLURMCluster

    known = set(dask.config.get("jobqueue.slurm"))
    asked = yaml.safe_load((SLURM / "jobqueue.yaml").read_text())["jobqueue"]["slurm"]
    assert set(asked) <= known
    with dask.config.set(search.options()), SLURMCluster() as cluster:
        script = cluster.job_script()
    assert "#SBATCH --cpus-per-task=16" in script
    words = script.strip().splitlines()[-1].split()
    assert words[words.index("--nthreads") + 1] == "1"
    assert words[words.index("--nworkers") + 1] == str(asked["processes"])
    knows(words[: words.index("-m") + 2], options_of(words))


def test_a_command_runs_on_the_scheduler_of_a_slurm_cluster(
    search: ModuleType, tmp_path: Path
) -> None:
    pytest.importorskip("prefect_dask")
    words = search.command_line("compare", "c.yaml", "tcp://host:1", 32)
    (tmp_path / "c.yaml").write_text(COMPARISON)
    runner = accepted(words, tmp_path / "c.yaml").runner
    assert (runner.kind, runner.address, runner.workers) == ("dask", "tcp://host:1", 32)
    words = search.command_line("select", "s.yaml", "tcp://host:1", 32)
    config = accepted(words, DEPLOY / "configs" / "breast_cancer.yaml")
    assert (config.evaluation.backend, config.evaluation.address) == ("dask", "tcp://host:1")

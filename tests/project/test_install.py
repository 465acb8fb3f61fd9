"""Tests of the installed package: the library alone, and with the workflow."""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import venv
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests import ROOT

MAX_DISTRIBUTIONS = 20
SMALL = ["budget.epochs=2", "strategy.params.n_particles=4", "strategy.params.n_swarms=2"]
SMALL += ["model.params.n_estimators=5"]

pytestmark = [pytest.mark.install, pytest.mark.timeout(900)]


@dataclass(frozen=True)
class Installed:
    """An environment with the wheel in it, and an empty folder to work in."""

    bin: Path
    folder: Path

    def run(self, *command: str | Path, timeout: float = 280) -> subprocess.CompletedProcess[str]:
        names = ("PATH", "LANG", "SSL_CERT_FILE", "SYSTEMROOT", "TMPDIR")
        environment = {name: os.environ[name] for name in names if name in os.environ}
        return subprocess.run(
            list(map(str, command)),
            cwd=self.folder,
            env={**environment, "HOME": str(self.folder / "home")},
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    def python(self, code: str, *options: str) -> str:
        """Run Python code, and return its standard output."""
        process = self.run(self.bin / "python", *options, "-c", code)
        assert process.returncode == 0, process.stderr
        return process.stdout.strip()

    def distributions(self) -> list[str]:
        listed = self.run(self.bin / "python", "-m", "pip", "list", "--format", "json")
        names = {entry["name"].lower() for entry in json.loads(listed.stdout)}
        return sorted(names - {"pip", "setuptools"})


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True, timeout=120)
    (file,) = folder.glob("*.whl")
    return file


def install(folder: Path, wheel: Path, extra: str) -> Installed:
    """Install the versions of the lock, which a user would give as constraints."""
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    pins = re.findall(r"(?m)^([\w.-]+)(?:\[[\w,-]+\])?(==\S+)( ; [^\\\n]+)?", lock)
    constraints = folder / "constraints.txt"
    constraints.write_text("\n".join("".join(pin) for pin in pins) + "\n", encoding="utf-8")
    venv.create(folder / "env", with_pip=True)
    installed = Installed(folder / "env" / "bin", folder / "work")
    installed.folder.mkdir()
    (installed.folder / "home").mkdir()
    # uv installs what pip does, in less time.
    uv = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--compile-bytecode"]
    # The variables of this environment may name a package index.
    process = subprocess.run(
        [*uv, "--python", str(installed.bin / "python"), "-c", str(constraints), f"{wheel}{extra}"],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    errors = process.stderr
    if process.returncode != 0 and re.search(r"(?i)connection|failed to fetch|dns error", errors):
        pytest.skip(f"no package index can be reached: {errors.strip().splitlines()[-1]}")
    assert process.returncode == 0, process.stderr
    return installed


@pytest.fixture(scope="module")
def library(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    return install(tmp_path_factory.mktemp("library"), wheel, "")


@pytest.fixture(scope="module")
def workflow(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    return install(tmp_path_factory.mktemp("workflow"), wheel, "[workflow]")


def test_the_library_alone_is_small_and_runs_the_example_of_the_readme(library):
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```python\n(.*?)```", readme, flags=re.DOTALL)
    assert library.python(block, "-W", "error::ImportWarning").startswith("Keep ")
    names = library.distributions()
    assert len(names) <= MAX_DISTRIBUTIONS, names
    assert not {"prefect", "mlflow", "matplotlib"} & set(names)


def test_the_library_knows_its_version_and_ships_its_types(library):
    version = library.python("import swarm; print(swarm.__version__)")
    assert f'version = "{version}"' in (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert len([*library.bin.parent.glob("lib/python*/site-packages/swarm/py.typed")]) == 1


def test_the_command_without_the_workflow_says_what_to_install(library):
    process = library.run(library.bin / "swarm", "select", "default")
    assert process.returncode == 2
    assert "swarmselect[workflow]" in process.stderr


def test_a_new_user_selects_features_and_finds_everything_in_one_folder(workflow):
    options = [word for setting in SMALL for word in ("--set", setting)]
    process = workflow.run(workflow.bin / "swarm", "select", "default", *options)
    assert process.returncode == 0, process.stderr
    assert "Traceback" not in process.stderr
    assert "of 30 columns" in process.stdout
    assert sorted(path.name for path in workflow.folder.iterdir()) == ["home", "mlruns"]
    store = workflow.folder / "mlruns"
    assert (store / "mlflow.db").exists()
    assert (store / "archive.db").exists()
    run_id = re.search(r"run (\w{32}) in sqlite", process.stderr)[1]
    assert (store / "artifacts" / run_id / "artifacts" / "report.html").exists()
    with closing(sqlite3.connect(store / "prefect" / "prefect.db")) as database:
        ((state,),) = database.execute("select state_type from flow_run").fetchall()
    assert state == "COMPLETED"
    assert not list((workflow.folder / "home" / ".prefect").glob("*"))


def test_folders_of_the_same_names_are_named_or_do_no_harm(workflow):
    names = ("conf", "flows", "tasks", "swarm")
    check = ("config", "default")
    for name in names:
        (workflow.folder / "mine" / name).mkdir(parents=True)
    try:
        command = [workflow.bin / "swarm", *check]
        mine = workflow.folder / "mine"
        subprocess.run(command, cwd=mine, capture_output=True, timeout=60, check=True)
        for name in names:
            package = mine / name / "__init__.py"
            package.touch()
            shadowed = {**os.environ, "PYTHONPATH": str(mine)}
            process = subprocess.run(
                command, env=shadowed, capture_output=True, text=True, timeout=60
            )
            assert process.returncode == 2
            assert str(package.parent) in process.stderr
            package.unlink()
    finally:
        shutil.rmtree(workflow.folder / "mine")

"""What deploy/ says about clusters: keys that exist, commands that are there, one address."""

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

from conf.check import check
from conf.load import load

ROOT = Path(__file__).parents[1]
SLURM = ROOT / "deploy" / "slurm"
CLUSTER, JOB = yaml.safe_load_all((ROOT / "deploy" / "kubernetes" / "search.yaml").read_text())
WORKER = CLUSTER["spec"]["worker"]["spec"]["containers"][0]
SCHEDULER = CLUSTER["spec"]["scheduler"]["spec"]["containers"][0]
SELECT = JOB["spec"]["template"]["spec"]["containers"][0]
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


def knows(arguments: list[str], options: list[str]) -> None:
    """Assert that a command has these options."""
    told = subprocess.run([*arguments, "--help"], capture_output=True, text=True, check=True).stdout
    missing = [each for each in options if not re.search(rf"(?<![\w-]){each}(?![\w-])", told)]
    assert not missing, told


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
def test_every_pod_runs_a_command_of_the_image(container: dict[str, Any]) -> None:
    program, command, *rest = container["args"]
    installed = Path(sys.executable).parent / program
    knows([str(installed), command], options_of(rest))
    version = re.search(r'^version = "(.*)"$', (ROOT / "pyproject.toml").read_text(), re.M)
    assert version is not None
    assert container["image"] == f"swarmselect:{version[1]}"


def test_the_search_of_the_pod_is_on_the_scheduler_of_the_cluster() -> None:
    # The operator names the service of a scheduler after its cluster.
    service = CLUSTER["spec"]["scheduler"]["service"]
    assert service["selector"]["dask.org/cluster-name"] == CLUSTER["metadata"]["name"]
    address = f"tcp://{CLUSTER['metadata']['name']}-scheduler:{service['ports'][0]['port']}"
    words = SELECT["args"]
    config = accepted(words, ROOT / "deploy" / "configs" / Path(words[2]).name)
    assert (config.evaluation.backend, config.evaluation.address) == ("dask", address)
    assert Path(words[2]).parent == Path(SELECT["volumeMounts"][0]["mountPath"])
    listening = {port["name"] for port in SCHEDULER["ports"]}
    assert {port["targetPort"] for port in service["ports"]} == listening


@pytest.mark.slow
def test_a_slurm_job_starts_workers_of_one_thread(search: ModuleType) -> None:
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


def test_a_command_of_slurm_runs_on_the_scheduler(search: ModuleType, tmp_path: Path) -> None:
    pytest.importorskip("prefect_dask")
    words = search.command_line("compare", "c.yaml", "tcp://host:1", 32)
    (tmp_path / "c.yaml").write_text(COMPARISON)
    runner = accepted(words, tmp_path / "c.yaml").runner
    assert (runner.kind, runner.address, runner.workers) == ("dask", "tcp://host:1", 32)
    words = search.command_line("select", "s.yaml", "tcp://host:1", 32)
    config = accepted(words, ROOT / "deploy" / "configs" / "breast_cancer.yaml")
    assert (config.evaluation.backend, config.evaluation.address) == ("dask", "tcp://host:1")

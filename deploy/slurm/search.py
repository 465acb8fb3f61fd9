"""Run a `swarm` command whose workers are SLURM jobs.

Run it where jobs can be submitted and where the worker nodes can connect to::

    python deploy/slurm/search.py --jobs 4 select my.yaml
    python deploy/slurm/search.py --jobs 4 compare comparison.yaml

The scheduler runs in this process; the jobs end with it. Needs ``pip install dask-jobqueue``.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path
from typing import Any

import dask
import yaml
from dask_jobqueue import SLURMCluster

# Keys that send the work of a command to a cluster.
KEYS = {
    "select": ("evaluation.backend=dask", "evaluation.address={}"),
    "refresh": ("evaluation.backend=dask", "evaluation.address={}"),
    "compare": ("runner.kind=dask", "runner.address={}", "runner.workers={}"),
}


def command_line(command: str, config: str, address: str, workers: int) -> list[str]:
    """Return the arguments of `swarm` for a scheduler at an address."""
    filled = [key.format(workers if "workers" in key else address) for key in KEYS[command]]
    return [command, config, *(word for key in filled for word in ("--set", key))]


def options() -> dict[str, Any]:
    """Return the configuration of Dask, with the keys of jobqueue.yaml."""
    text = Path(__file__).with_name("jobqueue.yaml").read_text(encoding="utf-8")
    merged: dict[str, Any] = dask.config.merge(dask.config.config, yaml.safe_load(text))
    return merged


def main() -> int:
    """Start the jobs, run the command, and end the jobs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--jobs", type=int, default=1, help="number of SLURM jobs")
    parser.add_argument("command", choices=sorted(KEYS))
    parser.add_argument("config", help="path of the configuration")
    given = parser.parse_args()
    with dask.config.set(options()), SLURMCluster() as cluster:
        cluster.scale(jobs=given.jobs)
        cluster.wait_for_workers(1)
        workers = given.jobs * dask.config.get("jobqueue.slurm.processes")
        words = command_line(given.command, given.config, cluster.scheduler_address, workers)
        return subprocess.run(["swarm", *words], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())

"""Training on a cluster: what Dask and Ray have in common.

A cluster takes jobs and gives back what its workers found, in any order. The problem travels
through the cluster itself, once to each worker, so the workers may be on other machines; the
same versions of this package and of the model's have to be installed there. Workers of a
cluster of one's own should have one thread each, because a fit has one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from typing import Any, Protocol

from swarm.errors import ConfigError, EvaluationError
from swarm.evaluation.fitting import Fitted, Job
from swarm.problem.problem import Problem

__all__ = ["CLUSTERS", "PATIENCE", "Cluster", "Shipment", "check_cluster", "open_cluster", "train"]

# Backend: the module it needs, and what to install.
CLUSTERS = {"dask": ("distributed", "dask"), "ray": ("ray", "ray")}
# Seconds that a scheduler may take to answer, and a cluster may be without any worker.
PATIENCE = 10.0
# Jobs for each worker that are on their way or waiting there: one to do, one to do next.
_AHEAD = 2

Key = tuple[int, int]


class Cluster(Protocol):
    """A connection to a cluster, and to the workers if it started them."""

    def width(self) -> int:
        """Count the fits that run at the same time; at least 1."""

    def submit(self, key: Key, job: Job) -> None:
        """Hand a job out."""

    def next(self) -> tuple[Key, Fitted | None]:
        """Wait for a job that was handed out: what was found, or None if its worker died."""

    def forget(self) -> None:
        """Take back what was handed out and is not finished."""

    def close(self) -> None:
        """End what this connection started, and nothing else."""


class Shipment:
    """A problem that travels as one piece, pickled once and unpickled once by each worker."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem

    def __reduce__(self) -> tuple[Any, ...]:
        """Take estimators and scorers that were defined in a notebook along by value."""
        import cloudpickle

        return _unpacked, (cloudpickle.dumps(self.problem),)


def _unpacked(content: bytes) -> Shipment:
    import cloudpickle

    return Shipment(cloudpickle.loads(content))


def check_cluster(backend: str) -> None:
    """Refuse a backend whose package is not installed."""
    module, extra = CLUSTERS[backend]
    if find_spec(module) is None:
        raise ConfigError(
            f"the worker backend {backend!r} needs the package {module!r}, which is not "
            f"installed; run pip install 'swarmselect[{extra}]', or use 'loky'"
        )


def open_cluster(backend: str, problem: Problem, n_jobs: int, address: str | None) -> Cluster:
    """Connect to the cluster at `address`, or start one of `n_jobs` processes here.

    Raises
    ------
    ConfigError
        If nothing answers at the address within 10 seconds, or no worker is there.
    """
    if backend == "dask":
        from swarm.evaluation.dask_cluster import DaskCluster

        return DaskCluster(problem, n_jobs, address)
    from swarm.evaluation.ray_cluster import RayCluster

    return RayCluster(problem, n_jobs, address)


def train(cluster: Cluster, jobs: Sequence[Job], deaths: int) -> Iterator[Fitted]:
    """Train every job; a mask whose worker died is trained again, up to `deaths` times."""
    waiting = {(job.number, job.part): job for job in reversed(jobs)}
    out: dict[Key, Job] = {}
    died: Counter[Key] = Counter()
    try:
        while waiting or out:
            while waiting and len(out) < _AHEAD * cluster.width():
                key, job = waiting.popitem()
                out[key] = job
                cluster.submit(key, job)
            key, fitted = cluster.next()
            if fitted is not None:
                del out[key]
                yield fitted
                continue
            died[key] += 1
            if died[key] == deaths:
                masks = len({number for number, _ in [*waiting, *out]})
                raise EvaluationError(
                    f"workers died {deaths} times over the same mask with {masks} masks left to "
                    "train, perhaps out of memory; give each worker more"
                )
            cluster.submit(key, out[key])
    finally:
        cluster.forget()

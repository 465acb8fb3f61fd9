"""Training on a cluster: the common part of Dask and Ray.

Jobs are submitted to the cluster, and results arrive in any order. The problem is sent through
the cluster, once to each worker, so that workers can run on other machines, with the same versions
of this package and of the model's package. Each worker of an existing cluster should have one
thread, because a fit uses one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from swarm.checks import require_package
from swarm.errors import EvaluationError
from swarm.evaluation.fitting import Fitted, Job
from swarm.problem.problem import Problem

__all__ = [
    "CLUSTERS",
    "CLUSTER_TIMEOUT",
    "Cluster",
    "Shipment",
    "check_cluster",
    "open_cluster",
    "train",
]

# Backend: the module it needs, and the extra that installs it.
CLUSTERS = {"dask": ("distributed", "dask"), "ray": ("ray", "ray")}
# Timeout, in seconds, of a connection, and of a cluster without workers.
CLUSTER_TIMEOUT = 10.0
# Submitted jobs per worker: one running, one queued.
_AHEAD = 2

Key = tuple[int, int]


class Cluster(Protocol):
    """Interface of a connection to a cluster."""

    def width(self) -> int:
        """Return the number of fits that run in parallel; at least 1."""

    def submit(self, key: Key, job: Job) -> None:
        """Submit a job."""

    def next(self) -> tuple[Key, Fitted | None]:
        """Wait for a submitted job and return its result, or None if its worker died."""

    def forget(self) -> None:
        """Cancel submitted jobs that are not finished."""

    def close(self) -> None:
        """Close the connection, and shut down workers that it started."""


class Shipment:
    """A problem that is serialized once and deserialized once per worker."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem

    def __reduce__(self) -> tuple[Any, ...]:
        """Serialize by cloudpickle, which supports classes defined in a notebook."""
        import cloudpickle

        return _unpacked, (cloudpickle.dumps(self.problem),)


def _unpacked(content: bytes) -> Shipment:
    import cloudpickle

    return Shipment(cloudpickle.loads(content))


def check_cluster(backend: str) -> None:
    """Raise ConfigError if the package of a backend is not installed."""
    require_package(*CLUSTERS[backend], f"the worker backend {backend!r}")


def open_cluster(backend: str, problem: Problem, n_jobs: int, address: str | None) -> Cluster:
    """Connect to the cluster at `address`, or start a local one with `n_jobs` processes.

    Raises
    ------
    ConfigError
        If the connection times out after 10 seconds, or the cluster has no workers.
    """
    if backend == "dask":
        from swarm.evaluation.dask_cluster import DaskCluster

        return DaskCluster(problem, n_jobs, address)
    from swarm.evaluation.ray_cluster import RayCluster

    return RayCluster(problem, n_jobs, address)


def train(cluster: Cluster, jobs: Sequence[Job], deaths: int) -> Iterator[Fitted]:
    """Train every job; a mask whose worker died is retried, up to `deaths` deaths."""
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
                    f"workers died {deaths} times on the same mask with {masks} masks left to "
                    "train, perhaps out of memory; increase the memory of each worker"
                )
            cluster.submit(key, out[key])
    finally:
        cluster.forget()

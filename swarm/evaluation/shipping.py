"""Send a problem to workers, whose processes on one machine share its arrays.

A problem is pickled without the contents of its arrays, which are written beside it as they lie
in memory. A process maps that file: the pages are those of the operating system's cache, once for
all processes, and are copied only if somebody writes to them.
"""

import mmap
import pickle
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

from swarm.problem.problem import Problem

# NumPy's vectorized loops are fastest on arrays that start at multiples of this many bytes.
_ALIGNMENT = 64
# Problems that this process has read as a worker, with the sizes of their files.
_cache: dict[str, tuple[Problem, int]] = {}
# Their total size relative to the largest: the cache holds a table and parts of its rows, but not
# two tables of the same size.
_MAX_CACHED = 1.8


def write_problem(problem: Problem, folder: Path) -> None:
    """Write a problem to an empty folder, without a copy of its arrays in memory."""
    content, buffers = _pickle(problem)
    with (folder / "arrays").open("wb") as file:
        for buffer in buffers:
            with buffer.raw() as array:
                file.write(array)
                file.write(bytes(-array.nbytes % _ALIGNMENT))
    sizes = [buffer.raw().nbytes for buffer in buffers]
    (folder / "problem").write_bytes(pickle.dumps((content, sizes)))


def read_problem(folder: str) -> Problem:
    """Read a problem that :func:`write_problem` wrote; once, as long as it is cached."""
    if folder not in _cache:
        content, array_sizes = pickle.loads((Path(folder) / "problem").read_bytes())
        size = len(content) + sum(array_sizes)
        sizes = [*(cached for _, cached in _cache.values()), size]
        if sum(sizes) > _MAX_CACHED * max(sizes):
            _cache.clear()
        starts = accumulate((n_bytes + -n_bytes % _ALIGNMENT for n_bytes in array_sizes), initial=0)
        arrays = _map_file(Path(folder) / "arrays")
        buffers = [
            arrays[start : start + n_bytes]
            for (start, _), n_bytes in zip(pairwise(starts), array_sizes, strict=True)
        ]
        _cache[folder] = pickle.loads(content, buffers=buffers), size
    return _cache[folder][0]


class Shipment:
    """A problem that is serialized once and deserialized once per worker of a cluster."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem

    def __call__(self) -> Problem:
        """Return the problem."""
        return self.problem

    def __reduce_ex__(self, _protocol: object) -> tuple[Any, ...]:
        """Leave the arrays to the cluster, which need not copy them."""
        return _unpickle, _pickle(self.problem)


def _pickle(problem: Problem) -> tuple[bytes, list[pickle.PickleBuffer]]:
    """Pickle a problem apart from its arrays, with classes that were defined in a notebook."""
    import cloudpickle

    buffers: list[pickle.PickleBuffer] = []
    return cloudpickle.dumps(problem, protocol=5, buffer_callback=buffers.append), buffers


def _unpickle(content: bytes, buffers: list[pickle.PickleBuffer]) -> Shipment:
    return Shipment(pickle.loads(content, buffers=buffers))


def _map_file(path: Path) -> memoryview:
    with path.open("rb") as file:
        # An empty file cannot be mapped.
        if not path.stat().st_size:
            return memoryview(b"")
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY))

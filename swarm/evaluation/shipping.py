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

# Arrays start at multiples of this many bytes, as NumPy's vectorized loops are fastest there.
_ALIGNMENT = 64
# Problems that this process has read as a worker, with the sizes of their files.
_kept: dict[str, tuple[Problem, int]] = {}
# Their size relative to the largest: a table stays beside parts of its rows, of which all together
# are smaller, but not beside another of its size.
_MOST_KEPT = 1.8


def write_problem(problem: Problem, folder: Path) -> None:
    """Write a problem to an empty folder, without a copy of its arrays in memory."""
    content, buffers = _pickled(problem)
    with (folder / "arrays").open("wb") as file:
        for buffer in buffers:
            with buffer.raw() as array:
                file.write(array)
                file.write(bytes(-array.nbytes % _ALIGNMENT))
    sizes = [buffer.raw().nbytes for buffer in buffers]
    (folder / "problem").write_bytes(pickle.dumps((content, sizes)))


def read_problem(folder: str) -> Problem:
    """Read a problem that :func:`write_problem` wrote; once, as long as it is kept."""
    if folder not in _kept:
        content, sizes = pickle.loads((Path(folder) / "problem").read_bytes())
        total = [size for _, size in _kept.values()] + [len(content) + sum(sizes)]
        if sum(total) > _MOST_KEPT * max(total):
            _kept.clear()
        starts = accumulate((size + -size % _ALIGNMENT for size in sizes), initial=0)
        arrays = _mapped(Path(folder) / "arrays")
        buffers = [
            arrays[start : start + size]
            for (start, _), size in zip(pairwise(starts), sizes, strict=True)
        ]
        _kept[folder] = pickle.loads(content, buffers=buffers), total[-1]
    return _kept[folder][0]


class Shipment:
    """A problem that is serialized once and deserialized once per worker of a cluster."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem

    def __call__(self) -> Problem:
        """Return the problem."""
        return self.problem

    def __reduce_ex__(self, _protocol: Any) -> tuple[Any, ...]:
        """Leave the arrays to the cluster, which need not copy them."""
        return _unpacked, _pickled(self.problem)


def _pickled(problem: Problem) -> tuple[bytes, list[pickle.PickleBuffer]]:
    """Pickle a problem apart from its arrays, with classes that were defined in a notebook."""
    import cloudpickle

    buffers: list[pickle.PickleBuffer] = []
    return cloudpickle.dumps(problem, protocol=5, buffer_callback=buffers.append), buffers


def _unpacked(content: bytes, buffers: list[Any]) -> Shipment:
    return Shipment(pickle.loads(content, buffers=buffers))


def _mapped(path: Path) -> memoryview:
    with path.open("rb") as file:
        # An empty file cannot be mapped.
        if not path.stat().st_size:
            return memoryview(b"")
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY))

"""Devices, such as a GPU, for matrix products of fast paths by the Python array API standard.

A device decides only what rounding cannot change, by the same bounds as on the CPU. What is left
is decided on the CPU, as without a device, so that costs are the same to the last bit. For the
same reason there is nothing here for regression, or for the probabilities of naive Bayes: their
costs depend on the last bits of a sum.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from swarm.arrays import Bool
from swarm.checks import require_package
from swarm.errors import ConfigError

DEVICES = ("cpu", "cuda")
_LIBRARIES = {"torch": "PyTorch", "cupy": "CuPy"}
# Elements of the largest array of a chunk, 256 MiB; a chunk needs up to six arrays at once.
_CHUNK = 1 << 25


@dataclass(frozen=True)
class Device:
    """A device, and the namespace of the library that computes on it.

    Attributes
    ----------
    label : str
        Name of the device and the library, for messages.
    xp : module
        A namespace of the array API standard, with its extension for linear algebra.
    device : Any
        Device of that namespace; None for its default, which NumPy can read.
    """

    label: str
    xp: Any
    device: Any = None

    def put(self, values: NDArray[Any]) -> Any:
        """Copy an array to the device."""
        return self.xp.asarray(np.ascontiguousarray(values), device=self.device)

    def get(self, values: Any) -> NDArray[Any]:
        """Copy an array from the device."""
        if self.device is None:
            return np.asarray(values)
        return np.asarray(import_module("array_api_compat").to_device(values, "cpu"))

    def floats(self, flags: Bool) -> Any:
        """Copy flags to the device, as float64."""
        return self.xp.astype(self.put(flags), self.xp.float64)


def open_device(name: str) -> Device | None:
    """Return a device of `DEVICES`, None for the CPU.

    Raises
    ------
    ConfigError
        If there is no such device, or no library that computes on it.
    """
    if name == "cpu":
        return None
    if name not in DEVICES:
        raise ConfigError(f"unknown device {name!r}; choose from {', '.join(DEVICES)}")
    require_package("array_api_compat", "gpu", f"the device {name!r}")
    installed = [library for library in _LIBRARIES if find_spec(library)]
    if not installed:
        raise ConfigError(
            f"the device {name!r} needs PyTorch or CuPy, neither of which is installed; install one"
            " of them, or set evaluation.device to 'cpu'"
        )
    for library in installed:
        if (device := _cuda(import_module(library))) is not None:
            xp = import_module(f"array_api_compat.{library}")
            return Device(f"{name} by {_LIBRARIES[library]}", xp, device)
    raise ConfigError(
        f"{' and '.join(map(_LIBRARIES.__getitem__, installed))} found no device {name!r} on this"
        " machine; set evaluation.device to 'cpu'"
    )


def _cuda(library: Any) -> Any:
    """Return the device of PyTorch or CuPy, None if there is none."""
    if not library.cuda.is_available():
        return None
    return library.device("cuda") if library.__name__ == "torch" else library.cuda.Device()


def chunks(count: int, width: int) -> Iterator[slice]:
    """Divide `count` rows of `width` elements each into chunks."""
    step = max(1, _CHUNK // width)
    for start in range(0, count, step):
        yield slice(start, min(start + step, count))

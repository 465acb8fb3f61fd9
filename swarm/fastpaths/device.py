"""Matrix products of fast paths on a device such as a GPU, by the Python array API standard.

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

from swarm.arrays import Bool, Float, Int
from swarm.checks import require_package
from swarm.errors import ConfigError
from swarm.fastpaths.bayes_moments import Moments
from swarm.fastpaths.bayes_sums import FARTHEST
from swarm.fastpaths.neighbours import rounding_of

__all__ = [
    "DEVICES",
    "BayesOnDevice",
    "Device",
    "LinearOnDevice",
    "NeighboursOnDevice",
    "open_device",
]

DEVICES = ("cpu", "cuda")
_LIBRARIES = {"torch": "PyTorch", "cupy": "CuPy"}
# Elements of the largest array of a chunk, 256 MiB; a chunk needs up to six arrays at once.
_CHUNK = 1 << 25
# An inverse of a matrix with unit diagonal has no smaller diagonal element, unless it is rounding.
_LEAST_INVERSE = 0.5


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


class BayesOnDevice:
    """Classes by Gaussian naive Bayes, for all folds of `moments`.

    Parameters
    ----------
    device : Device
    moments : Moments
    margin : float
        A class is doubtful if another is closer than this share of its log-likelihood.
    """

    def __init__(self, device: Device, moments: Moments, margin: float) -> None:
        self._device, self._margin, self._sizes = device, margin, moments.sizes.tolist()
        self._test = [
            device.put(test[:, :size]) for test, size in zip(moments.test, self._sizes, strict=True)
        ]
        self._mean, self._variance = device.put(moments.mean), device.put(moments.variance)
        self._prior = moments.log_prior
        self._shape = (len(self._sizes), moments.test.shape[2])

    def labels(self, columns: Bool, smoothing: Float) -> tuple[Int, Bool]:
        """Classify the test rows of each fold.

        Parameters
        ----------
        columns : bool (n, n_columns)
        smoothing : float64 (n, n_folds)
            What is added to each variance.

        Returns
        -------
        labels : int (n_folds, n, n_test)
            0 beyond the test rows of a fold.
        doubtful : bool (n_folds, n)
            Masks with a doubtful class.
        """
        n_folds, n_test = self._shape
        labels = np.zeros((n_folds, len(columns), n_test), dtype=np.int64)
        doubtful = np.zeros((n_folds, len(columns)), dtype=bool)
        for part in _chunks(len(columns), n_test + columns.shape[1]):
            chosen = self._device.floats(columns[part])
            for fold, size in enumerate(self._sizes):
                added = self._device.put(smoothing[part, fold, None])
                labels[fold, part, :size], doubtful[fold, part] = self._of_fold(chosen, added, fold)
        return labels, doubtful

    def _of_fold(self, chosen: Any, added: Any, fold: int) -> tuple[Int, Bool]:
        xp, test = self._device.xp, self._test[fold]
        unsure = xp.zeros(chosen.shape[0], dtype=xp.bool, device=self._device.device)
        shape = (chosen.shape[0], test.shape[1])
        best = second = xp.full(shape, -np.inf, dtype=xp.float64, device=self._device.device)
        code = xp.zeros_like(best, dtype=xp.int64)
        for label in range(self._prior.shape[1]):
            mean, width = self._mean[fold, label, :], self._variance[fold, label, :] + added
            far = xp.abs(mean) >= FARTHEST * xp.sqrt(width)
            unsure = unsure | xp.any(far & (chosen > 0), axis=1)
            # Columns without any variance are far from zero, and thus doubtful, in every class.
            width = xp.where(width > 0, width, xp.ones_like(width))
            squares = (test - mean[:, None]) ** 2
            logs = xp.sum(chosen * xp.log(2.0 * np.pi * width), axis=1)
            constant = float(self._prior[fold, label]) - 0.5 * logs
            here = constant[:, None] + xp.matmul(chosen * (-0.5 / width), squares)
            second = xp.maximum(second, xp.minimum(best, here))
            code = xp.where(here > best, xp.full_like(code, label), code)
            best = xp.maximum(best, here)
        close = best - second <= self._margin * (1.0 + xp.abs(best))
        unsure = unsure | xp.any(close | ~xp.isfinite(best), axis=1)
        return self._device.get(code), self._device.get(unsure)


class NeighboursOnDevice:
    """Votes of the nearest neighbours of one fold.

    Parameters
    ----------
    device : Device
    test : float64 (n_columns, n_test)
    train : float64 (n_columns, n_train)
    codes : int (n_train,)
        Classes of the training rows, from 0.
    n_classes, k : int
    largest : float64 (n_columns,)
        See :func:`.neighbours.largest_squares`.
    """

    def __init__(
        self,
        device: Device,
        test: Float,
        train: Float,
        codes: Int,
        n_classes: int,
        k: int,
        largest: Float,
    ) -> None:
        self._device, self._largest, self._k = device, largest, k
        self._test, self._train = device.put(test.T), device.put(train)
        self._squares = device.put(np.square(train))
        self._classes = device.floats(codes[:, None] == np.arange(n_classes))

    def votes(self, columns: Bool) -> Int:
        """Count the votes for each class: int (n_classes, n, n_test), -1 where doubtful.

        Parameters
        ----------
        columns : bool (n, n_columns)
        """
        n_test, n_train = self._test.shape[0], self._train.shape[1]
        votes = np.empty((self._classes.shape[1], len(columns), n_test), dtype=np.int64)
        tolerance = np.array([rounding_of(self._largest, np.flatnonzero(row)) for row in columns])
        width = n_train + columns.shape[1]
        for rows in _chunks(n_test, width):
            for part in _chunks(len(columns), width * (rows.stop - rows.start)):
                found = self._count(columns[part], tolerance[part], self._test[rows, :])
                votes[:, part, rows] = np.moveaxis(found, 2, 0)
        return votes

    def _count(self, columns: Bool, tolerance: Float, rows: Any) -> Int:
        """Return the votes for rows (n_rows, n_columns): int (n, n_rows, n_classes)."""
        xp, chosen = self._device.xp, self._device.floats(columns)
        products = xp.matmul(rows[None, :, :] * chosen[:, None, :], self._train)
        distance = xp.matmul(chosen, self._squares)[:, None, :] - 2.0 * products
        ordered = xp.sort(distance, axis=2)
        # If the gap exceeds rounding, exactly k rows are not farther than the k-th.
        last, gap = ordered[:, :, self._k - 1], ordered[:, :, self._k] - ordered[:, :, self._k - 1]
        near = xp.astype(distance <= last[:, :, None], xp.float64)
        sure = gap > self._device.put(tolerance)[:, None]
        votes = xp.matmul(near, self._classes)
        votes = xp.where(sure[:, :, None], votes, xp.full_like(votes, -1.0))
        return self._device.get(votes).astype(np.int64)


class LinearOnDevice:
    """Solutions and predictions of the linear systems of one fold.

    Parameters
    ----------
    device : Device
    gram : float64 (d, d), right : float64 (t, d)
        See :class:`.linear_folds.System`.
    test : float64 (d, n_test)
    """

    def __init__(self, device: Device, gram: Float, right: Float, test: Float) -> None:
        self._device = device
        self._gram, self._right, self._test = device.put(gram), device.put(right), device.put(test)
        self._diagonal = device.put(np.diag(gram))
        self._singular = getattr(device.xp.linalg, "LinAlgError", np.linalg.LinAlgError)

    def solve(self, columns: Bool, added: float, shrinkage: float) -> tuple[Float, Float]:
        """Solve the system of each set of columns (n, d), as :func:`.solve.solve_masks`.

        Returns
        -------
        found : float64 (n, t, d)
        bounds : float64 (n, 3)
            inf if there is no solution.
        """
        n, d = columns.shape
        found = np.zeros((n, self._right.shape[0], d))
        bounds = np.full((n, 3), np.inf)
        for part in _chunks(n, d * d):
            found[part], bounds[part] = self._solve(columns[part], added, shrinkage)
        return found, bounds

    def predict(self, weights: Float) -> Float:
        """Return weighted sums of the test rows, of weights (n, t, d): float64 (n, t, n_test)."""
        n, t, d = weights.shape
        decision = np.empty((n, t, self._test.shape[1]))
        for part in _chunks(n, t * (d + self._test.shape[1])):
            product = self._device.xp.matmul(self._device.put(weights[part]), self._test)
            decision[part] = self._device.get(product)
        return decision

    def _solve(self, columns: Bool, added: float, shrinkage: float) -> tuple[Float, Float]:
        xp, get = self._device.xp, self._device.get
        chosen, size = self._device.floats(columns), self._device.put(columns.sum(axis=1) * 1.0)
        extra = added + shrinkage * xp.matmul(chosen, self._diagonal) / size
        own = ((1.0 - shrinkage) * self._diagonal + extra[:, None]) * chosen
        regular = xp.all((own > 0) | (chosen == 0), axis=1)
        # Columns that are not chosen, and those of systems without a solution, have 1 on the
        # diagonal and 0 elsewhere.
        chosen = chosen * xp.astype(regular, xp.float64)[:, None]
        scale = xp.sqrt(xp.where(chosen > 0, own, xp.ones_like(own)))
        share = chosen / scale
        scaled = (1.0 - shrinkage) * self._gram * share[:, :, None] * share[:, None, :]
        unit = xp.eye(columns.shape[1], dtype=xp.float64, device=self._device.device)
        inverse, solved = self._inverse(xp.where(unit > 0, unit, scaled))
        weights = xp.matmul(self._right * share[:, None, :], inverse) * share[:, None, :]
        diagonal = xp.sum(inverse * unit, axis=2)
        trace = xp.sum(diagonal * chosen, axis=1)
        given = xp.sum(own * chosen, axis=1) * xp.sum(diagonal * share**2, axis=1)
        # The inverse of a singular matrix is rounding, which these two properties betray.
        largest = xp.max(xp.max(xp.abs(inverse), axis=2), axis=1)
        positive = xp.min(diagonal, axis=1) >= _LEAST_INVERSE
        regular = regular & positive & (largest <= 1.0 + 1.01 * trace)
        bounds = get(xp.stack([size * trace, given, trace], axis=1)).copy()
        bounds[~(get(regular) & solved & np.isfinite(bounds).all(axis=1))] = np.inf
        return get(weights), bounds

    def _inverse(self, systems: Any) -> tuple[Any, Bool]:
        """Invert systems (n, d, d); those that are singular are replaced by their own values."""
        try:
            return self._device.xp.linalg.inv(systems), np.ones(systems.shape[0], dtype=bool)
        except self._singular:
            if systems.shape[0] == 1:
                return systems, np.zeros(1, dtype=bool)
            half = systems.shape[0] // 2
            first, second = self._inverse(systems[:half, ...]), self._inverse(systems[half:, ...])
            inverse = self._device.xp.concat([first[0], second[0]], axis=0)
            return inverse, np.concatenate([first[1], second[1]])


def _chunks(count: int, width: int) -> Iterator[slice]:
    """Divide `count` rows of `width` elements each into chunks."""
    step = max(1, _CHUNK // width)
    for start in range(0, count, step):
        yield slice(start, min(start + step, count))

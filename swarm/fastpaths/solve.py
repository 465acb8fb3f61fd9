"""Solve the linear systems of many masks, sub-blocks of one matrix; compiled or on a device."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from swarm.arrays import Bool, Float, Int
from swarm.fastpaths.device import Device, chunks

# In a matrix with unit diagonal, a smaller pivot is rounding.
_SMALLEST_PIVOT = 1e-13
# An inverse of a matrix with unit diagonal has no smaller diagonal element, unless it is rounding.
_LEAST_INVERSE = 0.5


@njit(nogil=True, cache=True, error_model="numpy")
def solve_masks(
    gram: Float,
    right: Float,
    pointers: Int,
    columns: Int,
    added: float,
    shrinkage: float,
    found: Float,
    bounds: Float,
) -> None:  # pragma: no cover
    """Solve ``((1 - s) G + (a + s mean(diag G)) I) x = b`` on the columns of each mask.

    The matrix is scaled to a unit diagonal before its Cholesky factorisation, so that the result
    does not depend on the units of the columns.

    Parameters
    ----------
    gram : float64 (d, d), right : float64 (t, d)
    pointers : int (n + 1,), columns : int
        Columns of mask m are ``columns[pointers[m]:pointers[m + 1]]``.
    added, shrinkage : float
        a and s.
    found : float64 (n, t, d)
        Zeros on input; the solutions on output.
    bounds : float64 (n, 3)
        Output: upper bounds of the condition numbers of the scaled and of the unscaled matrix,
        and the trace of the inverse of the scaled matrix; inf if there is no solution.
    """
    widest = 0
    for m in range(len(pointers) - 1):
        widest = max(widest, pointers[m + 1] - pointers[m])
    factor, inverse = np.empty((widest, widest)), np.empty((widest, widest))
    scale, half = np.empty(widest), np.empty(widest)
    for m in range(len(pointers) - 1):
        chosen = columns[pointers[m] : pointers[m + 1]]
        n = len(chosen)
        bounds[m] = np.inf
        trace = 0.0
        for j in chosen:
            trace += gram[j, j]
        extra = added + shrinkage * trace / n
        total, regular = 0.0, True
        for i in range(n):
            own = (1.0 - shrinkage) * gram[chosen[i], chosen[i]] + extra
            total += own
            regular = regular and own > 0.0
            scale[i] = np.sqrt(own)
        if not regular:
            continue
        for i in range(n):
            row = gram[chosen[i]]
            factor[i, i] = 1.0
            for j in range(i + 1, n):
                factor[i, j] = (1.0 - shrinkage) * row[chosen[j]] / (scale[i] * scale[j])
        if not _factorise(factor, n):
            continue
        _invert(factor, inverse, n)
        size, given = 0.0, 0.0
        for i in range(n):
            for j in range(i + 1):
                square = inverse[i, j] * inverse[i, j]
                size += square
                given += square / (scale[j] * scale[j])
        bounds[m, 0], bounds[m, 1], bounds[m, 2] = n * size, total * given, size
        for k in range(right.shape[0]):
            for i in range(n):
                term = 0.0
                for j in range(i + 1):
                    term += inverse[i, j] * (right[k, chosen[j]] / scale[j])
                half[i] = term
            for j in range(n):
                term = 0.0
                for i in range(j, n):
                    term += inverse[i, j] * half[i]
                found[m, k, chosen[j]] = term / scale[j]


@njit(nogil=True, cache=True, error_model="numpy")
def _factorise(factor: Float, n: int) -> bool:  # pragma: no cover
    """Replace the upper triangle by the Cholesky factor, ``A = R' R``; False if A is singular."""
    for k in range(n):
        if not factor[k, k] > _SMALLEST_PIVOT:
            return False
        pivot = np.sqrt(factor[k, k])
        own = factor[k]
        for j in range(k, n):
            own[j] /= pivot
        for i in range(k + 1, n):
            share = own[i]
            row = factor[i]
            for j in range(i, n):
                row[j] -= share * own[j]
    return True


@njit(nogil=True, cache=True, error_model="numpy")
def _invert(factor: Float, inverse: Float, n: int) -> None:  # pragma: no cover
    """Invert R', a lower triangular matrix."""
    for i in range(n):
        for j in range(i):
            inverse[i, j] = 0.0
        inverse[i, i] = 1.0
    for i in range(n):
        own = inverse[i]
        pivot = factor[i, i]
        for j in range(i + 1):
            own[j] /= pivot
        for r in range(i + 1, n):
            share = factor[i, r]
            row = inverse[r]
            for j in range(i + 1):
                row[j] -= share * own[j]


@njit(nogil=True, cache=True)
def predict_masks(
    test: Float, found: Float, pointers: Int, columns: Int, predicted: Float
) -> None:  # pragma: no cover
    """Compute weighted sums of the rows of `test`, in an order independent of other masks.

    Parameters
    ----------
    test : float64 (d, n_test)
    found : float64 (n, t, d)
    predicted : float64 (n, t, n_test)
        Output.
    """
    for m in range(len(pointers) - 1):
        for k in range(found.shape[1]):
            sums = predicted[m, k]
            sums[:] = 0.0
            for j in columns[pointers[m] : pointers[m + 1]]:
                weight = found[m, k, j]
                values = test[j]
                for i in range(test.shape[1]):
                    sums[i] += weight * values[i]


class LinearOnDevice:
    """Solutions and predictions of the linear systems of one fold.

    Parameters
    ----------
    device : Device
    gram : float64 (d, d), right : float64 (t, d)
        See :class:`.linear.System`.
    test : float64 (d, n_test)
    """

    def __init__(self, device: Device, gram: Float, right: Float, test: Float) -> None:
        self._device = device
        self._gram, self._right, self._test = device.put(gram), device.put(right), device.put(test)
        self._diagonal = device.put(np.diag(gram))
        self._singular = getattr(device.xp.linalg, "LinAlgError", np.linalg.LinAlgError)

    def solve(self, columns: Bool, added: float, shrinkage: float) -> tuple[Float, Float]:
        """Solve the system of each set of columns (n, d), as :func:`solve_masks`.

        Returns
        -------
        found : float64 (n, t, d)
        bounds : float64 (n, 3)
            inf if there is no solution.
        """
        n, d = columns.shape
        found = np.zeros((n, self._right.shape[0], d))
        bounds = np.full((n, 3), np.inf)
        for part in chunks(n, d * d):
            found[part], bounds[part] = self._solve(columns[part], added, shrinkage)
        return found, bounds

    def predict(self, weights: Float) -> Float:
        """Return weighted sums of the test rows, of weights (n, t, d): float64 (n, t, n_test)."""
        n, t, d = weights.shape
        decision = np.empty((n, t, self._test.shape[1]))
        for part in chunks(n, t * (d + self._test.shape[1])):
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

"""Solve the linear systems of many masks, sub-blocks of one matrix, compiled."""

from __future__ import annotations

import numpy as np
from numba import njit

from swarm.arrays import Float, Int

# In a matrix with unit diagonal, a smaller pivot is rounding.
_SMALLEST_PIVOT = 1e-13


@njit(nogil=True, cache=True, error_model="numpy")
def solve_masks(
    gram: Float,  # (d, d)
    right: Float,  # (t, d)
    pointers: Int,  # (n + 1,), see Chosen
    columns: Int,
    penalty: float,  # a
    solutions: Float,  # output (n, t, d), zeros before
    # output (n, 2): upper bounds of the condition numbers of the scaled and of the unscaled matrix;
    # inf if there is no solution
    bounds: Float,
) -> None:  # pragma: no cover
    """Solve ``(G + a I) x = b`` on the columns of each mask."""
    # For masks of some tens of columns, calls of LAPACK take several times as long.
    #
    # The matrix is scaled to a unit diagonal before its Cholesky factorisation, so that the result
    # does not depend on the units of the columns.
    widest = 0
    for m in range(len(pointers) - 1):
        widest = max(widest, pointers[m + 1] - pointers[m])
    factor, inverse = np.empty((widest, widest)), np.empty((widest, widest))
    scale = np.empty(widest)
    for m in range(len(pointers) - 1):
        chosen = columns[pointers[m] : pointers[m + 1]]
        n = len(chosen)
        bounds[m] = np.inf
        total, regular = 0.0, True
        for i in range(n):
            diagonal = gram[chosen[i], chosen[i]] + penalty
            total += diagonal
            regular = regular and diagonal > 0.0
            scale[i] = np.sqrt(diagonal)
        if not regular:
            continue
        for i in range(n):
            row = gram[chosen[i]]
            factor[i, i] = 1.0
            for j in range(i + 1, n):
                factor[i, j] = row[chosen[j]] / (scale[i] * scale[j])
        if not _factorise(factor, n):
            continue
        _invert(factor, inverse, n)
        size, unscaled_size = 0.0, 0.0
        for i in range(n):
            for j in range(i + 1):
                square = inverse[i, j] * inverse[i, j]
                size += square
                unscaled_size += square / (scale[j] * scale[j])
        bounds[m, 0], bounds[m, 1] = n * size, total * unscaled_size
        for k in range(right.shape[0]):
            weights = solutions[m, k]
            for i in range(n):
                term = 0.0
                for j in range(i + 1):
                    term += inverse[i, j] * (right[k, chosen[j]] / scale[j])
                for j in range(i + 1):
                    weights[chosen[j]] += inverse[i, j] * term
            for j in range(n):
                weights[chosen[j]] /= scale[j]


@njit(nogil=True, cache=True, error_model="numpy")
def _factorise(factor: Float, n: int) -> bool:  # pragma: no cover
    """Replace the upper triangle by the Cholesky factor, ``A = R' R``; False if A is singular."""
    for k in range(n):
        if not factor[k, k] > _SMALLEST_PIVOT:
            return False
        pivot = np.sqrt(factor[k, k])
        pivot_row = factor[k]
        for j in range(k, n):
            pivot_row[j] /= pivot
        for i in range(k + 1, n):
            share = pivot_row[i]
            row = factor[i]
            for j in range(i, n):
                row[j] -= share * pivot_row[j]
    return True


@njit(nogil=True, cache=True, error_model="numpy")
def _invert(factor: Float, inverse: Float, n: int) -> None:  # pragma: no cover
    """Invert R', a lower triangular matrix."""
    for i in range(n):
        for j in range(i):
            inverse[i, j] = 0.0
        inverse[i, i] = 1.0
    for i in range(n):
        pivot_row = inverse[i]
        pivot = factor[i, i]
        for j in range(i + 1):
            pivot_row[j] /= pivot
        for r in range(i + 1, n):
            share = factor[i, r]
            row = inverse[r]
            for j in range(i + 1):
                row[j] -= share * pivot_row[j]


@njit(nogil=True, cache=True)
def predict_masks(
    test: Float, solutions: Float, pointers: Int, columns: Int, predicted: Float
) -> None:  # pragma: no cover
    """Sum the rows of `test` (d, n_test) by weights (n, t, d), in an order independent of masks."""
    for m in range(len(pointers) - 1):
        for k in range(solutions.shape[1]):
            sums = predicted[m, k]
            sums[:] = 0.0
            for j in columns[pointers[m] : pointers[m + 1]]:
                weight = solutions[m, k, j]
                values = test[j]
                for i in range(test.shape[1]):
                    sums[i] += weight * values[i]

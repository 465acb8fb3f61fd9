"""The fingerprint of a problem: the key of its part of the archive."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from scipy.sparse import issparse

from swarm.arrays import AnyArray
from swarm.problem.description import describe
from swarm.problem.table import container_of

if TYPE_CHECKING:
    from swarm.problem.problem import Problem

_COLUMNS_PER_BLOCK = 512


def digests(problem: Problem) -> tuple[str, str]:
    """Return the fingerprint, 32 hexadecimal digits, and the digest without the folds."""
    digest = data_hash(problem, recipe(problem))
    without_folds = digest.hexdigest()
    for train, test in problem.folds:
        digest.update(_array_bytes(train))
        digest.update(_array_bytes(test))
    return digest.hexdigest()[:32], without_folds


def data_hash(problem: Problem, prefix: bytes) -> hashlib._Hash:
    """Hash a prefix, the features, the target and the weights."""
    digest = hashlib.sha256(prefix)
    for value in (problem.X, problem.y):
        digest.update(json.dumps(container_of(value)).encode())
    if issparse(problem.X):
        matrix = problem.X.tocsc()
        arrays = (matrix.data, matrix.indices, matrix.indptr, np.array(matrix.shape))
        digest.update(b"".join(map(_array_bytes, arrays)))
    else:
        for block in _column_bytes(problem.features):
            digest.update(block)
    # Models may read the labels of rows and the levels of a target.
    for name, value in (("X", problem.X), ("y", problem.y)):
        index = getattr(value, "index", None)
        if isinstance(index, pd.Index) and not index.equals(pd.RangeIndex(len(index))):
            digest.update(name.encode() + _array_bytes(index.to_numpy()))
    for array in (problem.target, problem.weight):
        digest.update(_array_bytes(array))
    return digest


def recipe(problem: Problem, strict: bool = True) -> bytes:
    """Return what a cost depends on apart from the rows and the folds, as JSON.

    Unless `strict`, all code without a name has the same placeholder.
    """
    scoring = problem.scoring
    scorer = describe(scoring.scorer, strict=strict)
    fit_params = {name: problem.fit_params[name] for name in problem.other_fit_params}
    settings = {
        "estimator": describe(problem.estimator, strict=strict),
        "scoring": [scoring.name, scoring.upper, scoring.pos_label, scorer],
        "importance": problem.importance,
        "units": problem.space.units,
        "fit_params": describe(fit_params, strict=strict),
        "score_params": describe(problem.score_params, strict=strict),
        "settings": problem.settings.in_results(),
        "weights_in_score": problem.weights_in_score,
    }
    return json.dumps(settings, sort_keys=True).encode()


def _array_bytes(array: AnyArray | None) -> bytes:
    if array is None:
        return b"none"
    if array.dtype.kind in "biufc":
        return _head(array).encode() + np.ascontiguousarray(array).tobytes()
    # The types tell a missing value and a number from a text that looks like them.
    values = [None if pd.isna(v) else [type(v).__name__, str(v)] for v in array.ravel()]
    return json.dumps(values).encode()


def _head(array: AnyArray) -> str:
    return f"{array.dtype.str}{array.shape}"


def _column_bytes(features: pd.DataFrame) -> Iterator[bytes]:
    """Yield names, types and values by column, read in blocks of one NumPy type for speed."""
    dtypes = list(features.dtypes)
    position = 0
    while position < len(dtypes):
        dtype = dtypes[position]
        if not isinstance(dtype, np.dtype) or dtype.kind not in "biufc":
            yield from _one_column(features, position)
            position += 1
            continue
        end = position + 1
        while end < min(len(dtypes), position + _COLUMNS_PER_BLOCK) and dtypes[end] == dtype:
            end += 1
        block = np.ascontiguousarray(features.iloc[:, position:end].to_numpy().T)
        head = f":{dtype}{_head(block[0])}"
        heads = [f"{name}{head}".encode() for name in features.columns[position:end]]
        # Hashing many small parts is slow.
        yield b"".join(chain.from_iterable(zip(heads, block, strict=True)))
        position = end


def _one_column(features: pd.DataFrame, position: int) -> Iterator[bytes]:
    column = features.iloc[:, position]
    yield f"{features.columns[position]}:{column.dtype}".encode()
    if isinstance(column.dtype, pd.CategoricalDtype):
        categories = column.cat.categories
        yield f"{categories.dtype} {column.cat.ordered}".encode()
        yield json.dumps([str(c) for c in categories]).encode()
        column = column.cat.codes
    yield _array_bytes(column.to_numpy())

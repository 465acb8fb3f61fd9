"""The rows that a champion was trained on, known again in a later table by their hashes."""

from __future__ import annotations

import io
from dataclasses import replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from swarm.findings.rows import hash_rows, is_distinguished
from tasks.table import Table, formerly_named

__all__ = ["find_trained_rows", "record_of_rows"]


def record_of_rows(train: Table) -> bytes:
    """Return the names of the columns and a hash of 32 bits of each row, as a file of NumPy.

    One row in 4,000 is found by mistake among a million others, which does no harm. Where rows are
    equal by chance, as in a few columns of categories, the file has no hashes.
    """
    names = list(map(str, train.features))
    rows = np.unique(_hashes(train, names))
    if not is_distinguished(train.features, len(rows)):
        rows = rows[:0]
    file = io.BytesIO()
    np.savez(file, columns=np.array(names, dtype=str), rows=rows)
    return file.getvalue()


def find_trained_rows(record: bytes, table: Table) -> NDArray[np.bool_] | None:
    """Find the rows of a table that a champion was trained on, or that share a group with one.

    Parameters
    ----------
    record : bytes
        From :func:`record_of_rows`.
    table : Table

    Returns
    -------
    bool (n_rows,) or None
        None if the table lacks one of the columns by which rows are recognised.
    """
    with np.load(io.BytesIO(record)) as stored:
        names, rows = stored["columns"].tolist(), stored["rows"]
    table = replace(table, features=formerly_named(table.features, names))
    if not set(names) <= set(table.features):
        return None
    found = np.isin(_hashes(table, names), rows)
    if table.groups is not None:
        found = table.groups.isin(table.groups[found]).to_numpy()
    return found


def _hashes(table: Table, names: list[str]) -> NDArray[np.uint32]:
    """Hash features and target of each row."""
    target = table.target.to_frame() if isinstance(table.target, pd.Series) else table.target
    both = pd.concat([table.features[names], target], axis=1)
    return (hash_rows(both) >> np.uint64(32)).astype(np.uint32)

"""In-memory LRU cache of records."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from swarm.arrays import read_only
from swarm.storage.records import Record

__all__ = ["Recall"]

# Bytes of a record besides its arrays.
_OVERHEAD = 1000


class Recall:
    """LRU cache of records, keyed by mask.

    Parameters
    ----------
    n_bytes : int
        Approximate limit of its memory.
    """

    def __init__(self, n_bytes: int) -> None:
        self._free = n_bytes
        self._records: dict[bytes, Record] = {}

    def get(self, key: bytes) -> Record | None:
        """Return the record of a mask, or None."""
        record = self._records.pop(key, None)
        if record is not None:
            self._records[key] = record
        return record

    def keep(self, key: bytes, record: Record) -> None:
        """Add a record and make its arrays read-only."""
        self.forget(key)
        read_only(record.fold_costs, record.importances, record.used)
        self._records[key] = record
        self._free -= _size(record)
        while self._free < 0 and (oldest := next(iter(self._records), None)) is not None:
            self.forget(oldest)

    def forget(self, key: bytes) -> None:
        """Remove a record, if present."""
        record = self._records.pop(key, None)
        if record is not None:
            self._free += _size(record)


def _size(record: Record) -> int:
    arrays = (record.fold_costs, record.importances, record.used)
    return _OVERHEAD + sum(_own_bytes(array) for array in arrays)


def _own_bytes(array: NDArray[np.generic]) -> int:
    """Return the bytes of an array; the rows of a broadcast array share memory."""
    repeated = array.ndim > 1 and array.strides[0] == 0
    return array.nbytes // max(1, len(array)) if repeated else array.nbytes

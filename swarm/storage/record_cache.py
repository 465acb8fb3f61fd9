"""Records that were read last, kept in memory."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from swarm.storage.records import Record

__all__ = ["Recall"]

# What a record takes besides its numbers.
_OVERHEAD = 1000


class Recall:
    """Records by the key of their mask, as many as fit; the one unused for longest goes first.

    Parameters
    ----------
    n_bytes : int
        About how much memory they may take.
    """

    def __init__(self, n_bytes: int) -> None:
        self._free = n_bytes
        self._records: dict[bytes, Record] = {}

    def get(self, key: bytes) -> Record | None:
        """Return the record of a mask, if it is here."""
        record = self._records.pop(key, None)
        if record is not None:
            self._records[key] = record
        return record

    def keep(self, key: bytes, record: Record) -> None:
        """Take a record in, read-only from now on."""
        self.forget(key)
        for array in (record.fold_costs, record.importances, record.used):
            array.setflags(write=False)
        self._records[key] = record
        self._free -= _size(record)
        while self._free < 0 and (oldest := next(iter(self._records), None)) is not None:
            self.forget(oldest)

    def forget(self, key: bytes) -> None:
        """Let go of a record, if it is here."""
        record = self._records.pop(key, None)
        if record is not None:
            self._free += _size(record)


def _size(record: Record) -> int:
    arrays = (record.fold_costs, record.importances, record.used)
    return _OVERHEAD + sum(_own_bytes(array) for array in arrays)


def _own_bytes(array: NDArray[np.generic]) -> int:
    """Bytes of an array; the rows of a broadcast one are all the same memory."""
    repeated = array.ndim > 1 and array.strides[0] == 0
    return array.nbytes // max(1, len(array)) if repeated else array.nbytes

"""The record of a mask, its row in an archive, and a cache of records.

A row has arrays as little-endian bytes, without pickle. Its mask is a bit for each unit, or the
positions of its units (4 bytes each) where that is shorter and the table is wide. The two are
distinguished by their length: there are always as many bits as units, rounded up to bytes, and
positions are stored only if they take fewer bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from swarm.arrays import AnyArray, Bool, Float, read_only

# Masks of fewer units are never stored as positions.
_MIN_UNITS_FOR_POSITIONS = 4096
# Bytes of a record in memory besides its arrays.
_OVERHEAD = 1000


@dataclass(frozen=True)
class Record:
    """Results of one mask on some folds, or on all.

    Its arrays are as wide as the mask has units, not as the table, which may have many more.

    Attributes
    ----------
    fold_costs : float64 (n_folds,)
        NaN if the fold was not trained; inf if its fit failed.
    importances : float64 (n_folds, n_selected)
        NaN rows if unknown.
    used : bool (n_folds, n_selected)
        Units that the fold model uses.
    seconds : float
        Total training time.
    error : str or None
        Type and first line of the message of a failed fit, then its traceback.
    """

    fold_costs: Float
    importances: Float
    used: Bool
    seconds: float = 0.0
    error: str | None = None

    @classmethod
    def unknown(cls, n_folds: int, n_selected: int) -> Record:
        """Make a record without results, whose arrays can be written to."""
        return cls(
            np.full(n_folds, np.nan),
            np.full((n_folds, n_selected), np.nan),
            np.zeros((n_folds, n_selected), dtype=bool),
        )

    @property
    def has_cost(self) -> Bool:
        """Folds that were trained: bool (n_folds,)."""
        return ~np.isnan(self.fold_costs)

    @property
    def complete(self) -> bool:
        """Whether the cost is known: every fold was trained, or one failed."""
        return bool(self.has_cost.all()) or self.failed

    @property
    def failed(self) -> bool:
        """Whether a fit failed."""
        return bool(np.isinf(self.fold_costs).any())

    @property
    def cost(self) -> float:
        """Mean of the fold costs, see :func:`costs_of`."""
        if self.failed:
            return float("inf")
        return round_cost(float(np.sum(self.fold_costs)) / self.n_folds)

    @property
    def n_folds(self) -> int:
        """Number of folds of the problem."""
        return len(self.fold_costs)

    @property
    def explained(self) -> Bool:
        """Folds that have importances: bool (n_folds,)."""
        return np.asarray(~np.isnan(self.importances).any(axis=1))

    def importance(self, mask: Bool) -> Float:
        """Mean over the folds with importances: float64 (n_units,), zeros if there are none."""
        mean = np.zeros(len(mask))
        rows = self.importances[self.explained]
        if len(rows):
            # NumPy's sum would add a single column in another order.
            mean[mask] = sum(rows) / len(rows)
        return mean

    def units_used(self, mask: Bool) -> Bool:
        """Units that a model of a fold uses: bool (n_units,)."""
        used = np.zeros(len(mask), dtype=bool)
        used[mask] = self.used.any(axis=0)
        return used

    def merge(self, other: Record) -> Record:
        """Add the results of `other` for the same mask; known values take precedence."""
        new = other.has_cost & ~self.has_cost
        return Record(
            np.where(new, other.fold_costs, self.fold_costs),
            np.where(self.explained[:, None], self.importances, other.importances),
            np.where(new[:, None], other.used, self.used),
            self.seconds + other.seconds,
            self.error if self.error is not None else other.error,
        )


@cache
def blank_record(n_folds: int, n_selected: int) -> Record:
    """Return the read-only record of a mask without results; the same object for each shape."""
    shape = (n_folds, n_selected)
    return Record(
        fold_costs=np.broadcast_to(np.nan, n_folds),
        importances=np.broadcast_to(np.nan, shape),
        used=np.broadcast_to(False, shape),
    )


def reason_of(error: str | None) -> str:
    """Return the first line of the error of a record, without the traceback."""
    return (error or "an unknown error").splitlines()[0]


def costs_of(fold_costs: Float) -> Float:
    """Mean of each row of fold costs (n, n_folds): NaN if unknown, inf if failed."""
    failed = np.isinf(fold_costs).any(axis=1)
    with np.errstate(invalid="ignore"):
        means = np.ascontiguousarray(fold_costs).sum(axis=1) / fold_costs.shape[1]
    return np.where(failed, np.inf, [round_cost(mean) for mean in means.tolist()])


def round_cost(cost: float) -> float:
    """Round to 12 significant digits, so that costs tie if they are equal in exact arithmetic."""
    return float(f"{cost:.11e}")


def mask_key(mask: Bool) -> bytes:
    """Encode a mask (n_units,) as the bytes that stand for it in a row."""
    bits = np.packbits(mask).tobytes()
    if len(mask) < _MIN_UNITS_FOR_POSITIONS or 4 * np.count_nonzero(mask) >= len(bits):
        return bits
    return np.flatnonzero(mask).astype("<u4").tobytes()


def encode(mask: Bool, record: Record) -> dict[str, Any]:
    """Encode the row of a mask (n_units,), which has the values of known folds only."""
    has_cost = record.has_cost
    explained = record.explained
    return {
        "mask": mask_key(mask),
        "folds": np.packbits(has_cost).tobytes(),
        "fold_costs": record.fold_costs[has_cost].astype("<f8").tobytes(),
        "used": np.packbits(record.used[has_cost]).tobytes(),
        "importance_folds": np.packbits(explained).tobytes(),
        "importances": record.importances[explained].astype("<f8").tobytes(),
        "seconds": record.seconds,
        # Texts of PostgreSQL cannot contain this character.
        "error": record.error and record.error.replace("\0", "?"),
    }


def decode(row: Any, n_folds: int, n_units: int) -> tuple[Bool, Record]:
    """Decode the mask (n_units,) of a row and its record, whose arrays may be read-only."""
    mask = _decode_mask(row.mask, n_units)
    has_cost = _unpack(row.folds, n_folds)
    explained = _unpack(row.importance_folds, n_folds)
    shape = (n_folds, int(mask.sum()))
    fold_costs = np.full(n_folds, np.nan)
    fold_costs[has_cost] = np.frombuffer(row.fold_costs, dtype="<f8")
    used_flags = _unpack(row.used, int(has_cost.sum()) * shape[1])
    used: Bool = np.broadcast_to(True, shape)
    if not has_cost.all() or not used_flags.all():
        used = np.zeros(shape, dtype=bool)
        used[has_cost] = used_flags.reshape(-1, shape[1])
    importances: Float = np.broadcast_to(np.nan, shape)
    if explained.any():
        importances = importances.copy()
        importances[explained] = np.frombuffer(row.importances, dtype="<f8").reshape(-1, shape[1])
    return mask, Record(fold_costs, importances, used, row.seconds, row.error)


def _decode_mask(data: bytes, n_units: int) -> Bool:
    if len(data) == (n_units + 7) // 8:
        return _unpack(data, n_units)
    mask = np.zeros(n_units, dtype=bool)
    mask[np.frombuffer(data, dtype="<u4")] = True
    return mask


def _unpack(data: bytes, count: int) -> Bool:
    return np.unpackbits(np.frombuffer(data, dtype=np.uint8), count=count).astype(bool)


class RecordCache:
    """LRU cache of records, keyed by mask, of about `n_bytes`."""

    def __init__(self, n_bytes: int) -> None:
        self._n_free_bytes = n_bytes
        self._records: dict[bytes, Record] = {}

    def get(self, key: bytes) -> Record | None:
        """Return the record of a mask, or None."""
        record = self._records.pop(key, None)
        if record is not None:
            self._records[key] = record
        return record

    def add(self, key: bytes, record: Record) -> None:
        """Add a record and make its arrays read-only."""
        self.remove(key)
        read_only(record.fold_costs, record.importances, record.used)
        self._records[key] = record
        self._n_free_bytes -= _n_bytes(record)
        while self._n_free_bytes < 0 and self._records:
            self.remove(next(iter(self._records)))

    def remove(self, key: bytes) -> None:
        """Remove a record, if present."""
        record = self._records.pop(key, None)
        if record is not None:
            self._n_free_bytes += _n_bytes(record)


def _n_bytes(record: Record) -> int:
    arrays = (record.fold_costs, record.importances, record.used)
    return _OVERHEAD + sum(_n_bytes_in_memory(array) for array in arrays)


def _n_bytes_in_memory(array: AnyArray) -> int:
    """Return the size of an array; the rows of a broadcast array share memory."""
    is_broadcast = array.ndim > 1 and array.strides[0] == 0
    return array.nbytes // max(1, len(array)) if is_broadcast else array.nbytes

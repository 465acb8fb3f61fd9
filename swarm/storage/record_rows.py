"""Serialize records as rows of an archive: arrays as little-endian bytes, without pickle.

A mask is a bit for each unit, or the positions of its units (4 bytes each) where that is shorter
and the table is wide. The two are distinguished by their length: there are always as many bits as
units, rounded up to bytes, and positions are stored only if they take fewer bytes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from swarm.arrays import Bool, Float
from swarm.storage.records import Record

__all__ = ["decode", "encode", "former_key", "mask_key"]

# Masks of fewer units are never stored as positions.
_FEW_UNITS = 4096


def mask_key(mask: Bool) -> bytes:
    """Return the bytes that stand for a mask (n_units,) in a row."""
    bits = former_key(mask)
    if len(mask) < _FEW_UNITS or 4 * np.count_nonzero(mask) >= len(bits):
        return bits
    return np.flatnonzero(mask).astype("<u4").tobytes()


def former_key(mask: Bool) -> bytes:
    """Return the bytes that stood for a mask (n_units,) before positions were stored."""
    return np.packbits(mask).tobytes()


def encode(mask: Bool, record: Record) -> dict[str, Any]:
    """Return the row of a mask (n_units,): values of known folds and selected units only."""
    known = record.known
    explained = ~np.isnan(record.importances).any(axis=1)
    return {
        "mask": mask_key(mask),
        "folds": np.packbits(known).tobytes(),
        "fold_costs": record.fold_costs[known].astype("<f8").tobytes(),
        "used": np.packbits(record.used[known][:, mask]).tobytes(),
        "importance_folds": np.packbits(explained).tobytes(),
        "importances": record.importances[explained][:, mask].astype("<f8").tobytes(),
        "seconds": record.seconds,
        # PostgreSQL text cannot contain this character.
        "error": record.error and record.error.replace("\0", "?"),
    }


def decode(row: Any, n_folds: int, n_units: int) -> tuple[Bool, Record]:
    """Return the mask (n_units,) of a row, and its record.

    Arrays of the record may be broadcast, and thus read-only.
    """
    mask = _mask(row.mask, n_units)
    known = _unpack(row.folds, n_folds)
    explained = _unpack(row.importance_folds, n_folds)
    size = int(mask.sum())
    fold_costs = np.full(n_folds, np.nan)
    fold_costs[known] = np.frombuffer(row.fold_costs, dtype="<f8")
    flags = _unpack(row.used, int(known.sum()) * size)
    if known.all() and flags.all():
        used = np.broadcast_to(mask, (n_folds, n_units))
    else:
        used = np.zeros((n_folds, n_units), dtype=bool)
        used[np.ix_(known, mask)] = flags.reshape(-1, size)
    importances: Float = np.broadcast_to(np.nan, (n_folds, n_units))
    if explained.any():
        importances = importances.copy()
        importances[explained] = 0.0
        values = np.frombuffer(row.importances, dtype="<f8").reshape(-1, size)
        importances[np.ix_(explained, mask)] = values
    return mask, Record(fold_costs, importances, used, row.seconds, row.error)


def _mask(data: bytes, n_units: int) -> Bool:
    if len(data) == (n_units + 7) // 8:
        return _unpack(data, n_units)
    mask = np.zeros(n_units, dtype=bool)
    mask[np.frombuffer(data, dtype="<u4")] = True
    return mask


def _unpack(data: bytes, count: int) -> Bool:
    return np.unpackbits(np.frombuffer(data, dtype=np.uint8), count=count).astype(bool)

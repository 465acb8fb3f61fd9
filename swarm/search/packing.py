"""Masks and sets of folds as keys of a mapping."""

from collections.abc import Collection, Iterable

import numpy as np

from swarm.arrays import Bool, Int


def pack_masks(masks: Bool) -> list[bytes]:
    """Return a key for each of the masks (n, n_units)."""
    return [row.tobytes() for row in np.packbits(masks, axis=1)]


def unpack_masks(keys: Iterable[bytes], n_units: int) -> Bool:
    """Return the masks of the keys of :func:`pack_masks`: bool (n, n_units)."""
    n_bytes = (n_units + 7) // 8
    packed = np.frombuffer(b"".join(keys), dtype=np.uint8).reshape(-1, n_bytes)
    return np.unpackbits(packed, axis=1, count=n_units).astype(bool)


def union_of_masks(keys: Iterable[bytes], n_units: int) -> Bool:
    """Return the units (n_units,) that are in any mask of the keys of :func:`pack_masks`."""
    n_bytes = (n_units + 7) // 8
    packed = np.frombuffer(b"".join(keys), dtype=np.uint8).reshape(-1, n_bytes)
    union = np.bitwise_or.reduce(packed, axis=0)
    return np.unpackbits(union, count=n_units).astype(bool)


def first_of_equal(masks: Bool) -> Int:
    """Return the row of the first of each group of equal masks (n, n_units), ascending."""
    first = np.unique(np.packbits(masks, axis=1), axis=0, return_index=True)[1]
    return np.sort(first)


def pack_folds(folds: Bool) -> int:
    """Return a number with a bit for each of the folds (n_folds,), to count and combine them."""
    return int.from_bytes(np.packbits(folds).tobytes(), "big")


def unpack_folds(keys: Collection[int], n_folds: int) -> Bool:
    """Return the folds of the numbers of :func:`pack_folds`: bool (n, n_folds)."""
    n_bytes = (n_folds + 7) // 8
    return unpack_masks((key.to_bytes(n_bytes, "big") for key in keys), n_folds)

"""The rows of the cells of a study: outer folds and samples of a table."""

from dataclasses import dataclass

import numpy as np

from swarm.arrays import Int
from swarm.errors import ConfigError, DataError
from swarm.protocols import Estimator
from swarm.rows import divide, hold_out, partition_key
from tasks.split import rows_of
from tasks.table import Table


@dataclass(frozen=True, eq=False)
class Part:
    """Rows of a cell, as ascending positions in the table.

    Attributes
    ----------
    name : str
        Name such as "fold 2 of 5", with its repetition if there is more than one.
    train : int64 (n_train,)
    test : int64 (n_test,), optional
    """

    name: str
    train: Int
    test: Int | None = None


def draw_sample(table: Table, share: float, seed: int, number: int, estimator: Estimator) -> Part:
    """Draw a share of the rows or groups without replacement; DataError if too few are left.

    `seed` is that of sample 0.
    """
    rows = rows_of(table, estimator)
    # Stratified folds of groups of different sizes are the same for any seed.
    fold_kind = "group" if rows.is_grouped else rows.kind
    try:
        sample, _ = hold_out(rows, fold_kind, 1 - share, seed=seed + number)
    except DataError as error:
        raise DataError(f"--share {share:g}: {error}; --resamples 0 draws no rows") from error
    return Part(f"draw {number + 1}", sample)


def outer_kind(table: Table, split: str, folds: str, estimator: Estimator) -> str:
    """Return the kind of the outer folds: in time if split or folds are, or by the same column."""
    if "time" in (split, folds):
        return "time"
    return "column" if folds == "column" else rows_of(table, estimator).kind


def outer_folds(
    table: Table,
    kind: str,
    n_folds: int,
    repeats: int,
    seed: int,
    estimator: Estimator,
    gap: int = 0,
) -> list[Part]:
    """Divide the rows into outer folds; InputError if they, or a partition, do not allow it.

    Parameters
    ----------
    table : Table
    kind : str
        Kind of the folds; see :func:`outer_kind`.
    n_folds : int
        Number of folds; folds of the kind "column" are as many as the column has values.
    repeats : int
        Number of partitions, each with its own seed.
    seed : int
        Seed of the first partition.
    estimator : estimator
        Model, which may decide whether the target has classes.
    gap : int
        Rows left out between training and test rows, for the kind "time".
    """
    if kind == "column" and table.fold is not None and table.fold.nunique() < 3:
        raise ConfigError(
            f"the fold column {table.fold.name!r} has {table.fold.nunique()} values; nested "
            "resampling needs 3 or more, as one is held out and the search uses the others: set "
            "folds.kind to another one"
        )

    rows = rows_of(table, estimator)
    outer: list[Part] = []
    partitions: set[frozenset[bytes]] = set()
    for repeat in range(repeats):
        folds = divide(rows, kind, n_folds, seed=seed + repeat, gap=gap)
        partitions.add(partition_key(folds))
        if len(partitions) == repeat:
            raise ConfigError(
                f"outer folds of kind {kind!r} repeat after {repeat}, got --repeats "
                f"{repeats}; set it to {repeat}"
            )
        suffix = f", repeat {repeat + 1}" if repeats > 1 else ""
        outer += [
            Part(f"fold {i} of {len(folds)}{suffix}", np.sort(train), np.sort(test))
            for i, (train, test) in enumerate(folds, 1)
        ]
    return outer

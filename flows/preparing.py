"""A table as a configuration has it: the problem, and what a search starts from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from conf.estimator import build_estimator
from conf.schema import SelectConfig
from flows.opaque import opaque
from tasks.compare_cell import Ground
from tasks.steps import Prepared, fetch_data, prepare_search, split_rows
from tasks.table import Table

__all__ = ["ground_as_configured", "preparation", "prepare_as_configured"]


def prepare_as_configured(
    config: SelectConfig,
    table: Table,
    *,
    needs: Sequence[str],
    seed: int,
    warm: Sequence[Sequence[str]] = (),
) -> Prepared:
    """Build the problem on the rows of `table`, and the hints called `needs`.

    `warm` are subsets, as column names, that the search may start from.
    """
    prepared: Prepared = prepare_search(
        opaque(table),
        opaque(build_estimator(config.model)),
        **preparation(config),
        seed=seed,
        needs=needs,
        warm=warm,
    )
    return prepared


def ground_as_configured(
    config: SelectConfig, *, needs: Sequence[str], split: bool
) -> tuple[Ground, Table, tuple[str, ...]]:
    """Fetch the table of a configuration, and pose its problem to several searches.

    Parameters
    ----------
    config : SelectConfig
    needs : sequence of str
        Hints of all the searches.
    split : bool
        Whether rows are kept aside for a test; otherwise all are searched on.

    Returns
    -------
    ground : Ground
    train : Table
        The rows that are searched on.
    warnings : tuple of str
        What makes the costs or the test figures doubtful.
    """
    options = config.data.model_dump(exclude={"source"})
    table = fetch_data(config.data.source, {**options, "fold": config.folds.column})
    test, warnings = None, tuple[str, ...]()
    if split:
        kind, share = config.split.kind, config.split.test_size
        rows = split_rows(opaque(table), kind, share, config.split_seed)
        table, test = table.take(rows.train), table.take(rows.test)
        warnings = (rows.warning,) if rows.warning else ()
    prepared = prepare_as_configured(config, table, needs=needs, seed=0)
    return Ground(prepared, test), table, (*warnings, *prepared.warnings)


def preparation(config: SelectConfig) -> dict[str, Any]:
    """Options of :func:`tasks.steps.prepare_search` that the configuration decides."""
    folds = config.folds
    return {
        "scoring": config.scoring,
        "pos_label": config.pos_label,
        "folds": {
            "kind": folds.kind,
            "n_folds": folds.n_folds,
            "shuffle": folds.shuffle,
            "seed": config.folds_seed,
        },
        "space": config.space.model_dump(),
        "importance": config.evaluation.importance,
        "n_clusters": config.prepare.n_clusters,
        "categorical_support": config.data.categorical_support,
    }

"""A table as a configuration has it: the problem, and what a search starts from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from conf.estimator import build_estimator
from conf.schema import SelectConfig
from flows.opaque import opaque
from tasks.steps import Prepared, prepare_search
from tasks.table import Table

__all__ = ["preparation", "prepare_as_configured"]


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
    }

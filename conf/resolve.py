"""A configuration with what it leaves open resolved by the estimator."""

from __future__ import annotations

from typing import Any

from conf.schema import SelectConfig
from swarm.problem.models import is_a

__all__ = ["fold_kind", "problem_options"]


def fold_kind(config: SelectConfig, estimator: Any) -> str:
    """Return the kind of the folds, with ``auto`` resolved."""
    if config.folds.kind != "auto":
        return config.folds.kind
    from sklearn.base import is_regressor

    return "random" if is_a(is_regressor, estimator) else "stratified"


def problem_options(config: SelectConfig, estimator: Any) -> dict[str, Any]:
    """Return what :func:`tasks.preparation.prepare` has to know of a problem."""
    folds = config.folds
    return {
        "scoring": config.scoring,
        "pos_label": config.pos_label,
        "folds": {
            "kind": fold_kind(config, estimator),
            "n_folds": folds.n_folds,
            "shuffle": folds.shuffle,
            "seed": config.folds_seed,
            "repeats": folds.repeats,
        },
        "space": config.space.model_dump(),
        "importance": config.evaluation.importance,
        "n_clusters": config.prepare.n_clusters,
        "categorical_support": config.data.categorical_support,
        "weights_in_score": config.data.weights_in_score,
    }

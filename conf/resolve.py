"""Arguments of the tasks from a configuration, with what it leaves open resolved."""

from typing import Any

from conf.estimator import build_estimator, build_scorer, with_params
from conf.schema import SelectConfig
from swarm.protocols import Estimator


def fold_kind(config: SelectConfig, estimator: Estimator) -> str:
    """Return the kind of the folds, with ``auto`` resolved."""
    from sklearn.base import is_regressor

    from swarm.problem.models import is_a

    return config.kind_of_folds(classes=not is_a(is_regressor, estimator))


def outer_gap(config: SelectConfig) -> int:
    """Return the gap of the outer folds of nested resampling.

    It is that of the split if it is in time, as outer test rows take the place of test rows, else
    that of the folds, which is 0 unless they are in time.
    """
    return config.split.gap if config.split.kind == "time" else config.folds.gap


def split_options(config: SelectConfig) -> dict[str, Any]:
    """Return the options of :func:`tasks.split.split`."""
    split = config.split
    return {
        "kind": split.kind,
        "test_size": split.test_size,
        "seed": config.split_seed,
        "gap": split.gap,
    }


def problem_options(config: SelectConfig, estimator: Estimator) -> dict[str, Any]:
    """Return the options of :func:`tasks.preparation.pose`."""
    folds = config.folds
    return {
        "scoring": build_scorer(config.scoring, config.model.allow),
        "pos_label": config.pos_label,
        "folds": {
            "kind": fold_kind(config, estimator),
            "n_folds": folds.n_folds,
            "shuffle": folds.shuffle,
            "seed": config.folds_seed,
            "gap": folds.gap,
        },
        "space": config.space.model_dump(),
        "importance": config.evaluation.importance,
        "weights_in_score": config.data.weights_in_score,
    }


def proxy_options(config: SelectConfig) -> dict[str, Any] | None:
    """Return the options of :func:`swarm.search.pose.proxy_of`; None without a proxy."""
    proxy = config.proxy
    if proxy is None:
        return None
    return {
        "estimator": build_estimator(with_params(config.model, proxy.params)),
        "rows": proxy.rows,
        "importance": config.evaluation.importance,
        "best": proxy.best,
        "probes": proxy.probes,
    }

"""LightGBM that chooses its number of trees on a part of its own training rows."""

from __future__ import annotations

from inspect import signature
from typing import Any, Self

import numpy as np
from lightgbm import LGBMClassifier, LGBMModel, LGBMRegressor
from sklearn.preprocessing import LabelEncoder
from sklearn.utils import _safe_indexing

from swarm.arrays import Int
from swarm.checks import require
from swarm.rows import Rows, hold_out, most_folds


class _StopsEarly(LGBMModel):
    """The parameters of both models, and their training."""

    def __init__(
        self, *, early_stopping_rounds: int = 20, validation_fraction: float = 0.2, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.early_stopping_rounds = early_stopping_rounds
        self.validation_fraction = validation_fraction

    def fit(  # type: ignore[override]
        self, X: Any, y: Any, sample_weight: Any = None, **params: Any
    ) -> Self:
        """Fit on most of the rows, until the others no longer improve."""
        require("validation_fraction", self.validation_fraction, above=0, below=1)
        classes = isinstance(self, LGBMClassifier)
        rows = held_out(y, self.validation_fraction, self.random_state, classes=classes)
        super().fit(*_divided(X, y, sample_weight, rows, params, classes=classes), **params)
        return self

    def _process_params(self, stage: str) -> dict[str, Any]:
        # Without the parameter that LightGBM does not know, and warns of.
        params: dict[str, Any] = super()._process_params(stage)
        return {name: value for name, value in params.items() if name != "validation_fraction"}


class EarlyStoppingLGBMClassifier(_StopsEarly, LGBMClassifier):  # type: ignore[misc]
    """LightGBM classifier with early stopping on rows that it holds out in `fit`.

    The rows are drawn from `random_state`, in proportion to the classes. They depend on the number
    of rows and on the labels alone: models of different columns hold out the same rows.
    `n_estimators` is the maximum number of trees.

    Parameters
    ----------
    early_stopping_rounds : int, default=20
        Number of trees without an improvement after which the training ends.
    validation_fraction : float, default=0.2
        Share of the training rows that are held out. The model is not refitted on them.
    **kwargs
        Parameters of :class:`lightgbm.LGBMClassifier`.
    """


class EarlyStoppingLGBMRegressor(_StopsEarly, LGBMRegressor):  # type: ignore[misc]
    """LightGBM regressor with early stopping on rows that it holds out in `fit`.

    The rows are drawn at random; the parameters are those of :class:`EarlyStoppingLGBMClassifier`.
    """


def held_out(y: Any, share: float, seed: Any, *, classes: bool) -> Int:
    """Return the positions of the rows to hold out, ascending; a `seed` of None is 0.

    None is of a class that no other row has.
    """
    labels = np.asarray(y)
    rows = Rows(None, labels, task="multiclass" if classes else "regression")
    most = most_folds(rows, rows.kind)
    share = min(max(share, 1 / most), 1 - 1 / most)
    train, test = hold_out(rows, rows.kind, share, seed=seed or 0)
    return test[np.isin(labels[test], labels[train])] if classes else test


def _divided(
    X: Any, y: Any, weight: Any, rows: Int, params: dict[str, Any], *, classes: bool
) -> tuple[Any, ...]:
    """Return the rows to train on, and add those that are held out to the parameters of `fit`."""
    train = np.setdiff1d(np.arange(len(np.asarray(y))), rows)
    inner = _safe_indexing(X, rows), _safe_indexing(y, rows)
    outer = _safe_indexing(X, train), _safe_indexing(y, train)
    if "eval_X" in signature(LGBMClassifier.fit).parameters:
        # From LightGBM 4.7 on, where `eval_set` is deprecated, and classes are not encoded.
        params["eval_X"], params["eval_y"] = inner
        if classes:
            params["eval_y"] = LabelEncoder().fit(outer[1]).transform(inner[1])
    else:
        params["eval_set"] = [inner]
    if weight is not None:
        params["eval_sample_weight"] = [_safe_indexing(weight, rows)]
        weight = _safe_indexing(weight, train)
    return *outer, weight

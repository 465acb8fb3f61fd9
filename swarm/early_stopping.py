"""LightGBM that chooses its number of trees on training rows that it holds out."""

from inspect import signature
from typing import Any, Self

import numpy as np
from lightgbm import LGBMClassifier, LGBMModel, LGBMRegressor
from numpy.typing import ArrayLike
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
        training = _divided(X, y, sample_weight, rows, params, classes=classes)
        super().fit(*training, **params)
        return self

    def _process_params(self, stage: str) -> dict[str, Any]:
        # LightGBM would warn of a parameter that it does not know.
        params = super()._process_params(stage)
        return {name: value for name, value in params.items() if name != "validation_fraction"}


class EarlyStoppingLGBMClassifier(_StopsEarly, LGBMClassifier):  # type: ignore[misc]
    """LightGBM classifier with early stopping on rows that it holds out in `fit`.

    The rows are drawn from `random_state`, in proportion to the classes. They depend only on the
    number of rows and on the labels: models of different columns hold out the same rows.
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


def held_out(y: ArrayLike, share: float, seed: Any, *, classes: bool) -> Int:
    """Return the positions of the rows to hold out, ascending; a `seed` of None is 0.

    Rows of a class that no training row has are not held out.
    """
    labels = np.asarray(y)
    rows = Rows(None, labels, task="multiclass" if classes else "regression")
    n_max = most_folds(rows, rows.kind)
    share = min(max(share, 1 / n_max), 1 - 1 / n_max)
    train, test = hold_out(rows, rows.kind, share, seed=seed or 0)
    return test[np.isin(labels[test], labels[train])] if classes else test


def _divided(
    X: Any, y: Any, weight: Any, rows: Int, params: dict[str, Any], *, classes: bool
) -> tuple[Any, ...]:
    """Return the training rows, and add the held-out rows to the parameters of `fit`."""
    train = np.setdiff1d(np.arange(len(np.asarray(y))), rows)
    X_train, y_train = _safe_indexing(X, train), _safe_indexing(y, train)
    X_held_out, y_held_out = _safe_indexing(X, rows), _safe_indexing(y, rows)
    if "eval_X" in signature(LGBMClassifier.fit).parameters:
        # LightGBM 4.7 deprecates `eval_set`, and does not encode classes.
        if classes:
            y_held_out = LabelEncoder().fit(y_train).transform(y_held_out)
        params["eval_X"], params["eval_y"] = X_held_out, y_held_out
    else:
        params["eval_set"] = [(X_held_out, y_held_out)]
    if weight is not None:
        params["eval_sample_weight"] = [_safe_indexing(weight, rows)]
        weight = _safe_indexing(weight, train)
    return X_train, y_train, weight

"""Protocols of the objects that users hand over: estimators, scorers and splitters."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol, Self

from swarm.arrays import Int


class Estimator(Protocol):
    """A model with the interface of scikit-learn, fitted or not."""

    def fit(self, X: Any, y: Any) -> Any:
        """Fit the model to rows and their targets."""

    def predict(self, X: Any) -> Any:
        """Predict the targets of rows."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters of the model, and of the models within it."""

    def set_params(self, **params: Any) -> Self:
        """Set parameters of the model, or of the models within it."""


class Scorer(Protocol):
    """A scorer with the interface of scikit-learn: greater is better."""

    def __call__(self, estimator: Any, X: Any, y: Any) -> float:
        """Score a fitted model on rows and their targets."""


class Splitter(Protocol):
    """A splitter with the interface of scikit-learn."""

    def split(self, X: Any, y: Any = None, groups: Any = None) -> Iterable[tuple[Int, Int]]:
        """Yield the positions of training and of test rows, fold by fold."""

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """Return the number of folds."""

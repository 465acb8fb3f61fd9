"""Models that read the rows of large tables of mostly zeros from a sparse matrix."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from scipy.sparse import vstack
from sklearn.base import BaseEstimator, clone
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if

from swarm.evaluation.boosted import has_known_params, is_better_sparse, sparse_matrix
from swarm.problem.table import has_plain_dtypes
from swarm.validation.answers import Rows
from swarm.validation.contenders import Contender


class SparseRows:
    """All rows in one sparse matrix, so that a model, and a worker, needs little memory.

    LightGBM bins a sparse matrix much faster than a table, into the same bins.
    """

    def __init__(self, train: Rows, test: Rows) -> None:
        self._columns = train.features.columns
        parts = (train.features, test.features)
        self._matrix = vstack([sparse_matrix(part) for part in parts], format="csc")
        positions = pd.DataFrame({"row": np.arange(self._matrix.shape[0])})
        n_train = train.n_rows
        self._train = replace(train, features=positions[:n_train])
        self._test = replace(test, features=positions[n_train:])

    @classmethod
    def of(cls, estimator: BaseEstimator, train: Rows, test: Rows) -> SparseRows | None:
        """Return the rows, or None if the models do not gain by it."""
        is_pandas = isinstance(train.features, pd.DataFrame)
        if not is_pandas or not has_known_params(estimator) or not is_better_sparse(train.features):
            return None
        test = replace(test, features=test.features[train.features.columns])
        return cls(train, test) if has_plain_dtypes(test.features) else None

    def inputs(
        self, estimator: BaseEstimator, contender: Contender
    ) -> tuple[BaseEstimator, Contender, Rows, Rows]:
        """Return the arguments of `answer` for a contender of one model."""
        (subset,) = contender.subsets
        columns = self._columns.get_indexer(pd.Index(subset))
        reader = _RowReader(estimator, self._matrix[:, columns].tocsr())
        return reader, replace(contender, subsets=(["row"],)), self._train, self._test


def _has(method: str) -> Any:
    return available_if(lambda self: hasattr(self.estimator, method))


class _RowReader(BaseEstimator):  # type: ignore[misc]
    """An estimator that takes positions of rows (n, 1) in place of features."""

    def __init__(self, estimator: BaseEstimator, matrix: Any) -> None:
        self.estimator = estimator
        self.matrix = matrix

    def fit(self, positions: Any, y: Any, sample_weight: Any = None) -> _RowReader:
        self.model_ = clone(self.estimator).fit(self._read(positions), y, sample_weight)
        return self

    def predict(self, positions: Any) -> Any:
        return self.model_.predict(self._read(positions))

    @_has("predict_proba")  # type: ignore[untyped-decorator]
    def predict_proba(self, positions: Any) -> Any:
        return self.model_.predict_proba(self._read(positions))

    @_has("decision_function")  # type: ignore[untyped-decorator]
    def decision_function(self, positions: Any) -> Any:
        return self.model_.decision_function(self._read(positions))

    @property
    def classes_(self) -> Any:
        return self.model_.classes_

    def __sklearn_tags__(self) -> Any:
        return get_tags(self.estimator)

    def _read(self, positions: Any) -> Any:
        return self.matrix[np.asarray(positions)[:, 0]]

"""Rows of large tables of mostly zeros as sparse matrices."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
from sklearn.base import BaseEstimator

from swarm.evaluation.boosted import has_known_params, is_better_sparse, sparse_matrix
from swarm.problem.table import has_plain_dtypes, numbered
from swarm.rows import Rows
from swarm.validation.contenders import Contender


class SparseRows:
    """Training and test rows as sparse matrices, so that a worker needs little memory.

    LightGBM bins a sparse matrix much faster than a table, into the same bins.
    """

    def __init__(self, train: Rows, test: Rows) -> None:
        self._columns = train.features.columns
        self._rows = [
            replace(rows, features=sparse_matrix(rows.features)) for rows in (train, test)
        ]

    @classmethod
    def of(cls, estimator: BaseEstimator, train: Rows, test: Rows) -> SparseRows | None:
        """Return the rows, or None if models are not trained faster on sparse matrices."""
        is_pandas = isinstance(train.features, pd.DataFrame)
        if not is_pandas or not has_known_params(estimator) or not is_better_sparse(train.features):
            return None
        test = replace(test, features=test.features[train.features.columns])
        return cls(train, test) if has_plain_dtypes(test.features) else None

    def inputs(self, contender: Contender) -> tuple[Contender, Rows, Rows]:
        """Return a contender of one model, and the rows with only its columns."""
        (subset,) = contender.subsets
        columns = self._columns.get_indexer(pd.Index(subset))
        train, test = (
            replace(rows, features=rows.features[:, columns].tocsr()) for rows in self._rows
        )
        return replace(contender, subsets=(numbered(len(columns)),)), train, test

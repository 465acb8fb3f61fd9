"""Gaussian naive Bayes: log-likelihoods of features add up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from swarm.evaluation.exact.answers import Answers, by_fold
from swarm.evaluation.exact.costs import costs_of
from swarm.evaluation.exact.tables import FoldTable, fold_tables, membership
from swarm.problem import Problem

__all__ = ["NaiveBayesPath", "naive_bayes_path"]

Bool = NDArray[np.bool_]
Float = NDArray[np.float64]

# Two classes closer than this share of their log-likelihood are left to a fitted model. Sums in
# another order differ by some 1e-15 of it, distances from a mean that is far away by more.
_MARGIN = 1e-7
# A column farther from zero than this many standard deviations has lost the digits of its
# distances: it is left to a fitted model too.
_FARTHEST = 1e7
# Numbers of the table of log-likelihoods that are worked on at a time, 64 MiB.
_CHUNK = 1 << 23


@dataclass(frozen=True)
class _Moments:
    """What naive Bayes learns from the training rows of a fold.

    Attributes
    ----------
    mean, variance : float64 (n_classes, n_columns)
    spread : float64 (n_columns,)
        Variance over all classes together; the largest of a subset smooths its variances.
    log_prior : float64 (n_classes,)
    """

    classes: NDArray[Any]
    mean: Float
    variance: Float
    spread: Float
    log_prior: Float


@dataclass(frozen=True)
class NaiveBayesPath:
    """Costs of :class:`sklearn.naive_bayes.GaussianNB` by one matrix product a fold.

    Attributes
    ----------
    problem : Problem
    tables : list of FoldTable
    moments : list of _Moments
    membership : bool (n_units, n_columns)
    smoothing : float
    """

    problem: Problem
    tables: list[FoldTable]
    moments: list[_Moments]
    membership: Bool
    smoothing: float

    def answers(self, masks: Bool) -> Answers:
        """Evaluate masks on every fold, see :class:`.choose.ExactPath`."""
        return by_fold(self._costs, masks, len(self.tables))

    def _costs(self, masks: Bool, fold: int) -> Float:
        """Cost of each mask on a fold: float64 (n,), NaN where two classes are as good as tied."""
        table, learned = self.tables[fold], self.moments[fold]
        columns = masks @ self.membership
        widest = np.argmax(np.where(columns, learned.spread, -1.0), axis=1)
        costs = np.full(len(masks), np.nan)
        # The smoothing is a share of the largest variance within the subset.
        for column in np.unique(widest):
            rows = np.flatnonzero(widest == column)
            variance = learned.variance + self.smoothing * learned.spread[column]
            far = (np.abs(learned.mean) >= _FARTHEST * np.sqrt(variance)).any(axis=0)
            rows = rows[~(columns[rows] & far).any(axis=1)]
            if rows.size == 0:
                continue
            terms = _log_likelihoods(table, learned.mean, np.where(far, 1.0, variance))
            step = max(1, _CHUNK // terms[0].size)
            for start in range(0, len(rows), step):
                part = rows[start : start + step]
                labels, doubtful = _labels(columns[part], terms, learned.log_prior)
                predicted = learned.classes[labels]
                costs[part] = costs_of(predicted, self.problem, fold, learned.classes)
                costs[part[doubtful]] = np.nan
        return costs


def _log_likelihoods(table: FoldTable, mean: Float, variance: Float) -> Float:
    """Log-likelihood of every test row in each column under each class.

    Parameters
    ----------
    mean, variance : float64 (n_classes, n_columns)

    Returns
    -------
    float64 (n_columns, n_classes, n_test)
    """
    width = variance.T[:, :, None]
    distance = table.test[:, None, :] - mean.T[:, :, None]
    likelihood: Float = -0.5 * (np.log(2.0 * np.pi * width) + distance**2 / width)
    return likelihood


def _labels(columns: Bool, terms: Float, log_prior: Float) -> tuple[NDArray[np.int64], Bool]:
    """Labels, int (n, n_test), and which masks have a doubtful one, bool (n,)."""
    n_columns, n_classes, n_test = terms.shape
    flat = terms.reshape(n_columns, n_classes * n_test)
    joint = (columns.astype(np.float64) @ flat).reshape(len(columns), n_classes, n_test)
    joint += log_prior[:, None]
    labels = joint.argmax(axis=1)
    best = np.take_along_axis(joint, labels[:, None, :], axis=1)[:, 0, :]
    np.put_along_axis(joint, labels[:, None, :], -np.inf, axis=1)
    close = best - joint.max(axis=1) <= _MARGIN * (1.0 + np.abs(best))
    return labels, close.any(axis=1) | ~np.isfinite(best).all(axis=1)


def naive_bayes_path(problem: Problem, model: Any) -> tuple[NaiveBayesPath | None, str]:
    """Learn the moments of every fold, or say why that is not enough."""
    if model.priors is not None:
        return None, "GaussianNB has priors of its own"
    tables = fold_tables(problem)
    moments = [_moments(table) for table in tables]
    path = NaiveBayesPath(problem, tables, moments, membership(problem), float(model.var_smoothing))
    return path, "log-likelihoods of naive Bayes add up over features"


def _moments(table: FoldTable) -> _Moments:
    classes, codes = np.unique(table.train_target, return_inverse=True)
    parts = [table.train[:, codes == code] for code in range(len(classes))]
    return _Moments(
        classes=classes,
        mean=np.array([part.mean(axis=1) for part in parts]),
        variance=np.array([part.var(axis=1) for part in parts]),
        spread=table.train.var(axis=1),
        log_prior=np.log(np.bincount(codes) / len(codes)),
    )

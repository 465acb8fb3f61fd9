"""Stand-ins for tests, beside the planted problems of swarm.testing."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
from hypothesis import settings
from sklearn.naive_bayes import GaussianNB

from swarm.arrays import Bool
from swarm.evaluation.crossval import CrossValidation
from swarm.evaluation.types import Evaluations
from swarm.problem.problem import Problem
from swarm.testing.planted import Planted, plain_space, planted

# Hypothesis sets no deadline, as an example may take long on a busy machine.
calm = settings(deadline=None)


class Terminal(io.StringIO):
    """A stream that says that it is a terminal."""

    def isatty(self) -> bool:
        return True


class OwnBayes(GaussianNB):
    """An estimator of a package that nobody vouches for."""


def noisy(n_units: int = 20, seed: int = 3, n_folds: int = 12) -> Planted:
    """Return a problem whose folds differ for every mask, as the folds of real data do."""
    evaluator = planted(plain_space(n_units), seed, n_folds=n_folds)
    noise = np.random.default_rng(seed).normal(0, 0.002, evaluator.weights.shape)
    evaluator.weights += noise
    evaluator.base[:] = 0.1 - np.minimum(evaluator.weights, 0).sum(axis=1).min()
    return evaluator


def some_masks(n: int, n_units: int, seed: int = 0) -> Bool:
    """Return masks of all densities, each with a unit at least."""
    rng = np.random.default_rng(seed)
    masks = rng.random((n, n_units)) < rng.uniform(0.2, 0.9, size=(n, 1))
    masks[np.arange(n), rng.integers(0, n_units, n)] = True
    return masks


def evaluated(
    problem: Problem,
    masks: Bool,
    archive: Any = None,
    incumbents: Any = np.inf,
    order: Any = None,
    **options: Any,
) -> Evaluations:
    """Return the evaluations of masks; `order` is the order in which folds are trained."""
    limits = np.broadcast_to(np.asarray(incumbents, dtype=float), len(masks)).copy()
    folds = np.arange(problem.n_folds) if order is None else np.asarray(order)
    with CrossValidation(problem, archive, **options) as evaluator:
        return evaluator.evaluate(masks, limits, folds)

"""Fit the model on one fold before a run starts, so that invalid settings fail early."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from sklearn.base import clone

from swarm.arrays import Bool
from swarm.errors import ConfigError, TransientError, as_clause, describe
from swarm.evaluation.fitting import train_fold
from swarm.evaluation.transient import retry_transient
from swarm.evaluation.workers import Workers
from swarm.problem.models import model_importances
from swarm.problem.problem import Problem
from swarm.protocols import Estimator
from swarm.threads import one_thread

if TYPE_CHECKING:
    from swarm.storage.archive import Archive

# These parameters of LightGBM (with aliases) and of scikit-learn limit the length of a fit.
_ROUNDS = {
    *("n_estimators", "max_iter", "num_iterations", "num_iteration", "n_iter", "num_tree"),
    *("num_trees", "num_round", "num_rounds", "nrounds", "num_boost_round"),
}
_MAX_ROUNDS = 10


def probe(
    problem: Problem,
    archive: Archive | None = None,
    timeout: float | None = None,
    smallest: int | None = None,
) -> None:
    """Raise ConfigError for what :func:`trouble` finds, before a run is opened.

    Nothing is archived, and a problem with a fit in `archive` is skipped. With a `timeout` in
    seconds the fits are in another process, whose timeout or crash is ignored.
    """
    if archive is not None and archive.has_evaluations(problem):
        return
    with closing(Workers(timeout=timeout)) as workers:
        message = workers.call(problem, partial(trouble, smallest=smallest))
    if message is not None:
        raise ConfigError(message)


def trouble(problem: Problem, smallest: int | None = None) -> str | None:
    """Fit and score one fold with all units, and one with few; return what fails.

    `smallest` is the number of few units, by default the smallest size of the space. Trees and
    iterations are limited to ten, unless that fails. TransientError if a fit fails for a reason
    outside the model; running out of memory is left to the workers.
    """
    quick = _with_few_rounds(problem.estimator)
    variants = [problem] if quick is None else [replace(problem, estimator=quick), problem]
    message = None
    try:
        with (
            problem.settings.silenced(),
            problem.settings.applied(),
            one_thread(),
            _quiet_stderr(),
        ):
            for variant in variants:
                message = _trouble_of_sizes(variant, smallest or problem.space.min_size)
                if message is None:
                    break
    except MemoryError:
        return None
    return message


def _trouble_of_sizes(problem: Problem, smallest: int) -> str | None:
    """Fit the largest and the smallest subset; return the error message or None."""
    space = problem.space
    remedy = "correct its parameters, or choose another model or scorer"
    message = _trouble_of_mask(problem, ~space.forbidden, remedy)
    if message is not None or smallest >= space.max_size:
        return message
    first_units = space.in_order()[: int((~space.forbidden).sum())]
    n_fixed = int(space.fixed.sum())
    # The first units may have no values in a fold: the last ones are tried before a refusal.
    last_units = np.concatenate([first_units[:n_fixed], first_units[n_fixed:][::-1]])
    remedy = "correct its parameters, or raise the smallest size of a subset"
    for units in (first_units, last_units):
        mask = np.isin(np.arange(space.n_units), units[:smallest])
        message = _trouble_of_mask(problem, mask, remedy)
        if message is None:
            break
    return message


def _trouble_of_mask(problem: Problem, mask: Bool, remedy: str) -> str | None:
    """Return why a mask (n_units,) cannot be fitted or scored on the smallest fold, or None."""
    fold = int(np.argmin([len(train) for train, _ in problem.folds]))
    train, test = problem.folds[fold]
    positions = problem.space.positions(mask)
    columns = problem.columns(positions)
    n_units = int(mask.sum())
    subset = f"all {n_units}" if n_units == problem.space.n_units else f"{n_units}"
    model_name = type(problem.estimator).__name__
    scorer = f"the scorer {problem.scoring.name!r}"
    place = f"for {model_name} on the {len(test)} test rows of fold {fold}"
    failure = (
        f"{model_name} cannot be fitted on the {len(train)} training rows of fold {fold} with "
        f"{subset} feature{'s' if n_units > 1 else ''}"
    )
    try:
        model, test_table = retry_transient(lambda: train_fold(problem, columns, positions, fold))
        if problem.importance == "fold":
            model_importances(model, len(positions))
        failure = f"{scorer} fails {place}"
        cost = retry_transient(lambda: problem.cost(model, test_table, test))
    except (MemoryError, TransientError):
        raise
    except Exception as error:
        return f"{failure}: {as_clause(describe(error))}; {remedy}"
    if np.isnan(cost):
        return f"{scorer} gives NaN {place}; choose another scorer, or fewer folds"
    return None


def _with_few_rounds(estimator: Estimator) -> Estimator | None:
    """Return a clone with few trees or iterations, or None if there is nothing to limit."""
    params = estimator.get_params(deep=True) if hasattr(estimator, "get_params") else {}
    limited = {
        name: _MAX_ROUNDS
        for name, value in params.items()
        if name.rpartition("__")[2] in _ROUNDS and isinstance(value, int) and value > _MAX_ROUNDS
    }
    return clone(estimator).set_params(**limited) if limited else None


@contextmanager
def _quiet_stderr() -> Iterator[None]:
    """Discard output of compiled code: LightGBM prints each error before raising it."""
    try:
        stderr = os.dup(2)
    except OSError:
        # There is no stderr to silence.
        yield
        return
    try:
        with open(os.devnull, "w") as devnull:
            os.dup2(devnull.fileno(), 2)
        yield
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)

"""Fit the model on one fold before a run starts, so that invalid settings fail early."""

from __future__ import annotations

import os
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from swarm.errors import ConfigError, describe
from swarm.evaluation.executors import process_pool
from swarm.evaluation.fitting import train_fold
from swarm.evaluation.transient import is_transient, retry_transient
from swarm.interrupts import children_ignore_sigint
from swarm.problem.model_inputs import with_accepted_names
from swarm.problem.models import last_step, model_importances
from swarm.problem.problem import Problem
from swarm.threads import one_thread

if TYPE_CHECKING:
    from swarm.storage.archive import Archive

# Parameters that limit the length of a fit, of LightGBM with aliases and of scikit-learn.
_ROUNDS = {
    *("n_estimators", "max_iter", "num_iterations", "num_iteration", "n_iter", "num_tree"),
    *("num_trees", "num_round", "num_rounds", "nrounds", "num_boost_round"),
}
_FEW_ROUNDS = 10
# Time for a process to start and to import its libraries, before the fit begins.
_START_SECONDS = 120.0


def probe(problem: Problem, archive: Archive | None = None, timeout: float | None = None) -> None:
    """Fit all features on the fold with the fewest training rows; ConfigError if it fails twice.

    The run would fail on them after the search; TransientError if for a reason outside the model.
    Trees and iterations are limited to ten, nothing is archived, and a problem with a fit in
    `archive` is skipped. With a `timeout` in seconds the fit is in another process, whose timeout
    or crash is ignored.
    """
    if archive is not None and archive.has_evaluations(problem):
        return
    trouble = _trouble(problem) if timeout is None else _watched(problem, timeout)
    if trouble is not None:
        raise ConfigError(trouble)


def _trouble(problem: Problem) -> str | None:
    """Return the error message, or None. Running out of memory is left to the workers."""
    few = _with_few_rounds(problem.estimator)
    try:
        with warnings.catch_warnings(), one_thread(), _quiet_stderr():
            warnings.simplefilter("ignore")
            if few is not None and _attempted(replace(problem, estimator=few)) is None:
                return None
            return _attempted(problem)
    except MemoryError:
        return None


def _attempted(problem: Problem) -> str | None:
    """Return the error message or None; fit again after a transient error."""
    return retry_transient(lambda: _fit_and_score(problem))


def _fit_and_score(problem: Problem) -> str | None:
    fold = int(np.argmin([len(train) for train, _ in problem.folds]))
    train, test = problem.folds[fold]
    positions = problem.space.positions(~problem.space.forbidden)
    columns = with_accepted_names(problem.features.iloc[:, positions], problem.estimator)
    named, scorer = type(last_step(problem.estimator)).__name__, problem.scoring.name
    tests = f"{len(test)} test rows of fold {fold}"
    failure = (
        f"{named} cannot be fitted on the {len(train)} training rows of fold {fold} with all "
        f"{len(positions)} features"
    )
    other = "another model"
    try:
        model, tested = train_fold(problem, columns, positions, fold)
        if problem.importance == "fold":
            model_importances(model, len(positions))
        failure, other = (
            f"the scorer {scorer!r} fails for {named} on the {tests}",
            "another scorer or model",
        )
        weight = problem.score_weight(test)
        cost = problem.scoring.cost(model, tested, problem.target[test], weight)
    except Exception as error:
        if is_transient(error):
            raise
        return f"{failure}: {_reason(error)}; correct its parameters, or choose {other}"
    if np.isnan(cost):
        return (
            f"the scorer {scorer!r} gives NaN for {named} on the {tests}; choose another scorer, "
            "or fewer folds"
        )
    return None


def _with_few_rounds(estimator: Any) -> Any | None:
    """Return a clone with few trees or iterations, or None if there is nothing to limit."""
    from sklearn.base import clone

    long = {
        name: _FEW_ROUNDS
        for name, value in estimator.get_params(deep=True).items()
        if name.rpartition("__")[2] in _ROUNDS and isinstance(value, int) and value > _FEW_ROUNDS
    }
    return clone(estimator).set_params(**long) if long else None


def _watched(problem: Problem, timeout: float) -> str | None:
    from concurrent.futures import BrokenExecutor
    from concurrent.futures import TimeoutError as Late

    with process_pool(problem, 1) as pool:
        with children_ignore_sigint():
            answer = pool.executor.submit(_limited, pool.send(), timeout)
        try:
            return answer.result(timeout=_START_SECONDS + 3 * timeout)
        except (BrokenExecutor, Late):
            return None


def _limited(load: Callable[[], Problem], seconds: float) -> str | None:
    """Run in a process that exits if the fit hangs; see :class:`.workers.Deadline`."""
    import faulthandler

    with open(os.devnull, "w") as nowhere:
        faulthandler.dump_traceback_later(seconds, exit=True, file=nowhere)
        try:
            return _trouble(load())
        finally:
            faulthandler.cancel_dump_traceback_later()


def _reason(error: Exception) -> str:
    """Return the type and first sentence of an error, without LightGBM's place in its source."""
    text = " ".join(describe(error).split())
    first = re.sub(r" at \S+, line \d+", "", text).rstrip(" .").split(". ")[0].replace("; ", ", ")
    return first if len(first) <= 300 else f"{first[:300]}..."


@contextmanager
def _quiet_stderr() -> Iterator[None]:
    """Discard output of compiled code: LightGBM prints each error before raising it."""
    sys.stderr.flush()
    try:
        stderr = os.dup(2)
    except OSError:  # closed
        yield
        return
    try:
        with open(os.devnull, "w") as nowhere:
            os.dup2(nowhere.fileno(), 2)
        yield
    finally:
        with suppress(OSError):
            sys.stderr.flush()
        os.dup2(stderr, 2)
        os.close(stderr)

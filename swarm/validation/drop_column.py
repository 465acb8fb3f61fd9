"""What the score loses without each chosen feature, on rows that the models were not trained on.

Drop-column importance: the model is trained again without a feature, as in leave-one-covariate-out
inference (Lei et al., 2018, Distribution-free predictive inference for regression). The cost is
bounded: one model of the chosen features, and at most :data:`MOST_DROPPED` without one of them; on
several folds these once a fold. Of more than :data:`MOST_TRAINING_ROWS` training rows they are
trained on as many, spread evenly.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

import numpy as np
import pandas as pd
from joblib import delayed
from numpy.typing import ArrayLike
from sklearn.base import is_regressor

from swarm.answers import Answers
from swarm.arrays import Bool, Float, Int, Positions
from swarm.ensemble import has_probabilities
from swarm.errors import describe
from swarm.evaluation.fitting import fit_for
from swarm.problem.problem import Problem
from swarm.problem.table import plain_target
from swarm.statistics.resampled import corrected_t
from swarm.statistics.spearman import spread_rows
from swarm.validation.serial_first import serial_first

MOST_DROPPED = 12
MOST_TRAINING_ROWS = 100_000
_RESAMPLES, _RESAMPLED_ROWS = 30, 2_000
_LEVEL, _Z = 0.95, 1.959964


@dataclass(frozen=True, eq=False)
class Unseen:
    """Rows to score a model on, and the rows of the problem to train it on."""

    train: Int  # (n_train,), positions of rows of the problem
    features: Any  # (n_rows, n_columns), with the columns of the problem in their order
    target: Any  # (n_rows,) or (n_rows, n_labels)
    weight: Float | None = None  # (n_rows,), weights in the score
    groups: ArrayLike | None = None  # (n_rows,), ids of rows that belong together


@dataclass(frozen=True, eq=False)
class FeatureLosses:
    """What the score loses without each chosen feature.

    Attributes
    ----------
    rows : str
        What the models were scored on.
    metric : str
        Natural name of the metric of the search.
    losses : DataFrame
        A row for each feature or group that was dropped: loss (increase of the cost), low, high
        (95 %). The highest loss first; empty if there is a `reason`.
    reason : str
        Why there are no losses; else empty.
    """

    rows: str
    metric: str
    losses: pd.DataFrame = field(default_factory=pd.DataFrame)
    reason: str = ""


@dataclass(frozen=True, eq=False)
class _Scored:
    """A scored model; `error` is the reason why there is none."""

    cost: float = float("nan")
    answers: Answers | None = None
    error: str = ""


def feature_losses(
    problem: Problem,
    chosen: Bool,
    unseen: Sequence[Unseen],
    rows: str,
    *,
    ranked: Sequence[str] = (),
    n_jobs: int = 1,
) -> FeatureLosses:
    """Train the model again without each chosen feature, and score it.

    A model that fails is left out, or is the reason why there are no losses: they never end a run.

    Parameters
    ----------
    problem : Problem
    chosen : bool (n_units,)
        Mask of the chosen features.
    unseen : sequence of Unseen
        Test rows, or the folds of one partition.
    rows : str
        What `unseen` is, for example ``143 unseen rows``.
    ranked : sequence of str
        Columns by importance, the highest first: which ones are dropped if there are many.
    n_jobs : int
        Number of models trained in parallel. It does not change the results.
    """
    metric = problem.scoring.metric
    masks = _without_each(problem, chosen, ranked)
    if not masks:
        return FeatureLosses(rows, metric, reason="a subset of a single feature has none to drop")
    longest = max(len(one.train) for one in unseen)
    if longest > MOST_TRAINING_ROWS:
        trains = [one.train[spread_rows(len(one.train), MOST_TRAINING_ROWS)] for one in unseen]
        unseen = [replace(one, train=train) for one, train in zip(unseen, trains, strict=True)]
        rows = f"{rows} (models are trained on {MOST_TRAINING_ROWS:,} of {longest:,} rows)"
    calls = [
        delayed(_scored)(problem, problem.space.positions(mask), one)
        for mask in (chosen, *masks.values())
        for one in unseen
    ]
    done = serial_first(calls, n_jobs)
    complete, *others = (list(islice(done, len(unseen))) for _ in range(1 + len(masks)))
    reason = next((one.error for one in complete if one.error), "")
    losses = pd.DataFrame()
    if not reason:
        without = dict(zip(masks, others, strict=True))
        losses = _losses(problem, complete, without, unseen)
    return FeatureLosses(
        rows=rows,
        metric=metric,
        losses=losses,
        reason=reason,
    )


def _without_each(problem: Problem, chosen: Bool, ranked: Sequence[str]) -> dict[str, Bool]:
    """Return the masks without one unit, by its name; the most important units only."""
    space = problem.space
    units = [int(unit) for unit in np.flatnonzero(chosen)]
    if len(units) < 2:
        return {}
    place = {name: at for at, name in enumerate(ranked)}

    def first(unit: int) -> int:
        return min(place.get(space.columns[i], len(place)) for i in space.units[unit])

    masks = {}
    for unit in sorted(units, key=first)[:MOST_DROPPED]:
        mask = chosen.copy()
        mask[unit] = False
        masks[space.names[unit]] = mask
    return masks


def _scored(problem: Problem, positions: Positions, unseen: Unseen) -> _Scored:
    """Train a model on some columns, and score it; a failure is its reason."""
    try:
        model, rows = fit_for(problem, positions, unseen.train, unseen.features)
        cost = problem.scoring.cost(model, rows, unseen.target, unseen.weight)
        can_resample = problem.scoring.reads_answers and problem.task != "multilabel"
        answers = _answers(model, rows) if can_resample else None
    except Exception as error:
        return _Scored(error=describe(error))
    return _Scored(float(cost), answers)


def _answers(model: Any, rows: Any) -> Answers:
    predicted = np.asarray(model.predict(rows))
    if is_regressor(model) or not hasattr(model, "classes_"):
        return Answers(predicted)
    proba = model.predict_proba(rows) if has_probabilities(model) else None
    decision = None
    if proba is None and hasattr(model, "decision_function"):
        decision = np.asarray(model.decision_function(rows))
    return Answers(predicted, proba, decision, np.asarray(model.classes_))


def _losses(
    problem: Problem,
    complete: Sequence[_Scored],
    without: Mapping[str, Sequence[_Scored]],
    unseen: Sequence[Unseen],
) -> pd.DataFrame:
    """Return the increase of the cost without each unit, with its interval."""
    n_train = float(np.mean([len(one.train) for one in unseen]))
    n_test = float(np.mean([len(one.target) for one in unseen]))
    # With a single split the interval is that of a bootstrap of its test rows or whole groups.
    draws, scale = _draws(problem, unseen[0]) if len(unseen) == 1 else ([], 1.0)
    costs = _resampled(problem, complete[0], unseen[0], draws)
    rows = []
    for others in without.values():
        differences = np.array([b.cost - a.cost for a, b in zip(complete, others, strict=True)])
        mean = float(differences.mean())
        low = high = float("nan")
        if len(unseen) > 1 and np.isfinite(differences).all():
            test = corrected_t(differences, n_train, n_test, _LEVEL)
            low, high = test.low, test.high
        elif len(unseen) == 1:
            resampled = _resampled(problem, others[0], unseen[0], draws) - costs
            defined = resampled[np.isfinite(resampled)]
            if len(defined) > 1:
                reach = _Z * float(defined.std(ddof=1)) * scale
                low, high = mean - reach, mean + reach
        rows.append((mean, low, high))
    table = pd.DataFrame(rows, columns=["loss", "low", "high"], index=list(without))
    return table.sort_values("loss", ascending=False, kind="stable")


def _draws(problem: Problem, unseen: Unseen) -> tuple[list[Int], float]:
    """Return resamples of the test rows, and the factor from their deviation to that of all rows.

    Of many rows fewer are drawn. A single group has no resamples.
    """
    n = len(unseen.target)
    rng = np.random.default_rng([problem.seed, 7])
    if unseen.groups is None:
        n_drawn = min(n, _RESAMPLED_ROWS)
        return [rng.integers(0, n, n_drawn) for _ in range(_RESAMPLES)], math.sqrt(n_drawn / n)
    codes = np.unique(np.asarray(unseen.groups), return_inverse=True)[1]
    members = np.split(np.argsort(codes, kind="stable"), np.cumsum(np.bincount(codes))[:-1])
    n_groups = len(members)
    if n_groups == 1:
        return [], 1.0
    n_drawn = max(2, min(n_groups, round(n_groups * _RESAMPLED_ROWS / n)))
    draws = [
        np.concatenate([members[group] for group in rng.integers(0, n_groups, n_drawn)])
        for _ in range(_RESAMPLES)
    ]
    return draws, math.sqrt(n_drawn / n_groups)


def _resampled(problem: Problem, scored: _Scored, unseen: Unseen, draws: Sequence[Int]) -> Float:
    """Return the cost on each draw of the test rows; NaN where it is not defined."""
    costs = np.full(len(draws), np.nan)
    if scored.answers is None:
        return costs
    model, target = scored.answers.estimator(), plain_target(unseen.target)
    for at, rows in enumerate(draws):
        weight = None if unseen.weight is None else unseen.weight[rows]
        # A draw may lack one of the classes, and a metric of one's own may raise anything.
        with suppress(Exception):
            costs[at] = problem.scoring.cost(model, rows[:, None], target[rows], weight)
    return costs

"""What the score loses without each chosen feature, on rows that the models were not trained on.

Drop-column importance: the model is trained again without a feature, as in leave-one-covariate-out
inference (Lei et al., 2018, Distribution-free predictive inference for regression). The cost is
bounded: one model of the chosen features, at most :data:`MOST_DROPPED` without one of them, and
perhaps one of all others. Of more than :data:`MOST_TRAINING_ROWS` training rows they are trained on
as many, spread evenly.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from joblib import delayed

from swarm.answers import Answers
from swarm.arrays import Bool, Int, Positions
from swarm.errors import SwarmError, describe
from swarm.evaluation.fitting import fit_for
from swarm.metrics import tested_metric
from swarm.problem.problem import Problem
from swarm.rows import Rows
from swarm.statistics.spearman import spread_rows
from swarm.validation.answers import EvaluationTarget, answers_of_model, blind_models
from swarm.validation.jackknife import Jackknife, measure_metrics
from swarm.validation.serial_first import serial_first

MOST_DROPPED = 12
MOST_TRAINING_ROWS = 100_000
# Of the cost of guessing, what the chosen features must gain for one of them to be indispensable,
# and of this gain, what is lost without it.
_LEAST_GAIN, _MOST_LOST = 1 / 3, 1 / 2


@dataclass(frozen=True)
class Indispensable:
    """A feature or group without which all others lose most of the gain over guessing."""

    name: str
    # In the metric of the search:
    chosen: float  # the chosen features
    others: float  # all features but this one
    guess: float  # a model that ignores the features

    @property
    def lost(self) -> float:
        """Share of the gain over guessing that is lost without it, at most 1."""
        return min(1.0, (self.chosen - self.others) / (self.chosen - self.guess))


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
        (95 %, by a jackknife of the test rows). The highest loss first; empty if there is a
        `reason`.
    reason : str
        Why there are no losses; else empty.
    indispensable : Indispensable, optional
        The chosen feature that no others of the table replace, if there is one.
    """

    rows: str
    metric: str
    losses: pd.DataFrame = field(default_factory=pd.DataFrame)
    reason: str = ""
    indispensable: Indispensable | None = None


@dataclass(frozen=True, eq=False)
class _Scored:
    """A scored model; `error` is the reason why there is none."""

    cost: float = float("nan")
    answers: Answers | None = None
    error: str = ""


def feature_losses(
    problem: Problem,
    chosen: Bool,
    test: Rows,
    rows: str,
    *,
    train: Int | None = None,
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
    test : Rows
        Rows to score the models on, with the columns of the problem in their order. Their weights
        count in the score.
    rows : str
        What `test` is, for example ``143 unseen rows``.
    train : int (n_train,), optional
        Positions of the rows of the problem to train on. Default: all.
    ranked : sequence of str
        Columns by importance, the highest first: which ones are dropped if there are many.
    n_jobs : int
        Number of models trained in parallel. It does not change the results.
    """
    metric = problem.scoring.metric
    masks = _without_each(problem, chosen, ranked)
    if test.n_rows == 1:
        return FeatureLosses(rows, metric, reason="a single test row shows no loss")
    if train is None:
        train = np.arange(problem.n_rows)
    if len(train) > MOST_TRAINING_ROWS:
        rows += f" (models are trained on {MOST_TRAINING_ROWS:,} of {len(train):,} rows)"
        train = train[spread_rows(len(train), MOST_TRAINING_ROWS)]
    both = (train, test)
    calls = [
        delayed(_scored)(problem, problem.space.positions(mask), *both)
        for mask in (chosen, *masks.values())
    ]
    complete, *others = serial_first(calls, n_jobs)
    if complete.error:
        return FeatureLosses(rows, metric, reason=complete.error)
    if not masks:
        return FeatureLosses(
            rows,
            metric,
            reason="a subset of a single feature has none to drop",
            indispensable=_indispensable(
                problem, pd.Series({problem.space.names[chosen.argmax()]: np.inf}), complete, *both
            ),
        )
    table = pd.DataFrame({"loss": [other.cost - complete.cost for other in others]}, list(masks))
    reach = np.array(_reaches(problem, [complete, *others], train, test))
    table = table.assign(low=table["loss"] - reach, high=table["loss"] + reach)
    table = table.sort_values("loss", ascending=False, kind="stable")
    only = _indispensable(problem, table["loss"], complete, *both)
    return FeatureLosses(rows, metric, table, indispensable=only)


def _indispensable(
    problem: Problem, losses: pd.Series, complete: _Scored, train: Int, test: Rows
) -> Indispensable | None:
    """Return the feature with the highest loss, if it is as high with all others of the table."""
    name, guess = str(losses.idxmax()), _guessing_cost(problem, train, test)
    gain = guess - complete.cost
    others = ~problem.space.forbidden & (np.array(problem.space.names) != name)
    is_large = gain > 0 and gain >= _LEAST_GAIN * guess
    if not (is_large and losses.max() > _MOST_LOST * gain and others.any()):
        return None
    rest = _scored(problem, problem.space.positions(others), train, test)
    loss = rest.cost - complete.cost
    (reach,) = _reaches(problem, [complete, rest], train, test)
    # Without an interval the loss alone decides.
    if not loss > _MOST_LOST * gain or loss <= reach:
        return None
    return Indispensable(name, *map(problem.scoring.natural, (complete.cost, rest.cost, guess)))


def _guessing_cost(problem: Problem, train: Int, test: Rows) -> float:
    """Return the lowest cost of models that ignore the features; NaN if they cannot be scored."""
    blank, cost = np.zeros((test.n_rows, 1)), problem.scoring.cost
    # A scorer of one's own may raise anything.
    with suppress(Exception):
        models = blind_models(problem.task, problem.target[train])
        return min(cost(model, blank, test.target, test.weight) for model in models)
    return float("nan")


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


def _scored(problem: Problem, positions: Positions, train: Int, test: Rows) -> _Scored:
    """Train a model on some columns, and score it; a failure is its reason."""
    try:
        model, rows = fit_for(problem, positions, train, test.features)
        cost = problem.scoring.cost(model, rows, test.target, test.weight)
        answers = answers_of_model(model, rows) if problem.scoring.reads_answers else None
    except Exception as error:
        return _Scored(error=describe(error))
    return _Scored(float(cost), answers)


def _reaches(problem: Problem, scored: Sequence[_Scored], train: Int, test: Rows) -> list[float]:
    """Return half the width of the interval of each model's loss against the first; NaN without."""
    scoring, jackknife = problem.scoring, Jackknife(test.n_rows, test.groups, test.time)
    unknown = [float("nan")] * (len(scored) - 1)
    answers = [one.answers for one in scored if one.answers is not None]
    if scored[0].answers is None:
        return unknown
    target = (problem.target[train], test.target, scoring.pos_label, test.weight)
    # A metric of one's own may raise anything.
    with suppress(SwarmError):
        truth = EvaluationTarget.of(problem.estimator, *target)
        name = tested_metric(scoring.metric, truth.task)
        complete, *others = measure_metrics(answers, truth, [name], jackknife, scoring)[name]
        reaches = iter([jackknife.reach(one.minus(complete)) for one in others])
        return [float("nan") if one.answers is None else next(reaches) for one in scored[1:]]
    return unknown

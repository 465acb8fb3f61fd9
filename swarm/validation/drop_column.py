"""What the score loses without each chosen feature, on rows that the models were not trained on.

Drop-column importance: the model is trained again without a feature, as in leave-one-covariate-out
inference (Lei et al., 2018, Distribution-free predictive inference for regression). The work is
bounded: one model of the chosen features, at most :data:`MAX_DROPPED` without one of them, and
perhaps one of all others. More than :data:`MAX_TRAINING_ROWS` training rows are sampled, spread
evenly.
"""

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

MAX_DROPPED = 12
MAX_TRAINING_ROWS = 100_000
# A feature is indispensable if the chosen features gain at least this share of the cost of
# guessing, and more than this share of the gain is lost without it.
_MIN_GAIN = 1 / 3
_MIN_LOSS = 1 / 2


@dataclass(frozen=True)
class Indispensable:
    """A feature or group without which all others lose most of the gain over guessing.

    Attributes
    ----------
    name : str
        The feature or group.
    chosen, others, guess : float
        Score in the metric of the search of the chosen features, of all features but this one, and
        of a model that ignores the features.
    """

    name: str
    chosen: float
    others: float
    guess: float

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
        A row for each feature or group that was dropped, the highest loss first: loss (increase of
        the cost), low, high (95 %, by a jackknife of the test rows). Empty if there is a `reason`.
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
class _ModelScore:
    """Cost and answers of a model, or the `error` with which it failed."""

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

    Failed models never raise: one without a feature is left out, and the error of the one of all
    chosen features is the `reason` of the result.

    Parameters
    ----------
    problem : Problem
        The problem of the search.
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
        Columns by importance, the highest first: the first ones are dropped if there are many.
    n_jobs : int, default=1
        Number of models trained in parallel. It does not change the results.

    Returns
    -------
    FeatureLosses
    """
    metric = problem.scoring.metric
    masks = _masks_without_unit(problem, chosen, ranked)
    if test.n_rows == 1:
        return FeatureLosses(rows, metric, reason="a single test row shows no loss")
    if train is None:
        train = np.arange(problem.n_rows)
    if len(train) > MAX_TRAINING_ROWS:
        rows += f" (models are trained on {MAX_TRAINING_ROWS:,} of {len(train):,} rows)"
        train = train[spread_rows(len(train), MAX_TRAINING_ROWS)]
    calls = [
        delayed(_score_model)(problem, problem.space.positions(mask), train, test)
        for mask in (chosen, *masks.values())
    ]
    complete, *reduced = serial_first(calls, n_jobs)
    if complete.error:
        return FeatureLosses(rows, metric, reason=complete.error)
    if not masks:
        losses = pd.Series({problem.space.names[chosen.argmax()]: np.inf})
        return FeatureLosses(
            rows,
            metric,
            reason="a subset of a single feature has none to drop",
            indispensable=_indispensable(problem, losses, complete, train, test),
        )
    table = pd.DataFrame({"loss": [score.cost - complete.cost for score in reduced]}, list(masks))
    reach = np.array(_reaches(problem, [complete, *reduced], train, test))
    table = table.assign(low=table["loss"] - reach, high=table["loss"] + reach)
    table = table.sort_values("loss", ascending=False, kind="stable")
    indispensable = _indispensable(problem, table["loss"], complete, train, test)
    return FeatureLosses(rows, metric, table, indispensable=indispensable)


def _indispensable(
    problem: Problem, losses: pd.Series, complete: _ModelScore, train: Int, test: Rows
) -> Indispensable | None:
    """Return the feature with the highest loss, if all others of the table lose as much."""
    name = str(losses.idxmax())
    guess = _guessing_cost(problem, train, test)
    gain = guess - complete.cost
    others = ~problem.space.forbidden & (np.array(problem.space.names) != name)
    is_large = gain > 0 and gain >= _MIN_GAIN * guess
    if not (is_large and losses.max() > _MIN_LOSS * gain and others.any()):
        return None
    rest = _score_model(problem, problem.space.positions(others), train, test)
    loss = rest.cost - complete.cost
    (reach,) = _reaches(problem, [complete, rest], train, test)
    # The loss alone decides if there is no interval: a comparison with NaN is false.
    if not loss > _MIN_LOSS * gain or loss <= reach:
        return None
    return Indispensable(name, *map(problem.scoring.natural, (complete.cost, rest.cost, guess)))


def _guessing_cost(problem: Problem, train: Int, test: Rows) -> float:
    """Return the lowest cost of models that ignore the features; NaN if they cannot be scored."""
    blank = np.zeros((test.n_rows, 1))
    cost = problem.scoring.cost
    # A custom scorer may raise anything.
    with suppress(Exception):
        models = blind_models(problem.task, problem.target[train])
        return min(cost(model, blank, test.target, test.weight) for model in models)
    return float("nan")


def _masks_without_unit(problem: Problem, chosen: Bool, ranked: Sequence[str]) -> dict[str, Bool]:
    """Return the masks without one of the most important units, by its name."""
    space = problem.space
    units = [int(unit) for unit in np.flatnonzero(chosen)]
    if len(units) < 2:
        return {}
    rank_of = {name: rank for rank, name in enumerate(ranked)}

    def rank(unit: int) -> int:
        return min(rank_of.get(space.columns[i], len(rank_of)) for i in space.units[unit])

    masks = {}
    for unit in sorted(units, key=rank)[:MAX_DROPPED]:
        mask = chosen.copy()
        mask[unit] = False
        masks[space.names[unit]] = mask
    return masks


def _score_model(problem: Problem, positions: Positions, train: Int, test: Rows) -> _ModelScore:
    """Train a model on the columns at some positions, and score it."""
    try:
        model, rows = fit_for(problem, positions, train, test.features)
        cost = problem.scoring.cost(model, rows, test.target, test.weight)
        answers = answers_of_model(model, rows) if problem.scoring.reads_answers else None
    except Exception as error:
        return _ModelScore(error=describe(error))
    return _ModelScore(float(cost), answers)


def _reaches(
    problem: Problem, scores: Sequence[_ModelScore], train: Int, test: Rows
) -> list[float]:
    """Return half the width of the interval of each model's loss against the first; NaN without."""
    scoring = problem.scoring
    jackknife = Jackknife(test.n_rows, test.groups, test.time)
    unknown = [float("nan")] * (len(scores) - 1)
    if scores[0].answers is None:
        return unknown
    answers = [score.answers for score in scores if score.answers is not None]
    target = (problem.target[train], test.target, scoring.pos_label, test.weight)
    # A custom metric may raise anything.
    with suppress(SwarmError):
        truth = EvaluationTarget.of(problem.estimator, *target)
        name = tested_metric(scoring.metric, truth.task)
        complete, *reduced = measure_metrics(answers, truth, [name], jackknife, scoring)[name]
        reaches = iter([jackknife.reach(metric.minus(complete)) for metric in reduced])
        return [float("nan") if score.answers is None else next(reaches) for score in scores[1:]]
    return unknown

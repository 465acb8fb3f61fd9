"""Diagnostics of the model of the chosen features, on rows that it was not trained on.

ROC and precision-recall curves, calibration, confusion matrix, the loss when a feature is dropped,
a learning curve and SHAP values, each where the task and the model have it. Their cost is bounded:
one model of the chosen features and one of all features, at most :data:`MOST_DROPPED` models
without one feature, and :data:`LEARNING_FITS` models on fewer rows for each of the two; on several
folds the first and the second once a fold. Of more than :data:`MOST_TRAINING_ROWS` training rows
they are trained on as many, spread evenly.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from time import perf_counter
from typing import Any

import numpy as np
import pandas as pd
from joblib import delayed
from numpy.typing import NDArray
from sklearn.base import is_regressor

from swarm.arrays import Bool, Float, Int
from swarm.ensemble import has_probabilities
from swarm.errors import InputError
from swarm.evaluation.fitting import fit_model
from swarm.problem.model_inputs import rows_for_model, with_accepted_names
from swarm.problem.problem import Problem
from swarm.problem.scoring import positive_class
from swarm.statistics.resampled import corrected_t
from swarm.statistics.spearman import spread_rows
from swarm.validation.answers import Answers, serial_first
from swarm.validation.contributions import Contributions, contributions

MOST_DROPPED = 12
MOST_TRAINING_ROWS = 100_000
_SHARES, _DRAWS = (0.125, 0.25, 0.5), 3
LEARNING_FITS = len(_SHARES) * _DRAWS
# Time of all models, in that of a model on all training rows.
FULL_FITS = 2 + MOST_DROPPED + math.ceil(2 * _DRAWS * sum(_SHARES))
_LEAST_ROWS = 40
_MOST_POINTS = 150
_BINS = 10
_MOST_CLASSES = 15
_MOST_SCATTERED = 400
_RESAMPLES, _RESAMPLED_ROWS = 30, 2_000
_LEVEL, _Z = 0.95, 1.959964

_FINE = ("binary", "multiclass", "regression")


@dataclass(frozen=True, eq=False)
class Unseen:
    """Rows to score a model on, and the rows to train it on.

    Attributes
    ----------
    train : int (n_train,)
        Rows of the problem.
    features : DataFrame (n_rows, n_columns)
        With the columns of the problem, in their order.
    target : (n_rows,) or (n_rows, n_labels)
    weight : float64 (n_rows,), optional
        Weights in the score.
    """

    train: Int
    features: pd.DataFrame
    target: NDArray[Any]
    weight: Float | None = None


@dataclass(frozen=True, eq=False)
class Diagnostics:
    """Diagnostics of the model of the chosen features.

    Contenders are ``chosen``, ``all_features`` and, for curves on test rows, ``ensemble``.

    Attributes
    ----------
    rows : str
        What the models were scored on.
    task, metric : str
        Task, and natural name of the metric of the search.
    positive : str
        The positive class of two; else empty.
    n_fits : int
        Number of models that were trained.
    seconds : float
    areas : mapping
        ``roc`` and ``precision_recall`` to the area under the curve of each contender.
    roc, precision_recall : DataFrame (n_points, 3)
        contender, x, y; of several classes the micro-average. Empty without scores.
    prevalence : float
        Precision of a random ranking.
    calibration : DataFrame
        A row for each bin of equally many rows: contender, predicted, observed, low, high (95 %,
        Wilson). Of several classes: the probability of the predicted class.
    confusion : DataFrame (n_classes, n_classes), optional
        Number of rows by true (index) and predicted class of the model of the chosen features.
    predicted : DataFrame (n_rows, 2)
        truth, predicted of a regression, at most 400 rows.
    dropped : DataFrame
        A row for each feature or group that was dropped: loss (increase of the cost), low, high.
    learning : DataFrame
        contender, n_rows, value, low, high: mean and range over draws of the training rows, in
        the metric.
    shap : Contributions, optional
    skipped : mapping of str to str
        What is missing, and why.
    """

    rows: str
    task: str
    metric: str
    positive: str = ""
    n_fits: int = 0
    seconds: float = 0.0
    areas: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    roc: pd.DataFrame = field(default_factory=pd.DataFrame)
    precision_recall: pd.DataFrame = field(default_factory=pd.DataFrame)
    prevalence: float = float("nan")
    calibration: pd.DataFrame = field(default_factory=pd.DataFrame)
    confusion: pd.DataFrame | None = None
    predicted: pd.DataFrame = field(default_factory=pd.DataFrame)
    dropped: pd.DataFrame = field(default_factory=pd.DataFrame)
    learning: pd.DataFrame = field(default_factory=pd.DataFrame)
    shap: Contributions | None = None
    skipped: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of_dict(cls, held: Mapping[str, Any]) -> Diagnostics:
        """Restore diagnostics from their fields."""
        shap = held["shap"]
        return cls(**{**held, "shap": None if shap is None else Contributions(**shap)})


@dataclass(frozen=True, eq=False)
class _Scored:
    """A scored model; `error` is the reason why there is none."""

    cost: float = float("nan")
    answers: Answers | None = None
    model: Any = None
    error: str = ""


def diagnose(
    problem: Problem,
    chosen: Bool,
    unseen: Sequence[Unseen],
    rows: str,
    *,
    ranked: Sequence[str] = (),
    ensemble: Answers | None = None,
    n_jobs: int = 1,
) -> Diagnostics:
    """Train and score the models of the diagnostics.

    A model that fails is left out with its reason: diagnostics never end a run.

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
        Units by importance, the highest first: which ones are dropped if there are many.
    ensemble : Answers, optional
        Of the ensemble, on the rows of a single `unseen`.
    n_jobs : int
        Number of models trained in parallel. It does not change the results.
    """
    began = perf_counter()
    longest = max(len(one.train) for one in unseen)
    if longest > MOST_TRAINING_ROWS:
        kept = [one.train[spread_rows(len(one.train), MOST_TRAINING_ROWS)] for one in unseen]
        unseen = [replace(one, train=train) for one, train in zip(unseen, kept, strict=True)]
        rows = f"{rows} (models are trained on {MOST_TRAINING_ROWS:,} of {longest:,} rows)"
    space = problem.space
    masks = {"chosen": chosen}
    if (chosen != ~space.forbidden).any():
        masks["all_features"] = ~space.forbidden
    dropped = _to_drop(problem, chosen, ranked)
    folds = [(one, one.train) for one in unseen]
    parts = _parts(problem, unseen[0])
    fewer = [(unseen[0], part) for part in parts]
    calls = [
        delayed(_scored)(problem, space.positions(mask), *rows_of_model)
        for some, splits in ((masks, folds), (dropped, folds), (masks, fewer))
        for mask in some.values()
        for rows_of_model in splits
    ]
    done = serial_first(calls, n_jobs)
    n = len(unseen)
    own = {name: list(islice(done, n)) for name in masks}
    lost = {name: list(islice(done, n)) for name in dropped}
    learned = {name: list(islice(done, len(parts))) for name in masks}
    found: dict[str, Any] = {}
    skipped: dict[str, str] = {}
    broken = next((one.error for one in own["chosen"] if one.error), "")

    def attempt(name: str, make: Callable[[], dict[str, Any]]) -> None:
        # A scorer, a model or shap may raise anything, and the run has its result already.
        try:
            if broken:
                raise InputError(broken)
            found.update(make())
        except Exception as error:
            skipped[name] = _reason(error)

    answers = {} if broken else _pooled(problem, own, unseen)
    truth = np.concatenate([one.target for one in unseen])
    if ensemble is not None and n == 1:
        answers["ensemble"] = ensemble
    positive = positive_class(problem.scoring, problem.target) if problem.task == "binary" else None
    if problem.task in ("binary", "multiclass"):
        attempt("ROC and precision-recall", lambda: _curves(answers, truth, positive, n))
        attempt("calibration", lambda: _calibration(answers, truth, positive))
        attempt("confusion matrix", lambda: _confusion(answers["chosen"], truth))
    if problem.task == "regression":
        attempt("predictions", lambda: _scatter(problem, answers["chosen"], truth))
    attempt("dropped features", lambda: _losses(problem, own["chosen"], lost, unseen))
    attempt("learning curve", lambda: _learning(problem, own, learned, parts, unseen))
    if problem.task in _FINE:
        attempt("SHAP values", lambda: _explained(problem, chosen, own["chosen"], unseen, positive))
    return Diagnostics(
        rows=rows,
        task=problem.task,
        metric=problem.scoring.metric,
        positive="" if positive is None else str(positive),
        n_fits=len(calls),
        seconds=perf_counter() - began,
        skipped=skipped,
        **found,
    )


def _reason(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    told = lines[0] if lines else type(error).__name__
    return told if isinstance(error, InputError) else f"{type(error).__name__}: {told}"


# ---------------------------------------------------------------- models


def _to_drop(problem: Problem, chosen: Bool, ranked: Sequence[str]) -> dict[str, Bool]:
    """Return the masks without one unit, by its name; the most important units only."""
    names = list(problem.space.names)
    units = [int(unit) for unit in np.flatnonzero(chosen)]
    if len(units) < 2:
        return {}
    place = {name: at for at, name in enumerate(ranked)}
    units.sort(key=lambda unit: place.get(names[unit], len(place)))
    masks = {}
    for unit in units[:MOST_DROPPED]:
        mask = chosen.copy()
        mask[unit] = False
        masks[names[unit]] = mask
    return masks


def _parts(problem: Problem, unseen: Unseen) -> list[Int]:
    """Return the training rows of the learning curve, stratified by class; none of few rows."""
    rows = np.asarray(unseen.train)
    if len(rows) < _LEAST_ROWS:
        return []
    rng = np.random.default_rng([problem.seed, 4])
    kind = np.zeros(len(rows), dtype=np.intp)
    if problem.task in ("binary", "multiclass"):
        kind = np.unique(problem.target[rows], return_inverse=True)[1].ravel()
    parts = []
    for share in _SHARES:
        for _ in range(_DRAWS):
            order = rng.permutation(len(rows))
            # Each class is spread evenly, so that every first part has its share of it.
            spread = np.empty(len(rows))
            for one in np.unique(kind):
                members = order[kind[order] == one]
                spread[members] = (np.arange(len(members)) + 0.5) / len(members)
            taken = np.lexsort((order, spread))[: max(_LEAST_ROWS // 2, int(share * len(rows)))]
            parts.append(rows[np.sort(taken)])
    return parts


def _scored(problem: Problem, positions: Sequence[int], unseen: Unseen, train: Int) -> _Scored:
    """Train a model on some columns and rows, and score it; a failure is its reason."""
    try:
        columns = _columns(problem, problem.features, positions)
        model = fit_model(problem, columns, positions, train)
        rows = _input(problem, unseen, positions)
        cost = problem.scoring.cost(model, rows, unseen.target, unseen.weight)
        answers = _answers(model, rows) if problem.task in _FINE else None
    except Exception as error:
        return _Scored(error=_reason(error))
    return _Scored(float(cost), answers, model)


def _input(problem: Problem, unseen: Unseen, positions: Sequence[int]) -> Any:
    rows = np.arange(len(unseen.features))
    columns = _columns(problem, unseen.features, positions)
    return rows_for_model(columns, rows, problem.as_array)


def _columns(problem: Problem, features: pd.DataFrame, positions: Sequence[int]) -> pd.DataFrame:
    return with_accepted_names(features.iloc[:, list(positions)], problem.estimator)


def _answers(model: Any, rows: Any) -> Answers:
    predicted = np.asarray(model.predict(rows))
    if is_regressor(model) or not hasattr(model, "classes_"):
        return Answers(predicted)
    proba = model.predict_proba(rows) if has_probabilities(model) else None
    decision = None
    if proba is None and hasattr(model, "decision_function"):
        decision = np.asarray(model.decision_function(rows))
    return Answers(predicted, proba, decision, np.asarray(model.classes_))


def _pooled(
    problem: Problem, own: Mapping[str, Sequence[_Scored]], unseen: Sequence[Unseen]
) -> dict[str, Answers]:
    """Join the answers of the folds; probabilities in the order of all classes."""
    if problem.task not in _FINE:
        return {}
    pooled = {}
    for name, scored in own.items():
        told = [one.answers for one in scored if one.answers is not None]
        if len(told) < len(unseen):
            continue
        predicted = np.concatenate([one.predicted for one in told])
        if problem.task == "regression":
            pooled[name] = Answers(predicted)
            continue
        classes = np.unique(problem.target)
        proba = None
        if all(one.proba is not None for one in told):
            proba = np.concatenate([_aligned(one, classes) for one in told])
        decision = told[0].decision if len(told) == 1 else None
        pooled[name] = Answers(predicted, proba, decision, classes)
    return pooled


def _aligned(answers: Answers, classes: NDArray[Any]) -> Float:
    """Return probabilities in the order of `classes`; a fold may lack one."""
    full = np.zeros((len(answers.predicted), len(classes)))
    full[:, np.searchsorted(classes, answers.classes)] = answers.proba
    return full


# ---------------------------------------------------------------- classes


def _ranking(answers: Answers, truth: NDArray[Any], positive: Any) -> tuple[Bool, Float] | None:
    """Return whether each row is positive, and its score; of several classes row and class."""
    if answers.proba is not None:
        if positive is None:
            is_own = truth[:, None] == answers.classes
            return is_own.ravel(), np.asarray(answers.proba).ravel()
        at = answers.classes.tolist().index(positive)
        return truth == positive, np.asarray(answers.proba)[:, at]
    if answers.decision is None or positive is None or answers.decision.ndim != 1:
        return None
    sign = 1.0 if answers.classes[1] == positive else -1.0
    return truth == positive, sign * answers.decision


def _curves(
    answers: Mapping[str, Answers], truth: NDArray[Any], positive: Any, n_folds: int
) -> dict[str, Any]:
    from sklearn.metrics import auc, average_precision_score, precision_recall_curve, roc_curve

    roc, precision, prevalence = [], [], float("nan")
    areas: dict[str, dict[str, float]] = {"roc": {}, "precision_recall": {}}
    for name, own in answers.items():
        ranking = _ranking(own, truth, positive)
        if ranking is None:
            continue
        is_positive, score = ranking
        prevalence = float(is_positive.mean())
        x, y, _ = roc_curve(is_positive, score)
        areas["roc"][name] = float(auc(x, y))
        roc.append(_points(name, x, y))
        y, x, _ = precision_recall_curve(is_positive, score)
        areas["precision_recall"][name] = float(average_precision_score(is_positive, score))
        precision.append(_points(name, x[::-1], y[::-1]))
    if not roc:
        several = " on several folds" if n_folds > 1 else ""
        raise InputError(f"the model has no probabilities to rank rows by{several}")
    return {
        "roc": pd.concat(roc, ignore_index=True),
        "precision_recall": pd.concat(precision, ignore_index=True),
        "areas": areas,
        "prevalence": prevalence,
    }


def _points(name: str, x: Float, y: Float) -> pd.DataFrame:
    at = np.unique(np.linspace(0, len(x) - 1, min(len(x), _MOST_POINTS)).round().astype(int))
    return pd.DataFrame({"contender": name, "x": x[at].round(5), "y": y[at].round(5)})


def _calibration(
    answers: Mapping[str, Answers], truth: NDArray[Any], positive: Any
) -> dict[str, Any]:
    parts = []
    for name, own in answers.items():
        if own.proba is None or name == "ensemble":
            continue
        if positive is None:
            confidence = np.asarray(own.proba).max(axis=1)
            hit = own.classes[np.asarray(own.proba).argmax(axis=1)] == truth
        else:
            confidence = np.asarray(own.proba)[:, own.classes.tolist().index(positive)]
            hit = truth == positive
        order = np.argsort(confidence, kind="stable")
        for rows in np.array_split(order, min(_BINS, max(1, len(order) // 10))):
            share, n = float(hit[rows].mean()), len(rows)
            centre = (share + _Z**2 / (2 * n)) / (1 + _Z**2 / n)
            reach = _Z * np.sqrt(share * (1 - share) / n + _Z**2 / (4 * n**2)) / (1 + _Z**2 / n)
            bounds = max(0.0, centre - reach), min(1.0, centre + reach)
            parts.append((name, float(confidence[rows].mean()), share, *bounds))
    if not parts:
        raise InputError("the model has no probabilities")
    names = ["contender", "predicted", "observed", "low", "high"]
    return {"calibration": pd.DataFrame(parts, columns=names)}


def _confusion(answers: Answers, truth: NDArray[Any]) -> dict[str, Any]:
    from sklearn.metrics import confusion_matrix

    classes = np.unique(np.concatenate([truth, answers.predicted]))
    if len(classes) > _MOST_CLASSES:
        raise InputError(f"{len(classes)} classes, more than the {_MOST_CLASSES} that fit")
    counts = confusion_matrix(truth, answers.predicted, labels=classes)
    names = [str(one) for one in classes]
    return {"confusion": pd.DataFrame(counts, index=names, columns=names)}


def _scatter(problem: Problem, answers: Answers, truth: NDArray[Any]) -> dict[str, Any]:
    rng = np.random.default_rng([problem.seed, 6])
    rows = np.arange(len(truth))
    if len(rows) > _MOST_SCATTERED:
        rows = np.sort(rng.choice(len(rows), _MOST_SCATTERED, replace=False))
    told = np.ravel(answers.predicted)[rows].astype(np.float64)
    return {"predicted": pd.DataFrame({"truth": truth[rows].astype(np.float64), "predicted": told})}


# ---------------------------------------------------------------- costs


def _losses(
    problem: Problem,
    own: Sequence[_Scored],
    lost: Mapping[str, Sequence[_Scored]],
    unseen: Sequence[Unseen],
) -> dict[str, Any]:
    """Return the increase of the cost without each unit, with its interval."""
    if not lost:
        raise InputError("a subset of a single feature has none to drop")
    n_train = float(np.mean([len(one.train) for one in unseen]))
    n_test = float(np.mean([len(one.target) for one in unseen]))
    # With a single split the interval is that of a bootstrap of its test rows.
    draws = _draws(problem, unseen[0]) if len(unseen) == 1 else []
    costs = _resampled(problem, own[0], unseen[0], draws)
    rows = []
    for without in lost.values():
        differences = np.array([b.cost - a.cost for a, b in zip(own, without, strict=True)])
        mean = float(differences.mean())
        low = high = float("nan")
        if len(unseen) > 1 and np.isfinite(differences).all():
            test = corrected_t(differences, n_train, n_test, _LEVEL)
            low, high = test.low, test.high
        elif len(unseen) == 1:
            resampled = _resampled(problem, without[0], unseen[0], draws) - costs
            known = resampled[np.isfinite(resampled)]
            if len(known) > 1:
                # Of many rows fewer are drawn, and the deviation is scaled to all.
                scale = np.sqrt(min(n_test, _RESAMPLED_ROWS) / n_test)
                reach = _Z * float(known.std(ddof=1)) * float(scale)
                low, high = mean - reach, mean + reach
        rows.append((mean, low, high))
    table = pd.DataFrame(rows, columns=["loss", "low", "high"], index=list(lost))
    return {"dropped": table.sort_values("loss", ascending=False, kind="stable")}


def _draws(problem: Problem, unseen: Unseen) -> list[Int]:
    n = len(unseen.target)
    rng = np.random.default_rng([problem.seed, 7])
    return [rng.integers(0, n, min(n, _RESAMPLED_ROWS)) for _ in range(_RESAMPLES)]


def _resampled(problem: Problem, scored: _Scored, unseen: Unseen, draws: Sequence[Int]) -> Float:
    """Return the cost on each draw of the test rows; NaN where it is not defined."""
    scoring = problem.scoring
    costs = np.full(len(draws), np.nan)
    if not scoring.reads_answers or scored.answers is None:
        return costs
    model = scored.answers.estimator()
    for at, rows in enumerate(draws):
        weight = None if unseen.weight is None else unseen.weight[rows]
        # A draw may lack one of the classes.
        with suppress(ValueError):
            costs[at] = scoring.cost(model, rows[:, None], unseen.target[rows], weight)
    return costs


def _learning(
    problem: Problem,
    own: Mapping[str, Sequence[_Scored]],
    learned: Mapping[str, Sequence[_Scored]],
    parts: Sequence[Int],
    unseen: Sequence[Unseen],
) -> dict[str, Any]:
    if not parts:
        raise InputError(f"fewer than {_LEAST_ROWS} training rows")
    natural = problem.scoring.natural
    rows = []
    for name, mine in learned.items():
        for start in range(0, len(parts), _DRAWS):
            values = [natural(one.cost) for one in mine[start : start + _DRAWS]]
            known = [value for value in values if np.isfinite(value)]
            if known:
                bounds = min(known), max(known)
                rows.append((name, len(parts[start]), float(np.mean(known)), *bounds))
        value = natural(own[name][0].cost)
        rows.append((name, len(unseen[0].train), value, value, value))
    names = ["contender", "n_rows", "value", "low", "high"]
    return {"learning": pd.DataFrame(rows, columns=names)}


def _explained(
    problem: Problem, chosen: Bool, own: Sequence[_Scored], unseen: Sequence[Unseen], positive: Any
) -> dict[str, Any]:
    positions = problem.space.positions(chosen)
    names = [str(problem.space.columns[i]) for i in positions]
    first = unseen[0]
    columns = _columns(problem, problem.features, positions)
    train = rows_for_model(columns, np.asarray(first.train), problem.as_array)
    rows = _input(problem, first, positions)
    return {"shap": contributions(problem, own[0].model, train, rows, names, positive)}

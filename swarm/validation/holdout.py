"""Evaluation of a selection on held-out test rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from joblib import delayed
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, clone

from swarm.ensemble import SubsetEnsemble
from swarm.errors import DataError, InputError, nearest
from swarm.problem.scoring import Scoring
from swarm.problem.space import SearchSpace
from swarm.rounding import difference
from swarm.threads import one_thread
from swarm.validation.answers import Answers, EvaluationTarget, answers_of, guess, serial_first
from swarm.validation.contenders import (
    Contender,
    MeasuredContenders,
    committee_rows,
    make_contenders,
    mean_by_contender,
    prediction_table,
)
from swarm.validation.judgement import Judgement, unseen_rows
from swarm.validation.metrics import check_metrics, default_metrics, tested_metric
from swarm.validation.scorer_metrics import Bootstrap, check_scorable, measure_metrics

Target = pd.Series | pd.DataFrame
CostOf = Callable[[Any, pd.DataFrame, Target], float]


def judge(
    estimator: BaseEstimator,
    train: tuple[pd.DataFrame, Target],
    test: tuple[pd.DataFrame, Target],
    subsets: Sequence[Sequence[str]],
    *,
    best: Sequence[str] | None = None,
    vote: str = "auto",
    space: SearchSpace | None = None,
    metrics: Sequence[str] | None = None,
    pos_label: object = None,
    train_groups: ArrayLike | None = None,
    test_groups: ArrayLike | None = None,
    train_weight: ArrayLike | None = None,
    test_weight: ArrayLike | None = None,
    scoring: Scoring | None = None,
    cost_of: CostOf | None = None,
    cv_cost: float | None = None,
    fitted: SubsetEnsemble | None = None,
    n_random: int = 5,
    n_resamples: int = 1000,
    level: float = 0.95,
    seed: int = 0,
    n_jobs: int = 1,
    on_models: Callable[[int], None] = lambda n_models: None,
) -> Judgement:
    """Compare the ensemble of the chosen subsets with its baselines on the test rows.

    The contenders, all trained on `train` and evaluated on `test`, are `ensemble` (the subsets
    with the vote), `best_subset` (the best single subset), `all_features` (one model),
    `all_features_ensemble` (all features, as many members, the same vote) and `random_subsets`
    (random subsets of the same sizes with the same vote, averaged over `n_random` draws). The
    last two have the same vote because a vote by itself changes the metrics: ``any`` raises
    recall even without selection.

    The members of `all_features_ensemble` form a cross-validated committee (Parmanto, Munro &
    Doyle, 1996): the rows are split into as many parts as there are members, stratified by class
    in a classification and by whole groups if groups are given, and member i is trained on all
    parts except part i. Otherwise all members of a deterministic estimator would be the same.

    Confidence intervals are percentile intervals of a bootstrap of the test rows, or of whole
    groups if `test_groups` are given. They show how the metrics of these fitted models vary with
    the test rows, not with the training rows. All contenders share the same resamples.

    Every `random_state` of the estimator that is None is set to `seed`; the global random
    generator is never used.

    Parameters
    ----------
    estimator : estimator
        Classifier or regressor, cloned for each model.
    train, test : (X (n_rows, n_features), y (n_rows,) or 0/1 (n_rows, n_labels))
        Training rows, and test rows that the search has not seen.
    subsets : lists of column names
        Members of the ensemble.
    best : column names, optional
        The best single subset. Default: the first of `subsets`.
    vote : str
        See :class:`swarm.ensemble.SubsetEnsemble`.
    space : SearchSpace, optional
        Constraints of the search: random subsets satisfy them, and "all features" excludes the
        forbidden ones. Default: all columns of `train`, unconstrained.
    metrics : names, optional
        Names of metrics or of scikit-learn scorers; metrics have their natural sign, also if the
        name of the scorer begins with ``neg_``. Default: f1, accuracy, recall, precision,
        balanced_accuracy for two classes; f1_macro, accuracy, balanced_accuracy for more;
        f1_samples, subset_accuracy, hamming_loss for several labels; r2,
        root_mean_squared_error, mean_absolute_error for regression.
    pos_label : class, optional
        Positive class of f1, recall, precision and of the ``any`` vote. Default: that of
        `scoring`, else the label 1, else the rarer class of the training rows.
    train_groups, test_groups : (n_rows,), optional
        Rows that belong together.
    train_weight : (n_rows,), optional
        Sample weights for training.
    test_weight : (n_rows,), optional
        Weights of the test rows in all metrics and in the cost of `scoring`. Default: all equal.
    scoring : Scoring, optional
        Scorer of the search. Its metric comes first, and its cost is that of the contenders.
        Scorers that need probabilities get the mean over the members, whatever the vote.
    cost_of : callable, optional
        ``cost_of(fitted_model, X, y)`` returns the cost that the search minimised, on `X`, `y`.
        Default: that of `scoring`, if it is given.
    cv_cost : float, optional
        Cross-validated cost of `best`. The optimism needs this and `cost_of`.
    fitted : SubsetEnsemble, optional
        Ensemble fitted on `train`, used instead of fitting one. The vote "auto" then means the
        vote of this ensemble.
    n_random, n_resamples : int
        Number of draws of random subsets (each needs one fit per subset), and of bootstrap
        resamples.
    level : float
        Confidence level of the intervals, within (0, 1).
    seed : int
        Seed of the random subsets, the committee and the bootstrap.
    n_jobs : int
        Number of contenders trained in parallel. It does not change the results.
    on_models : callable
        Callback for progress, called with the number of models of each contender once its answers
        are known.

    Returns
    -------
    Judgement

    Raises
    ------
    InputError
        If a metric is unknown, the vote does not suit the task, or a number is out of range.
    SpaceError
        If a subset names an unknown column.
    DataError
        If the target is not supported, or a table lacks a column.
    """
    _check_numbers(n_random, n_resamples, level)
    _check_tables(train[0], test[0], subsets, fitted)
    if pos_label is None and scoring is not None:
        pos_label = scoring.pos_label
    truth = EvaluationTarget.of(estimator, train[1], test[1], pos_label, test_weight)
    names = judged_metrics(metrics, truth.task, scoring)
    check_scorable(names, truth, scoring)
    model = _seeded(estimator, seed)
    decided = _vote(model, subsets, vote, fitted)
    classes = None if truth.task == "regression" else truth.train
    parts = committee_rows(len(subsets), classes, len(train[0]), train_groups, seed)
    contenders = make_contenders(
        SearchSpace.build(list(train[0].columns)) if space is None else space,
        subsets,
        subsets[0] if best is None else best,
        decided,
        parts,
        n_random,
        seed,
    )
    if cost_of is None and scoring is not None and not scoring.reads_answers:
        cost_of = partial(scoring.cost, weight=truth.weight)
    calls = [
        delayed(_answer)(
            model,
            one,
            fitted if one.name == "ensemble" else None,
            (train[0], train[1], train_weight),
            test,
            truth.pos_label,
            cost_of,
        )
        for one in contenders
    ]
    told: list[Answers] = []
    own: list[float | None] = []
    for contender, (answers, cost) in zip(contenders, serial_first(calls, n_jobs), strict=True):
        told.append(answers)
        own.append(cost)
        on_models(len(contender.subsets))
    if cost_of is None and scoring is not None:
        positions = np.arange(len(test[0]))[:, None]
        own = [scoring.cost(one.estimator(), positions, truth.test, truth.weight) for one in told]
    known = {} if None in own else mean_by_contender(contenders, own)
    costs = {name: float(cost) for name, cost in known.items()}
    bootstrap = Bootstrap(len(test[0]), test_groups, n_resamples, seed, level)
    measured = MeasuredContenders(
        contenders, measure_metrics(told, truth, names, bootstrap, scoring), bootstrap
    )
    table, differences = measured.tables()
    blind = [guess(truth.task, truth.train, len(truth.test))]
    try:
        guessed = measure_metrics(blind, truth, names[:1], bootstrap, scoring)
        guessing = measured.guessing(guessed[names[0]][0])
    except InputError:
        # Some scorers need predictions of every class.
        guessing = None
    optimism = None
    if cv_cost is not None and costs:
        optimism = float(difference(costs["best_subset"], cv_cost))
    return Judgement(
        table=table,
        differences=differences,
        predictions=prediction_table(
            contenders,
            [one.predicted for one in told],
            truth,
            test[0].index,
            getattr(test[1], "columns", None),
        ),
        costs=costs,
        cv_cost=cv_cost,
        optimism=optimism,
        task=truth.task,
        vote=decided,
        pos_label=truth.pos_label,
        pos_share=truth.positive_share,
        n_rows=len(test[0]),
        n_groups=bootstrap.n_groups,
        n_resamples=n_resamples,
        level=level,
        seed=seed,
        selection=measured.selection(unseen_rows(bootstrap.n_rows, bootstrap.n_groups)),
        guessing=guessing,
    )


def judged_metrics(metrics: Sequence[str] | None, task: str, scoring: Scoring | None) -> list[str]:
    """Return natural names of metrics, that of the search first; InputError if one is unknown."""
    names = default_metrics(task) if metrics is None else check_metrics(metrics, task)
    if scoring is None or not scoring.reads_answers:
        return names
    return list(dict.fromkeys([tested_metric(scoring.metric, task), *names]))


def _check_numbers(n_random: int, n_resamples: int, level: float) -> None:
    if n_random < 1:
        raise InputError(f"n_random must be at least 1, got {n_random}")
    if n_resamples < 1:
        raise InputError(f"n_resamples must be at least 1, got {n_resamples}")
    if not 0.0 < level < 1.0:
        raise InputError(f"level must be within (0, 1), got {level}")


def _check_tables(
    train: pd.DataFrame,
    test: pd.DataFrame,
    subsets: Sequence[Sequence[str]],
    fitted: SubsetEnsemble | None,
) -> None:
    if not subsets:
        raise InputError("there is no subset to evaluate; give at least one")
    if len(test) == 0:
        raise DataError("there is no test row to evaluate on; hold some rows out")
    for name in train.columns:
        if name not in test.columns:
            near = nearest(name, test.columns)
            raise DataError(f"the test table has no column {name!r} of the training table{near}")
    if fitted is not None and fitted.subsets_ != [list(subset) for subset in subsets]:
        raise InputError(
            f"the subsets of the fitted ensemble ({len(fitted.subsets_)}) differ from those to "
            f"evaluate ({len(subsets)}); pass the subsets of the ensemble"
        )


def _vote(
    model: BaseEstimator,
    subsets: Sequence[Sequence[str]],
    vote: str,
    fitted: SubsetEnsemble | None,
) -> str:
    """Return the vote of all contenders: that of the fitted ensemble, if one is given."""
    if fitted is None:
        return SubsetEnsemble(model, subsets, vote).resolve_vote()
    if vote not in ("auto", fitted.vote_):
        raise InputError(
            f"the fitted ensemble has the vote {fitted.vote_!r}, not {vote!r}; "
            "leave the vote out or fit the ensemble anew"
        )
    return str(fitted.vote_)


def _seeded(estimator: BaseEstimator, seed: int) -> BaseEstimator:
    """Clone the estimator, with the seed in place of every random state that is None."""
    model = clone(estimator)
    unset = [
        name
        for name, value in model.get_params(deep=True).items()
        if value is None and (name == "random_state" or name.endswith("__random_state"))
    ]
    return model.set_params(**dict.fromkeys(unset, seed))


def _answer(
    estimator: BaseEstimator,
    contender: Contender,
    fitted: SubsetEnsemble | None,
    train: tuple[pd.DataFrame, Target, ArrayLike | None],
    test: tuple[pd.DataFrame, Target],
    pos_label: Any,
    cost_of: CostOf | None,
) -> tuple[Answers, float | None]:
    """Return the answers of a contender on the test rows, and its cost on them."""
    X, y, weight = train
    voting = fitted
    # One thread, so that results are bit-identical in this process and in a worker.
    with one_thread():
        if voting is None:
            voting = SubsetEnsemble(estimator, contender.subsets, contender.vote, pos_label)
            voting.fit(X, y, weight, contender.rows)
        answers = answers_of(voting, test[0])
        if cost_of is None:
            return answers, None
        if contender.vote == "auto":
            # The cost of a single model is based on its own scores, as in the search, not on votes.
            ((model, rows),) = voting.members(test[0])
            return answers, float(cost_of(model, rows, test[1]))
        return answers, float(cost_of(voting, test[0], test[1]))

"""Evaluation of a selection on held-out test rows."""

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
import pandas as pd
from joblib import delayed
from sklearn.base import BaseEstimator

from swarm.answers import Answers
from swarm.arrays import AnyArray
from swarm.ensemble import SubsetEnsemble
from swarm.errors import DataError, InputError, suggestion
from swarm.metrics import is_lower_better, judged_metrics, value_range
from swarm.notebook import Drawn
from swarm.problem.models import make_deterministic
from swarm.problem.scoring import Scoring
from swarm.problem.space import SearchSpace
from swarm.problem.table import names_of
from swarm.rounding import difference
from swarm.rows import Rows
from swarm.statistics.resampled import CONFIDENCE, Outcome
from swarm.validation import sentences
from swarm.validation.answers import (
    EvaluationTarget,
    answers_of_model,
    blind_models,
)
from swarm.validation.contenders import (
    CONTENDERS,
    Contender,
    combine_members,
    committee_rows,
    make_contenders,
    mean_by_contender,
    train_and_predict,
)
from swarm.validation.jackknife import Jackknife, MetricValue, check_scorable, measure_metrics
from swarm.validation.serial_first import serial_first
from swarm.validation.sparse_rows import SparseRows
from swarm.validation.verdict import ALL, CHOSEN, ENSEMBLE, GUESSING, Guessing, Verdict, outcome_in

# A smaller difference of a metric of at most 1, or share of the error of guessing, is negligible.
_NEGLIGIBLE = 0.05
_SUBSETS = {"all_features": ALL, "best_subset": CHOSEN, "ensemble": ENSEMBLE}


@dataclass(frozen=True, eq=False)
class Judgement(Drawn):
    """Metrics of the ensemble and its baselines on held-out test rows.

    Attributes
    ----------
    table : DataFrame
        One row per contender and metric: contender, metric, value, low, high, n_features
        (distinct columns in use), n_models, difference (ensemble minus contender),
        difference_low, difference_high, difference_error (its standard error). For
        `random_subsets` the value is the mean over the draws, and n_features their rounded mean.
        Differences are paired: computed without the same rows each time, so that the difficulty
        of the test rows cancels out.
    predictions : DataFrame (n_rows, n_columns)
        ``y_true`` and the predictions of each contender, `random_subsets_1` and so on for the
        draws; with several labels one column per label (``ensemble.<label>``).
    verdict : Verdict
        `best_subset` against `all_features`, one model each, in the first metric.
    guessing : Guessing, optional
        The contenders against a model that ignores the features: it predicts the most frequent
        class with the shares of the classes as probabilities, or the mean of the target. None if
        the metric cannot be computed for it.
    costs : mapping
        Test cost of each contender, lower is better; empty without a scorer of the search.
    cv_cost : float, optional
        Cross-validated cost of the best single subset in the search.
    task : str
        ``binary``, ``multiclass``, ``multilabel`` or ``regression``.
    vote : str
        Vote of the contenders.
    pos_label : class, optional
        Positive class of a binary target.
    pos_share : float, optional
        Share of the training rows in the positive class.
    jackknife : Jackknife
        The units of the test rows, and the level of the intervals.
    """

    table: pd.DataFrame
    predictions: pd.DataFrame
    verdict: Verdict
    guessing: Guessing | None
    costs: Mapping[str, float]
    cv_cost: float | None
    task: str
    vote: str
    pos_label: Any
    pos_share: float | None
    jackknife: Jackknife

    def __str__(self) -> str:
        return sentences.contender_scores(self)

    def sentence(self) -> str:
        """Compare the ensemble with all features and the same vote, in the first metric."""
        return sentences.against_baseline(self)

    def outcome(self, contender: str) -> Outcome:
        """How the ensemble compares with another contender in the first metric."""
        row = self.first_metric[contender]
        return outcome_in(self.metrics[0], row["difference_low"], row["difference_high"])

    def ensemble_beats(self, contender: str) -> bool:
        """Whether the ensemble beats another contender by more than the standard error."""
        row = self.first_metric[contender]
        gain = -row["difference"] if is_lower_better(self.metrics[0]) else row["difference"]
        return bool(gain > row["difference_error"])

    @property
    def loses(self) -> bool:
        """Whether all features, as one model or with the same vote, are significantly better."""
        return "worse" in map(self.outcome, ("all_features", "all_features_ensemble"))

    @property
    def metrics(self) -> list[str]:
        """Names of the metrics; the first one is that of the search and of the verdict."""
        return list(dict.fromkeys(self.table["metric"].tolist()))

    @property
    def first_metric(self) -> dict[Any, dict[Any, Any]]:
        """Rows of the first metric, by contender."""
        rows = self.table[self.table["metric"] == self.metrics[0]]
        return rows.set_index("contender").to_dict("index")

    @property
    def optimism(self) -> float | None:
        """Test cost of the best single subset minus `cv_cost`."""
        if self.cv_cost is None or not self.costs:
            return None
        return float(difference(self.costs["best_subset"], self.cv_cost))

    @property
    def n_rows(self) -> int:
        """Number of test rows."""
        return self.jackknife.n_rows

    @property
    def n_groups(self) -> int | None:
        """Number of groups of test rows; None without groups, or in order of time."""
        return self.jackknife.n_groups


def judge(
    ensemble: SubsetEnsemble,
    train: Rows,
    test: Rows,
    *,
    space: SearchSpace | None = None,
    scoring: Scoring | None = None,
    cv_cost: float | None = None,
    metrics: Sequence[str] | None = None,
    n_random: int = 5,
    tolerance: float | None = None,
    level: float | None = CONFIDENCE,
    seed: int = 0,
    n_jobs: int = 1,
    on_models: Callable[[int], None] = lambda n_models: None,
) -> Judgement:
    """Compare the ensemble of the chosen subsets with its baselines on the test rows.

    Parameters
    ----------
    ensemble : SubsetEnsemble
        Estimator, subsets, the best one first, and vote. If it is fitted, it is evaluated as it
        is. Its `pos_label` is the positive class of f1, recall and precision too; default: that
        of `scoring`, else the label 1, else the rarer class of the training rows.
    train, test : Rows
        Training rows, and test rows that the search has not seen. Weights of the training rows
        are sample weights, those of the test rows count in all metrics and costs.
    space : SearchSpace, optional
        Constraints of the search: random subsets satisfy them, and "all features" excludes the
        forbidden ones. Default: all columns of `train`, unconstrained.
    scoring : Scoring, optional
        Scorer of the search. Its metric comes first, and its cost is that of the contenders.
        Scorers that need probabilities get the mean over the members, whatever the vote.

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

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from swarm import SubsetEnsemble
    >>> from swarm.validation import Rows, judge
    >>> X, y = load_wine(return_X_y=True, as_frame=True)
    >>> ensemble = SubsetEnsemble(GaussianNB(), [["proline", "hue", "flavanoids"]])
    >>> judgement = judge(ensemble, Rows(X[::2], y[::2]), Rows(X[1::2], y[1::2]))
    >>> judgement.verdict.outcome
    'no clear difference'

    Other Parameters
    ----------------
    cv_cost : float, optional
        Cross-validated cost of the best subset. The optimism needs this and `scoring`.
    metrics : sequence of str, optional
        Names of metrics or of scikit-learn scorers; metrics have their natural sign, also if the
        name of the scorer begins with ``neg_``. Default: f1, accuracy, recall, precision,
        balanced_accuracy for two classes; f1_macro, accuracy, balanced_accuracy for more;
        f1_samples, subset_accuracy, hamming_loss for several labels; r2,
        root_mean_squared_error, mean_absolute_error for regression.
    n_random : int, default=5
        Number of draws of random subsets; each needs one fit per subset.
    tolerance : float, optional
        Loss against all features, in units of the first metric, that does not matter. Default: 0.05
        of a metric of at most 1, or of the error of guessing, but at most half of what all features
        gain over guessing.
    level : float, default=0.95
        Confidence level of the intervals. None computes none, which spares calls of scorers.
    seed : int, default=0
        Seed of the random subsets, of the committee, and of every `random_state` of the estimator
        that is None.
    n_jobs : int, default=1
        Number of models trained in parallel. It does not change the results.
    on_models : callable, optional
        Callback for progress, called with a number of models once their answers are known.

    Notes
    -----
    The contenders, all trained on `train` and evaluated on `test`, are `ensemble` (the subsets
    with the vote), `best_subset` (the first subset), `all_features` (one model),
    `all_features_ensemble` (all features, as many members, the same vote) and `random_subsets`
    (random subsets of the same sizes with the same vote, averaged over `n_random` draws). The
    last two have the same vote because a vote by itself changes the metrics: ``any`` raises
    recall even without selection.

    The members of `all_features_ensemble` form a cross-validated committee (Parmanto, Munro &
    Doyle, 1996): the rows are split into as many folds as there are members, stratified by class
    in a classification and by whole groups if `train` has groups, and member i is trained on all
    folds except fold i. Otherwise all members of a deterministic estimator would be the same.

    Confidence intervals are t intervals of a jackknife that leaves out a test row at a time, a
    whole group if `test` has groups, or one of eight spans of time if it has times; with fewer than
    five groups there is none. They show how the metrics of these fitted models vary with the test
    rows, not with the training rows.
    """
    _check(ensemble, train, test, n_random)
    pos_label = ensemble.pos_label
    if pos_label is None and scoring is not None:
        pos_label = scoring.pos_label
    estimator = make_deterministic(ensemble.estimator, seed)
    truth = EvaluationTarget.of(estimator, train.target, test.target, pos_label, test.weight)
    names = judged_metrics(metrics, truth.task, scoring)
    check_scorable(names, truth, scoring)
    vote = ensemble.vote_ if hasattr(ensemble, "models_") else ensemble.resolve_vote()
    train_rows = replace(train, target=truth.train, task=truth.task)
    contenders = make_contenders(
        SearchSpace.build(names_of(train.features)) if space is None else space,
        ensemble.subsets,
        vote,
        committee_rows(train_rows, len(ensemble.subsets), seed),
        n_random=n_random,
        seed=seed,
    )
    answers, costs = _answers_and_costs(
        ensemble,
        contenders,
        train,
        test,
        estimator=estimator,
        truth=truth,
        scoring=scoring,
        n_jobs=n_jobs,
        on_models=on_models,
    )
    jackknife = Jackknife(test.n_rows, test.groups, test.time, level)
    metric_values = {
        metric: mean_by_contender(contenders, values, MetricValue.mean)
        for metric, values in measure_metrics(answers, truth, names, jackknife, scoring).items()
    }
    guess = _guess(truth, names[0], jackknife, scoring)
    comparison = _Comparison(names[0], metric_values[names[0]], guess, jackknife, tolerance)
    means = mean_by_contender(contenders, costs, np.mean) if costs else {}
    return Judgement(
        table=_table(contenders, metric_values, jackknife),
        predictions=_prediction_table(contenders, answers, truth, test),
        verdict=comparison.verdict(),
        guessing=comparison.guessing(),
        costs={name: float(cost) for name, cost in means.items()},
        cv_cost=cv_cost,
        task=truth.task,
        vote=vote,
        pos_label=truth.pos_label,
        pos_share=truth.positive_share,
        jackknife=jackknife,
    )


def _answers_and_costs(
    ensemble: SubsetEnsemble,
    contenders: Sequence[Contender],
    train: Rows,
    test: Rows,
    *,
    estimator: BaseEstimator,
    truth: EvaluationTarget,
    scoring: Scoring | None,
    n_jobs: int,
    on_models: Callable[[int], None],
) -> tuple[list[Answers], list[float]]:
    """Return the answers of each contender on the test rows, and with a scorer their costs."""
    # A custom scorer may read the rows, so that it needs the models.
    cost_of = None
    if scoring is not None and not scoring.reads_answers:
        cost_of = partial(scoring.cost, weight=truth.weight)
    # Models are trained one by one, so that workers have equal shares, except those that are
    # fitted already, and ensembles that a custom scorer needs as a whole.
    fitted = {"ensemble": ensemble} if hasattr(ensemble, "models_") else {}
    members_of = [
        [contender] if cost_of or contender.name in fitted else contender.members()
        for contender in contenders
    ]
    sparse = SparseRows.of(estimator, train, test) if cost_of is None else None
    calls = []
    for member in chain.from_iterable(members_of):
        inputs = (member, train, test)
        if sparse is not None and member.name not in fitted:
            inputs = sparse.inputs(member)
        calls.append(
            delayed(train_and_predict)(
                estimator,
                *inputs,
                pos_label=truth.pos_label,
                fitted=fitted.get(member.name),
                cost_of=cost_of,
            )
        )
    results = serial_first(calls, n_jobs)
    answers: list[Answers] = []
    costs: list[float] = []
    for contender, members in zip(contenders, members_of, strict=True):
        member_answers = []
        for member in members:
            answer, cost = next(results)
            member_answers.append(answer)
            on_models(len(member.subsets))
        if len(members) > 1:
            answer = combine_members(
                estimator, contender, member_answers, train.target, truth.pos_label
            )
        answers.append(answer)
        if cost is not None:
            costs.append(cost)
        elif scoring is not None:
            model = answer.estimator()
            costs.append(scoring.cost(model, answer.positions, truth.test, truth.weight))
    return answers, costs


def _check(ensemble: SubsetEnsemble, train: Rows, test: Rows, n_random: int) -> None:
    if n_random < 1:
        raise InputError(f"n_random must be at least 1, got {n_random}")
    if not ensemble.subsets:
        raise InputError("there is no subset to evaluate; give at least one")
    if test.n_rows == 0:
        raise DataError("there is no test row to evaluate on; hold some rows out")
    for rows, role in ((train, "training"), (test, "test")):
        target = np.asarray(rows.target)
        if len(target) != rows.n_rows or pd.isna(target).any():
            raise DataError(f"a {role} row has no target; pass one for each row")
    columns = names_of(test.features)
    for name in names_of(train.features):
        if name not in columns:
            near = suggestion(name, columns)
            raise DataError(f"the test table has no column {name!r} of the training table{near}")


def _table(
    contenders: Sequence[Contender],
    metric_values: Mapping[str, Mapping[str, MetricValue]],
    jackknife: Jackknife,
) -> pd.DataFrame:
    """Return the metrics of each contender, and their paired differences to the ensemble.

    `metric_values` are by metric and contender.
    """
    sizes = [contender.n_features for contender in contenders]
    n_features = mean_by_contender(contenders, sizes, np.mean)
    n_models = {contender.name: len(contender.subsets) for contender in contenders}
    rows: list[dict[str, Any]] = []
    for name in CONTENDERS:
        for metric, values in metric_values.items():
            low, high = jackknife.interval(values[name])
            gap = gap_low = gap_high = error = float("nan")
            if name != "ensemble" and _are_same(contenders, "ensemble", name):
                gap = gap_low = gap_high = error = 0.0
            elif name != "ensemble":
                gap_value = values["ensemble"].minus(values[name])
                gap = gap_value.value
                gap_low, gap_high = jackknife.interval(gap_value)
                error = jackknife.error(gap_value)
            rows.append(
                {
                    "contender": name,
                    "metric": metric,
                    "value": values[name].value,
                    "low": low,
                    "high": high,
                    "n_features": round(n_features[name]),
                    "n_models": n_models[name],
                    "difference": gap,
                    "difference_low": gap_low,
                    "difference_high": gap_high,
                    "difference_error": error,
                }
            )
    return pd.DataFrame(rows)


def _are_same(contenders: Sequence[Contender], first: str, second: str) -> bool:
    """Whether two contenders are one model of the same columns."""
    both = [contender.subsets for contender in contenders if contender.name in (first, second)]
    return len({tuple(map(frozenset, subsets)) for subsets in both}) == 1 == len(both[0])


def _guess(
    truth: EvaluationTarget, metric: str, jackknife: Jackknife, scoring: Scoring | None
) -> MetricValue | None:
    """Measure the guess; None if the metric cannot be computed for it."""
    blind = guess_of(truth, metric, scoring)
    if blind is None:
        return None
    try:
        guess = measure_metrics([blind], truth, [metric], jackknife, scoring)[metric][0]
    except InputError:
        return None
    return None if math.isnan(guess.value) else guess


def guess_of(
    truth: EvaluationTarget, metric: str, scoring: Scoring | None = None
) -> Answers | None:
    """Return the answers on the test rows of the best model that ignores the features.

    It has the best metric on the training rows; None if the metric is undefined for all models.
    """
    training = replace(truth, test=truth.train, weight=None)
    no_intervals = Jackknife(len(truth.train), level=None)

    def answers(model: BaseEstimator, rows: EvaluationTarget) -> Answers:
        return answers_of_model(model, np.zeros((len(rows.test), 1)))

    sign = 1.0 if is_lower_better(metric) else -1.0
    costs: dict[BaseEstimator, float] = {}
    for model in blind_models(truth.task, truth.train):
        # Some scorers need predictions of every class.
        with suppress(InputError):
            blind = [answers(model, training)]
            values = measure_metrics(blind, training, [metric], no_intervals, scoring)
            cost = sign * values[metric][0].value
            if not math.isnan(cost):
                costs[model] = cost
    return answers(min(costs, key=costs.__getitem__), truth) if costs else None


@dataclass(frozen=True)
class _Comparison:
    """One model of the best subset, of all features and of none, in the first metric.

    `values` are by contender. `tolerance` is the loss that does not matter, None for the default.
    """

    metric: str
    values: Mapping[str, MetricValue]
    guess: MetricValue | None
    jackknife: Jackknife
    tolerance: float | None

    def negligible(self) -> float:
        """Return the gain over guessing that does not matter."""
        if self.tolerance is not None:
            return self.tolerance
        if value_range(self.metric)[1] == 1.0:
            return _NEGLIGIBLE
        scale = self.values["all_features"] if self.guess is None else self.guess
        return _NEGLIGIBLE * abs(scale.value)

    def negligible_loss(self) -> float:
        """Return the loss against all features that does not matter."""
        negligible = self.negligible()
        if self.guess is None or self.tolerance is not None:
            return negligible
        gain = self.values["all_features"].minus(self.guess).value
        gain = -gain if is_lower_better(self.metric) else gain
        return min(negligible, gain / 2.0) if gain > 0.0 else negligible

    def verdict(self) -> Verdict:
        """Compare the best subset with all features."""
        all_features = self.values["all_features"]
        return self._verdict("best_subset", ALL, all_features, self.negligible_loss())

    def guessing(self) -> Guessing | None:
        """Compare the contenders with the guess."""
        guess = self.guess
        if guess is None:
            return None
        tolerance = self.negligible()
        return Guessing(
            {name: self._verdict(name, GUESSING, guess, tolerance) for name in _SUBSETS}
        )

    def _verdict(self, contender: str, rival: str, other: MetricValue, tolerance: float) -> Verdict:
        chosen = self.values[contender]
        units = self.jackknife
        low, high = units.interval(chosen.minus(other))
        return Verdict(
            rows=sentences.unseen_rows(units.n_rows, units.n_groups),
            metric=self.metric,
            chosen=chosen.value,
            everything=other.value,
            low=low,
            high=high,
            tolerance=tolerance,
            n_units=units.n_groups or units.n_rows,
            unit="row" if units.n_groups is None else "group",
            subset=_SUBSETS[contender],
            rival=rival,
        )


def _prediction_table(
    contenders: Sequence[Contender],
    answers: Sequence[Answers],
    truth: EvaluationTarget,
    test: Rows,
) -> pd.DataFrame:
    """Return a table of the true target and all predictions."""
    predictions: dict[str, AnyArray] = {"y_true": truth.test}
    draw = 0
    for contender, answer in zip(contenders, answers, strict=True):
        draw += contender.name == "random_subsets"
        predictions[f"{contender.name}_{draw}" if draw else contender.name] = answer.predicted
    if truth.task == "multilabel":
        labels = getattr(test.target, "columns", range(truth.test.shape[1]))
        predictions = {
            f"{name}.{label}": values[:, i]
            for name, values in predictions.items()
            for i, label in enumerate(labels)
        }
    return pd.DataFrame(predictions, index=getattr(test.features, "index", None))

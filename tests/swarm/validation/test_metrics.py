"""Tests of metrics on test rows: with and without each unit, and of scikit-learn scorers."""

from __future__ import annotations

import itertools
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pytest
from lightgbm import LGBMClassifier
from scipy.stats import ttest_1samp
from sklearn import metrics as sk
from sklearn.datasets import make_classification, make_multilabel_classification
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import get_scorer
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import LinearSVC

from swarm.answers import Answers
from swarm.ensemble import SubsetEnsemble
from swarm.errors import InputError
from swarm.metrics import METRICS, judged_metrics, row_statistics
from swarm.problem.scoring import resolve_scoring
from swarm.validation import Rows, judge
from swarm.validation.answers import EvaluationTarget, answers_of
from swarm.validation.jackknife import Jackknife, MetricValue, check_scorable, measure_metrics

LIGHT = {"n_estimators": 5, "num_leaves": 4, "verbose": -1, "n_jobs": 1}
SUBSETS = [["a", "b"], ["b", "c"], ["c"]]


def rows(task: str) -> tuple[pd.DataFrame, np.ndarray]:
    if task == "multilabel":
        X, y = make_multilabel_classification(120, 4, n_classes=3, random_state=0)
    else:
        X, y = make_classification(
            120,
            4,
            n_informative=3,
            n_redundant=0,
            n_classes=2 + (task == "multiclass"),
            n_clusters_per_class=1,
            weights=None if task == "multiclass" else [0.7],
            flip_y=0.2,
            random_state=0,
        )
    if task == "regression":
        y = X[:, 0] + 10.0
    if task == "text":
        y = np.where(y == 1, "churn", "stay")
    return pd.DataFrame(X.round(1), columns=list("abcd")), y


def halves(task: str, n: int) -> tuple[Any, Any]:
    """Return the training and test rows of a task."""
    X, y = rows(task)
    return (X[:n], pd.Series(y[:n])), (X[n:], pd.Series(y[n:]))


MODELS: dict[str, Any] = {
    "binary": LGBMClassifier(**LIGHT),
    "text": LogisticRegression(),
    "decisions": LinearSVC(random_state=0),
    "multiclass": KNeighborsClassifier(5),
    "multilabel": KNeighborsClassifier(5),
    "regression": Ridge(),
}


def weights(weight: np.ndarray | None) -> dict[str, np.ndarray]:
    return {} if weight is None else {"sample_weight": weight}


@pytest.mark.parametrize(
    ("task", "scorers", "weighted"),
    [
        (
            "binary",
            ["roc_auc", "average_precision", "neg_log_loss", "jaccard"],
            True,
        ),
        ("binary", ["f1", "balanced_accuracy"], False),
        ("text", ["roc_auc", "neg_log_loss", "f1_micro"], False),
        ("decisions", ["roc_auc"], False),
        ("multiclass", ["roc_auc_ovr", "neg_log_loss", "top_k_accuracy", "f1_macro"], True),
        (
            "multilabel",
            ["roc_auc", "recall_samples", "accuracy", "f1_macro"],
            True,
        ),
        ("regression", ["explained_variance", "neg_mean_squared_log_error", "r2"], True),
    ],
)
def test_a_single_model_scores_as_with_scikit_learn_on_all_rows_and_without_each_unit(
    task: str, scorers: list[str], weighted: bool
) -> None:
    X, y = rows(task)
    model = MODELS[task]
    ensemble = SubsetEnsemble(model, [list("abc")]).fit(X, y)
    weight = np.random.default_rng(1).exponential(size=len(y)) if weighted else None
    truth = EvaluationTarget.of(model, y, y, None, weight)
    names = [name.removeprefix("neg_") for name in scorers]
    jackknife = Jackknife(len(y), np.arange(len(y)) % 6)
    values = measure_metrics([answers_of(ensemble, X)], truth, names, jackknife)
    rows_left = np.concatenate(list(jackknife.blocks())) > 0
    fitted = ensemble.models_[0]
    for name, scorer in zip(names, scorers, strict=True):
        sign = -1.0 if scorer.startswith("neg_") else 1.0
        (measured,) = values[name]
        score = partial(get_scorer(scorer), fitted)
        assert measured.value == pytest.approx(sign * score(X[list("abc")], y, **weights(weight)))
        for is_left, value_without in zip(rows_left, measured.without, strict=True):
            weights_left = weights(weight if weight is None else weight[is_left])
            expected = score(X.loc[is_left, list("abc")], y[is_left], **weights_left)
            assert value_without == pytest.approx(sign * expected), name


@pytest.mark.parametrize(
    ("scorer", "task", "first"),
    [
        ("roc_auc", "binary", "roc_auc"),
        ("neg_root_mean_squared_error", "regression", "root_mean_squared_error"),
        ("neg_hamming_loss", "multilabel", "hamming_loss"),
        ("accuracy", "multilabel", "subset_accuracy"),
        (None, "multiclass", "accuracy"),
    ],
)
def test_the_scorer_of_the_search_is_the_first_metric(
    scorer: str | None, task: str, first: str
) -> None:
    target = rows(task)[1]
    scoring = resolve_scoring(scorer, None, target, task)
    assert judged_metrics(None, task, scoring)[0] == first
    metrics = judged_metrics(["accuracy" if task != "regression" else "r2"], task, scoring)
    assert metrics[0] == first
    assert len(metrics) == len(set(metrics))


def test_a_scorer_of_ones_own_is_called_without_each_unit_whatever_its_name() -> None:
    def roc_auc(target: Any, predicted: Any) -> float:
        return float(np.mean(target == predicted))

    train, test = halves("binary", 80)
    scoring = resolve_scoring(sk.make_scorer(roc_auc), None, train[1], "binary")
    assert scoring.metric == "roc_auc"
    ensemble = SubsetEnsemble(LogisticRegression(), [list("abcd")]).fit(*train)
    truth = EvaluationTarget.of(LogisticRegression(), train[1], test[1], None)
    answers = [answers_of(ensemble, test[0])]
    groups = np.arange(len(test[1])) // 4
    jackknife = Jackknife(len(groups), groups)
    (user_score,) = measure_metrics(answers, truth, ["roc_auc"], jackknife, scoring)["roc_auc"]
    (accuracy,) = measure_metrics(answers, truth, ["accuracy"], jackknife)["accuracy"]
    assert user_score.value == pytest.approx(accuracy.value)
    assert user_score.without == pytest.approx(accuracy.without)
    assert jackknife.interval(user_score) == pytest.approx(jackknife.interval(accuracy), abs=0.01)


def test_an_error_is_judged_in_its_own_sign_and_unit() -> None:
    train, (X, y) = halves("regression", 60)
    scoring = resolve_scoring("neg_root_mean_squared_error", None, y, "regression")
    options: Any = {"scoring": scoring, "n_random": 1}
    judgement = judge(SubsetEnsemble(Ridge(), [["a"], ["b"]]), Rows(*train), Rows(X, y), **options)
    table = judgement.table.set_index(["contender", "metric"])["value"]
    assert judgement.metrics[0] == "root_mean_squared_error"
    fitted = Ridge().fit(train[0][["a"]], train[1])
    rmse = float(np.sqrt(np.mean((fitted.predict(X[["a"]]) - y) ** 2)))
    assert table["best_subset", "root_mean_squared_error"] == pytest.approx(rmse)
    assert judgement.costs["best_subset"] == pytest.approx(rmse)
    assert "scores RMSE 0." in judgement.sentence()


def test_ranking_metrics_of_an_ensemble_use_mean_probabilities_whatever_its_vote() -> None:
    train, test = halves("binary", 80)
    scoring = resolve_scoring("roc_auc", None, rows("binary")[1], "binary")
    options: Any = {"scoring": scoring, "n_random": 1}
    ensemble = SubsetEnsemble(KNeighborsClassifier(5), SUBSETS, "hard")
    judgement = judge(ensemble, Rows(*train), Rows(*test), **options)
    soft_ensemble = SubsetEnsemble(KNeighborsClassifier(5), SUBSETS, "soft").fit(*train)
    expected = get_scorer("roc_auc")(soft_ensemble, test[0], test[1])
    row = judgement.table.query("contender == 'ensemble' and metric == 'roc_auc'").iloc[0]
    assert row["value"] == pytest.approx(expected)
    assert judgement.costs["ensemble"] == pytest.approx(1 - expected)


@pytest.mark.parametrize(
    ("task", "metric"), [("text", "r2"), ("multilabel", "balanced_accuracy"), ("multiclass", "f1")]
)
def test_a_scorer_of_another_task_is_refused_before_training(task: str, metric: str) -> None:
    _, y = rows(task)
    truth = EvaluationTarget.of(MODELS[task], y, y, None)
    with pytest.raises(InputError):
        check_scorable([metric], truth)
    ranking = [] if task == "multiclass" else ["roc_auc"]
    check_scorable([*judged_metrics(None, truth.task, None), *ranking], truth)


# ---------------------------------------------------------------- sums and resamples


def test_r2_of_a_constant_target_is_1_if_predicted_exactly_and_0_otherwise() -> None:
    y = np.full(5, 1e6) / 3
    for p, expected in ((y, 1.0), (y + 1.0, 0.0)):
        sums = row_statistics("regression", y, p, np.empty(0)).sum(axis=0)
        assert METRICS["regression"]["r2"](sums, 0) == expected == sk.r2_score(y, p)
    # A small spread counts, however far it is from the mean of all rows.
    y = np.array([1.0, 1.001, -2.001])
    sums = row_statistics("regression", y, y + 1e-4, np.empty(0))[:2].sum(axis=0)
    expected = sk.r2_score(y[:2], y[:2] + 1e-4)
    assert METRICS["regression"]["r2"](sums, 0) == pytest.approx(expected)


def measured(without: Any, swing: float = 0.0) -> MetricValue:
    values = np.asarray(without, dtype=float)
    return MetricValue(float(values.mean()), values, swing, swing > 0.0, (-np.inf, np.inf))


def test_the_interval_of_a_mean_is_that_of_the_t_test() -> None:
    values = np.random.default_rng(0).normal(size=12)
    interval = Jackknife(12).interval(measured((values.sum() - values) / 11))
    expected = ttest_1samp(values, 0.0).confidence_interval(0.95)
    assert interval == pytest.approx(tuple(expected))
    # The chance is that of the one-sided test.
    chance = Jackknife(12).chance(measured((values.sum() - values) / 11), 0.2)
    assert chance == pytest.approx(1 - ttest_1samp(values, 0.2, alternative="greater").pvalue)


def test_groups_and_spans_of_time_are_left_out_whole() -> None:
    groups = np.array(list("aabbbcddddee"))
    (rows_left,) = Jackknife(12, groups).blocks()
    assert [set(groups[row == 0]) for row in rows_left] == [{"a"}, {"b"}, {"c"}, {"d"}, {"e"}]
    time = np.random.default_rng(0).permutation(20)
    units = Jackknife(20, np.zeros(20), time).units
    assert (np.diff(units[np.argsort(time)]) >= 0).all()
    assert sorted(np.bincount(units).tolist()) == [2, 2, 2, 2, 3, 3, 3, 3]
    # Many rows are left out several at a time, so that the cost is linear in the number of rows.
    assert Jackknife(2500).n_units == 1000
    assert Jackknife(7).n_groups is None
    assert Jackknife(7, list("aabbccc")).n_groups == 3


def test_there_is_no_interval_of_few_groups_or_of_a_single_row() -> None:
    for jackknife in (Jackknife(1), Jackknife(7, list("aabbccd"))):
        assert not jackknife.is_measured
        assert np.isnan(jackknife.interval(measured(np.arange(jackknife.n_units), 1.0))).all()
    assert Jackknife(7, list("aabbcde")).is_measured
    # A metric that needs a certain row, such as the AUC of one positive row, has none either.
    assert np.isnan(Jackknife(3).interval(measured([0.5, np.nan, 0.5], 0.1))).all()
    assert np.isnan(Jackknife(3, level=None).interval(measured([0.5, 0.1, 0.5]))).all()


@pytest.mark.parametrize(
    ("task", "metric"),
    [
        *[("binary", name) for name in ("accuracy", "f1", "roc_auc", "log_loss")],
        *[("multiclass", name) for name in ("f1_macro", "balanced_accuracy", "roc_auc_ovr")],
        ("multilabel", "f1_samples"),
        ("regression", "r2"),
    ],
)
def test_equal_answers_have_an_interval_that_shrinks_with_the_rows(task: str, metric: str) -> None:
    X, y = rows(task)
    models = [SubsetEnsemble(MODELS[task], [list("abc")]).fit(X, y) for _ in range(2)]
    widths = []
    for repeat in (1, 4):
        features = pd.concat([X] * repeat, ignore_index=True)
        target = np.concatenate([y] * repeat)
        truth = EvaluationTarget.of(MODELS[task], target, target, None)
        jackknife = Jackknife(len(target))
        answers = [answers_of(model, features) for model in models]
        first, second = measure_metrics(answers, truth, [metric], jackknife)[metric]
        low, high = jackknife.interval(first.minus(second))
        assert low == -high < 0
        widths.append(high - low)
    assert widths[0] < 0.3
    assert widths[1] == pytest.approx(widths[0] / 4, rel=0.15)


def test_a_perfect_score_has_an_interval_within_the_range_of_the_metric() -> None:
    y = np.arange(40) % 2
    truth = EvaluationTarget.of(LogisticRegression(), y, y, None)
    for metric in ("accuracy", "f1", "matthews_corrcoef"):
        (value,) = measure_metrics([Answers(y)], truth, [metric], Jackknife(40))[metric]
        low, high = Jackknife(40).interval(value)
        assert (value.value, high) == (1.0, 1.0)
        assert 0.7 < low < 0.98


def by_scikit_learn(name: str, y: Any, p: Any, positive: Any) -> float:
    of_positive = {"f1": sk.f1_score, "recall": sk.recall_score, "precision": sk.precision_score}
    if name in of_positive:
        return float(of_positive[name](y, p, pos_label=positive, zero_division=0))
    if name in ("accuracy", "subset_accuracy"):
        return float(sk.accuracy_score(y, p))
    if name in ("balanced_accuracy", "hamming_loss", "r2", "matthews_corrcoef"):
        suffix = "_score" if name in ("balanced_accuracy", "r2") else ""
        return float(getattr(sk, name + suffix)(y, p))
    if name.endswith("error"):
        return float(getattr(sk, name)(y, p))
    score, average = name.rsplit("_", 1)
    return float(getattr(sk, f"{score}_score")(y, p, average=average, zero_division=0))


@pytest.mark.filterwarnings("ignore:y_pred contains classes:UserWarning")
@pytest.mark.parametrize("task", list(METRICS))
def test_every_metric_equals_scikit_learn_without_each_group(task: str) -> None:
    rng = np.random.default_rng(0)
    n_rows = 40
    if task == "regression":
        y = 50 + rng.normal(size=n_rows)
        p = y + rng.normal(size=n_rows)
    elif task == "multilabel":
        y = rng.integers(2, size=(n_rows, 5)) * (rng.random((n_rows, 1)) > 0.2)
        p = np.where(rng.random(y.shape) < 0.3, 1 - y, y)
        p[:4] = y[:4] = 0
    else:
        y = rng.choice(2 if task == "binary" else 6, size=n_rows)
        p = np.where(rng.random(n_rows) < 0.5, rng.permutation(y), y)
    classes = np.unique(y)
    statistics = row_statistics(task, y, p, classes)
    jackknife = Jackknife(n_rows, rng.integers(8, size=n_rows))
    sums = jackknife.sums(statistics)
    rows_left = next(jackknife.blocks()) > 0
    for name, positive in itertools.product(METRICS[task], (0, 1) if task == "binary" else (0,)):
        values = METRICS[task][name](sums, positive)
        for value, rows in zip(values, rows_left, strict=True):
            expected = by_scikit_learn(name, y[rows], p[rows], classes[positive])
            assert value == pytest.approx(expected, abs=1e-9)


def test_metrics_are_the_same_whether_units_are_left_out_in_pieces_or_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (X, y), (unseen, truth) = halves("binary", 60)
    model = LogisticRegression()
    first_ensemble, second_ensemble = (
        SubsetEnsemble(model, [names]).fit(X, y) for names in SUBSETS[:2]
    )
    target = EvaluationTarget.of(model, y, truth, None)
    answers = [
        answers_of(ensemble, unseen)
        for ensemble in (first_ensemble, second_ensemble, first_ensemble)
    ]

    def measure() -> Any:
        names = ["accuracy", "roc_auc", "average_precision", "log_loss"]
        return measure_metrics(answers, target, names, Jackknife(60))

    at_once = measure()
    monkeypatch.setattr("swarm.validation.jackknife.CELLS_PER_BLOCK", 7 * 60)
    for name, values in measure().items():
        for value, expected in zip(values, at_once[name], strict=True):
            assert value.value == expected.value
            np.testing.assert_array_equal(value.without, expected.without)
        # The third ensemble is the first one.
        np.testing.assert_array_equal(values[0].without, values[2].without)
        assert not np.array_equal(values[0].without, values[1].without)


def test_answers_with_nan_have_the_value_that_a_scorer_gives_them() -> None:
    truth = np.arange(6.0)
    target = EvaluationTarget("regression", truth, truth, np.empty(0), None)
    answers = [Answers(np.append(truth[:5], np.nan)), Answers(truth)]

    def finite(estimator: Any, X: Any, y: Any) -> float:
        return float(np.isfinite(estimator.predict(X)).mean())

    scoring = resolve_scoring(finite, None, truth, "regression")
    values = measure_metrics(answers, target, ["finite"], Jackknife(6), scoring)["finite"]
    assert [value.value for value in values] == pytest.approx([5 / 6, 1.0])


@pytest.mark.parametrize("name", ["f1_macro", "balanced_accuracy", "recall_macro"])
def test_a_class_without_weight_counts_neither_in_the_search_nor_in_the_metric(name: str) -> None:
    (X, y), (X_test, y_test) = halves("multiclass", 60)
    model = KNeighborsClassifier(5).fit(X, y)
    weight = np.where(y_test == 2, 0.0, 1.5)
    scoring = resolve_scoring(name, model, np.asarray(y), "multiclass")
    truth = EvaluationTarget.of(model, y, y_test, None, weight)
    answers = [answers_of(SubsetEnsemble(model, [list(X)]).fit(X, y), X_test)]
    metric_value = measure_metrics(answers, truth, [name], Jackknife(60, level=None))[name][0]
    search_value = scoring.natural(scoring.cost(model, X_test, y_test, weight))
    is_weighted = weight > 0.0
    expected = get_scorer(name)(model, X_test[is_weighted], y_test[is_weighted])
    assert (metric_value.value, search_value) == (pytest.approx(expected), pytest.approx(expected))

"""Metrics of the test rows, on these and on every resample; scikit-learn scorers as metrics."""

from __future__ import annotations

import itertools
import warnings
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pytest
from lightgbm import LGBMClassifier
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
from swarm.validation.bootstrap import Bootstrap, check_scorable, measure_metrics

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
    """Training and test rows of a task."""
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


def weights(of_rows: np.ndarray | None) -> dict[str, np.ndarray]:
    return {} if of_rows is None else {"sample_weight": of_rows}


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
def test_a_single_model_scores_as_with_scikit_learn_on_all_rows_and_on_every_resample(
    task: str, scorers: list[str], weighted: bool
) -> None:
    X, y = rows(task)
    model = MODELS[task]
    ensemble = SubsetEnsemble(model, [list("abc")]).fit(X, y)
    weight = np.random.default_rng(1).exponential(size=len(y)) if weighted else None
    truth = EvaluationTarget.of(model, y, y, None, weight)
    names = [name.removeprefix("neg_") for name in scorers]
    bootstrap = Bootstrap(len(y), None, 4, 3)
    found = measure_metrics([answers_of(ensemble, X)], truth, names, bootstrap)
    drawn = np.concatenate(list(bootstrap.blocks()))
    fitted = ensemble.models_[0]
    for name, scorer in zip(names, scorers, strict=True):
        sign = -1.0 if scorer.startswith("neg_") else 1.0
        ((value, draws),) = found[name]
        score = partial(get_scorer(scorer), fitted)
        assert value == pytest.approx(sign * score(X[list("abc")], y, **weights(weight)))
        for counts, own in zip(drawn, draws, strict=True):
            again = np.repeat(np.arange(len(y)), counts)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                drawn_weights = weights(weight if weight is None else weight[again])
                expected = score(X[list("abc")].iloc[again], y[again], **drawn_weights)
            assert own == pytest.approx(sign * expected, nan_ok=True), name


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
    asked = judged_metrics(["accuracy" if task != "regression" else "r2"], task, scoring)
    assert asked[0] == first
    assert len(asked) == len(set(asked))


def test_a_scorer_of_ones_own_is_called_on_every_resample_whatever_its_name() -> None:
    def roc_auc(target: Any, predicted: Any) -> float:
        return float(np.mean(target == predicted))

    train, test = halves("binary", 80)
    scoring = resolve_scoring(sk.make_scorer(roc_auc), None, train[1], "binary")
    assert scoring.metric == "roc_auc"
    ensemble = SubsetEnsemble(LogisticRegression(), [list("abcd")]).fit(*train)
    truth = EvaluationTarget.of(LogisticRegression(), train[1], test[1], None)
    answers, bootstrap = [answers_of(ensemble, test[0])], Bootstrap(len(test[1]), None, 50)
    ((value, draws),) = measure_metrics(answers, truth, ["roc_auc"], bootstrap, scoring)["roc_auc"]
    ((accuracy, expected),) = measure_metrics(answers, truth, ["accuracy"], bootstrap)["accuracy"]
    assert value == pytest.approx(accuracy)
    assert draws == pytest.approx(expected)


def test_an_error_is_judged_in_its_own_sign_and_unit() -> None:
    train, (X, y) = halves("regression", 60)
    scoring = resolve_scoring("neg_root_mean_squared_error", None, y, "regression")
    options: Any = {"scoring": scoring, "n_random": 1, "n_resamples": 20}
    judged = judge(SubsetEnsemble(Ridge(), [["a"], ["b"]]), Rows(*train), Rows(X, y), **options)
    table = judged.table.set_index(["contender", "metric"])["value"]
    assert judged.metrics[0] == "root_mean_squared_error"
    fitted = Ridge().fit(train[0][["a"]], train[1])
    rmse = float(np.sqrt(np.mean((fitted.predict(X[["a"]]) - y) ** 2)))
    assert table["best_subset", "root_mean_squared_error"] == pytest.approx(rmse)
    assert judged.costs["best_subset"] == pytest.approx(rmse)
    assert "scores RMSE 0." in judged.sentence()


def test_ranking_metrics_of_an_ensemble_use_mean_probabilities_whatever_its_vote() -> None:
    train, test = halves("binary", 80)
    scoring = resolve_scoring("roc_auc", None, rows("binary")[1], "binary")
    options: Any = {"scoring": scoring, "n_random": 1, "n_resamples": 20}
    ensemble = SubsetEnsemble(KNeighborsClassifier(5), SUBSETS, "hard")
    judged = judge(ensemble, Rows(*train), Rows(*test), **options)
    proba = SubsetEnsemble(KNeighborsClassifier(5), SUBSETS, "soft").fit(*train)
    expected = get_scorer("roc_auc")(proba, test[0], test[1])
    row = judged.table.query("contender == 'ensemble' and metric == 'roc_auc'").iloc[0]
    assert row["value"] == pytest.approx(expected)
    assert judged.costs["ensemble"] == pytest.approx(1 - expected)


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
    # A spread that is small, beside the distance from the mean of all rows, is a spread.
    y = np.array([1.0, 1.001, -2.001])
    sums = row_statistics("regression", y, y + 1e-4, np.empty(0))[:2].sum(axis=0)
    expected = sk.r2_score(y[:2], y[:2] + 1e-4)
    assert METRICS["regression"]["r2"](sums, 0) == pytest.approx(expected)


def test_an_interval_cuts_the_same_share_off_both_ends_and_one_row_or_group_has_none() -> None:
    values = np.arange(101.0)
    assert Bootstrap(7, level=0.9).interval(values) == pytest.approx((5.0, 95.0))
    assert Bootstrap(7, level=0.5).interval(values) == pytest.approx((25.0, 75.0))
    for alone in (Bootstrap(1), Bootstrap(7, list("aaaaaaa"))):
        assert not alone.varies
        assert np.isnan(alone.interval(values)).all()


def test_a_resample_draws_as_many_rows_as_there_are_and_another_seed_draws_others() -> None:
    ones = [np.column_stack([np.ones(20), np.arange(20.0)])]
    (sums,) = Bootstrap(20, None, 500, seed=0).sums(ones)
    assert sums.shape == (500, 2)
    assert (sums[:, 0] == 20).all()
    assert sums[:, 1].mean() == pytest.approx(190, rel=0.02)
    assert sums[:, 1].std() == pytest.approx(np.sqrt(20) * np.arange(20).std(), rel=0.1)
    assert not np.array_equal(sums, Bootstrap(20, None, 500, seed=1).sums(ones)[0])
    assert Bootstrap(7).n_groups is None
    assert Bootstrap(7, list("aabbccc")).n_groups == 3


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
    kind, average = name.rsplit("_", 1)
    return float(getattr(sk, f"{kind}_score")(y, p, average=average, zero_division=0))


@pytest.mark.filterwarnings("ignore:y_pred contains classes:UserWarning")
@pytest.mark.parametrize("task", list(METRICS))
def test_every_metric_equals_scikit_learn_on_the_resampled_rows(task: str) -> None:
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
    bootstrap = Bootstrap(n_rows, None, 8, seed=5)
    sums = bootstrap.sums([statistics])[0]
    counts = next(bootstrap.blocks())
    for name, positive in itertools.product(METRICS[task], (0, 1) if task == "binary" else (0,)):
        values = METRICS[task][name](sums, positive)
        for value, count in zip(values, counts, strict=True):
            rows = np.repeat(np.arange(n_rows), count)
            expected = by_scikit_learn(name, y[rows], p[rows], classes[positive])
            assert value == pytest.approx(expected, abs=1e-9)


def test_groups_are_resampled_whole() -> None:
    groups = np.array(list("aabbbcdddd"))
    counts = next(Bootstrap(10, groups, 200, seed=0).blocks())
    for letter in "abcd":
        of_group = counts[:, groups == letter]
        assert (of_group == of_group[:, :1]).all()
    assert (counts[:, [0, 2, 5, 6]].sum(axis=1) == 4).all()
    assert len(set(counts.sum(axis=1).tolist())) > 1


def test_metrics_are_the_same_whether_resamples_are_counted_in_pieces_or_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (X, y), (unseen, truth) = halves("binary", 60)
    model = LogisticRegression()
    first, second = (SubsetEnsemble(model, [names]).fit(X, y) for names in SUBSETS[:2])
    target = EvaluationTarget.of(model, y, truth, None)
    answers = [answers_of(ensemble, unseen) for ensemble in (first, second, first)]

    def measured() -> Any:
        names = ["accuracy", "roc_auc", "average_precision", "log_loss"]
        return measure_metrics(answers, target, names, Bootstrap(60, None, 25, seed=1))

    whole = measured()
    monkeypatch.setattr("swarm.validation.bootstrap.CELLS_PER_BLOCK", 7 * 60)
    for name, draws in measured().items():
        for (value, resampled), (expected, at_once) in zip(draws, whole[name], strict=True):
            assert value == expected
            np.testing.assert_array_equal(resampled, at_once)
        # The third answers are the first ones again.
        np.testing.assert_array_equal(draws[0][1], draws[2][1])
        assert not np.array_equal(draws[0][1], draws[1][1])


def test_answers_with_nan_have_the_value_that_a_scorer_gives_them() -> None:
    truth = np.arange(6.0)
    target = EvaluationTarget("regression", truth, truth, np.empty(0), None)
    answers = [Answers(np.append(truth[:5], np.nan)), Answers(truth)]

    def finite(estimator: Any, X: Any, y: Any) -> float:
        return float(np.isfinite(estimator.predict(X)).mean())

    scoring = resolve_scoring(finite, None, truth, "regression")
    drawn = measure_metrics(answers, target, ["finite"], Bootstrap(6, None, 5), scoring)["finite"]
    assert [value for value, _ in drawn] == pytest.approx([5 / 6, 1.0])

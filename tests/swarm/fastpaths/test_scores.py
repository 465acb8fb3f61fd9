"""Scores of many masks at once, or of none, are those that scikit-learn gives to each of them.

``make fuzz`` tries more cases. A failure names the seed of its case.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn import metrics
from sklearn.metrics import make_scorer

from swarm.answers import Answers
from swarm.fastpaths.costs import FoldCosts
from swarm.metrics import ClassCounts
from swarm.problem.scoring import Scoring, resolve_scoring
from tests.fuzzing import CASES

Rng = np.random.Generator
Float = NDArray[np.float64]

N_MASKS = 8

LABELS: dict[str, dict[str, Any]] = {
    "balanced_accuracy": {},
    "matthews_corrcoef": {},
    "adjusted": {"function": metrics.balanced_accuracy_score, "adjusted": True},
    "kappa": {"function": metrics.cohen_kappa_score},
    "linear kappa": {"function": metrics.cohen_kappa_score, "weights": "linear"},
    "quadratic kappa": {"function": metrics.cohen_kappa_score, "weights": "quadratic"},
    "F2": {"function": metrics.fbeta_score, "beta": 2, "average": "macro"},
    "reversed labels": {
        "function": metrics.f1_score,
        "average": "weighted",
        "labels": "reversed",
        "zero_division": 0,
    },
}
for _name in ("f1", "jaccard", "precision", "recall"):
    LABELS[_name] = {}
    for _average in ("macro", "micro", "weighted"):
        LABELS[f"{_name}_{_average}"] = {}
        for _undefined in (1,) if _name == "jaccard" else (1, np.nan):
            LABELS[f"{_name}, {_average}, zero_division {_undefined}"] = {
                "function": getattr(metrics, f"{_name}_score"),
                "average": _average,
                "zero_division": _undefined,
            }
SHARES = ["neg_log_loss", "neg_brier_score", "roc_auc", "roc_auc_ovr", "roc_auc_ovo"]
SHARES += ["roc_auc_ovr_weighted", "roc_auc_ovo_weighted"]
NUMBERS = ["r2", "explained_variance"]
NUMBERS += [
    f"neg_{name}"
    for name in (
        "max_error",
        "mean_absolute_error",
        "mean_absolute_percentage_error",
        "mean_squared_error",
        "mean_squared_log_error",
        "median_absolute_error",
        "root_mean_squared_error",
        "root_mean_squared_log_error",
    )
]


def one_fold(scoring: Any, target: NDArray[Any], train: Any, test: Any, weight: Any = None) -> Any:
    """Return what costs need of a problem."""
    return SimpleNamespace(
        weights_in_score=weight is not None,
        score_weight=lambda rows: weight,
        cost=lambda model, X, rows: scoring.cost(model, X, target[rows], weight),
        scoring=scoring,
        target=target,
        folds=[(train, test)],
    )


def classes_of(rng: Rng, n_classes: int) -> NDArray[Any]:
    made: list[NDArray[Any]] = [
        np.arange(n_classes),
        np.array([f"class {i:02}" for i in range(n_classes)]),
        np.sort(rng.choice(np.arange(-3, 40), n_classes, replace=False)),
    ]
    return made[int(rng.integers(len(made)))]


def fold_of(rng: Rng, scorer: str, n_classes: int) -> FoldCosts:
    """Draw one fold, whose test rows may lack a class."""
    n_test = int(rng.integers(3, 60)) if rng.random() < 0.8 else int(rng.integers(200, 500))
    classes = classes_of(rng, n_classes)
    codes = rng.choice(n_classes, n_test, p=rng.dirichlet(np.full(n_classes, 2.0)))
    target = classes[np.r_[np.arange(n_classes), codes]]
    settings = {"function": None, **LABELS.get(scorer, {})}
    function = settings.pop("function")
    if function is not None:
        if "labels" in settings:
            settings["labels"] = classes[::-1].tolist()
        scoring = Scoring(scorer, make_scorer(function, **settings), upper=None)
    else:
        task = "binary" if n_classes == 2 else "multiclass"
        scoring = resolve_scoring(scorer, None, target, task, classes[0].item())
    rows = np.arange(len(target))
    return FoldCosts(one_fold(scoring, target, rows[:n_classes], rows[n_classes:]), classes)


def expected(costs: FoldCosts, answers: list[Answers]) -> Float:
    problem = costs.problem
    test = problem.folds[0][1]
    found = np.full(len(answers), np.nan)
    for row, one in enumerate(answers):
        try:
            found[row] = problem.scoring.cost(
                one.estimator(), one.positions, problem.target[test], problem.score_weight(test)
            )
        except Exception:
            continue
    return np.where(np.isfinite(found), found, np.nan)


def label_costs(scorer: str, seed: int) -> tuple[Float, Float]:
    rng = np.random.default_rng([seed, 1])
    two = scorer in ("f1", "jaccard", "precision", "recall")
    costs = fold_of(rng, scorer, 2 if two else int(rng.integers(2, 12)))
    assert costs.classes is not None
    truth, n_classes = costs.truth[0], len(costs.classes)
    codes = np.where(
        rng.random((N_MASKS, len(truth))) < rng.random((N_MASKS, 1)),
        truth,
        rng.integers(0, n_classes, (N_MASKS, len(truth))),
    )
    codes[0], codes[1] = truth, int(rng.integers(n_classes))
    assert costs.of_codes(codes[:0], 0).shape == (0,)
    found = costs.of_codes(codes, 0)
    answers = [Answers(costs.classes[row], classes=costs.classes) for row in codes]
    return found, expected(costs, answers)


def share_costs(scorer: str, seed: int) -> tuple[Float, Float]:
    rng = np.random.default_rng([seed, 2])
    costs = fold_of(rng, scorer, 2 if scorer == "roc_auc" else int(rng.integers(2, 7)))
    assert costs.classes is not None
    shape = (len(costs.classes), N_MASKS, len(costs.truth[0]))
    # Votes of neighbours tie; likelihoods are close to 0 and 1.
    votes = rng.multinomial(5, np.full(shape[0], 1 / shape[0]), shape[1:]) / 5
    odds = np.exp(rng.normal(size=shape) * rng.choice([0.1, 3.0, 40.0]))
    shares = np.moveaxis(votes, 2, 0) if rng.random() < 0.5 else odds / odds.sum(axis=0)
    shares = np.ascontiguousarray(shares)
    assert costs.of_probabilities(shares[:, :0], 0).shape == (0,)
    found = costs.of_probabilities(shares, 0)
    rows = [np.asfortranarray(shares[:, m].T) for m in range(N_MASKS)]
    answers = [Answers(row[:, 0], row, classes=costs.classes) for row in rows]
    return found, expected(costs, answers)


def number_costs(scorer: str, seed: int) -> tuple[Float, Float]:
    rng = np.random.default_rng([seed, 3])
    truth = rng.normal(size=int(rng.integers(2, 60))) * 10.0 ** rng.integers(-3, 5)
    if rng.random() < 0.5:
        truth = np.abs(truth)
    if rng.random() < 0.1:
        truth[:] = truth[0]
    scoring = resolve_scoring(scorer, None, truth, "regression")
    weight = 3.0 * rng.random(len(truth)) if rng.random() < 0.4 else None
    rows = np.arange(len(truth))
    costs = FoldCosts(one_fold(scoring, truth, rows[:0], rows, weight), None)
    predicted = truth + rng.normal(size=(N_MASKS, len(truth))) * np.abs(truth).mean()
    predicted[0] = truth
    if rng.random() < 0.5:
        predicted = np.abs(predicted)
    assert costs.of_numbers(predicted[:0], 0).shape == (0,)
    found = costs.of_numbers(predicted, 0)
    return found, expected(costs, [Answers(row) for row in predicted])


CASES_OF = [(label_costs, name, CASES // 60) for name in LABELS]
CASES_OF += [(share_costs, name, CASES // 50) for name in SHARES]
CASES_OF += [(number_costs, name, CASES // 15) for name in NUMBERS]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("costs_of", "scorer", "count"), CASES_OF)
def test_scores_are_those_of_scikit_learn(costs_of: Any, scorer: str, count: int) -> None:
    for seed in range(count):
        found, wanted = costs_of(scorer, seed)
        if costs_of is number_costs:
            np.testing.assert_allclose(found, wanted, 1e-12, 1e-14, err_msg=f"seed {seed}")
        else:
            np.testing.assert_array_equal(found, wanted, f"seed {seed}")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("scorer", [*LABELS, *SHARES])
def test_scikit_learn_is_not_called_for_each_mask(
    scorer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    costs = fold_of(rng, scorer, 2)
    assert costs.classes is not None
    costs.problem.target[2:] = costs.classes[np.arange(len(costs.problem.target) - 2) % 2]
    calls = []
    cost = Scoring.cost
    monkeypatch.setattr(Scoring, "cost", lambda *given: calls.append(1) or cost(*given))
    shape = (40, len(costs.truth[0]))
    if scorer in LABELS:
        found = costs.of_codes(rng.permuted(np.tile(costs.truth[0], (40, 1)), axis=1), 0)
    else:
        share = rng.random(shape)
        found = costs.of_probabilities(np.stack([1 - share, share]), 0)
    assert len(calls) == 1
    assert costs.agrees
    assert np.isfinite(found).all()


def test_a_score_that_differs_from_that_of_scikit_learn_is_not_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    costs = fold_of(np.random.default_rng(1), "balanced_accuracy", 3)
    codes = np.tile(costs.truth[0], (4, 1))
    monkeypatch.setattr("swarm.fastpaths.costs.label_scores", lambda *given: np.full(4, 0.5))
    assert costs.of_codes(codes, 0).tolist() == [0.0] * 4
    assert costs.agrees is False


def test_matthews_correlation_of_one_predicted_class_is_0_whatever_the_weights() -> None:
    """Sums of weights miss a spread of 0 by their rounding."""
    rng = np.random.default_rng(0)
    for _ in range(50):
        weight = rng.random(100)
        true = np.array([weight[:40].sum(), weight[40:].sum()])
        predicted, both = np.array([weight.sum(), 0.0]), np.array([true[0], 0.0])
        assert ClassCounts(true, predicted, both).matthews() == 0.0

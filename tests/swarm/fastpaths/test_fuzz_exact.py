"""Random problems on which costs without models must be those of fitted models.

``make fuzz`` tries more of them. A failure names the seed of its case: ``case(kind, seed)``.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.dummy import DummyRegressor
from sklearn.linear_model import LinearRegression, Ridge, RidgeClassifier
from sklearn.metrics import get_scorer, get_scorer_names
from sklearn.model_selection import GroupKFold, KFold, ShuffleSplit, StratifiedKFold
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler

from swarm.errors import EvaluationError, SwarmError
from swarm.evaluation.crossval import CrossValidation
from swarm.evaluation.types import Evaluations
from swarm.fastpaths import exact_path
from swarm.multilabel import MLkNN
from swarm.problem.problem import Problem
from swarm.problem.space import SearchSpace
from tests.fuzzing import CASES, Rng, failures, random_table

Float = NDArray[np.float64]

# Relative to the larger of the cost and that of predicting the mean.
TOLERANCE = 1e-8

_BY_LABEL = [name for name in get_scorer_names() if get_scorer(name)._response_method == "predict"]
NUMBERS = [
    name for name in _BY_LABEL if get_scorer(name)._score_func.__module__.endswith("ression")
]
_SAMPLES = [name for name in _BY_LABEL if name.endswith("_samples")]
TWO_CLASSES = ["f1", "jaccard", "precision", "recall"]
TWO_CLASSES += [name for name in _BY_LABEL if name.endswith("likelihood_ratio")]
CLASSES = [name for name in _BY_LABEL if name not in (*NUMBERS, *_SAMPLES, *TWO_CLASSES)]
_LABELS = ["subset_accuracy", "neg_hamming_loss", "accuracy", *_SAMPLES]
_LABELS += [
    f"{name}_{average}"
    for name in ("f1", "jaccard", "precision", "recall")
    for average in ("macro", "micro", "weighted")
]
SHARES = ["neg_log_loss", "neg_brier_score", "roc_auc_ovr", "roc_auc_ovo"]
SHARES += ["roc_auc_ovr_weighted", "roc_auc_ovo_weighted"]


def case(kind: str, seed: int, scoring: Any = None) -> tuple[Problem, NDArray[np.bool_]] | None:
    """Draw a problem, with this scorer or any, and masks; None where the problem is refused."""
    rng = np.random.default_rng([seed, *kind.encode()])
    n, d = int(rng.integers(18, 90)), int(rng.integers(1, 21))
    task = "labels" if "ML-kNN" in kind else "numbers" if kind in _REGRESSORS else "classes"
    target = _targets(rng, n, task)
    features = random_table(rng, n, d, target)
    # Units are in the order of the names.
    features.columns = rng.permutation(features.columns)
    model: Any = _ESTIMATORS[kind](rng)
    weight = None
    if isinstance(model, _WEIGHTED) and rng.random() < 0.4:
        weight = np.round(3.0 * rng.random(n), int(rng.choice([0, 5])))
        weight[:2] = 1.0
    steps = _SCALERS[int(rng.integers(len(_SCALERS)))] if "scaled" in kind else []
    if steps or rng.random() < 0.1:
        model = make_pipeline(*steps, model)
    scorers = {"labels": _LABELS, "numbers": NUMBERS, "classes": CLASSES}[task]
    positive = None
    if kind.removeprefix("scaled ") in ("nearest", "naive Bayes"):
        scorers = [*scorers, *SHARES]
    if task == "classes":
        positive = rng.choice(np.unique(target)).item()
    if task == "classes" and len(np.unique(target)) == 2:
        scorers = [*scorers, *TWO_CLASSES, "roc_auc"]
    drawn = str(rng.choice(scorers)) if scoring is None else scoring
    space = None
    if d > 3 and rng.random() < 0.2:
        space = SearchSpace.build(list(features.columns), groups={"pair": ["x0", "x2"]})
    try:
        problem = Problem.build(
            features,
            target,
            model,
            scoring=drawn,
            pos_label=positive,
            folds=_folds(rng, target, n),
            weight=weight,
            weights_in_score=weight is not None and rng.random() < 0.5,
            space=space,
            importance="fold" if "linear" in kind else "none",
        )
    except SwarmError:
        return None
    n_units = problem.space.n_units
    masks = rng.random((2, n_units)) < rng.choice([0.3, 0.5, 0.8], (2, 1))
    # One unit alone ties most, all of them are the most likely to be singular.
    masks[0] = rng.random() < 0.3
    masks[np.arange(2), rng.integers(0, n_units, 2)] = True
    return problem, np.unique(masks, axis=0)


def _targets(rng: Rng, n: int, task: str) -> NDArray[Any]:
    if task == "labels":
        shares = rng.uniform(0.1, 0.7, int(rng.integers(2, 11)))
        labels = (rng.random((n, len(shares))) < shares).astype(np.int64)
        labels[:2] = [[0], [1]]
        return labels
    if task == "numbers":
        return {
            "normal": lambda: rng.normal(size=n) * 10.0 ** rng.integers(-3, 6),
            "far": lambda: rng.normal(size=n) + rng.choice([1e3, 1e7]),
            "count": lambda: rng.poisson(4, n).astype(np.float64),
            "positive": lambda: 0.1 + rng.exponential(size=n),
            "two values": lambda: (rng.random(n) < 0.4).astype(np.int64),
        }[str(rng.choice(["normal", "normal", "far", "count", "positive", "two values"]))]()
    n_classes = int(rng.integers(2, 6))
    codes = rng.choice(n_classes, n, p=rng.dirichlet(np.full(n_classes, rng.choice([0.5, 5]))))
    # Two or three rows of every class at least.
    codes[: 3 * n_classes] = np.repeat(np.arange(n_classes), 3)
    codes = rng.permutation(codes)
    names: list[NDArray[Any]] = [
        np.arange(n_classes),
        np.array(["b", "a", "zz", "d", "c"])[:n_classes],
        np.array([-1, 1, 7, 100, 3])[:n_classes],
        np.array([0.0, 2.0, 5.0, 3.0, 4.0])[:n_classes],
    ]
    return names[int(rng.integers(len(names)))][codes]


_SCALERS = [
    [StandardScaler()],
    [StandardScaler()],
    [MinMaxScaler()],
    [MinMaxScaler((-1, 1), clip=True)],
    [StandardScaler(with_mean=False)],
    [MinMaxScaler(), StandardScaler()],
]


def _neighbours(rng: Rng) -> dict[str, Any]:
    return {
        "n_neighbors": int(rng.integers(1, 8)),
        "weights": str(rng.choice(["uniform", "distance"])),
        "algorithm": str(rng.choice(["auto", "auto", "brute", "kd_tree", "ball_tree"])),
        "leaf_size": int(rng.choice([1, 5, 30])),
    }


def _ridge(rng: Rng) -> dict[str, Any]:
    return {
        "alpha": float(rng.choice([0.0, 1e-6, 0.01, 1.0, 100.0], p=[0.05, 0.15, 0.2, 0.4, 0.2])),
        "fit_intercept": bool(rng.random() < 0.8),
        "solver": str(rng.choice(["auto", "cholesky", "svd"])),
    }


_MODELS: dict[str, Callable[[Rng], Any]] = {
    "nearest": lambda rng: KNeighborsClassifier(**_neighbours(rng)),
    "nearest numbers": lambda rng: KNeighborsRegressor(**_neighbours(rng)),
    "ML-kNN": lambda rng: MLkNN(int(rng.integers(1, 8)), float(rng.choice([1.0, 0.5]))),
    "naive Bayes": lambda rng: GaussianNB(var_smoothing=float(rng.choice([0.0, 1e-9, 1e-3, 0.5]))),
    "linear classes": lambda rng: RidgeClassifier(**_ridge(rng)),
    "linear ridge": lambda rng: Ridge(**_ridge(rng)),
    "linear squares": lambda rng: LinearRegression(fit_intercept=bool(rng.random() < 0.8)),
}
_WEIGHTED = (RidgeClassifier, Ridge, LinearRegression)
_ESTIMATORS = _MODELS | {f"scaled {name}": made for name, made in _MODELS.items()}
_REGRESSORS = [
    name
    for name in _ESTIMATORS
    if name.removeprefix("scaled ") in ("nearest numbers", "linear ridge", "linear squares")
]


def _folds(rng: Rng, target: NDArray[Any], n: int) -> list[Any]:
    count, seed = int(rng.integers(2, 4)), int(rng.integers(1_000_000))
    classes = target if target.ndim == 1 else target[:, 0]
    kind = rng.choice(["stratified", "random", "in order", "group", "shuffle", "permuted"])
    rows = np.zeros((n, 1))
    if kind == "stratified" and len(np.unique(classes)) < 8:
        return list(StratifiedKFold(count, shuffle=True, random_state=seed).split(rows, classes))
    if kind == "in order":
        return list(KFold(count).split(rows))
    if kind == "group":
        return list(GroupKFold(count).split(rows, None, rng.integers(0, 3 * count, n)))
    if kind == "shuffle":
        return list(ShuffleSplit(count, test_size=0.3, random_state=seed).split(rows))
    folds = list(KFold(count, shuffle=True, random_state=seed).split(rows))
    if kind == "permuted":
        folds = [(rng.permutation(train), rng.permutation(test)) for train, test in folds]
    return folds


def _answers(problem: Problem, masks: NDArray[np.bool_], exact: bool) -> Evaluations | str:
    """Evaluate the masks; where that raises, the kind of error."""
    limits = np.full(len(masks), np.inf)
    with CrossValidation(problem, exact=exact) as evaluator:
        try:
            return evaluator.evaluate(masks, limits, np.arange(problem.n_folds))
        except EvaluationError as error:
            return type(error).__name__


def _scale(problem: Problem, fold: int) -> float:
    """Cost of a model that predicts the mean."""
    train, test = problem.folds[fold]
    rows = problem.features
    model = DummyRegressor().fit(rows.iloc[train], problem.target[train])
    try:
        return abs(problem.scoring.cost(model, rows.iloc[test], problem.target[test]))
    except ValueError:  # a scorer that takes no such number
        return 0.0


def differences(kind: str, seed: int, without_models: list[int], scoring: Any = None) -> list[str]:
    """Say what the answers with and without fitted models differ in.

    The number of masks that were evaluated without any model is appended to `without_models`.
    """
    drawn = case(kind, seed, scoring)
    if drawn is None:
        return []
    problem, masks = drawn
    if exact_path(problem)[0] is None:
        return []
    fast, fitted = (_answers(problem, masks, exact) for exact in (True, False))
    if not isinstance(fast, str):
        without_models.append(len(masks) - fast.work.fallbacks)
    said = f"{kind}, {problem.estimator!r}, {problem.scoring.name}"
    if isinstance(fast, str) or isinstance(fitted, str):
        return [] if fast == fitted else [f"{said}: {fast} and {fitted}"]
    found = []
    numbers = kind in _REGRESSORS
    scale = [_scale(problem, fold) if numbers else 0.0 for fold in range(problem.n_folds)]
    # A squared error of 0 is one of rounding.
    room = (TOLERANCE * np.maximum(scale, np.abs(fitted.fold_costs)) + 1e-16) * numbers
    error = np.abs(fast.fold_costs - fitted.fold_costs)
    same = (error <= room) | (np.isnan(fast.fold_costs) & np.isnan(fitted.fold_costs))
    if not same.all():
        found.append(f"{said}: costs differ by {np.nanmax(error[~same]):.3g}")
    found += [
        f"{said}: {name} differs"
        for name in ("failed", "needed", "used", *(() if numbers else ("costs",)))
        if not np.array_equal(getattr(fast, name), getattr(fitted, name))
    ]
    if "linear" in kind and not _alike(problem, fast.importances, fitted.importances):
        found.append(f"{said}: importances differ")
    return found


def _alike(problem: Problem, fast: Float, fitted: Float) -> bool:
    """Whether importances agree, each as seen by the spread of its columns."""
    spread = problem.features.to_numpy(dtype=np.float64).std(axis=0)
    width = np.array([max(spread[list(unit)].max(), 1e-300) for unit in problem.space.units])
    fast, fitted = fast * width, fitted * width
    return np.allclose(fast, fitted, rtol=1e-6, atol=1e-6 * fitted.max(initial=0.0))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", _ESTIMATORS)
def test_costs_without_models_are_those_of_fitted_models(kind: str) -> None:
    count = -(-CASES // len(_ESTIMATORS))
    without_models: list[int] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = failures(range(count), lambda seed: differences(kind, seed, without_models))
    assert not found, "\n".join(found)
    assert any(without_models), "no mask was evaluated without a model"

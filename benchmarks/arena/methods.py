"""The methods of the arena. To add a variant of ours, add a line to `OURS`."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import peers
from data import Resample
from metric import OURS as OUR_SCORING
from metric import balanced_accuracy
from selection import select
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from swarm import SubsetEnsemble, SubsetSelector

N_MEMBERS, N_RANDOM = 8, 10


def _lightgbm() -> Any:
    from lightgbm import LGBMClassifier

    return LGBMClassifier(
        n_estimators=40, num_leaves=8, min_child_samples=5, n_jobs=1, random_state=0, verbosity=-1
    )


MODELS: dict[str, Callable[[], Any]] = {
    "nb": GaussianNB,
    "knn": lambda: make_pipeline(StandardScaler(), KNeighborsClassifier(5)),
    "logreg": lambda: make_pipeline(StandardScaler(), LogisticRegression(solver="newton-cholesky")),
    "lightgbm": _lightgbm,
}

# Label: parameters of SubsetSelector. Each gives two rows: its subset, and the soft vote of the
# best eight ("x8"). `max_share` bounds the size by a share of the columns.
OURS: dict[str, dict[str, Any]] = {
    "swarm": {},
    "swarm confirm": {"confirm": {"repeats": 5}},
    "swarm confirm score": {"confirm": {"repeats": 5, "goal": "score"}},
    "swarm confirm size": {"confirm": {"repeats": 5, "goal": "size"}},
    "swarm confirm third": {"confirm": {"repeats": 5}, "max_share": 1 / 3},
    "swarm clusters": {"strategy_params": {"init": "clusters"}},
    "swarm clusters confirm": {
        "strategy_params": {"init": "clusters"},
        "confirm": {"repeats": 5},
    },
    "swarm bpso": {"strategy_params": {"init": "clusters", "step": "bpso"}},
    "swarm bpso confirm": {
        "strategy_params": {"init": "clusters", "step": "bpso"},
        "confirm": {"repeats": 5},
    },
    "swarm ranked": {"strategy": "ranked"},
    "swarm prefilter": {"prefilter": {"least": 5}},
    "swarm random": {"strategy": "random"},
    "swarm sffs": {"strategy": "sffs", "size": "best"},
}


@dataclass(frozen=True, eq=False)
class Answer:
    """Columns that a method selected.

    Attributes
    ----------
    method : str
    members : list of bool (n_columns,)
        One mask, or those of an ensemble with a soft vote, or random ones of which each is scored.
    fits : int or None
    seconds : float
        Processor time: the machine may be shared.
    averaged : bool
        Whether the score is the mean of the members' own.
    """

    method: str
    members: list[np.ndarray]
    fits: int | None
    seconds: float
    averaged: bool = False


@dataclass(frozen=True)
class Method:
    """A method: what it needs to know, and what it runs.

    Attributes
    ----------
    run : callable ``(task) -> answers``
    uses_model : bool
        Whether its subset depends on the model; if not, one run serves all models.
    uses_budget : bool
        Whether it is given a number of evaluations.
    """

    run: Callable[[Task], Iterator[Answer]]
    uses_model: bool = True
    uses_budget: bool = False
    labels: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Task:
    """What a method is given."""

    rows: Resample
    model: Any
    budget: int
    seed: int


def _ours(label: str, params: dict[str, Any], task: Task) -> Iterator[Answer]:
    params = dict(params)
    limit: dict[str, Any] = {"budget": {"distinct": task.budget}}
    if "max_share" in params:
        limit["size"] = (None, math.ceil(params.pop("max_share") * task.rows.X.shape[1]))
    defaults = {"strategy": "multiswarm", "scoring": OUR_SCORING, "cv": 5, "confirm": False}
    selector = SubsetSelector(
        task.model, **{**defaults, "random_state": task.seed, **params, **limit}
    )

    started = time.process_time()
    selector.fit(task.rows.X, task.rows.y)
    seconds = time.process_time() - started
    fits = selector.n_fits_
    mask = selector.get_support()
    yield Answer(label, [mask], fits, seconds)
    columns = list(task.rows.X.columns)
    masks = selector.result_.best_members(N_MEMBERS).masks
    space = selector.result_.space
    members = [np.isin(columns, space.subset(each)) for each in masks]
    yield Answer(f"{label} x8", members, fits, seconds)
    if label == "swarm bpso":
        rng = np.random.default_rng(task.seed)
        draws = [rng.permutation(mask) for _ in range(N_RANDOM)]
        yield Answer("random of bpso's size", draws, 0, 0.0, averaged=True)


def _everything(task: Task) -> Iterator[Answer]:
    yield Answer("all features", [np.ones(task.rows.X.shape[1], dtype=bool)], 0, 0.0)


def _peer(label: str, make: Callable[[Task], Any], task: Task) -> Iterator[Answer]:
    started = time.process_time()
    mask, fits = select(make(task), task.rows.X, task.rows.y)
    yield Answer(label, [mask], fits, time.process_time() - started)


def methods() -> dict[str, Method]:
    """Return all methods by name, the cheapest first."""
    from functools import partial

    found = {"all features": Method(_everything, labels=("all features",))}
    for label, params in OURS.items():
        labels = (label, f"{label} x8")
        labels += ("random of bpso's size",) if label == "swarm bpso" else ()
        found[label] = Method(partial(_ours, label, params), uses_budget=True, labels=labels)
    for label, (make, uses_model, uses_budget) in peers.PEERS.items():
        found[label] = Method(partial(_peer, label, make), uses_model, uses_budget, (label,))
    return found


def score(answer: Answer, rows: Resample, model: Any) -> float:
    """Return the balanced accuracy of an answer on the test rows."""
    columns = [list(rows.X.columns[mask]) for mask in answer.members]
    if len(columns) > 1 and not answer.averaged:
        vote = SubsetEnsemble(clone(model), columns, "soft").fit(rows.X, rows.y)
        return float(balanced_accuracy(rows.y_test, vote.predict(rows.X_test)))
    scores = []
    for chosen in columns:
        fitted = clone(model).fit(rows.X[chosen], rows.y)
        scores.append(balanced_accuracy(rows.y_test, fitted.predict(rows.X_test[chosen])))
    return float(np.mean(scores))


def load_compiled_code() -> None:
    """Run a tiny search of each model, so that no cell waits for the compilation."""
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(60, 4)), columns=list("abcd"))
    y = (X["a"] > 0).to_numpy().astype(int)
    for make in MODELS.values():
        SubsetSelector(make(), scoring=OUR_SCORING, budget={"distinct": 8}).fit(X, y)

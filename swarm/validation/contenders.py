"""The ensemble and its baselines, and the tables of their metrics and predictions."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from swarm.arrays import AnyArray, Float
from swarm.problem.space import SearchSpace
from swarm.rounding import difference
from swarm.validation.answers import EvaluationTarget
from swarm.validation.judgement import CONTENDERS, Evidence, Guessing
from swarm.validation.scorer_metrics import Bootstrap, MetricDraws

__all__ = [
    "CONTENDERS",
    "Contender",
    "MeasuredContenders",
    "committee_rows",
    "make_contenders",
    "mean_by_contender",
    "prediction_table",
]

IntArray = NDArray[np.intp]


@dataclass(frozen=True)
class Contender:
    """A named set of models: their subsets, their vote and the training rows of each."""

    name: str  # a key of `CONTENDERS`; all draws of the random subsets have the same name
    subsets: tuple[list[str], ...]  # columns of each member
    vote: str  # "auto" for a single model
    rows: tuple[IntArray, ...] | None = None  # training rows of each member; None: all rows

    @property
    def n_features(self) -> int:
        """Number of distinct columns that the members use."""
        return len({name for subset in self.subsets for name in subset})


def make_contenders(
    # constraints of the random subsets; "all features" are those that are not forbidden
    space: SearchSpace,
    subsets: Sequence[Sequence[str]],
    best: Sequence[str],
    vote: str,  # of the ensemble and of the two baselines with as many members
    # training rows of each member of `all_features_ensemble`, see `committee_rows`
    parts: Sequence[IntArray],
    n_random: int,
    seed: int,
) -> list[Contender]:
    """Return the contenders, with `n_random` draws of the random subsets."""
    everything = space.subset(~space.forbidden)
    chosen = [list(subset) for subset in subsets]
    members = [everything] * len(chosen)
    return [
        Contender("ensemble", tuple(chosen), vote),
        Contender("best_subset", (list(best),), "auto"),
        Contender("all_features", (everything,), "auto"),
        Contender("all_features_ensemble", tuple(members), vote, tuple(parts)),
        *_random(space, chosen, vote, n_random, seed),
    ]


def committee_rows(
    n_members: int, labels: NDArray[Any] | None, n_rows: int, groups: ArrayLike | None, seed: int
) -> list[IntArray]:
    """Return the training rows (ascending) of each member: all parts of the rows but one.

    Models of equal rows would be equal. Groups are ignored if there are fewer than members.
    Source: Parmanto, Munro & Doyle (1996), Improving committee diagnosis with resampling
    techniques, NIPS 8.
    """
    if n_members == 1:
        return [np.arange(n_rows)]
    rng = np.random.default_rng([seed, 2])
    codes = np.zeros(n_rows, dtype=np.intp)
    if labels is not None:
        codes = np.unique(labels, axis=0, return_inverse=True)[1].ravel()
    owner = np.arange(n_rows)
    if groups is not None:
        names, of_row = np.unique(np.asarray(groups), return_inverse=True)
        if len(names) >= n_members:
            owner = of_row
    sizes = np.bincount(owner)
    # A group has the class of its first row, which is exact if groups contain a single class.
    kind = codes[np.unique(owner, return_index=True)[1]]
    shuffled = rng.permutation(len(sizes))
    order = shuffled[np.lexsort((-sizes[shuffled], kind[shuffled]))]
    part = np.empty(len(sizes), dtype=np.intp)
    part[order] = np.arange(len(sizes)) % n_members
    return [np.flatnonzero(part[owner] != member) for member in range(n_members)]


def _random(
    space: SearchSpace, subsets: list[list[str]], vote: str, n_random: int, seed: int
) -> Iterator[Contender]:
    """Yield random subsets with as many units as the chosen ones, within the constraints."""
    rng = np.random.default_rng([seed, 3])
    free = np.flatnonzero(~space.fixed & ~space.forbidden)
    sizes = [int(space.mask(subset).sum()) for subset in subsets]
    for _ in range(n_random):
        drawn = []
        for size in sizes:
            mask = space.fixed.copy()
            n_free = min(max(size - int(mask.sum()), 0), len(free))
            mask[rng.choice(free, n_free, replace=False)] = True
            drawn.append(space.subset(mask))
        yield Contender("random_subsets", tuple(drawn), vote)


def mean_by_contender(contenders: Sequence[Contender], values: Sequence[Any]) -> dict[str, Any]:
    """Return the value of each contender, averaged over its draws."""
    return {
        name: np.mean(
            [v for c, v in zip(contenders, values, strict=True) if c.name == name], axis=0
        )
        for name in CONTENDERS
    }


@dataclass(frozen=True, eq=False)
class MeasuredContenders:
    """Contenders and their metrics on the test rows, and on the same resamples of them."""

    contenders: Sequence[Contender]
    # value and resamples of each contender; the first metric is that of the verdict
    metrics: Mapping[str, MetricDraws]
    bootstrap: Bootstrap

    def tables(self) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Return the table of metrics and the table of their paired differences."""
        n_features = mean_by_contender(self.contenders, [c.n_features for c in self.contenders])
        n_models = {c.name: len(c.subsets) for c in self.contenders}
        means = {
            metric: [mean_by_contender(self.contenders, each) for each in zip(*drawn, strict=True)]
            for metric, drawn in self.metrics.items()
        }
        rows: list[dict[str, Any]] = []
        gaps: list[dict[str, Any]] = []
        for name in CONTENDERS:
            for metric, (value, draws) in means.items():
                low, high = self.bootstrap.interval(draws[name])
                figure = {"contender": name, "metric": metric, "value": float(value[name])}
                sizes = {"n_features": round(n_features[name]), "n_models": n_models[name]}
                rows.append({**figure, "low": low, "high": high, **sizes})
                if name == "ensemble":
                    continue
                own, rival = ((float(value[n]), draws[n]) for n in ("ensemble", name))
                gap = self._against("", metric, own, rival)
                favours = {"better": "ensemble", "worse": name}.get(gap.verdict, "neither")
                gaps.append(
                    {
                        "contender": name,
                        "metric": metric,
                        "difference": gap.difference,
                        "low": gap.low,
                        "high": gap.high,
                        "favours": favours,
                    }
                )
        return pd.DataFrame(rows), pd.DataFrame(gaps)

    def selection(self, rows: str) -> Evidence:
        """Compare best subset and all features, one model each, in the first metric on `rows`."""
        metric, drawn = next(iter(self.metrics.items()))
        names = [contender.name for contender in self.contenders]
        own, rival = (drawn[names.index(name)] for name in ("best_subset", "all_features"))
        return self._against(rows, metric, own, rival)

    def guessing(self, guess: tuple[float, Float]) -> Guessing:
        """Compare ensemble, best subset and all features with value and resamples of a guess."""
        metric, drawn = next(iter(self.metrics.items()))
        beaten = any(
            self._against("", metric, own, guess).verdict == "better"
            for contender, own in zip(self.contenders, drawn, strict=True)
            if contender.name in ("ensemble", "best_subset", "all_features")
        )
        value, draws = guess
        return Guessing(metric, value, beaten or math.isnan(self.bootstrap.interval(draws)[0]))

    def _against(
        self, rows: str, metric: str, own: tuple[float, Float], rival: tuple[float, Float]
    ) -> Evidence:
        """Compare two models on the same resamples."""
        interval = self.bootstrap.interval(difference(own[1], rival[1]))
        return Evidence(rows, metric, own[0], rival[0], *interval)


def prediction_table(
    contenders: Sequence[Contender],
    predicted: Sequence[AnyArray],
    truth: EvaluationTarget,
    index: pd.Index[Any],
    labels: Sequence[Any] | None,
) -> pd.DataFrame:
    """Return a table of the true target and all predictions; `labels` names multi-label columns."""
    answers = {"y_true": truth.test}
    draw = 0
    for contender, answer in zip(contenders, predicted, strict=True):
        draw += contender.name == "random_subsets"
        answers[f"{contender.name}_{draw}" if draw else contender.name] = answer
    if truth.task != "multilabel":
        return pd.DataFrame(answers, index=index)
    named = range(truth.test.shape[1]) if labels is None else labels
    columns = {f"{name}.{c}": v[:, i] for name, v in answers.items() for i, c in enumerate(named)}
    return pd.DataFrame(columns, index=index)

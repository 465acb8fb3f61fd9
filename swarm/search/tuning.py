"""Choose a setting of the model before a search, by successive halving over settings and subsets.

A candidate is a subset and a setting of the model's parameters. Settings are not bits of a mask:
bounds on the size, hints and prices do not apply to them. Each setting is therefore a problem of
its own, on the same rows, folds and units, so that the archive keeps its evaluations apart. In each
round every setting that is left gets a short search of the same number of subsets; the half with
the lowest costs goes on, and starts from the best subsets of all. The search itself runs with the
last setting, on what is left of the budget.

Source: Karnin, Koren and Somekh (2013), Almost optimal exploration in multi-armed bandits; Jamieson
and Talwalkar (2016), Non-stochastic best arm identification and hyperparameter optimization. Our
choices: the resource is the number of subsets, the rounds take half of the budget in equal parts,
and the first subset of the first round has all features.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import numpy as np

from swarm.arrays import Bool, Float, read_only
from swarm.errors import ConfigError, EvaluationError
from swarm.evaluation.crossval import CrossValidation
from swarm.evaluation.types import Evaluator
from swarm.problem.problem import Problem
from swarm.search.asked import training_seconds
from swarm.search.budget import Budget
from swarm.search.driver import Search, run
from swarm.search.packing import in_turn
from swarm.search.result import SearchResult
from swarm.search.rotation import leaders_of
from swarm.search.settings import Setting, described

# Creates the search of a setting in a round: evaluator, warm-start masks, seed, budget.
MakeSearch = Callable[[Evaluator, Bool, int, Budget], Search]

# Share of the budget that the rounds take, and the share up to which many settings may exceed it.
_SHARE, _MOST_SHARE = 0.5, 0.75
# All features, and a few more: fewer subsets say too little about a setting.
_LEAST_SUBSETS = 4
# Keeps the generators of the rounds apart from those of the search.
_ROUND_SEED = 7


@dataclass(frozen=True, eq=False)
class Tuning:
    """The settings of a model among which one is chosen.

    Attributes
    ----------
    settings : tuple of mappings
        Values by name of parameter.
    problems : tuple of Problem
        The problem of the search with each setting.
    n_grid : int
        Number of combinations of which `settings` are a sample, or all.
    """

    settings: tuple[Setting, ...]
    problems: tuple[Problem, ...]
    n_grid: int

    @classmethod
    def of(
        cls,
        problem: Problem,
        settings: tuple[Setting, ...],
        n_grid: int,
        build: Callable[[Setting], Any],
        importance: Any,
    ) -> Tuning:
        """Give the estimator of each setting, which `build` returns, the problem of the search.

        The random state stays that of the problem, which nested resampling changes for the search
        alone.
        """
        problems = tuple(
            problem.with_estimator(build(setting), importance=importance, seed=problem.seed)
            for setting in settings
        )
        return cls(settings, problems, n_grid)


@dataclass(frozen=True)
class Round:
    """A round of the successive halving.

    Attributes
    ----------
    n_settings : int
        Settings that take part.
    n_subsets : int
        Subsets with which each of them is evaluated.
    """

    n_settings: int
    n_subsets: int


@dataclass(frozen=True, eq=False)
class TuningResult:
    """The chosen setting, and the costs by which it was chosen.

    Attributes
    ----------
    settings : tuple of mappings
    n_grid : int
        Number of combinations of which they are a sample, or all.
    chosen : int
        Index of the chosen setting.
    rounds : tuple of Round
    costs : float64 (n_rounds, n_settings)
        Lowest cost of each setting in each round, with the prices of the columns if these count;
        NaN where it took no part.
    warm : bool (n, n_units)
        Best subsets of the last round, those of the chosen setting first.
    evaluations, distinct, fits : int
        As in :class:`swarm.search.budget.Counts`, of all settings together.
    seconds : float
        Recorded training time.
    interrupted : SearchResult or None
        If Ctrl-C ended the rounds: the last search of the chosen setting.
    """

    settings: tuple[Setting, ...]
    n_grid: int
    chosen: int
    rounds: tuple[Round, ...]
    costs: Float
    warm: Bool
    evaluations: int
    distinct: int
    fits: int
    seconds: float
    interrupted: SearchResult | None = None

    def __post_init__(self) -> None:
        read_only(self.costs, self.warm)

    @property
    def params(self) -> dict[str, Any]:
        """The chosen setting."""
        return dict(self.settings[self.chosen])

    def outcome(self) -> str:
        """State what was chosen, among how many, and what it took."""
        sampled = f" (of {self.n_grid:,})" if self.n_grid > len(self.settings) else ""
        return (
            f"{described(self.params)}, chosen among {len(self.settings)}{sampled} in "
            f"{len(self.rounds)} rounds; {self.fits:,} fits"
        )

    def sentence(self) -> str:
        """State the outcome behind its name."""
        return f"model settings: {self.outcome()}"


def subsets_in(budget: Budget, n_folds: int, per_epoch: int) -> int | None:
    """Return the number of subsets that a budget allows at least; None if it does not count them.

    Parameters
    ----------
    budget : Budget
    n_folds : int
        Folds of an evaluation.
    per_epoch : int
        Subsets that the strategy proposes in an epoch.
    """
    counted = {"fits": 1 / n_folds, "distinct": 1.0, "evaluations": 1.0, "epochs": float(per_epoch)}
    limits = [(getattr(budget, name), each) for name, each in counted.items()]
    return min((int(limit * each) for limit, each in limits if limit is not None), default=None)


def rounds_of(n_settings: int, subsets: int | None) -> tuple[Round, ...]:
    """Divide a part of the budget among the rounds, until one setting is left.

    Parameters
    ----------
    n_settings : int
    subsets : int or None
        See :func:`subsets_in`.

    Raises
    ------
    ConfigError
        If the budget does not count subsets, or allows too few of them.
    """
    if subsets is None:
        raise ConfigError(
            "choosing a setting of the model divides the budget, which limits neither epochs nor "
            "fits; set epochs, evaluations, distinct or fits"
        )
    found = _divided(n_settings, subsets)
    if not _fits_in(found, subsets):
        least = next(n for n in count(subsets) if _fits_in(_divided(n_settings, n), n))
        raise ConfigError(
            f"the budget allows about {subsets:,} subsets, too few to compare {n_settings} "
            "settings of the model and to search with one of them; give fewer values, or allow "
            f"{least:,} subsets or more"
        )
    return found


def _divided(n_settings: int, subsets: int) -> tuple[Round, ...]:
    """Return rounds of about equally many subsets, until one setting is left."""
    sizes, left = list[int](), n_settings
    while left > 1:
        sizes.append(left)
        left = (left + 1) // 2
    each = int(_SHARE * subsets / max(1, len(sizes)))
    return tuple(Round(size, max(_LEAST_SUBSETS, each // size)) for size in sizes)


def _fits_in(rounds: Sequence[Round], subsets: int) -> bool:
    return sum(each.n_settings * each.n_subsets for each in rounds) <= _MOST_SHARE * subsets


def without_rounds(
    budget: Budget, evaluations: int, distinct: int, fits: int, per_epoch: int
) -> Budget:
    """Return what rounds leave of a budget, at least one of everything.

    Parameters
    ----------
    budget : Budget
    evaluations, distinct, fits : int
        What the rounds took.
    per_epoch : int
        See :func:`subsets_in`.
    """
    spent = {
        "evaluations": evaluations,
        "distinct": distinct,
        "fits": fits,
        "epochs": math.ceil(evaluations / per_epoch),
    }
    left = {
        name: max(1, getattr(budget, name) - count)
        for name, count in spent.items()
        if getattr(budget, name) is not None
    }
    return replace(budget, **left)


def choose_setting(
    tuning: Tuning,
    rounds: Sequence[Round],
    warm: Bool,
    seed: int,
    open_evaluator: Callable[[Problem], AbstractContextManager[CrossValidation]],
    make_search: MakeSearch,
) -> TuningResult:
    """Compare the settings in rounds of short searches, and keep half of them in each.

    Settings are ranked by their lowest cost, then by the mean cost of the subsets that their search
    keeps, then by their order. All searches of a round have the same generator.

    Parameters
    ----------
    tuning : Tuning
    rounds : sequence of Round
    warm : bool (n, n_units)
        Subsets with which the first round starts.
    seed : int
    open_evaluator : callable
        Opens the evaluator of a problem.
    make_search : callable
        Creates a search from evaluator, warm-start masks, seed and budget.

    Raises
    ------
    EvaluationError
        If the model fails with a setting.
    """
    n_settings = len(tuning.settings)
    left = list(range(n_settings))
    costs = np.full((len(rounds), n_settings), np.nan)
    asked: list[dict[bytes, int]] = [{} for _ in left]
    found: dict[int, SearchResult] = {}
    evaluations, seconds, interrupted = 0, 0.0, False
    for number, each in enumerate(rounds):
        drawn = np.random.SeedSequence([seed, number, _ROUND_SEED]).generate_state(1)
        ranked: list[tuple[float, float, int]] = []
        for setting in left:
            with open_evaluator(tuning.problems[setting]) as evaluator:
                budget = Budget(distinct=each.n_subsets)
                # The other half of the subsets is new.
                known = warm[: max(1, each.n_subsets // 2)]
                search = make_search(evaluator, known, int(drawn[0]), budget)
                try:
                    result = run(search)
                except EvaluationError as error:
                    told = f"with the setting {described(tuning.settings[setting])}: {error}"
                    raise EvaluationError(told) from error
                except KeyboardInterrupt:
                    if not found:
                        raise
                    interrupted = True
                    break
                state, before = result.state, asked[setting]
                new = {key: folds & ~before.get(key, 0) for key, folds in state.asked.items()}
                seconds += training_seconds(new, evaluator.known)
            asked[setting] = {**before, **{k: v | before.get(k, 0) for k, v in state.asked.items()}}
            evaluations += state.counts.evaluations
            found[setting] = result
            costs[number, setting] = state.best_cost
            held = state.strategy.members.costs
            held = held[np.isfinite(held)]
            mean = float(held.mean()) if held.size else math.inf
            ranked.append((state.best_cost, mean, setting))
            if result.interrupted:
                interrupted = True
                break
        if interrupted and len(ranked) < len(left):
            # Costs of a round that is not complete are those of a part of the settings.
            ranked = ranked if number == 0 else [(0.0, 0.0, left[0])]
        order = [setting for *_, setting in sorted(ranked)]
        left = order[: (each.n_settings + 1) // 2]
        leaders = [leaders_of(found[i].state, found[i].space) for i in order if i in found]
        warm = in_turn(leaders, warm.shape[1])
        if interrupted:
            break
    return TuningResult(
        tuning.settings,
        tuning.n_grid,
        left[0],
        tuple(rounds),
        costs,
        warm,
        evaluations,
        sum(map(len, asked)),
        sum(folds.bit_count() for masks in asked for folds in masks.values()),
        seconds,
        found[left[0]] if interrupted else None,
    )

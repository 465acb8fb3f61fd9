"""The description of a search: problem, strategy, budget, seed and options."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from swarm.arrays import Bool
from swarm.errors import ConfigError
from swarm.evaluation.crossval import CrossValidation
from swarm.evaluation.types import Evaluator
from swarm.evaluation.workers import Workers
from swarm.problem.hints import Hints, prepare_hints
from swarm.problem.problem import Problem
from swarm.search.budget import Budget
from swarm.search.confirmation import ConfirmationPlan
from swarm.search.driver import Search
from swarm.search.narrowed import Narrowed
from swarm.search.options import check_options
from swarm.search.packing import in_turn
from swarm.search.prefilter import Prefilter
from swarm.search.row_parts import RowParts
from swarm.search.steady import Steady
from swarm.search.tuning import (
    Round,
    Tuning,
    TuningResult,
    rounds_of,
    subsets_in,
    without_rounds,
)
from swarm.storage.archive import Archive
from swarm.storage.records import Record
from swarm.strategies.base import Strategy


@dataclass(frozen=True, eq=False)
class Proxy:
    """A cheaper model that guides a search; see :func:`swarm.search.proxy.confirm`.

    Attributes
    ----------
    problem : Problem
        The same rows and folds, with the cheaper model.
    n_best, n_probes : int
        How many of the best subsets, and of all requested ones, are measured on the full model.
    """

    problem: Problem
    n_best: int = 16
    n_probes: int = 12


@dataclass(frozen=True, eq=False)
class SearchPlan:
    """The description of a search.

    Attributes
    ----------
    problem : Problem
    strategy : Strategy
    hints : Hints
    budget : Budget
    seed : int
    racing : float or None
        See :class:`swarm.search.driver.Search`.
    evaluation : mapping
        Options of :class:`swarm.evaluation.crossval.CrossValidation`: `n_jobs`, `backend`,
        `pruning`, `exact`, `device`, `address`, `timeout`.
    proxy : Proxy or None
    confirmation : ConfirmationPlan or None
    rotate : int
        Epochs on one fold partition at a time, see :mod:`swarm.search.rotation`; 0 for no rotation.
    prefilter : Prefilter or None
        How units are left out before the search.
    tuning : Tuning or None
        The settings of the model of which one is chosen before the search, see
        :mod:`swarm.search.tuning`. `problem` is then a stand-in with the settings that the
        estimator has; only its rows, folds, units and scorer are used.
    parts : RowParts or None
        Parts of the rows on which the subsets of an epoch are evaluated first, see
        :mod:`swarm.search.row_parts`.
    asynchronous : bool
        Whether a worker that is idle gets the next subset without waiting for the epoch, see
        :mod:`swarm.search.steady`.
    """

    problem: Problem
    strategy: Strategy
    hints: Hints
    budget: Budget
    seed: int = 0
    racing: float | None = None
    evaluation: Mapping[str, Any] = field(default_factory=dict)
    proxy: Proxy | None = None
    confirmation: ConfirmationPlan | None = None
    rotate: int = 0
    prefilter: Prefilter | None = None
    tuning: Tuning | None = None
    parts: RowParts | None = None
    asynchronous: bool = False

    def __post_init__(self) -> None:
        check_options(
            self.strategy,
            repeats=self.problem.repeats,
            rotate=self.rotate,
            racing=self.racing,
            noise_floor=self.budget.noise_floor,
            importance=self.problem.importance,
            rows=None if self.parts is None else self.parts.rows[0],
            asynchronous=self.asynchronous,
            proxy=self.proxy is not None,
            tuning=self.tuning is not None,
        )

    def check(self) -> None:
        """Validate the parameters of the strategy against the data, before a run is created.

        Raises
        ------
        InputError
            If the strategy rejects them.
        ConfigError
            If there is not enough memory for the first state, or the budget is too small for the
            settings of the model.
        """
        plan = self
        if self.prefilter is not None:
            # The smallest search that the prefilter can leave.
            plan = self.on_units(self.first_units(self.prefilter.bounds(self.problem.space)[0]))
        try:
            if self.tuning is None:
                plan._start()
            else:
                plan.rounds()
        except MemoryError:
            raise ConfigError(
                f"the strategy needs more memory for {self.problem.space.n_units:,} units than "
                "is available; reduce the population size in strategy.params"
            ) from None

    def _start(self) -> Any:
        rng = np.random.default_rng([self.seed, 0])
        return self.strategy.start(self.problem.space, self.hints, rng)

    @cached_property
    def per_epoch(self) -> int:
        """Number of subsets that the strategy proposes at first."""
        rng = np.random.default_rng([self.seed, 1])
        return len(self.strategy.propose(self._start(), rng)[1].masks)

    def rounds(self) -> tuple[Round, ...]:
        """Return the rounds in which a setting of the model is chosen; none without a tuning.

        Raises
        ------
        ConfigError
            If the budget is too small for the settings.
        """
        if self.tuning is None:
            return ()
        subsets = subsets_in(self.budget, self.problem.n_folds, self.per_epoch)
        return rounds_of(len(self.tuning.settings), subsets)

    def with_setting(self, found: TuningResult) -> SearchPlan:
        """Return the search with the chosen setting, on what the rounds left of the budget."""
        assert self.tuning is not None
        problem = self.tuning.problems[found.chosen]
        # Half of the first positions are new.
        carried = found.warm[: max(1, self.per_epoch // 2), None]
        warm = in_turn([*carried, *self.warm_masks], problem.space.n_units)
        confirmation = self.confirmation
        if confirmation is not None:
            fresh = problem.with_folds(confirmation.problem.folds)
            confirmation = replace(confirmation, problem=fresh)
        spent = found.evaluations, found.distinct, found.fits
        return replace(
            self,
            problem=problem,
            hints=replace(self.hints, warm=warm),
            budget=without_rounds(self.budget, *spent, self.per_epoch),
            confirmation=confirmation,
            tuning=None,
        )

    def with_own_hints(self) -> SearchPlan:
        """Drop the hints that the strategy does not need."""
        own = {name: getattr(self.hints, name) for name in self.strategy.needs}
        return replace(self, hints=Hints(**own))

    def on_units(self, kept: Bool) -> SearchPlan:
        """Return the search on the units of `kept` (n_units,), with their own hints."""
        problem, space = self.problem, self.problem.space.restricted(kept)
        n_clusters = None if self.prefilter is None else self.prefilter.n_clusters
        hints = prepare_hints(
            problem.features.iloc[:, problem.space.positions(kept)],
            space,
            None if problem.task == "unsupervised" else problem.target,
            problem.task,
            n_clusters=None if n_clusters is None else min(n_clusters, space.n_units),
            needs=self.strategy.needs,
        )
        return replace(self, strategy=Narrowed(self.strategy, kept, hints))

    @property
    def kept(self) -> Bool | None:
        """The units (n_units,) that the strategy is narrowed to; None for all."""
        return self.strategy.kept if isinstance(self.strategy, Narrowed) else None

    @property
    def everything(self) -> Bool:
        """Mask (n_units,) of all units that the search may select."""
        return ~self.problem.space.forbidden if self.kept is None else self.kept

    def first_units(self, count: int) -> Bool:
        """Return a mask of `count` units, fixed ones first: a stand-in for what is kept."""
        space = self.problem.space
        chosen = np.lexsort((~space.fixed, space.forbidden))[:count]
        mask = np.zeros(space.n_units, dtype=bool)
        mask[chosen] = True
        return mask

    @property
    def warm_masks(self) -> list[Bool]:
        """Each of the saved subsets (1, n_units) that the search starts from."""
        return [] if self.hints.warm is None else list(self.hints.warm[:, None])

    @property
    def problems(self) -> tuple[Problem, ...]:
        """The problem, and that of the proxy, if any; with a tuning, that of each setting."""
        if self.tuning is not None:
            return self.tuning.problems
        return (self.problem,) if self.proxy is None else (self.problem, self.proxy.problem)

    def evaluator(
        self,
        problem: Problem,
        archive: Archive,
        on_fit: Callable[[Bool, Record], None] | None = None,
        host: Workers | None = None,
    ) -> CrossValidation:
        """Create the evaluator of one of the problems, with the processes of `host` if given."""
        return CrossValidation(
            problem,
            archive,
            on_fit=on_fit,
            importances=self.strategy.uses_importances,
            host=host,
            **self.evaluation,
        )

    def shared_workers(self) -> Workers:
        """Create workers whose processes the evaluators of several problems share."""
        names = ("n_jobs", "backend", "address", "timeout")
        given = {name: self.evaluation[name] for name in names if name in self.evaluation}
        return Workers(self.problem, **given)

    def search(
        self,
        evaluator: Evaluator,
        parts: Sequence[Evaluator] = (),
        steady: Steady | None = None,
    ) -> Search:
        """Create the search with its evaluators."""
        return Search(
            self.strategy,
            self.problem.space,
            evaluator,
            self.hints,
            self.seed,
            self.budget,
            self.racing,
            self.problem.repeats,
            self.rotate,
            parts,
            self.parts.rows if self.parts is not None and parts else (),
            steady,
        )

"""The description of a search: problem, strategy, budget, seed and options."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
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
from swarm.search.driver import Driver
from swarm.search.narrowed import Narrowed
from swarm.search.prefilter import Prefilter
from swarm.search.proxy import Proxy
from swarm.statistics.lowest import first_of
from swarm.storage.archive import Archive
from swarm.storage.records import Record
from swarm.strategies.base import Strategy
from swarm.strategies.catalogue import make
from swarm.strategies.operators.sequential import answer_sizes


@dataclass(frozen=True, eq=False)
class Search:
    """The description of a search, before it is run.

    Attributes
    ----------
    problem : Problem
        Data, model, scorer, folds and units.
    strategy : Strategy or str
        A name selects the strategy with its default parameters.
    budget : Budget
        Limits of the search.
    hints : Hints
        Statistics that the strategy needs, see :func:`swarm.problem.hints.prepare_hints`.
    seed : int
        Seed of the generators of all epochs.
    evaluation : mapping
        Options of :class:`swarm.evaluation.crossval.CrossValidation`, such as ``n_jobs``.
    proxy : Proxy or None
        A cheaper problem that the epochs run on.
    confirmation : ConfirmationPlan or None
        How the best subsets are evaluated on fresh folds.
    prefilter : Prefilter or None
        How units are ranked; only the first ones are searched.
    """

    problem: Problem
    strategy: Strategy
    _: KW_ONLY
    budget: Budget
    hints: Hints = field(default_factory=Hints)
    seed: int = 0
    evaluation: Mapping[str, Any] = field(default_factory=dict)
    proxy: Proxy | None = None
    confirmation: ConfirmationPlan | None = None
    prefilter: Prefilter | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "strategy", make(self.strategy))

    def check(self) -> None:
        """Validate the parameters of the strategy against the data, before a run is created."""
        search = self
        if self.prefilter is not None:
            # The prefilter may keep the smallest number of units.
            n_kept, _ = self.prefilter.bounds(self.problem.space)
            search = self.on_units(self.first_units(n_kept))
        try:
            rng = np.random.default_rng([self.seed, 0])
            search.strategy.start(search.problem.space, search.hints, rng)
        except MemoryError:
            raise ConfigError(
                f"the strategy needs more memory for {self.problem.space.n_units:,} units than "
                "is available; reduce the population of the strategy"
            ) from None

    def with_needed_hints(self) -> Search:
        """Drop the hints that the strategy does not need."""
        hints = {name: getattr(self.hints, name) for name in self.strategy.needs}
        return replace(self, hints=Hints(**hints))

    def on_units(self, mask: Bool) -> Search:
        """Return the search on the units of `mask` (n_units,), with their own hints."""
        problem = self.problem
        space = problem.space.restricted(mask)
        n_clusters = None if self.prefilter is None else self.prefilter.n_clusters
        hints = prepare_hints(
            problem.features.iloc[:, problem.space.positions(mask)],
            space,
            problem.target,
            problem.task,
            n_clusters=None if n_clusters is None else min(n_clusters, space.n_units),
            needs=self.strategy.needs,
        )
        return replace(self, strategy=Narrowed(self.strategy, mask, hints))

    def first_units(self, count: int) -> Bool:
        """Return a mask of `count` units, fixed ones first, as a prefilter might keep them."""
        return first_of(self.problem.space.in_order()[None, :], count)[0]

    @property
    def smallest_size(self) -> int:
        """Smallest number of units of a mask that the strategy may propose."""
        space = self.problem.space
        strategy = self.strategy
        if strategy.evaluations_in(space)[1] == 1:
            return space.max_size
        size = strategy.size_parameter and getattr(strategy, strategy.size_parameter)
        if size is None or not strategy.starts_from_all:
            return space.min_size
        return answer_sizes(size, space, tol=getattr(strategy, "tol", None))[0]

    @property
    def search_problem(self) -> Problem:
        """The problem that the epochs run on: that of the proxy, if any."""
        return self.problem if self.proxy is None else self.proxy.problem

    @property
    def problems(self) -> tuple[Problem, ...]:
        """The problem, and that of the proxy, if any."""
        return (self.problem,) if self.proxy is None else (self.problem, self.proxy.problem)

    def evaluator(
        self,
        problem: Problem,
        archive: Archive,
        on_fit: Callable[[Bool, Record], None] | None = None,
        workers: Workers | None = None,
    ) -> CrossValidation:
        """Create the evaluator of one of the problems, with shared workers if given."""
        return CrossValidation(
            problem,
            archive,
            on_fit=on_fit,
            importances=self.strategy.uses_importances,
            workers=workers,
            **self.evaluation,
        )

    def shared_workers(self) -> Workers:
        """Create workers that the evaluators of several problems share."""
        names = ("n_jobs", "backend", "address", "timeout")
        options = {name: self.evaluation[name] for name in names if name in self.evaluation}
        return Workers(**options)

    def driver(self, evaluator: Evaluator) -> Driver:
        """Create the driver of the epochs on an evaluator."""
        return Driver(
            strategy=self.strategy,
            space=self.problem.space,
            evaluator=evaluator,
            hints=self.hints,
            seed=self.seed,
            budget=self.budget,
        )

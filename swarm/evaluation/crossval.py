"""The evaluator: cross-validation of any estimator, cached persistently."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import TracebackType

import numpy as np

from swarm.arrays import Bool, Float, Int
from swarm.errors import EvaluationError
from swarm.evaluation.fitting import InvalidCost, Job, lowest_cost
from swarm.evaluation.limit import Limit, Race, limit_of, loosest_of, settle
from swarm.evaluation.types import Evaluations, Work
from swarm.evaluation.workers import Workers
from swarm.fastpaths import ExactPath, evaluate_masks, exact_path, open_device
from swarm.problem.problem import Problem
from swarm.storage.archive import Archive
from swarm.storage.records import Record, costs_of

# Interval between commits of finished evaluations.
COMMIT_SECONDS = 0.2
_AS_CONFIGURED = "models are fitted: as configured"


class CrossValidation:
    """Cross-validate masks of a problem, with the archive as a cache.

    Parameters
    ----------
    problem : Problem
    archive : Archive, optional
        Default: an archive in memory.
    n_jobs, backend, address, timeout, host
        See :class:`swarm.evaluation.workers.Workers`.
    pruning : bool
        Stop training a mask once its cost exceeds that of its incumbent. Never changes which
        masks win. If False, the costs of losing masks are exact too.
    on_fit : callable, optional
        Callback for progress, called with the mask and the :class:`Record` of each job that was
        trained.
    importances : bool
        Whether the strategy uses importances, see
        :class:`swarm.strategies.base.Strategy`; if not, mutual information is not computed.
    exact : bool
        Use a fast path if there is one, see :mod:`swarm.fastpaths`.
    device : str
        Where a fast path computes matrix products, see :mod:`swarm.fastpaths.device`. The costs
        are the same.

    Attributes
    ----------
    known : KnownEvaluations
        The evaluations of this problem in the archive.
    way : str
        Whether models are fitted, and why.
    cpu_seconds : float
        CPU time of this thread in :meth:`evaluate` and in streams, see :meth:`clock`.
    """

    def __init__(
        self,
        problem: Problem,
        archive: Archive | None = None,
        *,
        n_jobs: int = 1,
        backend: str = "loky",
        pruning: bool = True,
        on_fit: Callable[[Bool, Record], None] | None = None,
        importances: bool = True,
        exact: bool = True,
        device: str = "cpu",
        address: str | None = None,
        timeout: float | None = None,
        host: Workers | None = None,
    ) -> None:
        self.problem = problem
        self.archive = Archive() if archive is None else archive
        self.n_folds = problem.n_folds
        # Without a lower bound on fold costs, a later fold could compensate for the others.
        self.pruning = pruning and problem.scoring.bounded
        self.workers = Workers(problem, n_jobs, backend, address, timeout, host)
        self.on_fit = on_fit
        self._importances = problem.importance != "none" and (
            importances or problem.importance != "mutual_information"
        )
        self._paths: list[ExactPath | None] = []
        self.way = _AS_CONFIGURED
        if exact:
            self._paths, self.way = _fast_paths(problem, device)
        # On a device several threads would only wait for one another.
        self._n_threads = self.workers.n_jobs if device == "cpu" else 1
        self.known = self.archive.open_problem(problem)
        self.cpu_seconds = 0.0

    @property
    def fits_models(self) -> bool:
        """Whether fold costs come from fitted models; otherwise a fast path computes them."""
        return not self._paths

    def __enter__(self) -> CrossValidation:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Shut down the workers."""
        self.workers.close()

    @contextmanager
    def clock(self) -> Iterator[None]:
        """Count the CPU time of this context, where no other one is open."""
        began = time.thread_time()
        try:
            yield
        finally:
            self.cpu_seconds += time.thread_time() - began

    def evaluate(
        self, masks: Bool, incumbents: Float, fold_order: Int, race: Race | None = None
    ) -> Evaluations:
        """Evaluate a batch; see :class:`swarm.evaluation.types.Evaluator`.

        Raises
        ------
        EvaluationError
            If a cost is NaN or below the lower bound of its scorer, or workers keep dying.
        """
        with self.clock():
            return self._evaluate(masks, incumbents, fold_order, race)

    def _evaluate(
        self, masks: Bool, incumbents: Float, fold_order: Int, race: Race | None
    ) -> Evaluations:
        started = time.perf_counter()
        limits = self._limits(incumbents, self.pruning, fold_order, race)
        unique, row_of = np.unique(np.packbits(masks, axis=1), axis=0, return_inverse=True)
        row_of = row_of.reshape(-1)
        same = [list[Limit]() for _ in unique]
        for row, i in enumerate(row_of.tolist()):
            same[i].append(limits[row])
        loosest = [few[0] if len(few) == 1 else loosest_of(few) for few in same]
        distinct = np.zeros((len(unique), masks.shape[1]), dtype=bool)
        distinct[row_of] = masks
        records, left, work = self._begin(distinct, fold_order, loosest)
        fits, training = self._train(left, records)
        work = replace(
            work,
            fits=work.fits + fits,
            seconds=time.perf_counter() - started,
            training_seconds=work.training_seconds + training,
        )
        rows = [records[i] for i in row_of]
        return self._answer(masks, incumbents, limits, fold_order, rows, work, race)

    def jobs_of(self, masks: Bool, incumbents: Float, fold_order: Int) -> tuple[list[Job], Work]:
        """Return what :meth:`evaluate` would train, once the archive and fast paths are used.

        Parameters
        ----------
        masks : bool (n, n_units)
            All different.
        incumbents : float64 (n,)
        fold_order : int (m,)

        Returns
        -------
        list of Job
            Their numbers are rows.
        Work
            That of the fast path.
        """
        limits = self._limits(incumbents, self.pruning, fold_order, None)
        _, left, work = self._begin(masks, fold_order, limits)
        return left, work

    def fold_costs(self, masks: Bool, folds: Int) -> Float:
        """Evaluate each mask on a single fold, for masks that differ from fold to fold.

        Parameters
        ----------
        masks : bool (n, n_units)
        folds : int (n,)
            The fold of each mask.

        Returns
        -------
        float64 (n,)
            inf if the fit failed.

        Raises
        ------
        EvaluationError
            If a cost is NaN or below the lower bound of its scorer, or workers keep dying.
        """
        records, every = self.known.lookup(masks), np.arange(self.n_folds)
        whole = [
            Job(i, masks[i], record.fold_costs, every, Limit(), refit=False)
            for i, record in enumerate(records)
            if np.isnan(record.fold_costs[folds[i]])
        ]
        left, _ = self._compute(whole, records)
        single = [
            replace(job, fold_order=folds[[job.number]])
            for job in left
            if np.isnan(records[job.number].fold_costs[folds[job.number]])
        ]
        self._train(single, records)
        return np.array([record.fold_costs[folds[i]] for i, record in enumerate(records)])

    def _begin(
        self, masks: Bool, fold_order: Int, limits: list[Limit]
    ) -> tuple[list[Record], list[Job], Work]:
        """Look different masks up and use the fast path.

        Returns their records, the jobs of those that are left to train, and the work of the path.
        """
        started = time.perf_counter()
        records = self.known.lookup(masks)
        _, is_open = settle(records, fold_order, limits)
        jobs = [
            Job(i, masks[i], records[i].fold_costs, fold_order, limits[i])
            for i in range(len(masks))
            if is_open[i] or self._wants_refit(records[i], limits[i])
        ]
        left, computed = self._compute(jobs, records)
        work = Work(
            fits=computed,
            hits=len(masks) - len(jobs),
            fallbacks=len(left) if self._paths else 0,
            training_seconds=time.perf_counter() - started if computed else 0.0,
        )
        return records, left, work

    def _wants_refit(self, record: Record, limit: Limit) -> bool:
        return (
            self.problem.importance == "refit"
            and limit.admits(record)
            and bool(np.isnan(record.importances).any(axis=1).all())
        )

    def _compute(self, jobs: list[Job], records: list[Record]) -> tuple[list[Job], int]:
        """Compute fold costs by the fast path; return the jobs that are left to train.

        All folds of a partition are computed together: pruning would save less than it costs.
        """
        if not self._paths:
            return jobs, 0
        size, total, left = self.n_folds // len(self._paths), 0, jobs
        for number, path in enumerate(self._paths):
            folds = slice(number * size, (number + 1) * size)
            due = [job for job in left if folds.start <= _next_fold(job) < folds.stop]
            if due and path is not None:
                total += self._compute_partition(path, folds, due, records)
                left = _still_open(left, records)
        return left, total

    def _compute_partition(
        self, path: ExactPath, folds: slice, jobs: list[Job], records: list[Record]
    ) -> int:
        """Compute the folds of a partition, archive them, and return how many were missing."""
        started = time.perf_counter()
        masks = np.stack([job.mask for job in jobs])
        answers = evaluate_masks(path, masks, self._n_threads)
        costs = np.full((len(jobs), self.n_folds), np.nan)
        costs[:, folds] = answers.costs
        # A cost below its bound has to be confirmed by a fitted model.
        costs[costs < lowest_cost(self.problem)] = np.nan
        seconds = (time.perf_counter() - started) / len(jobs)
        costs = np.where(np.isnan([job.fold_costs for job in jobs]), costs, np.nan)
        found = ~np.isnan(costs)
        nothing: Float = np.broadcast_to(np.nan, (self.n_folds, masks.shape[1]))
        pieces = []
        for number, job in enumerate(jobs):
            used, values = found[number][:, None] & job.mask, nothing
            if answers.importances is not None:
                values = np.full(nothing.shape, np.nan)
                known = found[number, folds, None]
                values[folds] = np.where(known, answers.importances[number], np.nan)
                used &= values != 0
            piece = Record(costs[number], values, used, seconds)
            before = records[job.number]
            records[job.number] = piece if before is self.known.blank else before.merge(piece)
            pieces.append((job.mask, piece))
        self.known.add(pieces)
        return int(found.sum())

    def _train(self, jobs: list[Job], records: list[Record]) -> tuple[int, float]:
        """Train the jobs, archive their results, and update `records` in place."""
        fits, seconds = 0, 0.0
        waiting: list[tuple[Bool, Record]] = []
        committed = time.monotonic()
        # A part of a job has the order of its own fold alone.
        whole = {job.number: job for job in jobs}
        invalid: list[tuple[Job, InvalidCost]] = []
        try:
            for job, trained in self.workers.run(jobs):
                if isinstance(trained, InvalidCost):
                    invalid.append((whole[job.number], trained))
                    if job.part == 0:
                        break
                    continue
                records[job.number] = records[job.number].merge(trained)
                waiting.append((job.mask, trained))
                fits += self.fits_in(trained)
                seconds += trained.seconds
                if self.on_fit is not None:
                    self.on_fit(job.mask, trained)
                if time.monotonic() - committed > COMMIT_SECONDS:
                    self.known.add(waiting)
                    waiting, committed = [], time.monotonic()
            for job, found in invalid:
                self.refuse_if_needed(job, records[job.number], found)
        finally:
            # Also after SIGINT or an error, so that no evaluation is lost.
            self.known.add(waiting)
        return fits, seconds

    def fits_in(self, trained: Record) -> int:
        """Return the number of models of the result of a job."""
        refits = self.problem.importance == "refit" and not np.isnan(trained.importances[0]).any()
        return int(trained.known.sum()) + int(refits)

    def refuse_if_needed(self, job: Job, record: Record, found: InvalidCost) -> None:
        """Raise EvaluationError for an invalid cost, unless pruning would skip its fold.

        A fold that was trained separately may be one that pruning would not have reached: the
        same search with one worker would not compute its cost.
        """
        if job.limit.next_fold(record.fold_costs, job.fold_order) is None:
            return
        bad = "NaN" if np.isnan(found.cost) else f"{found.cost:.6g}, below its bound of 0"
        names = self.problem.space.subset(job.mask)
        listed = ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")
        raise EvaluationError(
            f"the cost of the subset of {len(names)} features ({listed}) is {bad} on fold "
            f"{found.fold}; check the scorer {self.problem.scoring.name!r} on those rows"
        )

    def _answer(
        self,
        masks: Bool,
        incumbents: Float,
        limits: list[Limit],
        fold_order: Int,
        rows: list[Record],
        work: Work,
        race: Race | None,
    ) -> Evaluations:
        n, bounded = len(rows), self.problem.scoring.bounded
        exact = incumbents if self.pruning else np.full(n, np.inf)
        known = np.array([record.fold_costs for record in rows]).reshape(n, self.n_folds)
        folds = np.sort(fold_order)
        outside = np.setdiff1d(np.arange(self.n_folds), folds)
        known[:, outside] = np.nan
        needed, _ = settle(rows, fold_order, limits)
        # A failure counts only if pruning would have reached it, so that the number of failures
        # does not depend on pruning.
        reached = needed
        if bounded != self.pruning:
            stricter = self._limits(incumbents, bounded, fold_order, race)
            reached, _ = settle(rows, fold_order, stricter)
        failed = (np.isinf(known) & reached).any(axis=1)
        costs = costs_of(known[:, folds])
        # Archived costs of a mask that lost its race must not change the result.
        censored = ~failed & ~(needed[:, folds].all(axis=1) & (costs <= exact))
        won = ~failed & ~censored & ~np.isinf(known).any(axis=1)
        importances, used = np.zeros(masks.shape), masks.copy()
        if self._importances:
            for i in np.flatnonzero(won).tolist():
                record = rows[i] if not len(outside) else rows[i].without(outside)
                importances[i], used[i] = self._importance(masks[i], record)
        return Evaluations(
            costs=np.where(won, costs, np.inf),
            fold_costs=np.where(won[:, None], known, np.nan),
            importances=importances,
            used=used,
            censored=censored,
            failed=failed,
            needed=needed,
            exact_shrink=self.problem.exact_shrink,
            work=work,
            first_error=next((r.error for r, bad in zip(rows, failed, strict=True) if bad), None),
        )

    def _limits(
        self, incumbents: Float, pruning: bool, fold_order: Int, race: Race | None
    ) -> list[Limit]:
        # A limit compares the sum of costs divided by the number of all folds.
        share = len(fold_order) / self.n_folds
        return [
            limit_of(incumbent * share if pruning else np.inf, race, row)
            for row, incumbent in enumerate(incumbents.tolist())
        ]

    def _importance(self, mask: Bool, record: Record) -> tuple[Float, Bool]:
        if self.problem.relevance is not None:
            return self.problem.relevance * mask, mask & (self.problem.relevance != 0)
        values = record.importance
        if self.problem.importance == "refit":
            return values, mask & (values != 0)
        return values, mask & record.used.any(axis=0)


def _fast_paths(problem: Problem, device: str) -> tuple[list[ExactPath | None], str]:
    """Return the fast path of each partition, or none, and a sentence that explains the choice."""
    opened = open_device(device)
    found = [exact_path(partition, opened) for partition in problem.partitions]
    paths, ways = zip(*found, strict=True)
    return ([] if paths[0] is None else list(paths)), ways[0]


def _next_fold(job: Job) -> int:
    """The fold to evaluate next; -1 if it is decided whether the job exceeds its limit."""
    fold = job.limit.next_fold(job.fold_costs, job.fold_order)
    return -1 if fold is None else fold


def _still_open(jobs: list[Job], records: list[Record]) -> list[Job]:
    """Return the jobs that have folds left, with the costs that are known by now."""
    if not jobs:
        return []
    after = [records[job.number] for job in jobs]
    _, is_open = settle(after, jobs[0].fold_order, [job.limit for job in jobs])
    return [
        replace(job, fold_costs=record.fold_costs)
        for job, record, missing in zip(jobs, after, is_open, strict=True)
        if missing
    ]

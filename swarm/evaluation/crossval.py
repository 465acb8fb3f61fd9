"""The evaluator: cross-validation of any estimator, cached persistently."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from itertools import compress

import numpy as np

from swarm.arrays import Bool, Float, Int
from swarm.errors import EvaluationError
from swarm.evaluation.fitting import InvalidCost, Job, lowest_cost
from swarm.evaluation.pruning import limits_of, needed_folds, next_fold
from swarm.evaluation.types import Evaluations, Work, concatenate_evaluations, failed_evaluations
from swarm.evaluation.workers import Workers
from swarm.fastpaths import ExactPath, evaluate_masks, exact_path
from swarm.problem.problem import Problem
from swarm.storage.archive import Archive
from swarm.storage.records import Record, blank_record, costs_of
from swarm.wording import listed

# Interval between commits of finished evaluations.
_COMMIT_SECONDS = 0.2
# Limits of the number of masks that are evaluated first, to see whether nearly all of them fail.
_MIN_FIRST = 8
_MAX_FIRST = 15
_AS_CONFIGURED = "models are fitted: as configured"


class CrossValidation:
    """Cross-validate masks of a problem, with the archive as a cache.

    Parameters
    ----------
    problem : Problem
    archive : Archive, optional
        Default: an archive in memory.
    n_jobs : int
        Workers; -1 for one per core.
    backend : str
        ``loky`` (processes), ``threading``, ``sequential`` or ``dask``.
    address : str, optional
        Address of an existing Dask cluster, which is connected to at once; `n_jobs` is ignored.
        Default: a local cluster of `n_jobs` processes is started when needed.
    timeout : float, optional
        Timeout of a fit in seconds. A fit that exceeds it fails, and its worker is replaced.
        Requires ``loky``; a single worker is then a separate process too. Default: no timeout.
    workers : Workers, optional
        Workers to share with other problems, instead of the four options above; they stay open.
    pruning : bool
        Stop training a mask once its cost exceeds that of its incumbent. Never changes which
        masks win. If False, the costs of losing masks are exact too.
    on_fit : callable, optional
        Callback for progress, called with the mask and the :class:`Record` of each job that was
        trained.
    importances : bool
        Whether the strategy uses importances; if not, mutual information is not computed.
    exact : bool
        Use a fast path if there is one, see :mod:`swarm.fastpaths`.

    Attributes
    ----------
    evaluations : ProblemEvaluations
        The evaluations of this problem in the archive.
    method : str
        Whether models are fitted, and why.
    cpu_seconds : float
        CPU time of this thread in :meth:`evaluate`.
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
        address: str | None = None,
        timeout: float | None = None,
        workers: Workers | None = None,
    ) -> None:
        self.problem = problem
        self.archive = Archive() if archive is None else archive
        self.n_folds = problem.n_folds
        # A later fold could compensate for the others if fold costs had no lower bound.
        self.pruning = pruning and problem.scoring.bounded
        self._owns_workers = workers is None
        self.workers = workers or Workers(n_jobs, backend, address, timeout)
        self.on_fit = on_fit
        self._importances = problem.importance != "none" and (
            importances or problem.importance != "mutual_information"
        )
        self._path: ExactPath | None = None
        self.method = _AS_CONFIGURED
        if exact:
            self._path, self.method = exact_path(problem)
        self.evaluations = self.archive.open_problem(problem)
        self.cpu_seconds = 0.0
        self._has_evaluated = False

    @property
    def fits_models(self) -> bool:
        """Whether fold costs come from fitted models; otherwise a fast path computes them."""
        return self._path is None

    def __enter__(self) -> CrossValidation:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Shut down the workers, unless they are shared."""
        if self._owns_workers:
            self.workers.close()
        else:
            self.workers.release(self.problem)

    def evaluate(self, masks: Bool, incumbents: Float, fold_order: Int) -> Evaluations:
        """Evaluate a batch of masks: read the archive, and compute or train the missing folds.

        See :class:`swarm.evaluation.types.Evaluator`.

        Raises
        ------
        EvaluationError
            If a cost is NaN or below the lower bound of its scorer, workers keep dying, or nearly
            all of the first masks fail.
        """
        started = time.thread_time()
        try:
            return self._evaluate_first(masks, incumbents, fold_order)
        finally:
            self.cpu_seconds += time.thread_time() - started

    def _evaluate_first(self, masks: Bool, incumbents: Float, fold_order: Int) -> Evaluations:
        """Evaluate a tenth of the first batch before the rest; raise if nearly all of it fails."""
        n_first = min(_MAX_FIRST, max(_MIN_FIRST, len(masks) // 10 + 2))
        if self._has_evaluated or len(masks) <= n_first:
            evaluations = self._evaluate(masks, incumbents, fold_order)
        else:
            first = self._evaluate(masks[:n_first], incumbents[:n_first], fold_order)
            n_failed = int(first.failed.sum())
            if n_failed >= n_first - 1:
                message = f"{n_failed} of the first {n_first} evaluations failed"
                raise failed_evaluations(message, first.first_error)
            rest = self._evaluate(masks[n_first:], incumbents[n_first:], fold_order)
            evaluations = concatenate_evaluations([first, rest])
        self._has_evaluated = True
        return evaluations

    def _evaluate(self, masks: Bool, incumbents: Float, fold_order: Int) -> Evaluations:
        started = time.perf_counter()
        limits = limits_of(incumbents if self.pruning else np.full(len(masks), np.inf))
        packed, index = np.unique(np.packbits(masks, axis=1), axis=0, return_inverse=True)
        index = index.reshape(-1)
        # A repeated mask is trained until its highest limit stops it.
        highest_limits = np.full(len(packed), -np.inf)
        np.maximum.at(highest_limits, index, limits)
        distinct = np.zeros((len(packed), masks.shape[1]), dtype=bool)
        distinct[index] = masks
        records, jobs, work = self._begin(distinct, fold_order, highest_limits)
        fits, training_seconds = self._train(jobs, records)
        work = replace(
            work,
            fits=work.fits + fits,
            seconds=time.perf_counter() - started,
            training_seconds=work.training_seconds + training_seconds,
        )
        return self._summarise(
            masks,
            incumbents,
            limits=limits,
            fold_order=fold_order,
            records=[records[i] for i in index],
            work=work,
        )

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
        records = self.evaluations.lookup(masks)
        jobs = [
            Job(i, masks[i], record.fold_costs, folds[[i]], np.inf)
            for i, record in enumerate(records)
            if np.isnan(record.fold_costs[folds[i]])
        ]
        untrained = list[Job]()
        for fold in np.unique(folds).tolist():
            jobs_of_fold = [job for job in jobs if folds[job.number] == fold]
            untrained += self._compute(jobs_of_fold, records)[0]
        self._train(untrained, records)
        return np.array([record.fold_costs[folds[i]] for i, record in enumerate(records)])

    def _begin(
        self, masks: Bool, fold_order: Int, limits: Float
    ) -> tuple[list[Record], list[Job], Work]:
        """Look masks up and use the fast path; return records, jobs left to train, and work."""
        started = time.perf_counter()
        records = self.evaluations.lookup(masks)
        jobs = [
            Job(i, masks[i], record.fold_costs, fold_order, limit)
            for i, (record, limit) in enumerate(zip(records, limits.tolist(), strict=True))
        ]
        open_jobs = list(compress(jobs, _are_open(jobs)))
        untrained, n_computed = self._compute(open_jobs, records)
        work = Work(
            fits=n_computed,
            hits=len(jobs) - len(open_jobs),
            fallbacks=0 if self._path is None else len(untrained),
            training_seconds=time.perf_counter() - started if n_computed else 0.0,
        )
        return records, untrained, work

    def _compute(self, jobs: list[Job], records: list[Record]) -> tuple[list[Job], int]:
        """Compute folds by the fast path; return jobs left to train, and how many folds."""
        open_jobs = list(compress(jobs, _are_open(jobs)))
        if self._path is None or not open_jobs:
            return jobs, 0
        n_computed = self._compute_folds(self._path, open_jobs, records)
        updated = [replace(job, fold_costs=records[job.number].fold_costs) for job in jobs]
        return list(compress(updated, _are_open(updated))), n_computed

    def _compute_folds(self, path: ExactPath, jobs: list[Job], records: list[Record]) -> int:
        """Compute the folds of jobs, archive them, and return how many were missing."""
        started = time.perf_counter()
        masks = np.stack([job.mask for job in jobs])
        results = evaluate_masks(path, masks, jobs[0].fold_order.tolist(), self.workers.n_jobs)
        costs = np.array(results.costs)
        # A cost below its bound has to be confirmed by a fitted model.
        costs[costs < lowest_cost(self.problem)] = np.nan
        seconds = (time.perf_counter() - started) / len(jobs)
        costs = np.where(np.isnan([job.fold_costs for job in jobs]), costs, np.nan)
        is_computed = ~np.isnan(costs)
        computed: list[tuple[Bool, Record]] = []
        for i, job in enumerate(jobs):
            blank = blank_record(self.n_folds, int(np.count_nonzero(job.mask)))
            used = is_computed[i][:, None] | blank.used
            importances = blank.importances
            if results.importances is not None:
                selected = results.importances[i][:, job.mask]
                importances = np.where(is_computed[i][:, None], selected, np.nan)
                used &= importances != 0
            record = Record(costs[i], importances, used, seconds)
            before = records[job.number]
            records[job.number] = record if before is blank else before.merge(record)
            computed.append((job.mask, record))
        self.evaluations.add(computed)
        return int(is_computed.sum())

    def _train(self, jobs: list[Job], records: list[Record]) -> tuple[int, float]:
        """Train the jobs, archive their results, and update `records` in place."""
        n_fits = 0
        seconds = 0.0
        unsaved: list[tuple[Bool, Record]] = []
        saved_at = time.monotonic()
        # Workers return parts of jobs, which know only their own fold.
        whole_jobs = {job.number: job for job in jobs}
        invalid: list[tuple[Job, InvalidCost]] = []
        try:
            for job, result in self.workers.run(self.problem, jobs):
                if isinstance(result, InvalidCost):
                    invalid.append((whole_jobs[job.number], result))
                    if job.part == 0:
                        break
                    continue
                records[job.number] = records[job.number].merge(result)
                unsaved.append((job.mask, result))
                n_fits += int(result.has_cost.sum())
                seconds += result.seconds
                if self.on_fit is not None:
                    self.on_fit(job.mask, result)
                if time.monotonic() - saved_at > _COMMIT_SECONDS:
                    self.evaluations.add(unsaved)
                    unsaved = []
                    saved_at = time.monotonic()
            for job, invalid_cost in invalid:
                self._refuse_if_needed(job, records[job.number], invalid_cost)
        finally:
            # SIGINT and errors lose no evaluation.
            self.evaluations.add(unsaved)
        return n_fits, seconds

    def _refuse_if_needed(self, job: Job, record: Record, invalid: InvalidCost) -> None:
        """Raise EvaluationError for an invalid cost, unless pruning would skip its fold."""
        # A single worker skips such a fold, and the number of workers must not matter.
        if next_fold(record.fold_costs, job.fold_order, job.limit) is None:
            return
        cost = "NaN" if np.isnan(invalid.cost) else f"{invalid.cost:.6g}, below its bound of 0"
        names = self.problem.space.subset(job.mask)
        raise EvaluationError(
            f"the cost of the subset of {len(names)} features ({listed(names, 5)}) is {cost} on "
            f"fold {invalid.fold}; check the scorer {self.problem.scoring.name!r} on those rows"
        )

    def _summarise(
        self,
        masks: Bool,
        incumbents: Float,
        limits: Float,
        fold_order: Int,
        records: list[Record],
        work: Work,
    ) -> Evaluations:
        """Summarise the records of masks, row by row."""
        n = len(records)
        without_limit = np.full(n, np.inf)
        fold_costs = np.array([record.fold_costs for record in records]).reshape(n, self.n_folds)
        needed, _ = needed_folds(fold_costs, fold_order, limits)
        # A failure counts only on folds that pruning would reach, whether or not it is on.
        reached = needed
        is_bounded = self.problem.scoring.bounded
        if is_bounded != self.pruning:
            pruned_limits = limits_of(incumbents if is_bounded else without_limit)
            reached, _ = needed_folds(fold_costs, fold_order, pruned_limits)
        failed = (np.isinf(fold_costs) & reached).any(axis=1)
        costs = costs_of(fold_costs)
        highest = incumbents if self.pruning else without_limit
        censored = ~failed & ~(needed.all(axis=1) & (costs <= highest))
        has_cost = ~failed & ~censored & ~np.isinf(fold_costs).any(axis=1)
        importances = np.zeros(masks.shape)
        used = masks.copy()
        if self._importances:
            for i in np.flatnonzero(has_cost).tolist():
                importances[i], used[i] = self._importance(masks[i], records[i])
        errors = (record.error for record in compress(records, failed))
        return Evaluations(
            costs=np.where(has_cost, costs, np.inf),
            fold_costs=np.where(has_cost[:, None], fold_costs, np.nan),
            importances=importances,
            used=used,
            censored=censored,
            failed=failed,
            needed=needed,
            exact_shrink=self.problem.exact_shrink,
            work=work,
            first_error=next(errors, None),
        )

    def _importance(self, mask: Bool, record: Record) -> tuple[Float, Bool]:
        """Return the importances of the units of a mask, and the units that are used."""
        relevance = self.problem.relevance
        if relevance is not None:
            return relevance * mask, mask & (relevance != 0)
        return record.importance(mask), record.units_used(mask)


def _are_open(jobs: list[Job]) -> list[bool]:
    """Return which jobs, all with the same order of folds, have folds left to train."""
    if not jobs:
        return []
    costs = np.stack([job.fold_costs for job in jobs])
    limits = np.array([job.limit for job in jobs])
    _, next_folds = needed_folds(costs, jobs[0].fold_order, limits)
    return (next_folds >= 0).tolist()

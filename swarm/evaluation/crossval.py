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
# Masks of the first batch that are evaluated before the others: of a large one slightly more than
# a tenth, of which a search tolerates failures.
_FEW_FIRST, _MOST_FIRST = 8, 15
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
        # Without a lower bound on fold costs, a later fold could compensate for the others.
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
        """Evaluate a batch; see :class:`swarm.evaluation.types.Evaluator`.

        Raises
        ------
        EvaluationError
            If a cost is NaN or below the lower bound of its scorer, workers keep dying, or nearly
            all of the first masks fail.
        """
        began = time.thread_time()
        try:
            return self._evaluate_first(masks, incumbents, fold_order)
        finally:
            self.cpu_seconds += time.thread_time() - began

    def _evaluate_first(self, masks: Bool, incumbents: Float, fold_order: Int) -> Evaluations:
        """Evaluate the first few rows before the others, and raise if nearly all of them fail."""
        n_first = min(_MOST_FIRST, max(_FEW_FIRST, len(masks) // 10 + 2))
        if self._has_evaluated or len(masks) <= n_first:
            answers = self._evaluate(masks, incumbents, fold_order)
        else:
            answers = self._evaluate(masks[:n_first], incumbents[:n_first], fold_order)
            n_failed = int(answers.failed.sum())
            if n_failed >= n_first - 1:
                which = f"{n_failed} of the first {n_first} evaluations failed"
                raise failed_evaluations(which, answers.first_error)
            rest = self._evaluate(masks[n_first:], incumbents[n_first:], fold_order)
            answers = concatenate_evaluations([answers, rest])
        self._has_evaluated = True
        return answers

    def _evaluate(self, masks: Bool, incumbents: Float, fold_order: Int) -> Evaluations:
        started = time.perf_counter()
        limits = limits_of(incumbents if self.pruning else np.full(len(masks), np.inf))
        unique, row_of = np.unique(np.packbits(masks, axis=1), axis=0, return_inverse=True)
        row_of = row_of.reshape(-1)
        # Training of a mask that occurs several times stops only if all of its limits stop it.
        loosest = np.full(len(unique), -np.inf)
        np.maximum.at(loosest, row_of, limits)
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
        return self._answer(
            masks, incumbents, limits=limits, fold_order=fold_order, rows=rows, work=work
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
        left = list[Job]()
        for fold in np.unique(folds).tolist():
            left += self._compute([job for job in jobs if folds[job.number] == fold], records)[0]
        self._train(left, records)
        return np.array([record.fold_costs[folds[i]] for i, record in enumerate(records)])

    def _begin(
        self, masks: Bool, fold_order: Int, limits: Float
    ) -> tuple[list[Record], list[Job], Work]:
        """Look masks up and use the fast path; return records, jobs left to train, and work."""
        started = time.perf_counter()
        records = self.evaluations.lookup(masks)
        every = [
            Job(i, masks[i], record.fold_costs, fold_order, limit)
            for i, (record, limit) in enumerate(zip(records, limits.tolist(), strict=True))
        ]
        jobs = list(compress(every, _are_open(every)))
        left, computed = self._compute(jobs, records)
        work = Work(
            fits=computed,
            hits=len(masks) - len(jobs),
            fallbacks=0 if self._path is None else len(left),
            training_seconds=time.perf_counter() - started if computed else 0.0,
        )
        return records, left, work

    def _compute(self, jobs: list[Job], records: list[Record]) -> tuple[list[Job], int]:
        """Compute folds by the fast path; return jobs left to train, and how many folds."""
        open_jobs = list(compress(jobs, _are_open(jobs)))
        if self._path is None or not open_jobs:
            return jobs, 0
        total = self._compute_folds(self._path, open_jobs, records)
        after = [replace(job, fold_costs=records[job.number].fold_costs) for job in jobs]
        return list(compress(after, _are_open(after))), total

    def _compute_folds(self, path: ExactPath, jobs: list[Job], records: list[Record]) -> int:
        """Compute the folds of jobs, archive them, and return how many were missing."""
        started = time.perf_counter()
        masks = np.stack([job.mask for job in jobs])
        answers = evaluate_masks(path, masks, jobs[0].fold_order.tolist(), self.workers.n_jobs)
        costs = np.array(answers.costs)
        # A cost below its bound has to be confirmed by a fitted model.
        costs[costs < lowest_cost(self.problem)] = np.nan
        seconds = (time.perf_counter() - started) / len(jobs)
        costs = np.where(np.isnan([job.fold_costs for job in jobs]), costs, np.nan)
        computed = ~np.isnan(costs)
        pieces = []
        for number, job in enumerate(jobs):
            blank = blank_record(self.n_folds, int(np.count_nonzero(job.mask)))
            used, values = computed[number][:, None] | blank.used, blank.importances
            if answers.importances is not None:
                selected = answers.importances[number][:, job.mask]
                values = np.where(computed[number][:, None], selected, np.nan)
                used &= values != 0
            piece = Record(costs[number], values, used, seconds)
            before = records[job.number]
            records[job.number] = piece if before is blank else before.merge(piece)
            pieces.append((job.mask, piece))
        self.evaluations.add(pieces)
        return int(computed.sum())

    def _train(self, jobs: list[Job], records: list[Record]) -> tuple[int, float]:
        """Train the jobs, archive their results, and update `records` in place."""
        fits, seconds = 0, 0.0
        waiting: list[tuple[Bool, Record]] = []
        committed = time.monotonic()
        # A part of a job has the order of its own fold alone.
        whole = {job.number: job for job in jobs}
        invalid: list[tuple[Job, InvalidCost]] = []
        try:
            for job, trained in self.workers.run(self.problem, jobs):
                if isinstance(trained, InvalidCost):
                    invalid.append((whole[job.number], trained))
                    if job.part == 0:
                        break
                    continue
                records[job.number] = records[job.number].merge(trained)
                waiting.append((job.mask, trained))
                fits += int(trained.has_cost.sum())
                seconds += trained.seconds
                if self.on_fit is not None:
                    self.on_fit(job.mask, trained)
                if time.monotonic() - committed > _COMMIT_SECONDS:
                    self.evaluations.add(waiting)
                    waiting, committed = [], time.monotonic()
            for job, failure in invalid:
                self._refuse_if_needed(job, records[job.number], failure)
        finally:
            # Also after SIGINT or an error, so that no evaluation is lost.
            self.evaluations.add(waiting)
        return fits, seconds

    def _refuse_if_needed(self, job: Job, record: Record, failure: InvalidCost) -> None:
        """Raise EvaluationError for an invalid cost, unless pruning would skip its fold."""
        # One worker would not train such a fold, and all numbers of workers have to agree.
        if next_fold(record.fold_costs, job.fold_order, job.limit) is None:
            return
        bad = "NaN" if np.isnan(failure.cost) else f"{failure.cost:.6g}, below its bound of 0"
        names = self.problem.space.subset(job.mask)
        raise EvaluationError(
            f"the cost of the subset of {len(names)} features ({listed(names, 5)}) is {bad} on "
            f"fold {failure.fold}; check the scorer {self.problem.scoring.name!r} on those rows"
        )

    def _answer(
        self,
        masks: Bool,
        incumbents: Float,
        limits: Float,
        fold_order: Int,
        rows: list[Record],
        work: Work,
    ) -> Evaluations:
        n, bounded = len(rows), self.problem.scoring.bounded
        exact = incumbents if self.pruning else np.full(n, np.inf)
        fold_costs = np.array([record.fold_costs for record in rows]).reshape(n, self.n_folds)
        needed, _ = needed_folds(fold_costs, fold_order, limits)
        # A failure counts only if pruning would have reached it, so that the number of failures
        # does not depend on pruning.
        reached = needed
        if bounded != self.pruning:
            stricter = limits_of(incumbents if bounded else np.full(n, np.inf))
            reached, _ = needed_folds(fold_costs, fold_order, stricter)
        failed = (np.isinf(fold_costs) & reached).any(axis=1)
        costs = costs_of(fold_costs)
        censored = ~failed & ~(needed.all(axis=1) & (costs <= exact))
        won = ~failed & ~censored & ~np.isinf(fold_costs).any(axis=1)
        importances, used = np.zeros(masks.shape), masks.copy()
        if self._importances:
            for i in np.flatnonzero(won).tolist():
                importances[i], used[i] = self._importance(masks[i], rows[i])
        return Evaluations(
            costs=np.where(won, costs, np.inf),
            fold_costs=np.where(won[:, None], fold_costs, np.nan),
            importances=importances,
            used=used,
            censored=censored,
            failed=failed,
            needed=needed,
            exact_shrink=self.problem.exact_shrink,
            work=work,
            first_error=next((r.error for r, bad in zip(rows, failed, strict=True) if bad), None),
        )

    def _importance(self, mask: Bool, record: Record) -> tuple[Float, Bool]:
        if self.problem.relevance is not None:
            return self.problem.relevance * mask, mask & (self.problem.relevance != 0)
        return record.importance(mask), record.units_used(mask)


def _are_open(jobs: list[Job]) -> list[bool]:
    """Return which jobs, all with the same order of folds, have folds left to train."""
    if not jobs:
        return []
    costs = np.stack([job.fold_costs for job in jobs])
    limits = np.array([job.limit for job in jobs])
    _, following = needed_folds(costs, jobs[0].fold_order, limits)
    open_: list[bool] = (following >= 0).tolist()
    return open_

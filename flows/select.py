"""The select flow: from a table to a subset that can be believed, with everything in MLflow."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from prefect import flow
from prefect.utilities.annotations import quote

from conf.check import check
from conf.estimator import build_estimator
from conf.load import as_yaml, flatten
from conf.schema import SelectConfig
from flows.progress import display, say
from swarm.archive import Archive
from swarm.budget import Budget
from swarm.evaluation.crossval import CrossValidation
from swarm.evaluation.scoring import Scoring
from swarm.judgement import Judgement
from swarm.registry import make
from swarm.search import Search, SearchResult
from tasks.answer import answer_files, judgement_files
from tasks.report import report_data, write_report
from tasks.run_log import RunLog, describe_run
from tasks.secrets import expand
from tasks.steps import (
    Prepared,
    fetch_data,
    fit_ensemble,
    judge_answer,
    prepare_search,
    register_model,
    run_epoch,
    split_rows,
)
from tasks.table import Table
from tasks.tracking import Tracking, open_tracking

__all__ = ["Outcome", "select"]

# Rows on which the saved model must predict as the ensemble does.
_EXAMPLE_ROWS = 50


@dataclass(frozen=True)
class Outcome:
    """What a select run leaves behind.

    Attributes
    ----------
    run_id : str
    result : SearchResult
    judgement : Judgement
    warnings : tuple of str
    model_uri : str
    unsent : int
        Messages that wait for the tracking server.
    """

    run_id: str
    result: SearchResult
    judgement: Judgement
    warnings: tuple[str, ...]
    model_uri: str
    unsent: int = 0


@flow(name="select", validate_parameters=False)
def select(config: SelectConfig, run_id: str | None = None, verbosity: int = 1) -> Outcome:
    """Search the features of a table, and judge the answer on rows that no search saw.

    Parameters
    ----------
    config : SelectConfig
    run_id : str, optional
        A run to resume: the search is run again, and the archive answers what it knows.
    verbosity : int
        0 for silence, 1 for progress, 2 for a line per epoch.

    Raises
    ------
    InputError
        For bad input, before anything is trained.
    """
    check(config)
    estimator = build_estimator(config.model)
    strategy = make(config.strategy.name, config.strategy.params)
    budget = Budget(**config.budget.model_dump())
    table = _fetched(config)
    rows = split_rows(table, config.split.kind, config.split.test_size, config.split_seed)
    train, test = table.take(rows.train), table.take(rows.test)
    warnings = tuple(text for text in (rows.warning,) if text)
    prepared = _prepared(config, train, estimator)
    archive = Archive(expand(config.archive.url, "address of the archive"))
    tracking = open_tracking(
        expand(config.tracking.uri, "address of the tracking store"),
        config.tracking.experiment,
        expand(config.tracking.artifacts, "address of the artifacts"),
    )
    log = _open_run(config, run_id, tracking, prepared, train)
    say(f"run {log.run_id} in {tracking.label}", verbosity)
    for text in warnings:
        say(f"[yellow]warning:[/yellow] {text}", verbosity)
    evaluation = config.evaluation
    with (
        _ends_run(log),
        CrossValidation(
            prepared.problem,
            archive,
            n_jobs=evaluation.n_jobs,
            backend=evaluation.backend,
            pruning=evaluation.pruning,
        ) as evaluator,
    ):
        search = Search(
            strategy, prepared.problem.space, evaluator, prepared.hints, config.seed, budget
        )
        result = _searched(config, search, log, verbosity)
        evaluator.close()
        files = answer_files(result, evaluator.known, config.ensemble.n_models)
        log.files(files)
        return _concluded(config, prepared, train, test, result, evaluator, log, warnings)


def _fetched(config: SelectConfig) -> Table:
    options = config.data.model_dump(exclude={"source"})
    return fetch_data(config.data.source, {**options, "fold": config.folds.column})


def _prepared(config: SelectConfig, train: Table, estimator: Any) -> Prepared:
    folds = config.folds
    return prepare_search(
        quote(train),
        quote(estimator),
        scoring=config.scoring,
        pos_label=config.pos_label,
        folds={
            "kind": folds.kind,
            "n_folds": folds.n_folds,
            "shuffle": folds.shuffle,
            "seed": config.folds_seed,
        },
        space=config.space.model_dump(),
        importance=config.evaluation.importance,
        n_clusters=config.prepare.n_clusters,
        seed=config.seed,
    )


def _open_run(
    config: SelectConfig, run_id: str | None, tracking: Tracking, prepared: Prepared, train: Table
) -> RunLog:
    tags = describe_run(prepared.problem, train.source, config.strategy.name, config.seed)
    if run_id is not None:
        return RunLog.resume(tracking, config.tracking.spool, run_id, tags)
    return RunLog.start(
        tracking,
        config.tracking.spool,
        f"{config.name}-{config.strategy.name}-{config.seed}",
        flatten(config),
        tags,
        as_yaml(config),
        train,
        config.description,
    )


@contextmanager
def _ends_run(log: RunLog) -> Iterator[None]:
    """Never leave a run behind as RUNNING, whatever happens to the search."""
    try:
        yield
    except BaseException as error:
        log.spool.tags({"error": str(error).splitlines()[0] if str(error) else repr(error)})
        log.close("FAILED" if isinstance(error, Exception) else "KILLED", timeout=30.0)
        raise


def _searched(config: SelectConfig, search: Search, log: RunLog, verbosity: int) -> SearchResult:
    """Run the epochs, each a task that can be retried; Ctrl-C ends the search, not the run."""
    epoch = run_epoch.with_options(
        retries=config.retries.attempts - 1, retry_delay_seconds=config.retries.delay_seconds
    )
    started = time.monotonic()
    state, records, reason = search.start(), [], None
    with display(search.budget, verbosity) as shown:
        try:
            while (reason := search.stop(state, time.monotonic() - started)) is None:
                state, record = epoch.with_options(task_run_name=f"epoch-{state.epoch + 1:04d}")(
                    quote(search), quote(state)
                )
                records.append(record)
                log.epoch(record)
                shown.epoch(record)
        except KeyboardInterrupt:
            if not records:
                raise
            reason = "interrupted"
            say("interrupted: going on with the best subsets so far", verbosity)
    return SearchResult(state, tuple(records), reason, search.space)


def _concluded(
    config: SelectConfig,
    prepared: Prepared,
    train: Table,
    test: Table,
    result: SearchResult,
    evaluator: CrossValidation,
    log: RunLog,
    warnings: tuple[str, ...],
) -> Outcome:
    """Ensemble, judge, report, register: what turns a search into an answer."""
    problem = prepared.problem
    masks, _ = result.best_members(config.ensemble.n_models)
    subsets = [result.space.subset(mask) for mask in masks]
    ensemble = fit_ensemble(quote(problem), quote(train), quote(subsets), config.ensemble.vote)
    judgement = judge_answer(
        quote(problem),
        quote(train),
        quote(test),
        quote(ensemble),
        quote(result.features),
        result.cost,
        metrics=config.test.metrics,
        n_resamples=config.test.bootstrap,
        level=config.test.confidence,
        n_random=config.test.random_subsets,
        seed=config.seed,
    )
    log.files(judgement_files(judgement))
    log.judged(result.state.epoch, _final_metrics(judgement))
    data = report_data(
        f"{config.name}, {config.strategy.name}, seed {config.seed}",
        result,
        judgement,
        evaluator.known,
        prepared.hints,
        config.ensemble.n_models,
        _cost_label(problem.scoring),
        config.strategy.params.get("regroup_every"),
        warnings,
        as_yaml(config),
        _facts(config, train, test, prepared, result, log.run_id),
    )
    log.files(write_report(quote(data)))
    log.settle()
    answer = hashlib.sha256(json.dumps(subsets).encode()).hexdigest()[:16]
    uri = log.earlier_model(answer)
    if uri is None:
        name = config.name if config.tracking.register else None
        example = train.features.head(_EXAMPLE_ROWS)
        verdict = judgement.verdict()
        uri = register_model(quote(log), quote(ensemble), quote(example), name, verdict).uri
    log.spool.tags(
        {"stopped": result.reason, "answer": answer, "model": uri, "verdict": judgement.verdict()}
    )
    unsent = log.close("FINISHED")
    return Outcome(log.run_id, result, judgement, warnings, uri, unsent)


def _cost_label(scoring: Scoring) -> str:
    name = scoring.name.removeprefix("neg_")
    return f"1 - {name}" if scoring.upper == 1.0 else name


def _facts(
    config: SelectConfig,
    train: Table,
    test: Table,
    prepared: Prepared,
    result: SearchResult,
    run_id: str,
) -> dict[str, object]:
    work, counts, problem = result.work, result.state.counts, prepared.problem
    tags = describe_run(problem, train.source, config.strategy.name, config.seed)
    training = float(work["training_seconds"].sum())
    return {
        "data": train.source,
        "rows": f"{len(train.features)} to search, {len(test.features)} to test",
        "strategy": config.strategy.name,
        "seed": config.seed,
        "estimator": tags["estimator"],
        "scorer": problem.scoring.name,
        "folds": f"{problem.n_folds}, {config.folds.kind}",
        "ended by": result.reason,
        "evaluations": counts.evaluations,
        "distinct evaluations": counts.distinct,
        "fits": counts.fits,
        "archive_hits": int(work["hits"].sum()),
        "seconds_training": training,
        "seconds_elsewhere": max(0.0, float(work["seconds"].sum()) - training),
        "problem": tags["problem"],
        "run": run_id,
        "versions": {
            key.removeprefix("version."): value
            for key, value in tags.items()
            if key.startswith("version.")
        },
    }


def _final_metrics(judgement: Judgement) -> dict[str, float]:
    """Test figures as metrics: ``test_f1`` of the ensemble, ``test_f1_all_features``, ..."""
    metrics = {}
    for row in judgement.table.itertuples():
        suffix = "" if row.contender == "ensemble" else f"_{row.contender}"
        metrics[f"test_{row.metric}{suffix}"] = float(row.value)
    if judgement.optimism is not None:
        metrics["optimism"] = judgement.optimism
    return metrics

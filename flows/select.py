"""The select flow: search a table for a subset, evaluate it on test rows, log it to MLflow."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing
from dataclasses import dataclass, replace
from functools import partial

import pandas as pd
from prefect import flow

from conf.check import check
from conf.later_keys import later_values
from conf.load import as_yaml, flatten
from conf.resolve import fold_kind
from conf.schema import SelectConfig
from flows.configured import (
    PreparedData,
    archive_url,
    fetched,
    plan_as_configured,
    prepare_run,
    probe_as_configured,
    with_warm_subsets,
)
from flows.flow_runs import COMMAND_FLOW
from flows.planning import workload_of
from flows.progress import StageDisplay, show_stage, tell, warnings_of
from flows.searching import search_as_configured
from flows.stages import Forecast, Stage
from flows.tracking import (
    logged_parameters,
    stored_configuration,
    tracking_as_configured,
    wait_for_log,
)
from swarm.ensemble import SubsetEnsemble
from swarm.errors import ConfigError
from swarm.findings import Finding, as_file, codes_of, unmuted
from swarm.findings.outcome import judgement_findings, search_findings
from swarm.report import ReportData
from swarm.search.plan import SearchPlan
from swarm.search.prefilter import MANY_COLUMNS
from swarm.search.result import SearchResult
from swarm.search.runner import FinishedSearch
from swarm.storage.archive import Archive
from swarm.validation import Judgement
from swarm.validation.drift import summarise
from swarm.validation.headline import Headline, headline
from tasks.flow_run import log_line
from tasks.models.files import is_storable
from tasks.models.registry import is_version, register_logged
from tasks.prefect_artifacts import show_answer
from tasks.refresh.lock import run_lock
from tasks.report import (
    answer_files,
    baseline_metrics,
    costs_on_test,
    diagnose_answer,
    ensemble_metrics,
    judgement_files,
    report_data,
    run_facts,
    write_report,
)
from tasks.search_cell import Cell
from tasks.steps import fit_ensemble, judge_answer, register_model
from tasks.table import Table
from tasks.tracking import Tracking
from tasks.tracking.run_log import RunLog, describe_run, refuse_another_search
from tasks.tracking.writes import metric_key

# Shows a stage of the run, see `show_stage`.
_ShowStage = Callable[..., AbstractContextManager[StageDisplay]]

# Rows on which the saved model is compared with the ensemble.
_EXAMPLE_ROWS = 50
# Features in the description of the run.
_MOST_FEATURES = 40


@dataclass(frozen=True)
class Outcome:
    """Result of a select run.

    Attributes
    ----------
    run_id : str
    finished : FinishedSearch
    ensemble : SubsetEnsemble
        Fitted on the training rows.
    judgement : Judgement
    headline : Headline
    findings : tuple of Finding
        Reasons to doubt the data or the result, without those that are muted.
    model_uri : str
        Empty if the estimator cannot be stored without pickle.
    declined : bool
        Whether the model was not registered as all features are better.
    unsent : str
        What the tracking store lacks and how to send it; empty if it has everything.
    """

    run_id: str
    finished: FinishedSearch
    ensemble: SubsetEnsemble
    judgement: Judgement
    headline: Headline
    findings: tuple[Finding, ...]
    model_uri: str = ""
    declined: bool = False
    unsent: str = ""

    @property
    def result(self) -> SearchResult:
        """Result of the search."""
        return self.finished.result

    @property
    def registered(self) -> bool:
        """Whether the model is a version in the registry."""
        return is_version(self.model_uri)

    @property
    def warnings(self) -> tuple[str, ...]:
        """The findings that are more than notes, a line each."""
        return warnings_of(self.findings)


@dataclass(frozen=True)
class Started:
    """An open MLflow run and its prepared search; `registered` is the name of the model, if any."""

    config: SelectConfig
    plan: SearchPlan
    train: Table
    test: Table
    archive: Archive
    log: RunLog
    registered: str | None
    findings: tuple[Finding, ...]


@flow(name="select", **COMMAND_FLOW)
def select(config: SelectConfig, run_id: str | None = None, verbosity: int = 1) -> Outcome:
    """Search the features of a table, and evaluate the result on rows that no search has seen.

    Parameters
    ----------
    config : SelectConfig
    run_id : str, optional
        A run to resume: the search is replayed from the archive.
    verbosity : int
        0 for silence, 1 for progress, 2 for a line per epoch.

    Raises
    ------
    InputError
        For bad input, before anything is trained.
    """
    check(config)
    url = archive_url(config.archive)
    with ExitStack() as locked:
        if run_id is not None:
            # Opened first, so that the archive reports its own errors before it is locked.
            Archive(url).close()
            locked.enter_context(run_lock(url, run_id))
            _refuse_less(config, run_id)
        config = with_warm_subsets(config)
        with show_stage(Stage.READ, verbosity):
            table = fetched(config)
        with show_stage(Stage.PREPARE, verbosity):
            data = prepare_run(config, table)
            # Its training and test rows are copies.
            del table
            started = start(config, data, run_id)
        with closing(started.archive), started.log as log:
            if run_id is None:
                locked.enter_context(run_lock(url, log.run_id))
            try:
                outcome = carry_out(started, verbosity)
            except KeyboardInterrupt as interrupt:
                interrupt.add_note(f"`swarm resume {log.run_id}` continues the run")
                raise
            return replace(outcome, unsent=log.close())


def _refuse_less(config: SelectConfig, run_id: str) -> None:
    """Refuse to overwrite a run by the answer of a smaller search than it has finished.

    A limit in seconds depends on the machine, so that it cannot be compared.
    """
    counted = ("best_cost", "evaluations", "distinct_evaluations", "fits")
    keys = {name: metric_key(name) for name in counted}
    found = tracking_as_configured(config.tracking).values(run_id, keys.values())
    curves = {name: found.get(key, {}) for name, key in keys.items()}
    finished = max(curves["best_cost"], default=0)
    least = {
        "epochs": finished,
        "evaluations": curves["evaluations"].get(finished, 0),
        "distinct": curves["distinct_evaluations"].get(finished, 0),
        # The last epoch began below this limit, and may have exceeded it.
        "fits": curves["fits"].get(finished - 1, 0) + 1,
    }
    for name, needed in least.items():
        most = getattr(config.budget, name)
        if most is not None and most < needed:
            raise ConfigError(
                f"budget.{name} is {most}, but the run {run_id} has finished {finished} epochs; set"
                f" it to at least {needed:.0f}, or start a new run with `swarm select`"
            )


def start(
    config: SelectConfig,
    data: PreparedData,
    run_id: str | None = None,
    *,
    tags: Mapping[str, str] | None = None,
    registered: str | None = None,
    tracking: Tracking | None = None,
) -> Started:
    """Check what was prepared, and open its run.

    Parameters
    ----------
    data : PreparedData
        With test rows.
    run_id : str, optional
        A run to resume.
    tags : mapping, optional
        Additional tags of the run.
    registered : str, optional
        Name of the registered model; default: as configured.
    tracking : Tracking, optional
        The store, if it is already open.
    """
    assert data.test is not None
    plan = plan_as_configured(config, data)
    plan.check()
    name = registered or (config.name if config.tracking.register else None)
    if name is not None and not is_storable(data.problem.estimator):
        raise ConfigError(
            f"model.estimator {config.model.estimator!r} cannot be stored without pickle, which is"
            " not allowed; set tracking.register to false, or use an estimator of scikit-learn or"
            " LightGBM"
        )
    archive = Archive(archive_url(config.archive))
    with ExitStack() as opened:
        opened.callback(archive.close)
        tracking = tracking or tracking_as_configured(config.tracking)
        probe_as_configured(config, data, plan, archive)
        log = _open_run(config, run_id, tracking, data, tags or {})
        opened.pop_all()
    return Started(config, plan, data.train, data.test, archive, log, name, data.findings)


def carry_out(started: Started, verbosity: int) -> Outcome:
    """Search, evaluate the result and register it; the run stays open."""
    config, log = started.config, started.log
    tell(started.findings, verbosity)
    forecast = Forecast(workload_of(config, started.plan), started.plan.problem.space.n_units)
    finished = search_as_configured(config, started.plan, started.archive, log, verbosity, forecast)
    members = config.ensemble.n_models, config.ensemble.union_at_most
    log.files(answer_files(finished.result, finished.known, *members))
    show = partial(show_stage, verbosity=verbosity, forecast=forecast)
    outcome = _judge(started, finished, show, verbosity)
    with show(Stage.REPORT):
        log.files(write_report(_report(started, outcome)))
    wait_for_log(log, verbosity)
    uri, declined = _store_model(started, outcome, show)
    _describe_run(started, outcome)
    return replace(outcome, model_uri=uri, declined=declined)


def _open_run(
    config: SelectConfig,
    run_id: str | None,
    tracking: Tracking,
    data: PreparedData,
    more: Mapping[str, str],
) -> RunLog:
    train = data.train
    tags = describe_run(data.problem, train.source, config.strategy.name, config.seed)
    tags |= {"kind": "select", "dataset": train.name, "config": config.name, **more}
    text = as_yaml(config)
    if run_id is not None:
        run, earlier = tracking.run(run_id), stored_configuration(tracking, run_id)
        was: Mapping[str, object] = earlier
        now: Mapping[str, object] = flatten(config)
        if data.cut_folds is None:
            # Without a cut, the prefilter has no effect.
            was, now = _without_prefilter(was), _without_prefilter(now)
        refuse_another_search(run, was, now, tags, later_values())
        log = RunLog.resume(tracking, run_id, tags, text, test=data.test)
        changed = {key: str(now[key]) for key in now if now[key] != was.get(key)}
        # MLflow does not change the parameters of a run.
        log.tag({key: value for key, value in changed.items() if key.startswith("budget.")})
        return log
    return RunLog.start(
        tracking,
        Cell(train.name, config.strategy.name, config.seed).name,
        logged_parameters(config),
        tags,
        text,
        table=train,
        test=data.test,
        description=config.description,
    )


def _without_prefilter(values: Mapping[str, object]) -> dict[str, object]:
    return {key: value for key, value in values.items() if key.split(".")[0] != "prefilter"}


def _columns(features: pd.DataFrame, subsets: Sequence[Sequence[Hashable]]) -> list[Hashable]:
    """Return the columns that subsets use, in the order of the table."""
    used = {name for subset in subsets for name in subset}
    return [name for name in features if name in used]


def _judge(started: Started, finished: FinishedSearch, show: _ShowStage, verbosity: int) -> Outcome:
    """Fit the ensemble, and judge it and the result on the test rows."""
    config, log = started.config, started.log
    train, test = started.train, started.test
    problem, result = finished.problem, finished.result
    masks, _ = result.best_members(config.ensemble.n_models, config.ensemble.union_at_most)
    subsets = [result.space.subset(mask) for mask in masks]
    used = train.features[_columns(train.features, subsets)]
    log.files({"reference.json": json.dumps(summarise(used)).encode()})
    text = f"judging on {len(test.features):,} test rows"
    # The ensemble, its baselines of as many models, and two single models.
    total = len(subsets) * (2 + config.test.random_subsets) + 2
    with show(Stage.JUDGE, text=text, total=total, unit="models") as shown:
        ensemble = fit_ensemble(problem, train, subsets, config.ensemble.vote)
        judgement = judge_answer(
            problem,
            train,
            test,
            ensemble,
            result.features,
            result.cost,
            by_group=config.split.kind == "group",
            metrics=config.test.metrics,
            n_resamples=config.test.bootstrap,
            level=config.test.confidence,
            n_random=config.test.random_subsets,
            seed=config.seed,
            n_jobs=config.evaluation.n_jobs,
            # The first contender is the ensemble itself.
            on_models=shown.count,
        )
    doubts = search_findings(finished, problem.target, problem.task, judgement)
    late = unmuted([*doubts, *judgement_findings(judgement)], config.mute)
    findings = unmuted([*started.findings, *late])
    head = headline(result, problem.scoring, judgement)
    log.files({"findings.json": as_file(findings, config.mute)})
    log.files(judgement_files(judgement, head))
    # Those of the ensemble are logged with its model.
    log.metrics({result.state.epoch: baseline_metrics(judgement)})
    # The summary ends with the warnings.
    tell([each for each in late if each.severity == "note"], verbosity)
    return Outcome(log.run_id, finished, ensemble, judgement, head, findings)


def _report(started: Started, outcome: Outcome) -> ReportData:
    """Collect the data of the report, and train the models of its diagnostics."""
    config, plan, log = started.config, started.plan, started.log
    train, test, ensemble = started.train, started.test, outcome.ensemble
    problem, result = outcome.finished.problem, outcome.finished.result
    at_most = config.ensemble.union_at_most
    partitions = f", {problem.repeats} partitions" if problem.repeats > 1 else ""
    facts = {
        "strategy": config.strategy.name,
        "seed": config.seed,
        "folds": f"{problem.n_folds}, {fold_kind(config, problem.estimator)}{partitions}",
        "rows": f"{len(train.features)} to search, {len(test.features)} to test",
        "ensemble": _described(ensemble.subsets_, ensemble.vote_, at_most),
        **run_facts(log.tags, result),
        "run": log.run_id,
    }
    diagnostics = None
    if config.test.explain:
        n_jobs = config.evaluation.n_jobs
        diagnostics = diagnose_answer(problem, result, train, test, ensemble, n_jobs)
    return report_data(
        outcome.finished,
        outcome.judgement,
        plan.hints,
        config.ensemble.n_models,
        at_most,
        title=f"{config.name}, {config.strategy.name}, seed {config.seed}",
        headline=outcome.headline,
        regroup_every=getattr(plan.strategy, "regroup_every", None),
        findings=[each.as_dict() for each in outcome.findings],
        config_yaml=as_yaml(config),
        facts=facts,
        subset_test_costs=costs_on_test(problem, ensemble, test),
        diagnostics=diagnostics,
    )


def _store_model(started: Started, outcome: Outcome, show: _ShowStage) -> tuple[str, bool]:
    """Store the ensemble with its metrics, and register it unless it lost.

    Returns the address of the model, and whether it was not registered as it lost.
    """
    config, log, ensemble = started.config, started.log, outcome.ensemble
    problem, result = outcome.finished.problem, outcome.finished.result
    # A refresh needs its challenger as a version, and compares it with the champion itself.
    asked = log.tags.get("kind") == "refresh" or config.tracking.registers_always
    head, judgement = outcome.headline, outcome.judgement
    lost = head.verdict == "worse" or not head.beats_guessing
    declined = started.registered is not None and lost and not asked
    name = None if declined else started.registered
    told = " ".join([f"{head.title}.", *head.sentences(), judgement.verdict()])
    digest = _digest(config, result, ensemble)
    earlier = log.earlier_model(digest)
    uri, model_id = earlier or ("", None)
    if earlier is None and is_storable(problem.estimator):
        features = started.train.features
        # The signature and the example of a wide table would take many megabytes.
        wide = len(features.columns) > MANY_COLUMNS
        columns = _columns(features, ensemble.subsets_)
        example = (features[columns] if wide else features).head(_EXAMPLE_ROWS)
        params = _model_params(config, result, judgement, ensemble)
        text = "storing the model" if name is None else Stage.REGISTER.line
        with show(Stage.REGISTER, text=text):
            uri, model_id = register_model(
                log.tracking, log.run_id, ensemble, example, name, told, params=params
            )
    elif name is not None and model_id is not None and not is_version(uri):
        # The run was resumed to register what it had only stored.
        uri = register_logged(log.tracking, log.run_id, model_id, name, told)
    # The tags first: a resume that finds them knows the model that its metrics belong to.
    log.tag({"answer": digest, "model": uri} | ({"model_id": model_id} if model_id else {}))
    log.metrics({result.state.epoch: ensemble_metrics(judgement)}, model_id)
    return uri, declined


def _digest(config: SelectConfig, result: SearchResult, ensemble: SubsetEnsemble) -> str:
    """Return the hash of what a stored model follows from, besides the run's own configuration."""
    parts: list[object] = [ensemble.subsets_]
    # A resumed run of a version whose auto vote was hard has another model.
    if config.ensemble.vote == "auto" and ensemble.vote_ == "soft":
        parts.append("soft")
    # With a larger budget, the same subsets may have another setting of the model.
    if result.tuning is not None:
        parts.append(result.tuning.params)
    text = json.dumps(parts if len(parts) > 1 else ensemble.subsets_)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _describe_run(started: Started, outcome: Outcome) -> None:
    """Write the answer into the tags and the note of the run, and into Prefect's artifact."""
    config, log = started.config, started.log
    result, judgement, head = outcome.finished.result, outcome.judgement, outcome.headline
    tags = {} if judgement.pos_label is None else {"positive_class": str(judgement.pos_label)}
    tags |= {
        "stopped": result.reason,
        "headline": head.title,
        "verdict": judgement.verdict(),
        "findings": codes_of(outcome.findings),
    }
    log.tag(tags)
    listed = ", ".join(f"`{name}`" for name in result.features[:_MOST_FEATURES])
    if len(result.features) > _MOST_FEATURES:
        listed += f" and {len(result.features) - _MOST_FEATURES} more"
    told = [f"**{head.title}.**", *head.sentences(), head.searched, judgement.verdict()]
    links = {"report": "report.html", "features": "features.json", "subsets": "subsets.csv"}
    log.note(" ".join([*told, judgement.positive]).rstrip(), links, [listed, config.description])
    log_line(f"{head.title}. {judgement.verdict()}")
    show_answer(config.name, result, head, judgement, log.tracking, log.run_id)


def _model_params(
    config: SelectConfig, result: SearchResult, judgement: Judgement, ensemble: SubsetEnsemble
) -> dict[str, object]:
    """Return the parameters of the logged model: what it is made of, and what found it."""
    chosen = {} if result.tuning is None else result.tuning.params
    params: dict[str, object] = {
        "estimator": config.model.estimator,
        **{f"estimator.{key}": value for key, value in {**config.model.params, **chosen}.items()},
        "vote": ensemble.vote_,
        "models": len(ensemble.subsets_),
        "columns": len({name for subset in ensemble.subsets_ for name in subset}),
        "strategy": config.strategy.name,
        "seed": config.seed,
    }
    if judgement.pos_label is not None:
        params["positive_class"] = str(judgement.pos_label)
    return params


def _described(subsets: Sequence[Sequence[str]], vote: str, at_most: int | float | None) -> str:
    """Describe the ensemble: its subsets, the columns that they use together, and its vote."""
    together = len({name for subset in subsets for name in subset})
    bound = "" if at_most is None else f" (union_at_most {at_most:g})"
    many = f"{len(subsets)} subset{'s' * (len(subsets) != 1)}"
    return f"{many}, {together} columns together{bound}, {vote} vote"

"""The select flow: search a table for a subset, evaluate it on test rows, log it to MLflow."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace

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
    prepare_as_configured,
    probe_as_configured,
    with_warm_subsets,
)
from flows.findings import tell, warnings_of
from flows.flow_runs import COMMAND_FLOW
from flows.planning import workload_of
from flows.progress import show_stage
from flows.searching import search_as_configured
from flows.stages import Forecast, Stage
from flows.tracking import (
    logged_parameters,
    stored_configuration,
    tracking_as_configured,
    wait_for_log,
)
from swarm.ensemble import SubsetEnsemble
from swarm.errors import ConfigError, InputError
from swarm.findings import Finding, as_file, codes_of, unmuted
from swarm.findings.outcome import judgement_findings, search_findings
from swarm.search.prefilter import MANY_COLUMNS
from swarm.search.result import SearchResult
from swarm.search.runner import FinishedSearch, SearchPlan
from swarm.storage.archive import Archive
from swarm.strategies.catalogue import make
from swarm.validation import Judgement
from swarm.validation.drift import summarise
from swarm.validation.evaluation_target import EvaluationTarget
from swarm.validation.headline import Headline, headline
from swarm.validation.holdout import judged_metrics
from swarm.validation.scorer_metrics import check_scorable
from tasks.answer import answer_files, judgement_files
from tasks.flow_run import log_line
from tasks.models.files import is_storable
from tasks.models.registry import is_version, register_logged
from tasks.prefect_artifacts import show_answer
from tasks.report import (
    costs_on_test,
    diagnose_answer,
    final_metrics,
    report_data,
    run_facts,
    write_report,
)
from tasks.steps import (
    fit_ensemble,
    judge_answer,
    positive_of,
    register_model,
)
from tasks.table import Table
from tasks.tracking import Tracking
from tasks.tracking.note import answer_note, run_title
from tasks.tracking.run_log import RunLog, describe_run, refuse_another_search

__all__ = ["Outcome", "Started", "carry_out", "prepare", "select", "start"]

# Rows on which the saved model is compared with the ensemble.
_EXAMPLE_ROWS = 50


@dataclass(frozen=True)
class Outcome:
    """Result of a select run.

    Attributes
    ----------
    run_id : str
    result : SearchResult
    judgement : Judgement
    findings : tuple of Finding
        Reasons to doubt the data or the result, without those that are muted.
    model_uri : str
        Empty if the estimator cannot be stored without pickle.
    ensemble : SubsetEnsemble
        Fitted on the training rows.
    n_train : int
        Training rows.
    training_seconds : float
        Training time of the search, cached folds included.
    headline : Headline
    declined : bool
        Whether the model was not registered as all features are better.
    unsent : str
        What the tracking store lacks and how to send it; empty if it has everything.
    """

    run_id: str
    result: SearchResult
    judgement: Judgement
    findings: tuple[Finding, ...]
    model_uri: str
    ensemble: SubsetEnsemble
    n_train: int
    training_seconds: float
    headline: Headline
    declined: bool = False
    unsent: str = ""

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
    config = with_warm_subsets(config)
    with show_stage(Stage.READ, verbosity):
        table = fetched(config)
    with show_stage(Stage.PREPARE, verbosity):
        data = prepare(config, table)
        # Its training and test rows are copies.
        del table
        started = start(config, data, run_id)
    with closing(started.archive), started.log as log:
        outcome = carry_out(started, verbosity)
        return replace(outcome, unsent=log.close())


def prepare(config: SelectConfig, table: Table, warm: Sequence[Sequence[str]] = ()) -> PreparedData:
    """Split the rows, and prepare the search on the training rows; `warm` has further subsets."""
    strategy = make(config.strategy.name, config.strategy.params)
    # The report needs distances and clusters, whatever the strategy needs.
    needs = ("distance", "clusters", *strategy.needs)
    return prepare_as_configured(config, table, needs=needs, warm=warm)


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
        probe_as_configured(config, plan, archive)
        _refuse_metrics(config, data)
        log = _open_run(config, run_id, tracking, data, tags or {})
        opened.pop_all()
    return Started(config, plan, data.train, data.test, archive, log, name, data.findings)


def _refuse_metrics(config: SelectConfig, data: PreparedData) -> None:
    """Refuse metrics that cannot be computed on the test rows, before anything is trained."""
    problem, test = data.problem, data.test
    assert test is not None
    truth = EvaluationTarget.of(
        problem.estimator, data.train.target, test.target, positive_of(problem)
    )
    metrics = judged_metrics(config.test.metrics, truth.task, problem.scoring)
    try:
        check_scorable(metrics, truth)
    except InputError as error:
        raise ConfigError(f"test.metrics: {error}") from None


def carry_out(started: Started, verbosity: int) -> Outcome:
    """Search, evaluate the result and register it; the run stays open."""
    config, log = started.config, started.log
    tell(started.findings, verbosity)
    n_units = started.plan.problem.space.n_units
    forecast = Forecast(workload_of(config, started.plan), n_units)
    finished = search_as_configured(config, started.plan, started.archive, log, verbosity, forecast)
    members = config.ensemble.n_models, config.ensemble.union_at_most
    log.files(answer_files(finished.result, finished.known, *members))
    return _concluded(started, finished, verbosity, forecast)


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
        return RunLog.resume(tracking, run_id, tags, text, test=data.test)
    return RunLog.start(
        tracking,
        run_title(train.name, config.strategy.name, config.seed),
        logged_parameters(config),
        tags,
        text,
        table=train,
        test=data.test,
        description=config.description,
    )


def _without_prefilter(values: Mapping[str, object]) -> dict[str, object]:
    return {key: value for key, value in values.items() if key.split(".")[0] != "prefilter"}


def _concluded(
    started: Started, finished: FinishedSearch, verbosity: int, forecast: Forecast
) -> Outcome:
    """Fit the ensemble, evaluate it, write the report and register the model."""
    config, plan, log = started.config, started.plan, started.log
    train, test = started.train, started.test
    problem, result = finished.problem, finished.result
    masks, _ = result.best_members(config.ensemble.n_models, config.ensemble.union_at_most)
    subsets = [result.space.subset(mask) for mask in masks]
    used = [name for name in train.features if any(name in subset for subset in subsets)]
    log.files({"reference.json": json.dumps(summarise(train.features[used])).encode()})
    with show_stage(
        Stage.JUDGE,
        verbosity,
        text=f"judging on {len(test.features):,} test rows",
        # The ensemble, its baselines of as many models, and two single models.
        total=len(subsets) * (2 + config.test.random_subsets) + 2,
        unit="models",
        forecast=forecast,
    ) as shown:
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
    # The summary ends with the warnings.
    tell([each for each in late if each.severity == "note"], verbosity)
    findings = unmuted([*started.findings, *late])
    log.files({"findings.json": as_file(findings, config.mute)})
    head = headline(result, problem.scoring, judgement)
    log.files(judgement_files(judgement, head))
    metrics = final_metrics(judgement)
    # Those of the ensemble are logged with its model, below.
    others = {key: value for key, value in metrics.items() if not key.startswith("test_")}
    log.metrics({result.state.epoch: others})
    facts = {
        "strategy": config.strategy.name,
        "seed": config.seed,
        "folds": f"{problem.n_folds}, {fold_kind(config, problem.estimator)}"
        + (f", {problem.repeats} partitions" if problem.repeats > 1 else ""),
        "rows": f"{len(train.features)} to search, {len(test.features)} to test",
        "ensemble": _described(subsets, ensemble.vote_, config.ensemble.union_at_most),
        **run_facts(log.tags, result),
        "run": log.run_id,
    }
    with show_stage(Stage.REPORT, verbosity, forecast=forecast):
        data = report_data(
            f"{config.name}, {config.strategy.name}, seed {config.seed}",
            problem,
            result,
            judgement,
            finished.known,
            plan.hints,
            config.ensemble.n_models,
            headline=head,
            regroup_every=getattr(plan.strategy, "regroup_every", None),
            findings=findings,
            config_yaml=as_yaml(config),
            facts=facts,
            subset_test_costs=costs_on_test(problem, ensemble, test),
            union_at_most=config.ensemble.union_at_most,
            diagnostics=diagnose_answer(
                problem, result, train, test, ensemble, config.evaluation.n_jobs
            )
            if config.test.explain
            else None,
        )
        log.files(write_report(data))
    wait_for_log(log, verbosity)
    # A resumed run of a version whose auto vote was hard has another model.
    soft = config.ensemble.vote == "auto" and ensemble.vote_ == "soft"
    parts: list[object] = [subsets, *(["soft"] if soft else [])]
    # With a larger budget, the same subsets may have another setting of the model.
    parts += [] if result.tuning is None else [result.tuning.params]
    text = json.dumps(parts if len(parts) > 1 else subsets)
    answer = hashlib.sha256(text.encode()).hexdigest()[:16]
    # A refresh needs its challenger as a version, and compares it with the champion itself.
    name, refreshed = started.registered, log.tags.get("kind") == "refresh"
    asked = refreshed or config.tracking.registers_always
    lost = head.verdict == "worse" or not head.beats_guessing
    declined = name is not None and lost and not asked
    name = None if declined else name
    told = " ".join([f"{head.title}.", *head.sentences(), judgement.verdict()])
    earlier = log.earlier_model(answer)
    uri, model_id = earlier or ("", None)
    if earlier is None and is_storable(problem.estimator):
        # The signature and the example of a wide table would take many megabytes.
        wide = len(train.features.columns) > MANY_COLUMNS
        example = (train.features[used] if wide else train.features).head(_EXAMPLE_ROWS)
        params = _model_params(config, result, judgement, ensemble)
        text = "storing the model" if name is None else Stage.REGISTER.line
        with show_stage(Stage.REGISTER, verbosity, text=text, forecast=forecast):
            uri, model_id = register_model(
                log.tracking, log.run_id, ensemble, example, name, told, params=params
            )
    elif name is not None and model_id is not None and not is_version(uri):
        # The run was resumed to register what it had only stored.
        uri = register_logged(log.tracking, log.run_id, model_id, name, told)
    # The tags first: a resume that finds them knows the model that its metrics belong to.
    log.tag({"answer": answer, "model": uri} | ({"model_id": model_id} if model_id else {}))
    log.metrics({result.state.epoch: {k: metrics[k] for k in metrics if k not in others}}, model_id)
    if judgement.pos_label is not None:
        log.tag({"positive_class": str(judgement.pos_label)})
    log.tag(
        {
            "stopped": result.reason,
            "headline": head.title,
            "verdict": judgement.verdict(),
            "findings": codes_of(findings),
        }
        | answer_note(
            log.tracking,
            log.run_id,
            result.features,
            " ".join([f"**{head.title}.**", *head.sentences(), head.searched]),
            f"{judgement.verdict()} {judgement.positive}".rstrip(),
            config.description,
        )
    )
    log_line(f"{head.title}. {judgement.verdict()}")
    show_answer(config.name, result, head, judgement, log.tracking, log.run_id)
    return Outcome(
        log.run_id,
        result,
        judgement,
        findings,
        uri,
        ensemble,
        len(train.features),
        finished.training_seconds,
        head,
        declined,
    )


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

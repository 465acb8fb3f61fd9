"""Build data, problems and search plans from a configuration, for every flow."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from conf.estimator import build_estimator, build_setting, settings_of, with_params
from conf.resolve import fold_kind, problem_options, split_options
from conf.schema import SelectConfig
from conf.sections import ArchiveSection, WarmSection
from flows.tracking import tracking_as_configured
from swarm.errors import ConfigError, DataError
from swarm.evaluation.probe import probe
from swarm.fastpaths import require_device
from swarm.findings import Finding, unmuted
from swarm.problem.inputs import check_task
from swarm.problem.problem import Problem
from swarm.problem.target import task_of
from swarm.search.budget import Budget
from swarm.search.confirmation import ConfirmationPlan
from swarm.search.plan import Proxy, SearchPlan
from swarm.search.prefilter import Prefilter
from swarm.search.row_parts import row_parts
from swarm.search.tuning import Tuning
from swarm.storage.archive import Archive
from swarm.storage.features_file import load_subsets, subsets_of
from swarm.strategies.catalogue import make
from tasks.preparation import Prepared, check_test_metrics
from tasks.secrets import expand
from tasks.split import horizon_findings, time_findings
from tasks.steps import fetch_data, prepare_search, split_rows
from tasks.table import Table
from tasks.tracking import Tracking

_Config = TypeVar("_Config", bound=SelectConfig)


@dataclass(frozen=True, eq=False)
class PreparedData(Prepared):
    """A table that is ready to be searched; its findings are without those that are muted.

    Attributes
    ----------
    train : Table
        Training rows, those of the problem.
    test : Table or None
        Test rows.
    """

    train: Table
    test: Table | None


def fetched(config: SelectConfig) -> Table:
    """Fetch the table of a configuration."""
    # These two concern the model and the scorer.
    options = config.data.model_dump(exclude={"categorical_support", "weights_in_score"})
    if not isinstance(config.data.horizon, str):
        options["horizon"] = None
    return fetch_data(**options, fold=config.folds.column)


def prepare_as_configured(
    config: SelectConfig,
    table: Table,
    *,
    needs: Sequence[str] | None = None,
    seed: int | None = None,
    split: bool = True,
    warm: Sequence[Sequence[str]] = (),
) -> PreparedData:
    """Split the rows, build the problem on the training rows, and prepare the hints.

    Parameters
    ----------
    config : SelectConfig
    table : Table
    needs : sequence of str, optional
        Names of the hints; default: those of the strategy.
    seed : int, optional
        Seed of the models; default: that of the configuration.
    split : bool
        Whether to hold out test rows; otherwise the search uses all rows.
    warm : sequences of column names
        Subsets for a warm start; those of the configuration follow.

    Raises
    ------
    ConfigError
        If none of the subsets of the configuration has a column of the table.
    """
    if needs is None:
        needs = make(config.strategy.name, config.strategy.params).needs
    estimator = build_estimator(config.model)
    check_task(estimator, table.target, task_of(table.target, estimator))
    train, test, findings = table, None, list[Finding]()
    if split:
        options = split_options(config)
        rows = split_rows(table, estimator=estimator, **options)
        train, test = table.take(rows.train), table.take(rows.test)
        findings += rows.findings
        findings += time_findings(table, config.split.kind, fold_kind(config, estimator))
        findings += horizon_findings(table, rows, options["windows"].horizon)
        if config.data.weights_in_score and test.weight is not None and not test.weight.any():
            raise DataError(
                "every test row has the sample weight 0; use another split, or set "
                "data.weights_in_score to false"
            )
    saved = [] if config.warm is None else config.warm.subsets
    prepared = prepare_search(
        train,
        estimator,
        **problem_options(config, estimator),
        seed=config.seed if seed is None else seed,
        needs=needs,
        warm=[*warm, *saved],
        fresh_partitions=0 if config.confirm is None else config.confirm.repeats,
        prefilter=None if config.prefilter is None else config.prefilter.when,
    )
    if saved and prepared.hints.warm is None:
        raise ConfigError(
            f"warm: none of {len(saved)} subsets has a column of the table; give subsets of this"
            " table, or set warm to null"
        )
    told = unmuted([*findings, *prepared.findings], config.mute)
    return PreparedData(**{**vars(prepared), "findings": told}, train=train, test=test)


def prepare_run(
    config: SelectConfig, table: Table, warm: Sequence[Sequence[str]] = ()
) -> PreparedData:
    """Prepare a select run, whose report needs distances and clusters, whatever the strategy needs.

    `warm` has further subsets.
    """
    strategy = make(config.strategy.name, config.strategy.params)
    needs = ("distance", "clusters", *strategy.needs)
    return prepare_as_configured(config, table, needs=needs, warm=warm)


def with_warm_subsets(config: _Config, tracking: Tracking | None = None) -> _Config:
    """Replace the file and the run of a warm start by their subsets.

    The run then contains them, so that it can be resumed without the file.

    Raises
    ------
    InputError
        If the file or the run does not exist, or has no subsets.
    """
    if config.warm is None or (config.warm.file is None and config.warm.run is None):
        return config
    subsets = list(config.warm.subsets)
    if config.warm.file is not None:
        subsets += load_subsets(expand(config.warm.file, "address of warm.file"))
    if config.warm.run is not None:
        store = tracking or tracking_as_configured(config.tracking)
        # InputError if there is no such run.
        store.run(config.warm.run)
        path = store.download(config.warm.run, "features.json")
        subsets += subsets_of(json.loads(path.read_text(encoding="utf-8")))
    return config.model_copy(update={"warm": WarmSection(subsets=subsets)})


def archive_url(section: ArchiveSection) -> str:
    """Return the URL of the archive, with secrets."""
    return expand(section.url, "address of the archive")


def refuse_warm_start(config: SelectConfig, command: str) -> None:
    """Raise ConfigError if a procedure that tests on other rows would start from saved subsets."""
    if config.warm is not None:
        raise ConfigError(
            f"`swarm {command}` searches parts of the rows, but the subsets in warm may have been"
            " chosen on all of them; set warm to null"
        )


def plan_as_configured(
    config: SelectConfig, data: PreparedData, seed: int | None = None
) -> SearchPlan:
    """Return the plan of a search; `seed` overrides that of the configuration."""
    proxy = None
    if config.proxy is not None:
        cheaper = build_estimator(with_params(config.model, config.proxy.params))
        importance = config.evaluation.importance
        proxy = Proxy(
            data.problem.with_estimator(cheaper, importance=importance, seed=config.seed),
            config.proxy.best,
            config.proxy.probes,
        )
    confirmation = None
    if config.confirm is not None and data.fresh is not None:
        options = config.confirm.model_dump(exclude={"best", "repeats"})
        confirmation = ConfirmationPlan(data.fresh, config.confirm.best, **options)
    strategy = make(config.strategy.name, config.strategy.params)
    prefilter = None
    if config.prefilter is not None and data.cut_folds is not None:
        # Units are ranked by the model that the search runs on.
        ranked, least = data.problem if proxy is None else proxy.problem, config.prefilter.least
        n_clusters = config.prepare.n_clusters
        prefilter = Prefilter.of(ranked, data.cut_folds, strategy, least, n_clusters)
    # Importances are an option of the problem, and racing is one of the search.
    evaluated = {"n_jobs", "backend", "pruning", "exact", "device", "address"}
    timeout = config.evaluation.timeout_seconds
    return SearchPlan(
        data.problem,
        strategy,
        data.hints,
        Budget(**config.budget.model_dump(exclude={"rows"})),
        config.seed if seed is None else seed,
        config.evaluation.racing,
        {**config.evaluation.model_dump(include=evaluated), "timeout": timeout},
        proxy,
        confirmation,
        config.folds.rotate,
        prefilter,
        _tuning(config, data.problem),
        row_parts(data.problem, config.budget.rows),
        config.evaluation.asynchronous,
    )


def checked_plan(config: SelectConfig, data: PreparedData) -> SearchPlan:
    """Return the plan of a search that can be run, with a model that works."""
    plan = plan_as_configured(config, data)
    plan.check()
    with closing(Archive(archive_url(config.archive))) as archive:
        probe_as_configured(config, data, plan, archive)
    return plan


def _tuning(config: SelectConfig, problem: Problem) -> Tuning | None:
    """Return the problem with each setting of the model, if there are any to choose from.

    The sample of a large grid has the seed of the configuration, so that all outer folds and
    repetitions of a search choose from the same settings.
    """
    if not config.model.search:
        return None
    settings, n_grid = settings_of(config.model, config.seed)
    build = partial(build_setting, config.model)
    return Tuning.of(problem, settings, n_grid, build, config.evaluation.importance)


def probe_as_configured(
    config: SelectConfig, data: PreparedData, plan: SearchPlan, archive: Archive | None
) -> None:
    """Probe the model, that of the proxy and the metrics on test rows, before a run is opened.

    See :func:`swarm.evaluation.probe.probe`.
    """
    require_device(plan.problems[0], config.evaluation.device)
    for problem in plan.problems:
        probe(problem, archive, config.evaluation.timeout_seconds)
    if data.test is not None:
        check_test_metrics(data.problem, data.train, data.test, config.test.metrics)

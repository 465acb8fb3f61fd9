"""Build data, problems and search plans from a configuration, for every flow."""

import json
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from conf.estimator import build_estimator
from conf.resolve import fold_kind, problem_options, proxy_options, split_options
from conf.schema import SelectConfig
from conf.stores import ArchiveSection
from flows.run.tracking import tracking_as_configured
from swarm.arrays import Float
from swarm.errors import ConfigError, DataError
from swarm.evaluation.probe import probe
from swarm.findings import Finding, unmuted
from swarm.problem.hints import MAX_COLUMNS, TARGET_HINTS, Hints
from swarm.problem.inputs import check_task
from swarm.problem.problem import Problem
from swarm.problem.target import task_of
from swarm.search.budget import Budget
from swarm.search.pose import pose_search
from swarm.search.prefilter import is_wide
from swarm.search.rankings import can_replace_search
from swarm.search.search import Search
from swarm.storage.archive import Archive
from swarm.storage.features_file import load_subsets, subsets_of
from swarm.strategies.catalogue import AUTO, make, name_of
from tasks.preparation import check_test_metrics
from tasks.secrets import expand
from tasks.sources import fetch
from tasks.split import time_findings
from tasks.steps import cluster_columns, fetch_data, pose_problem, spearman_distance, split_rows
from tasks.table import Table
from tasks.tracking import Tracking

_Config = TypeVar("_Config", bound=SelectConfig)
# A problem comes with the findings of its rows.
Posed = tuple[Problem, tuple[Finding, ...]]


def fetch_as_configured(config: SelectConfig, as_task: bool = True) -> Table:
    """Fetch the table of a configuration; not as a task where no flow runs."""
    # The key that is left out concerns the scorer.
    options = config.data.model_dump(exclude={"weights_in_score"})
    function = fetch_data if as_task else fetch
    return function(**options, fold=config.folds.column)


@dataclass(frozen=True, eq=False)
class TrainTest:
    """The training and the test rows of a table; their findings concern the split."""

    train: Table
    test: Table | None = None
    findings: tuple[Finding, ...] = ()


def split(config: SelectConfig, table: Table) -> TrainTest:
    """Hold out the test rows."""
    estimator = build_estimator(config.model)
    check_task(estimator, table.target, task_of(table.target, estimator))
    rows = split_rows.after(table)(table, estimator=estimator, **split_options(config))
    test = table.take(rows.test)
    if config.data.weights_in_score and test.weight is not None and not test.weight.any():
        raise DataError(
            "every test row has the sample weight 0; use another split, or set "
            "data.weights_in_score to false"
        )
    findings = [
        *rows.findings,
        *time_findings(table, config.split.kind, fold_kind(config, estimator)),
    ]
    return TrainTest(table.take(rows.train), test, tuple(findings))


@dataclass(frozen=True, eq=False, kw_only=True)
class PreparedData(TrainTest):
    """A table that is ready to be searched; its findings are without those that are muted."""

    problem: Problem
    hints: Hints


def pose(config: SelectConfig, rows: TrainTest, seed: int | None = None) -> Posed:
    """Build the problem on the training rows; `seed` of its models overrides the configured one."""
    estimator = build_estimator(config.model)
    return pose_problem.after(rows)(
        rows.train,
        estimator,
        **problem_options(config, estimator),
        seed=config.seed if seed is None else seed,
    )


def hints_before_prefilter(
    config: SelectConfig, problem: Problem, needs: Sequence[str]
) -> list[str]:
    """Return the hints of `needs` that are computed before a prefilter, if there is one."""
    if _is_auto(config) and can_replace_search(problem):
        # The report needs hints, but none of the target.
        needs = [name for name in needs if name not in TARGET_HINTS]
        return needs if problem.space.n_columns <= MAX_COLUMNS else []
    if config.prefilter is None or not is_wide(problem.space, config.prefilter):
        return list(needs)
    # The search gets hints of the kept units, and the report of a wide table no distances.
    if problem.space.n_columns > MAX_COLUMNS:
        return []
    return [name for name in needs if name not in TARGET_HINTS]


def spearman_distances(config: SelectConfig, posed: Posed, needs: Sequence[str]) -> Float | None:
    """Measure the Spearman distances (n_units, n_units) of the units, if they are needed."""
    problem, _ = posed
    if not {"distance", "clusters"} & set(hints_before_prefilter(config, problem, needs)):
        return None
    return spearman_distance.after(posed)(problem.features, problem.space)


def cluster(
    config: SelectConfig,
    posed: Posed,
    distance: Float | None,
    needs: Sequence[str],
    warm: Sequence[Sequence[str]] = (),
) -> Hints:
    """Cluster the units, and collect what the first swarm starts from.

    The subsets in `warm` precede those of the configuration.
    """
    problem, _ = posed
    saved = config.warm if isinstance(config.warm, list) else []
    hints = cluster_columns.after(posed if distance is None else distance)(
        problem,
        hints_before_prefilter(config, problem, needs),
        n_clusters=config.prepare.n_clusters,
        warm=[*warm, *saved],
        distance=distance,
    )
    if saved and hints.warm is None:
        raise ConfigError(
            f"warm: none of {len(saved)} subsets has a column of the table; give subsets of this"
            " table, or set warm to null"
        )
    return hints


def _is_auto(config: SelectConfig) -> bool:
    """Whether rankings may replace the strategy, which has no parameters and no warm start."""
    return config.strategy.name == AUTO and not config.strategy.params and config.warm is None


def strategy_name(config: SelectConfig, search: Search) -> str:
    """Return the name of the strategy that runs."""
    name = config.strategy.name
    return name_of(search.strategy) if name == AUTO else name


def strategy_needs(config: SelectConfig) -> tuple[str, ...]:
    """Return the names of the hints that the strategy needs."""
    return tuple(make(config.strategy.name, config.strategy.params).needs)


def report_needs(config: SelectConfig) -> tuple[str, ...]:
    """Return the names of the hints of a run, whose report needs distances and clusters."""
    return "distance", "clusters", *strategy_needs(config)


def prepare(
    config: SelectConfig,
    rows: TrainTest,
    needs: Sequence[str],
    *,
    seed: int | None = None,
    warm: Sequence[Sequence[str]] = (),
) -> PreparedData:
    """Build the problem on the training rows, and prepare the hints.

    Parameters
    ----------
    config
        The configuration of the search.
    rows
        The training and test rows.
    needs
        Names of the hints.
    seed
        Seed of the models; None takes that of the configuration.
    warm
        Subsets that precede those of the configuration; see :func:`cluster`.
    """
    posed = pose(config, rows, seed)
    hints = cluster(config, posed, spearman_distances(config, posed, needs), needs, warm)
    problem, problem_findings = posed
    findings = unmuted([*rows.findings, *problem_findings], config.mute)
    return PreparedData(rows.train, rows.test, findings, problem=problem, hints=hints)


def prepare_as_configured(
    config: SelectConfig,
    table: Table,
    *,
    needs: Sequence[str] | None = None,
    seed: int | None = None,
    hold_out: bool = True,
) -> PreparedData:
    """Split the rows, and prepare the search of the training rows.

    Parameters
    ----------
    config
        The configuration of the search.
    table
        All rows.
    needs
        Names of the hints; None takes those of the strategy.
    seed
        Seed of the models; None takes that of the configuration.
    hold_out
        Whether to hold out test rows; otherwise the search uses all rows.
    """
    rows = split(config, table) if hold_out else TrainTest(table)
    return prepare(config, rows, strategy_needs(config) if needs is None else needs, seed=seed)


def with_warm_subsets(config: _Config, tracking: Tracking | None = None) -> _Config:
    """Replace the file or the run of a warm start by its subsets.

    The run then contains them, so that it can be resumed without the file.
    """
    warm = config.warm
    if not isinstance(warm, str):
        return config
    if warm.endswith(".json") or "/" in warm or Path(warm).exists():
        subsets = load_subsets(expand(warm, "address of warm"))
    else:
        store = tracking or tracking_as_configured(config.tracking)
        # `warm` may be the first characters of an id.
        path = store.download(store.run(warm).info.run_id, "features.json")
        subsets = subsets_of(json.loads(path.read_text(encoding="utf-8")))
    return config.model_copy(update={"warm": subsets})


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


def search_as_configured(
    config: SelectConfig, data: PreparedData, seed: int | None = None
) -> Search:
    """Return the search of a configuration; `seed` overrides its seed."""
    confirm = None if config.confirm is None else config.confirm.model_dump()
    prefilter = None
    if config.prefilter is not None:
        prefilter = {"when": config.prefilter, "n_clusters": config.prepare.n_clusters}
    evaluation = config.evaluation.model_dump(include={"n_jobs", "backend", "address"})
    evaluation["timeout"] = config.evaluation.timeout_seconds
    return pose_search(
        data.problem,
        make(config.strategy.name, config.strategy.params),
        hints=data.hints,
        budget=Budget(**config.budget.model_dump()),
        seed=config.seed if seed is None else seed,
        evaluation=evaluation,
        proxy=proxy_options(config),
        confirm=confirm,
        prefilter=prefilter,
        auto=_is_auto(config),
    )


def checked_search(config: SelectConfig, data: PreparedData) -> Search:
    """Return a search that can be run, with a model that works."""
    search = search_as_configured(config, data)
    search.check()
    with closing(Archive(archive_url(config.archive))) as archive:
        probe_as_configured(config, data, search, archive)
    return search


def probe_as_configured(
    config: SelectConfig,
    data: PreparedData,
    search: Search,
    archive: Archive | None,
    timeout: float | None = None,
) -> None:
    """Probe the models of search and proxy, and the metrics on test rows, before a run is opened.

    Raises Unnamed if evaluations cannot be stored, as their run could not be resumed.
    """
    for problem in search.problems:
        problem.fingerprint()
        probe(problem, archive, timeout or config.evaluation.timeout_seconds, search.smallest_size)
    if data.test is not None:
        check_test_metrics(data.problem, data.train, data.test, config.test.metrics)

"""A study: searches of (rows, strategy, seed) on one task runner, logged in one MLflow run.

`swarm compare`, `swarm nested` and `swarm stability` are studies. They differ in their cells, and
in what they conclude from the results. The result of a cell depends neither on the task runner nor
on the order of the cells.
"""

import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

from prefect import Flow
from threadpoolctl import threadpool_limits

from conf.check import check
from conf.estimator import build_estimator
from conf.load import AnyConfig, as_yaml
from conf.resolve import split_options
from conf.schema import RunnerSection, SelectConfig
from flows.display.search_display import named_score
from flows.display.terminal import CellDisplay, print_findings, say, show_stage
from flows.run.configured import (
    PreparedData,
    archive_url,
    checked_search,
    fetch_as_configured,
    prepare_as_configured,
    refuse_warm_start,
    search_as_configured,
)
from flows.run.tracking import describe_run, logged_parameters, tracking_as_configured
from swarm.problem.scoring import Scoring
from swarm.protocols import Estimator
from tasks.parts import Part
from tasks.step import Step
from tasks.steps import split_rows
from tasks.study import Cell, CellResult, CellRuns
from tasks.table import Table
from tasks.task_runner import (
    as_they_finish,
    connection_check,
    one_server,
    reachable_cluster,
    task_runner,
)
from tasks.tracking.run_log import RunLog, failure

T = TypeVar("T")
R = TypeVar("R", bound=CellResult)

# All workers evaluate the subsets of one search.
_ONE_AT_A_TIME = RunnerSection(workers=1)


@dataclass(frozen=True, eq=False)
class CellInputs:
    """What a cell searches.

    Attributes
    ----------
    config
        The configuration of its search.
    data
        The prepared rows.
    rows
        Names of the rows, which are tags and parameters of its run.
    options
        Further arguments of the step.
    """

    config: SelectConfig
    data: PreparedData
    rows: Mapping[str, str]
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Study(Generic[R]):
    """Cells, and how they are run.

    Attributes
    ----------
    cells
        The searches.
    inputs
        Returns what a cell searches, just before it is submitted.
    step
        Searches a cell.
    archive
        URL of the archive, with secrets.
    runner
        The task runner.
    stop
        Searches end when this file exists.
    keep_going
        Whether the other cells are finished if one fails; otherwise the error ends the study.
    """

    cells: Sequence[Cell]
    inputs: Callable[[Cell], CellInputs]
    step: Step[..., R]
    archive: str
    runner: RunnerSection
    stop: Path
    keep_going: bool = False

    def run(
        self, runs: CellRuns, finished: Mapping[Cell, R], verbosity: int
    ) -> tuple[dict[Cell, R], dict[Cell, Exception]]:
        """Run the cells that are not finished; this process logs each as it ends.

        Returns
        -------
        results, failures
            The results of all cells, and the errors of those that failed.
        """
        unfinished = [cell for cell in self.cells if cell not in finished]
        results = dict(finished)
        failures: dict[Cell, Exception] = {}
        scorings: dict[Cell, Scoring] = {}

        def submit(cell: Cell) -> Any:
            inputs = self.inputs(cell)
            data = inputs.data
            strategy = inputs.config.strategy
            scorings[cell] = data.problem.scoring
            tags = describe_run(data.problem, data.train.source, strategy.name, cell.seed)
            tags |= {"kind": "search", "label": cell.strategy, **inputs.rows}
            params = {**inputs.rows, "strategy.name": strategy.name, "seed": cell.seed}
            params |= {f"strategy.params.{name}": value for name, value in strategy.params.items()}
            runs.begin(cell, tags, params)
            search = search_as_configured(inputs.config, data, cell.seed)
            step = self.step.with_options(task_run_name=cell.name)
            return step.submit(cell, search, self.archive, self.stop, data.test, **inputs.options)

        with CellDisplay(len(self.cells), len(finished), verbosity) as display, one_server():
            try:
                check_connection = connection_check(self.runner.kind)
                n_workers = self.runner.workers
                for cell, future in as_they_finish(unfinished, submit, n_workers, check_connection):
                    try:
                        results[cell] = future.result(raise_on_failure=True)
                    except Exception as error:
                        runs.fail(cell, failure(error))
                        if not self.keep_going:
                            raise
                        failures[cell] = error
                        display.fail(cell, failure(error))
                    else:
                        result = results[cell]
                        runs.end(result, scorings[cell])
                        display.finish(result, named_score(result.cost, scorings[cell]))
            except BaseException:
                # Searches in threads and processes check for this file between two fits.
                self.stop.touch()
                raise
        return results, failures


def run_study(
    flow: Flow[..., T],
    config: AnyConfig,
    *arguments: object,
    runner: RunnerSection = _ONE_AT_A_TIME,
) -> T:
    """Run the flow of a study on its task runner; the flow gets the path of the stop file last.

    Raises InputError for bad input, before any search is started.
    """
    check(config)
    with (
        warnings.catch_warnings(),
        threadpool_limits(limits=1),
        reachable_cluster(runner.kind, runner.address),
        tempfile.TemporaryDirectory(prefix="swarm-study-") as folder,
    ):
        # Warning filters are global to a process, so threads cannot set their own.
        warnings.simplefilter("ignore")
        with_runner = flow.with_options(
            task_runner=task_runner(runner.kind, runner.workers, runner.address)
        )
        # The runner waits for its workers before the folder with the stop file is removed.
        return with_runner(config, *arguments, Path(folder) / "stop")


def settle(log: RunLog, verbosity: int) -> None:
    """Wait until the tracking store has everything."""
    with show_stage("sending the rest to MLflow", verbosity):
        log.settle()


# ---------------------------------------------------------------- one search on several parts


def read_rows(
    kind: str, config: SelectConfig, *, hold_out: bool, verbosity: int
) -> tuple[Table, Estimator]:
    """Return the table, without the test rows of its split if `hold_out`, and the estimator."""
    refuse_warm_start(config, kind)
    estimator = build_estimator(config.model)
    with show_stage("reading the data", verbosity):
        table = fetch_as_configured(config)
    if hold_out:
        table = table.take(split_rows(table, estimator=estimator, **split_options(config)).train)
    return table, estimator


@contextmanager
def repeated_search(
    kind: str,
    config: SelectConfig,
    table: Table,
    parts: Iterable[tuple[int, Part]],
    *,
    settings: Mapping[str, object],
    tags: Mapping[str, str],
    stop: Path,
    verbosity: int,
    step: Step[..., R],
    options: Callable[[Table], Mapping[str, Any]] = lambda _: {},
) -> Iterator[tuple[RunLog, PreparedData, list[R]]]:
    """Search each part of a table, and yield the open run, all rows and the results.

    Parameters
    ----------
    kind
        "nested" or "stability".
    config
        The configuration of the search.
    table
        All rows.
    parts
        The parts of the rows, each with what is added to the seed of its search.
    settings, tags
        Further parameters and tags of the run.
    stop
        Searches end when this file exists.
    verbosity
        0 for silence, 1 for progress, 2 for a line per search.
    step
        Searches a part.
    options
        Returns further arguments of the step from training rows.
    """
    name = config.strategy.name
    cells = {Cell(part.name, name, config.seed + shift): part for shift, part in parts}

    def prepare(rows: Table, needs: Sequence[str] | None = None) -> PreparedData:
        return prepare_as_configured(config, rows, needs=needs, hold_out=False)

    prepared: dict[str, PreparedData] = {}

    def inputs(cell: Cell) -> CellInputs:
        part = cells[cell]
        if part.name not in prepared:
            prepared.clear()
            prepared[part.name] = prepare(table.take(part.train))
        data = prepared[part.name]
        if part.test is not None:
            data = replace(data, test=table.take(part.test))
        rows = {"dataset": table.name, "part": part.name}
        return CellInputs(config, data, rows, options(data.train))

    with show_stage("preparing the search", verbosity):
        whole = prepare(table, needs=())
        # Too few rows are an error before any search.
        for part in {part.name: part for part in cells.values()}.values():
            prepare(table.take(part.train), needs=())
        checked_search(config, inputs(next(iter(cells))).data)
        # A run with a range of seeds cannot be resumed as a search.
        seeds = f"{config.seed} to {max(cell.seed for cell in cells)}"
        log = RunLog.start(
            tracking_as_configured(config.tracking),
            f"{config.name}-{name}-{kind}",
            logged_parameters(config) | {f"{kind}.{key}": value for key, value in settings.items()},
            describe_run(whole.problem, table.source, name, config.seed)
            | {"kind": kind, "dataset": table.name, "seed": seeds, **tags},
            as_yaml(config),
            table=table,
            description=config.description,
        )
    study = Study(
        list(cells),
        inputs,
        step,
        archive=archive_url(config.archive),
        runner=_ONE_AT_A_TIME,
        stop=stop,
    )
    with log:
        print_findings(whole.findings, verbosity)
        for tag, text in tags.items():
            say(f"{tag.replace('_', ' ')}: {text}", verbosity)
        say(f"searching: run {log.run_id} in {log.tracking.label}", verbosity)
        log.findings(whole.findings, config.mute)
        results, _ = study.run(CellRuns(log), {}, verbosity)
        with show_stage("writing the report", verbosity):
            yield log, whole, [results[cell] for cell in cells]
        settle(log, verbosity)

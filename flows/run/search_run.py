"""The open run of a search: its description, its rows, its archive and its log."""

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import cached_property

from conf.load import as_yaml, flatten
from conf.schema import SelectConfig
from flows.run.configured import (
    PreparedData,
    archive_url,
    probe_as_configured,
    search_as_configured,
    strategy_name,
)
from flows.run.tracking import (
    describe_run,
    logged_parameters,
    refuse_another_search,
    stored_configuration,
    tracking_as_configured,
)
from swarm.errors import ConfigError
from swarm.findings import Finding
from swarm.protocols import Estimator
from swarm.search.search import Search
from swarm.storage.archive import Archive, ProblemEvaluations
from tasks.models.files import TRUSTED_PACKAGES, is_storable
from tasks.refresh.lock import run_lock
from tasks.study import Cell
from tasks.table import Table
from tasks.tracking import Tracking
from tasks.tracking.run_log import RunLog


@dataclass(frozen=True)
class SearchRun:
    """An open MLflow run and its prepared search.

    Attributes
    ----------
    config
        The configuration.
    search
        The search.
    train, test
        The rows to search, and to test the answer on.
    archive
        The cache of evaluations.
    log
        The MLflow run.
    registered_name
        Name of the registered model; None if none is registered.
    findings
        Findings of the rows.
    """

    config: SelectConfig
    search: Search
    train: Table
    test: Table
    archive: Archive
    log: RunLog
    registered_name: str | None
    findings: tuple[Finding, ...]

    @property
    def resume_command(self) -> str:
        """The command that resumes the run; empty for a refresh, which starts anew."""
        if self.log.tags.get("kind") != "select":
            return ""
        return f"swarm resume {self.log.run_id}{self.log.tracking.option}"

    @property
    def strategy(self) -> str:
        """Name of the strategy that runs."""
        return strategy_name(self.config, self.search)

    @cached_property
    def evaluations(self) -> ProblemEvaluations:
        """The evaluations of the problem in the archive."""
        return self.archive.open_problem(self.search.problem)

    @property
    def ensemble_limits(self) -> tuple[int, int | float | None]:
        """How many subsets the ensemble has, and how many columns they may use together."""
        return self.config.ensemble.n_models, self.config.ensemble.union_at_most


@contextmanager
def open_run(
    config: SelectConfig,
    data: PreparedData,
    run_id: str | None = None,
    *,
    tags: Mapping[str, str] | None = None,
    registered_name: str | None = None,
    tracking: Tracking | None = None,
) -> Iterator[SearchRun]:
    """Check what was prepared, and open its run, on which no other process works meanwhile.

    Parameters
    ----------
    config
        The configuration.
    data
        The prepared data, with test rows.
    run_id
        Id of a run to resume.
    tags
        Further tags of the run.
    registered_name
        Name of the registered model; None takes it from the configuration.
    tracking
        The tracking store, if it is already open.
    """
    assert data.test is not None
    search = search_as_configured(config, data)
    search.check()
    name = registered_name or (config.name if config.tracking.register else None)
    if name is not None:
        _refuse_unstorable(config, data.problem.estimator, registered_name is not None)
    url = archive_url(config.archive)
    tracking = tracking or tracking_as_configured(config.tracking)
    with closing(Archive(url)) as archive, ExitStack() as locked:
        probe_as_configured(config, data, search, archive)
        if run_id is not None:
            locked.enter_context(run_lock(url, run_id))
            _refuse_smaller_budget(config, tracking, run_id)
        strategy = strategy_name(config, search)
        with _open_log(
            config, run_id, tracking, data, strategy=strategy, extra_tags=tags or {}
        ) as log:
            if run_id is None:
                locked.enter_context(run_lock(url, log.run_id))
            run = SearchRun(
                config=config,
                search=search,
                train=data.train,
                test=data.test,
                archive=archive,
                log=log,
                registered_name=name,
                findings=data.findings,
            )
            try:
                yield run
            except KeyboardInterrupt as interrupt:
                if run.resume_command:
                    interrupt.add_note(f"`{run.resume_command}` continues the run")
                raise


def _refuse_unstorable(config: SelectConfig, estimator: Estimator, is_refresh: bool) -> None:
    """Refuse a model that cannot be stored where it has to be registered."""
    if is_storable(estimator):
        return
    remedy = "set tracking.register to false to run without a stored model"
    if is_refresh:
        remedy = (
            "a refresh has to store its model, so run `swarm select` with tracking.register false"
        )
    raise ConfigError(
        f"model.estimator {config.model.estimator!r} cannot be stored: only estimators of"
        f" {', '.join(TRUSTED_PACKAGES[:4])} and {TRUSTED_PACKAGES[4]} can, as nothing is"
        f" pickled; use one of them, or {remedy}"
    )


def _refuse_smaller_budget(config: SelectConfig, tracking: Tracking, run_id: str) -> None:
    """Refuse to overwrite a run by the result of a smaller search than it has finished.

    A limit in seconds depends on the machine, so it is not compared.
    """
    names = ("spent/evaluations", "spent/distinct_evaluations", "spent/fits")
    stored = tracking.values(run_id, names)
    evaluations, distinct, fits = (stored.get(name, {}) for name in names)
    n_epochs = max(evaluations, default=0)
    minima = {
        "epochs": n_epochs,
        "evaluations": evaluations.get(n_epochs, 0),
        "distinct": distinct.get(n_epochs, 0),
        # The last epoch began below this limit, and may have exceeded it.
        "fits": fits.get(n_epochs - 1, 0) + 1,
    }
    for name, minimum in minima.items():
        limit = getattr(config.budget, name)
        if limit is not None and limit < minimum:
            raise ConfigError(
                f"budget.{name} is {limit}, but the run {run_id} has finished {n_epochs} epochs; "
                f"set it to at least {minimum:.0f}, or start a new run with `swarm select`"
            )


def _open_log(
    config: SelectConfig,
    run_id: str | None,
    tracking: Tracking,
    data: PreparedData,
    *,
    strategy: str,
    extra_tags: Mapping[str, str],
) -> RunLog:
    train = data.train
    tags = describe_run(data.problem, train.source, strategy, config.seed)
    tags |= {"kind": "select", "dataset": train.name, "config": config.name, **extra_tags}
    text = as_yaml(config)
    tags["config.digest"] = hashlib.sha256(text.encode()).hexdigest()[:16]
    if run_id is not None:
        old = stored_configuration(tracking, run_id)
        new = flatten(config)
        refuse_another_search(tracking.run(run_id), old, new, tags)
        log = RunLog.resume(tracking, run_id, tags, text, test=data.test)
        # MLflow does not change the parameters of a run, so a new budget is in its tags.
        budget = {
            key: str(value)
            for key, value in new.items()
            if key.startswith("budget.") and value != old.get(key)
        }
        log.tag({**budget, "config.digest": tags["config.digest"]})
        return log
    return RunLog.start(
        tracking,
        Cell(train.name, strategy, config.seed).name,
        logged_parameters(config),
        tags,
        text,
        table=train,
        test=data.test,
        description=config.description,
    )

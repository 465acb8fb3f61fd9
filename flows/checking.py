"""Check a configuration and its data without a run: all problems and all findings at once.

Neither Prefect nor MLflow is imported. A step that fails is reported and left out, so that the
later ones can report as well.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from joblib import cpu_count

from conf.check import problems_of
from conf.estimator import build_estimator
from conf.load import AnyConfig, load_leniently
from conf.resolve import fold_kind, problem_options, split_options
from conf.schema import CompareConfig, SelectConfig
from conf.sections import StrategySection
from swarm.errors import ConfigError, EvaluationError, InputError
from swarm.evaluation.crossval import CrossValidation
from swarm.evaluation.probe import probe
from swarm.findings import Finding, make_finding, unmuted
from swarm.findings.columns import (
    is_sorted,
    is_text,
    text_kind,
    text_values,
)
from swarm.findings.groups import group_columns
from swarm.findings.registry import check_mute
from swarm.findings.table import column_findings, some, target_findings
from swarm.problem.dtypes import with_model_dtypes
from swarm.problem.hints import Hints
from swarm.problem.inputs import check_columns, check_task
from swarm.problem.problem import Problem
from swarm.problem.scoring import scorer_names
from swarm.problem.target import task_of
from swarm.search.budget import Budget
from swarm.search.confirmation import ConfirmationPlan
from swarm.search.fresh_folds import most_prefix_fits
from swarm.search.search import Search
from swarm.strategies.catalogue import make
from tasks.preparation import Posed, check_test_metrics, compute_hints, pose
from tasks.sources import read_raw
from tasks.sources._assemble import assemble, check_features, date_columns, parsed_dates
from tasks.sources._raw import Raw, name_list, unknown_column
from tasks.split import horizon_findings, split, time_findings
from tasks.table import Table

_ROLES = ("group", "time", "weight", "part")
# Larger tables are probed in a process of their own, which can be ended.
_PROBED_CELLS, _PROBE_SECONDS = 1_000_000, 20.0
# A search that is expected to take longer is offered fewer rows, so many that it takes the second.
_LONG, _SHORTER = timedelta(hours=1), timedelta(minutes=15)
_LEAST_PROXY_ROWS = 2000
# The hints of more units take longer than a check may.
_MOST_UNITS = 500
# Sentences about single columns, of those that begin alike.
_MOST_ALIKE = 5


def all_findings(
    path: str,
    overrides: Sequence[str] = (),
    mute: Sequence[str] = (),  # codes that are left out, besides those of the configuration
    # called with a line on the time of the search, unless an error prevents it
    on_time: Callable[[str], None] | None = None,
) -> tuple[AnyConfig | None, tuple[Finding, ...]]:
    """Check a configuration file and its data; return it, and the findings, errors first.

    The configuration is None if the file is too incomplete to be checked further.
    """
    check_mute(mute)
    config, problems = load_leniently(path, overrides)
    findings = [_error("SWM001", text) for text in problems]
    if config is None:
        return None, tuple(findings)
    findings += findings_of(config, on_time)
    shown = unmuted(findings, {*config.mute, *mute} - {"SWM001", "SWM002", "SWM117"})
    order = ("error", "warning", "note")
    return config, tuple(sorted(shown, key=lambda each: order.index(each.severity)))


def findings_of(
    config: AnyConfig,
    on_time: Callable[[str], None] | None = None,
    raw: Raw | None = None,  # the table of the configuration, if it was read already
) -> list[Finding]:
    """Check a configuration that obeys its schema, and the data that it names."""
    findings = [_error("SWM001", text) for text in problems_of(config)]
    if not isinstance(config, CompareConfig):
        return [*findings, *_of_data(_usable(config), on_time=on_time, raw=raw)]
    first = next(iter(config.strategies))
    for name in config.datasets:
        select = config.as_select(name, first)
        of_set = _of_data(select, split_rows=config.own_split(name) is not None)
        findings += [replace(each, text=f"data set {name!r}: {each.text}") for each in of_set]
    return findings


def _usable(config: SelectConfig) -> SelectConfig:
    """Replace a scorer or a strategy that cannot be used, and is reported, by the default."""
    better: dict[str, Any] = {}
    if config.scoring is not None and config.scoring not in scorer_names():
        better["scoring"] = None
    try:
        make(config.strategy.name, config.strategy.params)
    except InputError:
        better["strategy"] = StrategySection()
    return config.model_copy(update=better)


def _error(code: str, text: str) -> Finding:
    """Return an error; its text already ends with what to do."""
    return make_finding(code, text, remedy="")


def _of_data(
    config: SelectConfig,
    split_rows: bool = True,
    on_time: Callable[[str], None] | None = None,
    raw: Raw | None = None,
) -> list[Finding]:
    """Prepare the data as a run does, but without the columns that fail, which are reported."""
    findings: list[Finding] = []
    data = config.data
    try:
        estimator = build_estimator(config.model)
    except ConfigError:  # reported with the other keys
        estimator = None
    try:
        arguments = {key: getattr(data, key) for key in ("name", "id", "path", "url", "query")}
        raw = raw or read_raw(data.source, csv=data.csv.model_dump(), **arguments)
        table = _table(config, raw, estimator, findings)
    except InputError as error:
        return [*findings, _error("SWM002", str(error))]
    findings += _of_dropped(config, raw)
    train, test, posed = table, None, None
    roles = {"group": table.groups, "time": table.time, "weight": table.weight, "part": table.part}
    has_roles = all(roles[role] is not None or getattr(data, role) is None for role in roles)
    try:
        if estimator is not None:
            check_task(estimator, table.target, task_of(table.target, estimator))
        if split_rows and has_roles:
            options = split_options(config)
            rows = split(table, estimator=estimator, **options)
            findings += [*rows.findings, *horizon_findings(table, rows, options["windows"].horizon)]
            folds = "" if estimator is None else fold_kind(config, estimator)
            findings += time_findings(table, config.split.kind, folds)
            train, test = table.take(rows.train), table.take(rows.test)
        if estimator is not None:
            checks = partial(check_columns, estimator=estimator)
            refused = _refused_columns(train.features, checks, findings)
            train = replace(train, features=train.features.drop(columns=refused))
        if estimator is not None and has_roles:
            posed, hints = _pose(config, train, estimator)
            small = posed.problem.features.size <= _PROBED_CELLS
            probe(posed.problem, None, None if small else _PROBE_SECONDS)
            if test is not None:
                check_test_metrics(posed.problem, train, test, config.test.metrics)
            if on_time is not None and all(each.severity != "error" for each in findings):
                on_time(_time_of_search(config, posed, hints))
    except (InputError, EvaluationError) as error:
        findings.append(_error("SWM002", str(error)))
    return [*findings, *(_of_rows(config, train) if posed is None else posed.findings)]


def assemble_table(config: SelectConfig, raw: Raw) -> Table:
    """Assign the roles, without the columns that cannot have theirs."""
    return _table(config, raw, build_estimator(config.model), [])


def _table(config: SelectConfig, raw: Raw, estimator: Any, findings: list[Finding]) -> Table:
    """Assign the roles, without the columns that cannot have theirs; these are reported."""
    data = config.data
    columns = [str(name) for name in raw.frame.columns]
    frame = raw.frame.set_axis(columns, axis=1)

    def exists(role: str, name: str) -> bool:
        if name not in columns:
            findings.append(_error("SWM002", unknown_column(role, name, raw.source, columns)))
        return name in columns

    roles = {role: getattr(data, role) for role in _ROLES} | {"fold": config.folds.column}
    roles["horizon"] = data.horizon if isinstance(data.horizon, str) else None
    roles = {r: n if n is not None and exists(r, n) else None for r, n in roles.items()}
    drop = [name for name in data.drop if exists("drop", name)]
    categorical = [name for name in data.categorical if exists("categorical", name)]
    dates = {name: form for name, form in data.dates.items() if exists("date", name)}
    for name, form in list(dates.items()):
        try:
            parsed_dates(frame[name], form)
        except InputError as error:
            findings.append(_error("SWM002", str(error)))
            del dates[name]
            drop.append(name)
    apart = {*drop, *(n for n in roles.values() if n), *name_list(data.target), *raw.target}
    others = [name for name in {*apart, *raw.aside, *dates} if name in columns]
    features = with_model_dtypes(frame.drop(columns=others))
    categories = {*categorical, *raw.categorical}
    if estimator is None or config.model.scaling != "none" or not hasattr(estimator, "steps"):
        texts = {
            str(name): _looks(column)
            for name, column in features.items()
            if is_text(column) and str(name) not in categories
        }
        if texts:
            few = [f"{name!r} ({look})" for name, look in list(texts.items())[:10]]
            more = f" and {len(texts) - 10} more" if len(texts) > 10 else ""
            verb = "holds" if len(texts) == 1 else "hold"
            numbers = any(look.startswith("numbers") for look in texts.values())
            key = ", of which data.csv.decimal may make numbers" if numbers else ""
            findings.append(
                make_finding("SWM117", f"{', '.join(few)}{more} {verb} text{key}", list(texts))
            )
            drop += texts
    left = features.drop(columns=[name for name in features.columns if name in drop])
    drop += _refused_columns(left, check_features, findings)
    if roles["time"] is None:
        roles["horizon"] = None
    return assemble(
        raw,
        target=data.target,
        drop=drop,
        categorical=categorical,
        roles=roles,
        dates=dates,
        on_missing_target=data.on_missing_target,
    )


def _looks(column: pd.Series) -> str:
    """Describe the values of a text column."""
    kind, example = text_kind(column)
    distinct = f"{len(set(text_values(column))):,} different values"
    looks = {"date": f"dates, {example}", "number": f"numbers as text, {example!r}"}
    return {**looks, "prose": "free text", "category": distinct}[kind]


def _refused_columns(
    features: pd.DataFrame, checks: Callable[[pd.DataFrame], None], findings: list[Finding]
) -> list[str]:
    """Return the columns that a check refuses, and report the first few of them."""
    refused: list[str] = []
    try:
        checks(features)
    except InputError:
        for name in features.columns:
            try:
                checks(features[[name]])
            except InputError as error:
                refused.append(str(name))
                if len(refused) <= _MOST_ALIKE:
                    findings.append(_error("SWM002", str(error)))
    if len(refused) > _MOST_ALIKE:
        rest = refused[_MOST_ALIKE:]
        findings.append(_error("SWM002", f"{some(rest)} cannot be features either"))
    return refused


def _pose(config: SelectConfig, train: Table, estimator: Any) -> tuple[Posed, Hints]:
    """Build the problem, and the first state of the strategy unless it takes long."""
    strategy = make(config.strategy.name, config.strategy.params)
    posed = pose(train, estimator, **problem_options(config, estimator), seed=config.seed)
    quick = _has_hints(train)
    needs = strategy.needs if quick else ()
    hints = compute_hints(posed.problem, needs, n_clusters=config.prepare.n_clusters)
    if quick:
        generator = np.random.default_rng([config.seed, 0])
        strategy.start(posed.problem.space, hints, generator)
    return posed, hints


def _has_hints(data: Table | Problem) -> bool:
    """Whether a table is narrow enough to compute its hints in a check."""
    return data.features.shape[1] <= _MOST_UNITS


def _time_of_search(config: SelectConfig, posed: Posed, hints: Hints) -> str:
    """Time one fit on half of the units, and multiply it by the fits of the search."""
    problem, workers = posed.problem, config.evaluation.n_jobs
    space, n_workers = problem.space, cpu_count() if workers == -1 else workers
    mask = space.fixed | (np.cumsum(~space.forbidden) <= max(1, space.n_units // 2))
    mask &= ~space.forbidden
    small = problem.features.size <= _PROBED_CELLS
    timeout = None if small else _PROBE_SECONDS
    with CrossValidation(problem, timeout=timeout) as evaluator:
        if not evaluator.fits_models:
            return "search: scores are computed without fitting models"
        failed = np.isinf(evaluator.fold_costs(mask[None, :], np.zeros(1, dtype=int)))
        seconds = evaluator.evaluations.lookup(mask[None, :])[0].seconds
    more = ""
    if failed.any():
        more, seconds = "more than ", _PROBE_SECONDS
    fits = _most_fits(config, hints, evaluator)
    measured = f"one fit of half of the columns takes {more}{seconds:.2g} s"
    if fits is None:
        return f"search: {measured}, and budget.seconds ends it"
    ahead = timedelta(seconds=math.ceil(fits * seconds / n_workers))
    several = "1 worker" if n_workers == 1 else f"{n_workers} workers"
    text = f"search: at most {fits:,} fits; {measured}: {more}{ahead} on {several}"
    if ahead <= _LONG or config.proxy is not None:
        return text
    share = max(_SHORTER / ahead, _LEAST_PROXY_ROWS / len(problem.features))
    if share >= 0.5:
        return text
    return f"{text}; `proxy: {{rows: {share:.1g}}}` searches on fewer rows"


def _most_fits(config: SelectConfig, hints: Hints, evaluator: CrossValidation) -> int | None:
    """Return the fits of the search and its confirmation without pruning; None if unlimited."""
    problem, budget = evaluator.problem, config.budget
    strategy, n_folds = make(config.strategy.name, config.strategy.params), problem.n_folds
    _, most = strategy.evaluations_in(problem.space)
    limits = [each for each in (most, budget.evaluations, budget.distinct) if each is not None]
    if budget.epochs is not None and not strategy.ends_by_itself:
        search = Search(problem, strategy, hints=hints, budget=Budget(epochs=1), seed=config.seed)
        if not _has_hints(problem):
            # The first units of a wide table are as many masks.
            search = search.on_units(search.first_units(max(_MOST_UNITS, problem.space.min_size)))
        limits.append(budget.epochs * len(search.driver(evaluator).first_masks()))
    fits = [each * n_folds for each in limits] + ([budget.fits] if budget.fits else [])
    if not fits:
        return None
    confirm = config.confirm
    if confirm is None:
        return min(fits)
    plan = ConfirmationPlan(problem, n_best=confirm.best, rankings=confirm.rankings)
    n_fresh, n_ranked = confirm.repeats * n_folds, confirm.best // 2 if plan.ranks else 0
    ranked = n_ranked * n_folds + most_prefix_fits(confirm.best, n_fresh) if n_ranked else 0
    return min(fits) + ranked + (confirm.best - n_ranked + 2) * n_fresh


def _of_rows(config: SelectConfig, train: Table) -> Iterator[Finding]:
    """Yield the findings of rows without a problem."""
    try:
        task = task_of(train.target)
    except InputError:
        return
    target = np.asarray(train.target)
    grouped = train.groups is not None
    yield from column_findings(train.features, target, task, grouped=grouped, derived=train.derived)
    yield from target_findings(target, task, config.scoring or "accuracy", config.pos_label)


def _of_dropped(config: SelectConfig, raw: Raw) -> Iterator[Finding]:
    """Yield the findings of columns that are no features: possible groups, and order of time."""
    data, frame = config.data, raw.frame
    if data.group is None:
        apart = {*name_list(data.target), *raw.target}
        features = frame.drop(columns=[name for name in frame.columns if str(name) in apart])
        for group in group_columns(features, skip=set(map(str, frame.columns)) - set(data.drop)):
            if group.is_likely:
                yield make_finding("SWM106", f"{group}; the column is dropped", [group.name])
    if data.time is not None or config.split.kind in ("time", "column", "group"):
        return
    for name, moments in date_columns(frame, data.dates):
        if is_sorted(moments):
            text = f"the rows are in order of {name!r}, but the split is {config.split.kind!r}"
            yield make_finding("SWM107", text, [name])

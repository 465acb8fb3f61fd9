"""Check a configuration and its data without a run: all problems and all findings at once.

Neither Prefect nor MLflow is imported. A step that fails is reported and left out, so that the
later ones can report as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from conf.check import problems_of
from conf.estimator import build_estimator
from conf.load import AnyConfig, CompareConfig, load_leniently
from conf.resolve import fold_kind, problem_options, split_options
from conf.schema import SelectConfig
from conf.sections import StrategySection
from swarm.errors import ConfigError, InputError
from swarm.evaluation.probe import probe
from swarm.fastpaths import require_device
from swarm.findings import Finding, found, unmuted
from swarm.findings.columns import (
    date_format,
    group_columns,
    is_free_text,
    is_sorted,
    is_text,
    signed_number,
    text_values,
)
from swarm.findings.registry import check_mute
from swarm.findings.table import column_findings, some, target_findings
from swarm.problem.inputs import check_columns, check_task
from swarm.problem.scoring import scorer_names
from swarm.problem.target import task_of
from swarm.strategies.catalogue import make
from tasks.preparation import Prepared, check_test_metrics, prepare
from tasks.sources import read_raw
from tasks.sources._assemble import assemble, check_features, date_columns, parsed_dates
from tasks.sources._raw import Raw, name_list, unknown_column
from tasks.split import horizon_findings, split, time_findings
from tasks.table import Table

_ROLES = ("group", "time", "weight", "part")
# Larger tables are probed in a process of their own, which can be ended.
_PROBED_CELLS, _PROBE_SECONDS = 1_000_000, 20.0
# The hints of more units take longer than a check may.
_MOST_UNITS = 500
# Sentences about single columns, of those that begin alike.
_MOST_ALIKE = 5


def all_findings(
    path: str, overrides: Sequence[str] = (), mute: Sequence[str] = ()
) -> tuple[AnyConfig | None, tuple[Finding, ...]]:
    """Check a configuration file and the data that it names.

    Parameters
    ----------
    path, overrides
        See :func:`conf.load.load`.
    mute : sequence of str
        Codes that are left out, besides those of the configuration.

    Returns
    -------
    config : SelectConfig, RefreshConfig, CompareConfig or None
        None if the file is too incomplete to be checked further.
    findings : tuple of Finding
        Errors first, then by code.
    """
    check_mute(mute)
    config, problems = load_leniently(path, overrides)
    told = [_refused("SWM001", text) for text in problems]
    if config is None:
        return None, tuple(told)
    told += findings_of(config)
    kept = unmuted(told, {*config.mute, *mute} - {"SWM001", "SWM002", "SWM117"})
    order = ("error", "warning", "note")
    return config, tuple(sorted(kept, key=lambda each: order.index(each.severity)))


def findings_of(config: AnyConfig) -> list[Finding]:
    """Check a configuration that obeys its schema, and the data that it names."""
    told = [_refused("SWM001", text) for text in problems_of(config)]
    if not isinstance(config, CompareConfig):
        return [*told, *_of_data(_usable(config))]
    first = next(iter(config.strategies))
    for name in config.datasets:
        select = config.as_select(name, first)
        own = _of_data(select, split_rows=config.own_split(name) is not None)
        told += [replace(each, text=f"data set {name!r}: {each.text}") for each in own]
    return told


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


def _refused(code: str, text: str) -> Finding:
    """Return an error; its text already ends with what to do."""
    return found(code, text, remedy="")


def _of_data(config: SelectConfig, split_rows: bool = True) -> list[Finding]:
    told: list[Finding] = []

    def attempt(action: Callable[[], Any]) -> Any:
        """Return the result of a step, or report why it failed and return None."""
        try:
            return action()
        except InputError as error:
            told.append(_refused("SWM002", str(error)))
            return None

    data = config.data
    given = {key: getattr(data, key) for key in ("name", "id", "path", "url", "query")}
    raw = attempt(lambda: read_raw(data.source, csv=data.csv.model_dump(), **given))
    if raw is None:
        return told
    try:
        estimator = build_estimator(config.model)
    except ConfigError:  # reported with the other keys
        estimator = None
    table = attempt(lambda: _table(config, raw, estimator, told))
    if table is None:
        return told
    told += _of_dropped(config, raw)
    if estimator is not None:
        n_told = len(told)
        attempt(lambda: check_task(estimator, table.target, task_of(table.target, estimator)))
        estimator = estimator if len(told) == n_told else None
    train, test = table, None
    if split_rows:
        options = split_options(config)
        rows = attempt(lambda: split(table, estimator=estimator, **options))
        if rows is not None:
            told += rows.findings
            told += horizon_findings(table, rows, options["windows"].horizon)
            train, test = table.take(rows.train), table.take(rows.test)
        folds = "" if estimator is None else fold_kind(config, estimator)
        told += time_findings(table, config.split.kind, folds)
    prepared = None
    if estimator is not None:
        train = _with_usable_columns(config, train, estimator, told)
        prepared = attempt(lambda: _prepared(_with_known_roles(config, train), train, estimator))
    if prepared is None:
        return [*told, *_of_rows(config, train)]
    attempt(lambda: require_device(prepared.problem, config.evaluation.device))
    attempt(lambda: _probed(prepared))
    if test is not None:
        metrics = config.test.metrics
        attempt(lambda: check_test_metrics(prepared.problem, train, test, metrics))
    return [*told, *prepared.findings]


def _table(config: SelectConfig, raw: Raw, estimator: Any, told: list[Finding]) -> Table:
    """Assign the roles, without the columns that cannot have theirs; these are reported."""
    data = config.data
    columns = [str(name) for name in raw.frame.columns]
    frame = raw.frame.set_axis(columns, axis=1)

    def known(role: str, name: str) -> bool:
        if name not in columns:
            told.append(_refused("SWM002", unknown_column(role, name, raw.source, columns)))
        return name in columns

    roles = {role: getattr(data, role) for role in _ROLES} | {"fold": config.folds.column}
    roles["horizon"] = data.horizon if isinstance(data.horizon, str) else None
    roles = {r: n if n is not None and known(r, n) else None for r, n in roles.items()}
    drop = [name for name in data.drop if known("drop", name)]
    categorical = [name for name in data.categorical if known("categorical", name)]
    dates = {name: form for name, form in data.dates.items() if known("date", name)}
    for name, form in list(dates.items()):
        try:
            parsed_dates(frame[name], form)
        except InputError as error:
            told.append(_refused("SWM002", str(error)))
            del dates[name]
            drop.append(name)
    apart = {*drop, *(n for n in roles.values() if n), *name_list(data.target), *raw.target}
    features = frame.drop(columns=[n for n in {*apart, *raw.aside, *dates} if n in columns])
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
            told.append(found("SWM117", f"{', '.join(few)}{more} {verb} text{key}", list(texts)))
            drop += texts
    left = features.drop(columns=[name for name in features.columns if name in drop])
    try:
        check_features(left)
    except InputError:
        drop += _without(left, check_features, told)
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
    form = date_format(column)
    if form is not None:
        return f"dates, {form}"
    distinct, number = len(set(text_values(column))), signed_number(column)
    if number is not None:
        return f"numbers as text, {number!r}"
    return "free text" if is_free_text(column) else f"{distinct:,} different values"


def _without(
    features: pd.DataFrame, checks: Callable[[pd.DataFrame], None], told: list[Finding]
) -> list[str]:
    """Return the columns that a check refuses, and report the first few of them."""
    refused = []
    for name in features.columns:
        try:
            checks(features[[name]])
        except InputError as error:
            refused.append(str(name))
            if len(refused) <= _MOST_ALIKE:
                told.append(_refused("SWM002", str(error)))
    if len(refused) > _MOST_ALIKE:
        rest = refused[_MOST_ALIKE:]
        told.append(_refused("SWM002", f"{some(rest)} cannot be features either"))
    return refused


def _with_usable_columns(
    config: SelectConfig, train: Table, estimator: Any, told: list[Finding]
) -> Table:
    """Return the table without the columns that the model does not support."""

    def checks(features: pd.DataFrame) -> None:
        check_columns(features, estimator, config.data.categorical_support)

    try:
        checks(train.features)
    except InputError:
        refused = _without(train.features, checks, told)
        left = train.features.drop(columns=refused)
        return replace(train, features=left) if len(left.columns) else train
    return train


def _with_known_roles(config: SelectConfig, train: Table) -> SelectConfig:
    """Return the configuration without the roles that the table lacks, which are reported.

    Automatic folds follow from these roles.
    """
    if config.folds.kind != "auto":
        return config
    data, split = config.data, config.split
    if train.groups is None:
        data = data.model_copy(update={"group": None})
    if isinstance(data.horizon, str) and train.label_end is None:
        data = data.model_copy(update={"horizon": None})
    if train.time is None:
        data = data.model_copy(update={"horizon": None})
        split = split.model_copy(update={"kind": "random"})
    return config.model_copy(update={"data": data, "split": split})


def _prepared(config: SelectConfig, train: Table, estimator: Any) -> Prepared:
    """Build the problem, and the first proposal of the strategy unless it takes long."""
    strategy = make(config.strategy.name, config.strategy.params)
    quick = train.features.shape[1] <= _MOST_UNITS
    prepared = prepare(
        train,
        estimator,
        **problem_options(config, estimator),
        seed=config.seed,
        needs=strategy.needs if quick else (),
    )
    if quick:
        generator = np.random.default_rng([config.seed, 0])
        strategy.start(prepared.problem.space, prepared.hints, generator)
    return prepared


def _probed(prepared: Prepared) -> None:
    problem = prepared.problem
    small = problem.features.size <= _PROBED_CELLS
    probe(problem, None, None if small else _PROBE_SECONDS)


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
        for name in group_columns(frame[[n for n in data.drop if n in frame.columns]]):
            distinct = int(frame[name].nunique())
            text = f"{name!r}, which is dropped, has {distinct:,} values in {len(frame):,} rows"
            yield found("SWM106", text, [name])
    if data.time is not None or config.split.kind in ("time", "column", "group"):
        return
    for name, moments in date_columns(frame, data.dates):
        if is_sorted(moments):
            text = f"the rows are in order of {name!r}, but the split is {config.split.kind!r}"
            yield found("SWM107", text, [name])

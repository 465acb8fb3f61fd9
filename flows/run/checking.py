"""Check a configuration and its data without a run: all problems and all findings at once.

The steps of the flow run outside of Prefect, up to the search. Columns that fail are reported and
left out, so that the later steps can report as well.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from conf.check import problems_of
from conf.estimator import build_estimator, build_scorer
from conf.load import AnyConfig, try_load
from conf.schema import CompareConfig, SelectConfig
from conf.sections import StrategySection
from flows.run.advice import with_settings
from flows.run.configured import (
    prepare_as_configured,
    probe_as_configured,
    search_as_configured,
)
from flows.run.expected_time import describe_search_time, has_hints, timeout_of
from swarm.errors import ConfigError, DataError, EvaluationError, InputError
from swarm.findings import Finding, make_finding, unmuted
from swarm.findings.columns import is_text, text_kind
from swarm.findings.look import look_at
from swarm.findings.registry import check_mute
from swarm.findings.table import column_findings, flaw_findings, target_findings
from swarm.problem.inputs import check_columns, check_task
from swarm.problem.target import task_of
from swarm.reader import with_model_dtypes
from swarm.strategies.catalogue import make
from swarm.wording import quoted
from tasks.sources import read_raw
from tasks.sources.assembly import assemble, check_features, columns_to_drop, parsed_dates
from tasks.sources.raw import Raw, labelled_rows, name_list, unknown_column
from tasks.table import Table

# Stands for the name of a column.
_NAME = "\0"
_ROLES = ("group", "time", "weight", "part")
_IN_ORDER = ("time", "column", "group")
# Findings that depend on the scorer.
_OF_SCORER = ("SWM003", "SWM004", "SWM123")


def all_findings(
    path: str,
    overrides: Sequence[str] = (),
    mute: Sequence[str] = (),  # codes that are left out, besides those of the configuration
    # called with a line on the time of the search, unless an error prevents it
    on_time: Callable[[str], None] | None = None,
) -> tuple[AnyConfig | None, tuple[Finding, ...]]:
    """Check a configuration file and its data; return it, and the findings, the gravest first.

    If the keys of the file are wrong, these are its errors, and the configuration is None.
    """
    check_mute(mute)
    config, problems = try_load(path, overrides)
    findings = [_error("SWM001", text) for text in problems]
    if config is None:
        return None, tuple(findings)
    findings += findings_of(config, on_time)
    return config, unmuted(findings, {*config.mute, *mute} - {"SWM001", "SWM002", "SWM117"})


def findings_of(
    config: AnyConfig,
    on_time: Callable[[str], None] | None = None,
    raw: Raw | None = None,  # the table of the configuration, if it was read already
) -> list[Finding]:
    """Check a configuration that obeys its schema, and the data that it names."""
    findings = [_error("SWM001", text) for text in problems_of(config)]
    if not isinstance(config, CompareConfig):
        usable, on_time = _with_usable_keys(config), None if findings else on_time
        of_data = _data_findings(usable, on_time=on_time, raw=raw)
        if usable.scoring != config.scoring:
            # The default scorer is not the one that is meant.
            of_data = [each for each in of_data if each.code not in _OF_SCORER]
        return [*findings, *of_data]
    first = next(iter(config.strategies))
    for name in config.datasets:
        select = config.as_select(name, first)
        # Options would have to name the data set, whose sections replace those of all sets.
        has_split = config.split_of(name) is not None
        of_set = _data_findings(select, split_rows=has_split, advises=False)
        findings += [replace(each, text=f"data set {name!r}: {each.text}") for each in of_set]
    return findings


def _with_usable_keys(config: SelectConfig) -> SelectConfig:
    """Replace a scorer or a strategy that cannot be used, and is reported, by the default."""
    better: dict[str, Any] = {}
    try:
        build_scorer(config.scoring, config.model.allow)
    except InputError:
        better["scoring"] = None
    try:
        make(config.strategy.name, config.strategy.params)
    except InputError:
        better["strategy"] = StrategySection()
    return config.model_copy(update=better)


def _error(code: str, text: str) -> Finding:
    """Return an error; its text already ends with what to do."""
    return make_finding(code, text, remedy="")


def _data_findings(
    config: SelectConfig,
    split_rows: bool = True,
    advises: bool = True,  # whether to end findings with options that follow them
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
        arguments = {key: getattr(data, key) for key in ("name", "path", "url", "query")}
        style = data.csv.model_dump()
        raw = raw or read_raw(data.source, csv=style, dates=data.dates, **arguments)
        config = _with_dropped_columns(config, raw, findings)
        table = _table(config, raw, estimator, findings)
    except InputError as error:
        return [*findings, _error("SWM002", str(error))]
    findings += _dropped_column_findings(config, raw)
    roles = {"group": table.groups, "time": table.time, "weight": table.weight, "part": table.part}
    has_roles = all(roles[role] is not None or getattr(data, role) is None for role in roles)
    prepared = None
    try:
        if estimator is not None:
            check_task(estimator, table.target, task_of(table.target, estimator))
            check_part = partial(check_columns, estimator=estimator)
            refused = _refused_columns(table.features, check_part, findings)
            table = replace(table, features=table.features.drop(columns=refused))
        if estimator is not None and has_roles:
            # The hints of a wide table take longer than a check may.
            quick = has_hints(table)
            needs = None if quick else ()
            prepared = prepare_as_configured(config, table, needs=needs, hold_out=split_rows)
            search = search_as_configured(config, prepared)
            if quick:
                search.check()
            limit = timeout_of(prepared.problem)
            probe_as_configured(config, prepared, search, None, limit)
            if on_time is not None and all(each.severity != "error" for each in findings):
                on_time(describe_search_time(search))
    except (InputError, EvaluationError) as error:
        findings.append(_error("SWM002", str(error)))
    if prepared is not None:
        findings += prepared.findings
    else:
        findings += _row_findings(config, table, estimator)
    if not advises:
        return findings
    frame = raw.frame.set_axis([str(name) for name in raw.frame.columns], axis=1)
    return [with_settings(each, config, frame, estimator) for each in findings]


def _with_dropped_columns(config: SelectConfig, raw: Raw, findings: list[Finding]) -> SelectConfig:
    """Replace the patterns of `data.drop` by columns; one that matches none is reported."""
    data = config.data
    frame = raw.frame.set_axis([str(name) for name in raw.frame.columns], axis=1)
    roles = [getattr(data, role) for role in _ROLES]
    apart = {name for name in [*roles, config.folds.column] if name is not None}
    apart |= {*name_list(data.target), *raw.target}
    categories = {*data.categorical, *raw.categorical}
    drop: list[str] = []
    for item in data.drop:
        try:
            drop += columns_to_drop(frame, [item], apart, categories=categories, dates=data.dates)
        except DataError as error:
            findings.append(_error("SWM002", str(error)))
    drop = list(dict.fromkeys(drop))
    return config.model_copy(update={"data": data.model_copy(update={"drop": drop})})


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
    targets = name_list(data.target)
    for name in targets:
        if name not in columns:
            # The column that was meant is no feature, so nothing else is certain.
            raise ConfigError(unknown_column("target", name, raw.source, columns))
    apart = {*drop, *(n for n in roles.values() if n), *targets, *raw.target}
    others = [name for name in {*apart, *raw.aside, *dates} if name in columns]
    features = with_model_dtypes(frame.drop(columns=others))
    categories = {*categorical, *raw.categorical}
    if estimator is None or config.model.steps or not hasattr(estimator, "steps"):
        texts = {
            str(name): _describe_values(column)
            for name, column in features.items()
            if is_text(column) and str(name) not in categories
        }
        if texts:
            few = [f"{name!r} ({look})" for name, look in list(texts.items())[:10]]
            more = f" and {len(texts) - 10} more" if len(texts) > 10 else ""
            verb = "holds" if len(texts) == 1 else "hold"
            findings.append(
                make_finding("SWM117", f"{', '.join(few)}{more} {verb} text", list(texts))
            )
            drop += texts
    left = features.drop(columns=[name for name in features.columns if name in drop])
    drop += _refused_columns(left, check_features, findings)
    return assemble(
        raw,
        target=data.target,
        drop=drop,
        categorical=categorical,
        roles=roles,
        dates=dates,
        on_missing_target=data.on_missing_target,
    )


def _describe_values(column: pd.Series) -> str:
    """Describe the values of a text column."""
    kind, example = text_kind(column)
    looks = {"date": f"dates, {example}", "number": f"numbers as text, {example!r}"}
    looks["text"] = "free text"
    return looks.get(kind, f"{column.nunique():,} different values")


def _refused_columns(
    features: pd.DataFrame, check_part: Callable[[pd.DataFrame], None], findings: list[Finding]
) -> list[str]:
    """Return the columns that a check refuses, and report each reason once."""
    refused = defaultdict[str, list[str]](list)  # columns by sentence, without their names
    try:
        check_part(features)
    except InputError:
        for name in features.columns:
            try:
                check_part(features[[name]])
            except InputError as error:
                refused[str(error).replace(repr(str(name)), _NAME)].append(str(name))
    for sentence, names in refused.items():
        more = f" and {len(names) - 1} more ({quoted(names[1:])})" if len(names) > 1 else ""
        text = sentence.replace(_NAME, f"{names[0]!r}{more}", 1).replace(_NAME, repr(names[0]))
        findings.append(_error("SWM002", text))
    return [name for names in refused.values() for name in names]


def _row_findings(config: SelectConfig, train: Table, estimator: Any) -> Iterator[Finding]:
    """Yield the findings of rows without a problem; the estimator may be None."""
    try:
        task = task_of(train.target, estimator)
    except InputError:
        return
    target = np.asarray(train.target)
    groups, derived = train.groups, train.derived
    yield from column_findings(train.features, target, task, groups=groups, derived=derived)
    scoring = config.scoring or ("r2" if task == "regression" else "accuracy")
    yield from target_findings(target, task, scoring, config.pos_label)


def _dropped_column_findings(config: SelectConfig, raw: Raw) -> Iterator[Finding]:
    """Yield the findings of columns that are no features: groups, order of time, and numbers."""
    data = config.data
    frame = raw.frame.set_axis([str(name) for name in raw.frame.columns], axis=1)
    targets = name_list(data.target) or list(raw.target)
    frame = labelled_rows(frame, targets)
    answer = frame[targets[0]] if len(targets) == 1 else frame[targets]
    look = look_at(frame.drop(columns=targets), answer.to_numpy(), formats=data.dates)
    for group in look.groups if data.group is None else ():
        if group.name in data.drop:
            yield make_finding("SWM106", f"{group}; the column is dropped", [group.name])
    numbers = [column for column in look.columns if column.name in data.drop and column.is_unread]
    yield from flaw_findings(
        replace(c, flaws=tuple(f for f in c.flaws if f.code == "SWM115")) for c in numbers
    )
    if look.time is not None and data.time is None and config.split.kind not in _IN_ORDER:
        text = f"the rows are in order of {look.time!r}, but the split is {config.split.kind!r}"
        yield make_finding("SWM107", text, [look.time])

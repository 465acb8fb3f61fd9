"""Check a configuration and its data without a run: all problems and all findings at once.

The steps of the flow run outside of Prefect, up to the search. Columns that fail are reported and
left out, so that the later steps can report as well.
"""

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
from swarm.protocols import Estimator
from swarm.reader import with_model_dtypes
from swarm.strategies.catalogue import make
from swarm.wording import quoted
from tasks.sources import read_raw
from tasks.sources.assembly import assemble, check_features, columns_to_drop, parsed_dates
from tasks.sources.raw import Raw, labelled_rows, name_list, unknown_column
from tasks.table import Table

# A placeholder for the name of a column.
_NAME = "\0"
_ROLES = ("group", "time", "weight", "part")
_IN_ORDER = ("time", "column", "group")
# A finding about columns of text names this number of them.
_MAX_EXAMPLES = 10
# These findings depend on the scorer.
_SCORER_CODES = ("SWM003", "SWM004", "SWM123")


def all_findings(
    path: str,
    overrides: Sequence[str] = (),
    mute: Sequence[str] = (),
    on_time: Callable[[str], None] | None = None,
) -> tuple[AnyConfig | None, tuple[Finding, ...]]:
    """Check a configuration file and its data.

    Parameters
    ----------
    path, overrides
        The file, and settings that take precedence over it.
    mute
        Codes that are left out, besides those of the configuration.
    on_time
        Called with a line on the time of the search, unless an error prevents it.

    Returns
    -------
    config, findings
        The configuration, and its findings, the gravest first; None and errors if the keys of the
        file are wrong.
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
    raw: Raw | None = None,
) -> list[Finding]:
    """Check a configuration that obeys its schema, and the data that it names.

    `raw` is the table of the configuration, if it was read already; see also :func:`all_findings`.
    """
    findings = [_error("SWM001", text) for text in problems_of(config)]
    if not isinstance(config, CompareConfig):
        usable = _with_usable_keys(config)
        data_findings = _data_findings(usable, on_time=None if findings else on_time, raw=raw)
        if usable.scoring != config.scoring:
            # The default scorer is not the one that is meant.
            data_findings = [
                finding for finding in data_findings if finding.code not in _SCORER_CODES
            ]
        return [*findings, *data_findings]
    label = next(iter(config.strategies))
    for name in config.datasets:
        select = config.as_select(name, label)
        has_split = config.split_of(name) is not None
        # Options would have to name the data set, whose sections replace those of all sets.
        data_findings = _data_findings(select, split_rows=has_split, advises=False)
        findings += [
            replace(finding, text=f"data set {name!r}: {finding.text}") for finding in data_findings
        ]
    return findings


def _with_usable_keys(config: SelectConfig) -> SelectConfig:
    """Replace a scorer or a strategy that cannot be used, and is reported, by the default."""
    defaults: dict[str, Any] = {}
    try:
        build_scorer(config.scoring, config.model.allow)
    except InputError:
        defaults["scoring"] = None
    try:
        make(config.strategy.name, config.strategy.params)
    except InputError:
        defaults["strategy"] = StrategySection()
    return config.model_copy(update=defaults)


def _error(code: str, text: str) -> Finding:
    """Return an error; its text already ends with what to do."""
    return make_finding(code, text, remedy="")


def _data_findings(
    config: SelectConfig,
    split_rows: bool = True,
    advises: bool = True,
    on_time: Callable[[str], None] | None = None,
    raw: Raw | None = None,
) -> list[Finding]:
    """Prepare the data as a run does, but without the columns that fail, which are reported.

    The remedies end with options that follow them if `advises`.
    """
    findings: list[Finding] = []
    data = config.data
    try:
        estimator = build_estimator(config.model)
    except ConfigError:
        # The error is reported with those of other keys.
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
            check_dtypes = partial(check_columns, estimator=estimator)
            refused = _refused_columns(table.features, check_dtypes, findings)
            table = replace(table, features=table.features.drop(columns=refused))
        if estimator is not None and has_roles:
            # The hints of a wide table take longer than a check may.
            is_narrow = has_hints(table)
            needs = None if is_narrow else ()
            prepared = prepare_as_configured(config, table, needs=needs, hold_out=split_rows)
            search = search_as_configured(config, prepared)
            if is_narrow:
                search.check()
            limit = timeout_of(prepared.problem)
            probe_as_configured(config, prepared, search, None, limit)
            has_error = any(finding.severity == "error" for finding in findings)
            if on_time is not None and not has_error:
                on_time(describe_search_time(search))
    except (InputError, EvaluationError) as error:
        findings.append(_error("SWM002", str(error)))
    if prepared is not None:
        findings += prepared.findings
    else:
        findings += _row_findings(config, table, estimator)
    if not advises:
        return findings
    frame = raw.named_frame
    return [with_settings(finding, config, frame, estimator) for finding in findings]


def _with_dropped_columns(config: SelectConfig, raw: Raw, findings: list[Finding]) -> SelectConfig:
    """Replace the patterns of `data.drop` by columns; one that matches none is reported."""
    data = config.data
    frame = raw.named_frame
    names = [*(getattr(data, role) for role in _ROLES), config.folds.column]
    with_role = {name for name in names if name is not None}
    with_role |= {*name_list(data.target), *raw.target}
    categories = {*data.categorical, *raw.categorical}
    drop: list[str] = []
    for pattern in data.drop:
        try:
            drop += columns_to_drop(
                frame, [pattern], with_role, categories=categories, dates=data.dates
            )
        except DataError as error:
            findings.append(_error("SWM002", str(error)))
    drop = list(dict.fromkeys(drop))
    return config.model_copy(update={"data": data.model_copy(update={"drop": drop})})


def _table(
    config: SelectConfig, raw: Raw, estimator: Estimator | None, findings: list[Finding]
) -> Table:
    """Assign the roles, without the columns that cannot have theirs; these are reported."""
    data = config.data
    frame = raw.named_frame
    columns = list(frame.columns)

    def exists(role: str, name: str) -> bool:
        if name not in columns:
            findings.append(_error("SWM002", unknown_column(role, name, raw.source, columns)))
        return name in columns

    roles = {role: getattr(data, role) for role in _ROLES} | {"fold": config.folds.column}
    for role, name in roles.items():
        if name is not None and not exists(role, name):
            roles[role] = None
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
    role_columns = {name for name in roles.values() if name}
    excluded = {*drop, *role_columns, *targets, *raw.target, *raw.aside, *dates} & {*columns}
    features = with_model_dtypes(frame.drop(columns=list(excluded)))
    categories = {*categorical, *raw.categorical}
    if estimator is None or config.model.steps or not hasattr(estimator, "steps"):
        texts = {
            str(name): _describe_values(column)
            for name, column in features.items()
            if is_text(column) and str(name) not in categories
        }
        if texts:
            examples = [f"{name!r} ({values})" for name, values in texts.items()]
            n_more = len(texts) - _MAX_EXAMPLES
            more = f" and {n_more} more" if n_more > 0 else ""
            verb = "holds" if len(texts) == 1 else "hold"
            text = f"{', '.join(examples[:_MAX_EXAMPLES])}{more} {verb} text"
            findings.append(make_finding("SWM117", text, list(texts)))
            drop += texts
    remaining = features.drop(columns=[name for name in features.columns if name in drop])
    drop += _refused_columns(remaining, check_features, findings)
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
    match kind:
        case "date":
            return f"dates, {example}"
        case "number":
            return f"numbers as text, {example!r}"
        case "text":
            return "free text"
        case "category":
            return f"{column.nunique():,} different values"


def _refused_columns(
    features: pd.DataFrame, check: Callable[[pd.DataFrame], None], findings: list[Finding]
) -> list[str]:
    """Return the columns that a check refuses, and report each reason once."""
    # Columns are grouped by the sentence about them, without their names.
    refused = defaultdict[str, list[str]](list)
    try:
        check(features)
    except InputError:
        for name in features.columns:
            try:
                check(features[[name]])
            except InputError as error:
                refused[str(error).replace(repr(str(name)), _NAME)].append(str(name))
    for sentence, names in refused.items():
        more = f" and {len(names) - 1} more ({quoted(names[1:])})" if len(names) > 1 else ""
        text = sentence.replace(_NAME, f"{names[0]!r}{more}", 1).replace(_NAME, repr(names[0]))
        findings.append(_error("SWM002", text))
    return [name for names in refused.values() for name in names]


def _row_findings(
    config: SelectConfig, train: Table, estimator: Estimator | None
) -> Iterator[Finding]:
    """Yield the findings of rows for which no problem can be built."""
    try:
        task = task_of(train.target, estimator)
    except InputError:
        return
    target = np.asarray(train.target)
    yield from column_findings(
        train.features, target, task, groups=train.groups, derived=train.derived
    )
    scoring = config.scoring or ("r2" if task == "regression" else "accuracy")
    yield from target_findings(target, task, scoring, config.pos_label)


def _dropped_column_findings(config: SelectConfig, raw: Raw) -> Iterator[Finding]:
    """Yield the findings of columns that are no features: groups, order of time, and numbers."""
    data = config.data
    targets = name_list(data.target) or list(raw.target)
    frame = labelled_rows(raw.named_frame, targets)
    target = frame[targets[0]] if len(targets) == 1 else frame[targets]
    look = look_at(frame.drop(columns=targets), target.to_numpy(), formats=data.dates)
    for group in look.groups if data.group is None else ():
        if group.name in data.drop:
            yield make_finding("SWM106", f"{group}; the column is dropped", [group.name])
    numbers = [column for column in look.columns if column.name in data.drop and column.is_unread]
    yield from flaw_findings(
        replace(column, flaws=tuple(flaw for flaw in column.flaws if flaw.code == "SWM115"))
        for column in numbers
    )
    if look.time is not None and data.time is None and config.split.kind not in _IN_ORDER:
        text = f"the rows are in order of {look.time!r}, but the split is {config.split.kind!r}"
        yield make_finding("SWM107", text, [look.time])

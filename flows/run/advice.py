"""What the findings of a check advise, as options of a command: ``--set KEY=VALUE``."""

import json
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from conf.schema import SelectConfig
from conf.yaml_text import parse
from swarm.findings import Finding
from swarm.findings.columns import sentinels, text_kind
from swarm.problem.models import is_lightgbm, last_step
from swarm.protocols import Estimator
from tasks.sources import kind_of

# Options that name more columns would be hard to read.
_MAX_COLUMNS = 20
# Estimators of these packages do not list their losses; this one is the mean absolute error.
_ABSOLUTE_LOSSES = {
    "catboost": {"loss_function": "MAE"},
    "lightgbm": {"objective": "mae"},
    "xgboost": {"objective": "reg:absoluteerror"},
}
Setting = tuple[str, object]


def with_settings(
    finding: Finding, config: SelectConfig, frame: pd.DataFrame, estimator: Estimator | None
) -> Finding:
    """Return a finding whose remedy ends with options that follow it, if there are any."""
    if len(finding.columns) > _MAX_COLUMNS:
        return finding
    options = [
        f"--set {shlex.quote(f'{key}={_as_yaml(value)}')}"
        for key, value in _advice(finding, config, frame, estimator)
    ]
    if not options:
        return finding
    return replace(finding, remedy=f"{finding.remedy}: {' '.join(options)}")


def _advice(
    finding: Finding, config: SelectConfig, frame: pd.DataFrame, estimator: Estimator | None
) -> Iterator[Setting]:
    """Yield keys, which end with a plus to append to a list, and their values."""
    names = list(finding.columns)
    data = config.data
    match finding.code:
        case "SWM004":
            yield "scoring", "balanced_accuracy"
            if "class_weight" in _params(estimator):
                yield "model.params.class_weight", "balanced"
        case "SWM123":
            yield from _absolute_error(config, estimator)
        case "SWM101":
            yield "split.kind", "group"
            yield "folds.kind", "auto"
        case "SWM106":
            yield from _without(config, names[:1])
            yield "data.group", names[0]
            yield "split.kind", "group"
            yield "folds.kind", "auto"
        case "SWM107":
            if config.split.kind != "time":
                if data.time is None:
                    yield from _without(config, names[:1])
                    yield "data.time", names[0]
                    if names[0] not in data.dates:
                        yield from _formats(frame, names[:1])
                yield "split.kind", "time"
            yield "folds.kind", "time"
        case "SWM111" | "SWM112" | "SWM113" | "SWM114" | "SWM211":
            columns = [name for name in names if name in frame.columns and name not in data.dates]
            if columns:
                yield "data.drop+", columns
            if parts := [name for name in names if name not in frame.columns]:
                yield "space.forbidden+", parts
        case "SWM115" | "SWM117":
            kinds = {name: text_kind(frame[name])[0] for name in names}
            dates = [name for name, kind in kinds.items() if kind == "date"]
            categories = [name for name, kind in kinds.items() if kind == "category"]
            unusable = [name for name in names if name not in (*dates, *categories, *data.drop)]
            yield from _without(config, [*dates, *unusable])
            yield from _formats(frame, dates)
            if categories:
                yield "data.categorical+", categories
            if unusable:
                yield "data.drop+", unusable
        case "SWM121" if data.source == "file" and kind_of(str(data.path)) != "parquet":
            marks = sentinels(frame[[name for name in names if name in frame.columns]])
            values = dict.fromkeys(f"{value:.12g}" for value, _ in marks.values())
            if values:
                yield "data.csv.na_values+", list(values)


def _without(config: SelectConfig, names: Sequence[str]) -> Iterator[Setting]:
    """Yield the lists that columns must leave to have another role."""
    for key, columns in (("drop", config.data.drop), ("categorical", config.data.categorical)):
        if set(names) & set(columns):
            yield f"data.{key}", [name for name in columns if name not in names]


def _formats(frame: pd.DataFrame, names: Sequence[str]) -> Iterator[Setting]:
    """Yield the formats of columns of dates."""
    for name in names:
        kind, form = text_kind(frame[name])
        if kind == "date" and "." not in name:
            yield f"data.dates.{name}", form


def _absolute_error(config: SelectConfig, estimator: Estimator | None) -> Iterator[Setting]:
    """Yield the scorer that squares no errors, and a model whose loss squares none either."""
    yield "scoring", "neg_mean_absolute_error"
    model = last_step(estimator)
    package = "lightgbm" if is_lightgbm(model) else type(model).__module__.partition(".")[0]
    constraints = getattr(type(model), "_parameter_constraints", {})
    losses = [
        {name: "absolute_error"}
        for name in ("loss", "criterion")
        for constraint in constraints.get(name, ())
        if "absolute_error" in getattr(constraint, "options", ())
    ]
    for name, loss in _ABSOLUTE_LOSSES.get(package, losses[0] if losses else {}).items():
        yield f"model.params.{name}", loss
    if type(model).__module__.startswith("sklearn.linear_model."):
        yield "model.estimator", "sklearn.linear_model.HuberRegressor"
        yield "model.params", {}


def _params(estimator: Estimator | None) -> dict[str, Any]:
    model = last_step(estimator)
    return dict(model.get_params(deep=False)) if hasattr(model, "get_params") else {}


def _as_yaml(value: object) -> str:
    """Return a value of a key on one line, without blanks between the items of a list."""
    if isinstance(value, list):
        return f"[{','.join(map(_as_yaml, value))}]"
    if isinstance(value, str):
        is_plain = re.fullmatch(r"[A-Za-z_][\w.]*", value) and parse(value, "a value") == value
        return value if is_plain else json.dumps(value, ensure_ascii=False)
    return json.dumps(value)

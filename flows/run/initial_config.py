"""The first configuration of a table, written from its profile."""

import json
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from conf.load import from_yaml
from flows.run.checking import findings_of
from swarm.findings import Finding, unmuted
from swarm.findings.columns import sentinels
from swarm.findings.table import target_findings
from swarm.reader import date_parts
from tasks.profile import Profile, profile_of
from tasks.sources import kind_of, newest, read_raw
from tasks.sources.sniff import CsvStyle, cell_notes, sniff

# split.kind and folds.kind by what is known of the rows.
_PLANS = {
    "group": ("group", "stratified_group"),
    "time": ("time", "time"),
    "class": ("stratified", "stratified"),
    "random": ("random", "random"),
}
_ANSWER_SEPARATORS = (";", "|", ",")
_MAX_ANSWERS = 50
_TEST_SIZE = 0.3
# Tables below and above these numbers of rows get other comments.
_SMALL = 500
_LARGE = 5000


def initial_config(table: str, target: str) -> tuple[Profile, str, list[Finding]]:
    """Look at a table, and return its profile, a configuration for it, and its findings."""
    kind = kind_of(table)
    is_local_text = kind == "text" and "://" not in table
    style = sniff(newest(table), target) if is_local_text else CsvStyle()
    raw = read_raw("file", path=table, csv=_keys_of(style))
    notes = [*cell_notes(newest(table), style).items()] if is_local_text else []
    if is_local_text or kind == "excel":
        marks = _marks_of_missing(raw.frame)
        for name, value in marks.items():
            note = (
                f"{value:.12g}, unlike all other values, is read as missing; if it was measured, "
                "remove it from data.csv.na_values"
            )
            notes.append((name, note))
        if marks:
            values = dict.fromkeys(f"{value:.12g}" for value in marks.values())
            style = replace(style, na_values=(*style.na_values, *values))
            raw = read_raw("file", path=table, csv=_keys_of(style))
    for name, form in raw.numbers.items():
        example = form.example
        notes.append((name, f"{example!r} is read as the number {form.number(example):.12g}"))
    profile = profile_of(raw, target)
    frame = raw.named_frame
    texts = {name: frame[name] for name in (*profile.categorical, *profile.dropped)}
    notes += [(name, note) for name, text in texts.items() if (note := _answers_note(text))]
    columns_by_note = defaultdict[str, list[str]](list)
    for name, note in notes:
        columns_by_note[note].append(name)
    profile = replace(profile, notes=dict(columns_by_note))
    labels = frame[target].dropna()
    text = _render(table, style, profile, labels)
    findings = findings_of(from_yaml(text, "the new configuration", (), {}), raw=raw)
    dates = {
        feature: name for name, features in _date_features(profile).items() for feature in features
    }
    constant = [
        finding
        for finding in findings
        if finding.code == "SWM112" and {*finding.columns} <= {*dates}
    ]
    if constant:
        names = [name for finding in constant for name in finding.columns]
        text = _render(table, style, profile, labels, names)
        findings = [finding for finding in findings if finding not in constant]
        reasons = {
            name: f"one value in all training rows, a part of {dates[name]!r}" for name in names
        }
        profile = replace(profile, dropped={**profile.dropped, **reasons})
    return profile, text, list(unmuted(findings))


def _answers_note(column: pd.Series) -> str:
    """Say what to do with cells that list several answers, such as ``price;support``."""
    cells = [cell for cell in column.dropna().unique().tolist() if isinstance(cell, str)]
    for separator in _ANSWER_SEPARATORS:
        lists = [cell for cell in cells if separator in cell]
        answers = {answer.strip() for cell in cells for answer in cell.split(separator)} - {""}
        has_numbers = separator == "," and any(map(str.isdecimal, answers))
        # A few answers make many lists; cells such as "Bonn, Germany" have parts of their own.
        if _MAX_ANSWERS >= len(answers) < len(lists) and not has_numbers:
            return (
                f"{lists[0]!r} is one value, as each combination of its {len(answers)} answers is;"
                " replace the column by one of 0 and 1 for each answer, in the table"
            )
    return ""


def _date_features(profile: Profile) -> dict[str, list[str]]:
    """Return the names of the features that replace each column of dates."""
    dates = {name: form for name, form in profile.dates.items() if name != profile.time}
    return {name: [f"{name}_{part}" for part in date_parts(form)] for name, form in dates.items()}


def _keys_of(style: CsvStyle) -> dict[str, Any]:
    """Return the keys of `data.csv`; every run finds the separator by itself."""
    return {key: value for key, value in vars(style).items() if key != "separator"}


def _marks_of_missing(frame: pd.DataFrame) -> dict[str, float]:
    """Return the value of each column that stands for missing ones wherever it occurs."""
    marks = sentinels(frame)
    numbers = frame.select_dtypes("number")
    unmarked = numbers[[name for name in numbers.columns if str(name) not in marks]]
    texts = frame[[name for name in frame.columns if name not in numbers.columns]].astype("string")
    return {
        name: value
        for name, (value, _) in marks.items()
        if not (unmarked == value).to_numpy().any()
        and not (texts == f"{value:.12g}").fillna(False).to_numpy().any()
    }


def _plan_of(profile: Profile, target: pd.Series) -> str:
    """Return the name of the plan that suits the rows."""
    if profile.group is not None:
        return "group"
    latest = target.iloc[-int(_TEST_SIZE * len(target)) :]
    # A class that the latest rows do not have cannot be scored on them.
    if profile.time is not None and (not profile.counts or latest.nunique() == target.nunique()):
        return "time"
    return "class" if profile.counts and _rarest_to_search(profile) > 1 else "random"


def _rarest_to_search(profile: Profile) -> int:
    """Return how many training rows the rarest class has."""
    return int((1 - _TEST_SIZE) * min(profile.counts.values()))


def _render(
    path: str,
    style: CsvStyle,
    profile: Profile,
    target: pd.Series,
    constant_parts: Sequence[str] = (),
) -> str:
    """Return a commented YAML configuration."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        trim_blocks=True,
        keep_trailing_newline=True,
        undefined=StrictUndefined,
    )
    # Values are written as JSON, which is YAML too.
    environment.filters["json"] = lambda value: json.dumps(value, ensure_ascii=False)
    classes = list(profile.counts)
    plan = _plan_of(profile, target)
    split, folds = _PLANS[plan]
    findings = () if classes else target_findings(target.to_numpy(np.float64), "regression", "r2")
    return environment.get_template("initial_config.yaml.j2").render(
        name=_name(path),
        path=path,
        profile=profile,
        target=_describe_target(profile),
        style=_keys_of(style),
        usual=_keys_of(CsvStyle()),
        plan=plan,
        split=split,
        folds="group" if plan == "group" and not classes else folds,
        test_size=_TEST_SIZE,
        n_folds=max(2, min(5, _rarest_to_search(profile))) if classes else 5,
        classes=classes,
        has_extremes=any(finding.code == "SWM123" for finding in findings),
        numbered=set(classes) in ({0, 1}, {-1, 1}),
        parts=_date_features(profile),
        constant_parts=list(constant_parts),
        small=_SMALL,
        large=_LARGE,
    )


def _describe_target(profile: Profile) -> str:
    if not profile.counts:
        return "numbers: a regression"
    if len(profile.counts) > 6:
        return f"{len(profile.counts)} classes"
    return ", ".join(
        f"{_short(label)} {count / profile.n_rows:.1%}" for label, count in profile.counts.items()
    )


def _name(path: str) -> str:
    stem = Path(path).name.split(".")[0]
    name = re.sub(r"[^A-Za-z0-9._-]+", "_", stem).strip("_")[:100]
    return name if re.search(r"[A-Za-z0-9]", name) else "table"


def _short(label: object) -> str:
    text = json.dumps(label, ensure_ascii=False) if isinstance(label, str) else str(label)
    return text if len(text) <= 20 else f"{text[:19]}…"

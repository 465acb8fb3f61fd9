"""The first configuration of a table, written from its profile."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from conf.load import from_yaml
from conf.schema import SelectConfig
from flows.checking import assemble_table, findings_of
from swarm.findings import Finding, unmuted
from swarm.findings.columns import sentinels
from tasks.profile import Profile, profile_of
from tasks.sources import read_raw
from tasks.sources.sniff import CsvStyle, cell_notes, sniff

# How rows are divided: split.kind and folds.kind, by what is known of the rows.
_PLANS = {
    "group": ("group", "stratified_group"),
    "time": ("time", "time"),
    "class": ("stratified", "stratified"),
    "random": ("random", "random"),
}
_SMALL, _LARGE = 500, 5000


def first_without_errors(table: str, target: str) -> tuple[Profile, str, list[Finding]]:
    """Return profile, text and findings of the first configuration of a table that can run.

    If there is none, those of the last configuration that was tried.
    """
    is_csv = table.lower().endswith((".csv", ".csv.gz"))
    is_local_csv = is_csv and "://" not in table
    style = sniff(table, target) if is_local_csv else CsvStyle()
    raw = read_raw("file", path=table, csv=vars(style))
    notes: dict[str, str] = {}
    if is_local_csv:
        notes = cell_notes(table, style)
        marks = _marks_of_missing(raw.frame)
        for name, value in marks.items():
            note = (
                f"{value:.12g}, unlike all other values, is read as missing; if it was measured, "
                "remove it from data.csv.na_values"
            )
            notes[name] = f"{notes[name]}; {note}" if name in notes else note
        if marks:
            values = dict.fromkeys(f"{value:.12g}" for value in marks.values())
            style = replace(style, na_values=(*style.na_values, *values))
            raw = read_raw("file", path=table, csv=vars(style))
    columns_by_note = defaultdict[str, list[str]](list)
    for name, note in notes.items():
        columns_by_note[note].append(name)
    profile = replace(profile_of(raw, target), notes=dict(columns_by_note))
    columns = set(map(str, raw.frame.columns))

    def check_plan(
        plan: str, forbidden: Sequence[str] = ()
    ) -> tuple[str, SelectConfig, list[Finding]]:
        text = _render(table, style, profile, plan, forbidden)
        config = from_yaml(text, "the new configuration", (), {})
        assert isinstance(config, SelectConfig)
        return text, config, list(unmuted(findings_of(config, raw=raw)))

    text, findings = "", list[Finding]()
    for plan in _plans_of(profile):
        text, config, findings = check_plan(plan)
        # Constant parts of dates, which no column of the table has as its name.
        constant = [name for each in findings if each.code == "SWM112" for name in each.columns]
        parts = [name for name in constant if name not in columns]
        if parts:
            text, config, findings = check_plan(plan, parts)
        if not any(each.severity == "error" for each in findings):
            final = assemble_table(config, raw)
            # A search has the forbidden parts of dates neither as features nor as parts.
            n_columns, n_parts = final.features.shape[1], len(final.derived)
            profile = replace(
                profile, n_features=n_columns - len(parts), n_date_parts=n_parts - len(parts)
            )
            return profile, text, findings
    return profile, text, findings


def _marks_of_missing(frame: pd.DataFrame) -> dict[str, float]:
    """Return the value of each column that stands for missing ones wherever it occurs."""
    marks = sentinels(frame)
    numbers = frame.select_dtypes("number")
    elsewhere = numbers[[name for name in numbers.columns if str(name) not in marks]]
    texts = frame[[name for name in frame.columns if name not in numbers.columns]].astype("string")
    return {
        name: value
        for name, (value, _) in marks.items()
        if not (elsewhere == value).to_numpy().any()
        and not (texts == f"{value:.12g}").fillna(False).to_numpy().any()
    }


def _plans_of(profile: Profile) -> list[str]:
    """Return the names of the plans that suit the rows, the best first."""
    plans = ["group"] if profile.group is not None else []
    plans += ["time"] if profile.time is not None else []
    return [*plans, "class", "random"] if profile.counts else [*plans, "random"]


def _render(
    path: str, style: CsvStyle, profile: Profile, plan: str, forbidden: Sequence[str] = ()
) -> str:
    """Return a commented YAML configuration; `forbidden` features cannot be dropped."""
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
    split, folds = _PLANS[plan]
    return environment.get_template("initial_config.yaml.j2").render(
        name=_name(path),
        path=path,
        profile=profile,
        target=_describe_target(profile),
        style=vars(style),
        usual=vars(CsvStyle()),
        plan=plan,
        forbidden=forbidden,
        split=split,
        folds="group" if plan == "group" and not classes else folds,
        n_folds=max(2, min(5, int(0.7 * min(profile.counts.values())))) if classes else 5,
        classes=classes,
        numbered=set(classes) in ({0, 1}, {-1, 1}),
        small=_SMALL,
        large=_LARGE,
    )


def _describe_target(profile: Profile) -> str:
    """Describe the target."""
    if not profile.counts:
        return "numbers: a regression"
    if len(profile.counts) > 6:
        return f"{len(profile.counts)} classes"
    return ", ".join(f"{_short(c)} {n / profile.n_rows:.1%}" for c, n in profile.counts.items())


def _name(path: str) -> str:
    stem = Path(path).name.split(".")[0]
    name = re.sub(r"[^A-Za-z0-9._-]+", "_", stem).strip("_")[:100]
    return name if re.search(r"[A-Za-z0-9]", name) else "table"


def _short(label: Any) -> str:
    text = json.dumps(label, ensure_ascii=False) if isinstance(label, str) else str(label)
    return text if len(text) <= 20 else f"{text[:19]}…"

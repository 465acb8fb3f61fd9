"""The first configuration of a table, written from its profile."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from conf.load import from_yaml
from flows.checking import findings_of
from swarm.findings import Finding, unmuted
from tasks.profile import Profile, profile_of
from tasks.sources import read_raw
from tasks.sources._sniff import CsvStyle, sniffed

# How rows are divided: split.kind and folds.kind, by what is known of the rows.
_PLANS = {
    "group": ("group", "stratified_group"),
    "time": ("time", "time"),
    "class": ("stratified", "stratified"),
    "random": ("random", "random"),
}
_SMALL, _LARGE = 500, 5000


def first_without_errors(table: str, target: str) -> tuple[Profile, str, list[Finding]]:
    """Look at a table; return the first configuration that can run, else the last one tried.

    Returns its profile, the text of the configuration, and its findings.
    """
    is_csv = table.lower().endswith((".csv", ".csv.gz"))
    style = sniffed(table) if is_csv and "://" not in table else CsvStyle()
    raw = read_raw("file", path=table, csv=vars(style))
    profile = profile_of(raw, target)
    columns = set(map(str, raw.frame.columns))

    def tried(plan: str, forbidden: Sequence[str] = ()) -> tuple[str, list[Finding]]:
        text = _rendered(table, style, profile, plan, forbidden)
        return text, list(unmuted(findings_of(from_yaml(text, "the new configuration", (), {}))))

    text, told = "", list[Finding]()
    for plan in _plans_of(profile):
        text, told = tried(plan)
        # Constant parts of dates, which no column of the table has as its name.
        constant = [name for each in told if each.code == "SWM112" for name in each.columns]
        parts = [name for name in constant if name not in columns]
        if parts:
            text, told = tried(plan, parts)
        if not any(each.severity == "error" for each in told):
            break
    return profile, text, told


def _plans_of(profile: Profile) -> list[str]:
    """Return the names of the plans that suit the rows, the best first."""
    plans = ["group"] if profile.group is not None else []
    plans += ["time"] if profile.time is not None else []
    return [*plans, "class", "random"] if profile.counts else [*plans, "random"]


def _rendered(
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
        target=_described(profile),
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


def _described(profile: Profile) -> str:
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

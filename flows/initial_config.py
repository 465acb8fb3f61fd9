"""The first configuration of a table, written from its profile."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tasks.profile import Profile
from tasks.sources._sniff import CsvStyle

__all__ = ["PLANS", "initial_config", "plans_of"]

# How rows are divided: split.kind and folds.kind, by what is known of the rows.
PLANS = {
    "group": ("group", "stratified_group"),
    "time": ("time", "time"),
    "class": ("stratified", "stratified"),
    "random": ("random", "random"),
}
_SMALL, _LARGE = 500, 5000


def plans_of(profile: Profile) -> list[str]:
    """Return the names of the plans that suit the rows, the best first."""
    plans = ["group"] if profile.group is not None else []
    plans += ["time"] if profile.time is not None else []
    return [*plans, "class", "random"] if profile.counts else [*plans, "random"]


def initial_config(path: str, style: CsvStyle, profile: Profile, plan: str) -> str:
    """Return a commented YAML configuration.

    Parameters
    ----------
    path : str
        The table, as the configuration should name it.
    style : CsvStyle
    profile : Profile
    plan : str
        One of :func:`plans_of`.
    """
    return "\n".join(_lines(path, style, profile, plan)) + "\n"


def _lines(path: str, style: CsvStyle, profile: Profile, plan: str) -> Iterator[str]:
    yield f"# Written by `swarm init` from {profile.n_rows:,} rows. Read the comments, then"
    yield "# `swarm check`, `swarm plan` and `swarm select` this file."
    yield f"name: {_text(_name(path))}"
    yield ""
    yield "data:"
    yield "  source: file"
    yield f"  path: {_text(path)}"
    yield f"  target: {_text(profile.target)}{_told(profile)}"
    if profile.n_unlabelled:
        yield f"  # {profile.n_unlabelled:,} further rows have no target."
        yield "  on_missing_target: drop"
    yield from _csv(style)
    if profile.dropped:
        yield "  # Columns that are no features. Remove a line to keep the column."
        yield "  drop:"
        for name, why in profile.dropped.items():
            yield f"    - {_text(name)}  # {' '.join(why.split())}"
    if profile.categorical:
        yield f"  categorical: {_texts(profile.categorical)}"
    if profile.dates:
        yield "  # Replaced by year, month, day and weekday."
        yield "  dates:"
        for name, form in profile.dates.items():
            yield f"    {_text(name)}: {_text(form)}"
    yield from _roles(profile, plan)
    yield ""
    yield from _rows(profile, plan)
    yield ""
    yield from _model(profile)
    yield ""
    yield from _scoring(profile)
    yield ""
    yield "budget:"
    yield "  epochs: 20  # `swarm plan` estimates the time"


def _told(profile: Profile) -> str:
    """Describe the target in a comment."""
    if not profile.counts:
        return "  # numbers: a regression"
    if len(profile.counts) > 6:
        return f"  # {len(profile.counts)} classes"
    shares = [f"{_short(label)} {n / profile.n_rows:.1%}" for label, n in profile.counts.items()]
    return f"  # {', '.join(shares)}"


def _csv(style: CsvStyle) -> Iterator[str]:
    usual = CsvStyle()
    if style == usual:
        return
    yield "  csv:"
    for key in ("separator", "decimal", "encoding"):
        if getattr(style, key) != getattr(usual, key):
            yield f"    {key}: {_text(getattr(style, key))}"
    if style.na_values:
        yield f"    na_values: {_texts(style.na_values)}"


def _roles(profile: Profile, plan: str) -> Iterator[str]:
    if profile.group is not None:
        if plan == "group":
            yield "  # Rows with the same value seem to belong together. If not, drop the column,"
            yield "  # and set split.kind and folds.kind to stratified or random."
        else:
            yield "  # Groups that cannot be kept on one side of the split."
        yield f"  group: {_text(profile.group)}"
    if profile.time is not None:
        if plan == "time":
            yield "  # The rows are in order of this column: test on the latest ones."
        else:
            yield "  # The rows are in order of this column; to test on the latest ones, set"
            yield "  # split.kind and folds.kind to time."
        yield f"  time: {_text(profile.time)}"
        if plan == "time":
            yield "  # If the target looks ahead, such as the sales of next week, set the number"
            yield "  # of rows or a column of durations: rows whose target overlaps are left out."
            yield "  # horizon: 7"


def _rows(profile: Profile, plan: str) -> Iterator[str]:
    split, folds = PLANS[plan]
    if plan == "group" and not profile.counts:
        folds = "group"
    n_folds = 5
    if profile.counts:
        n_folds = max(2, min(5, int(0.7 * min(profile.counts.values()))))
    yield "# The test rows, which no search sees."
    yield "split:"
    yield f"  kind: {split}"
    yield "  test_size: 0.3"
    yield "folds:"
    yield f"  kind: {folds}"
    yield f"  n_folds: {n_folds}"
    if plan == "time":
        yield "  # gap: 7  # rows left out between training and test rows; split has it too"
        yield "  # max_train_size: 1000  # train on the latest rows only: a rolling window"


def _model(profile: Profile) -> Iterator[str]:
    kind = "LGBMClassifier" if profile.counts else "LGBMRegressor"
    yield "# Takes missing values and categories as they are."
    yield "model:"
    yield f"  estimator: lightgbm.{kind}"
    yield "  params:"
    yield f"    n_estimators: {60 if profile.n_rows < _LARGE else 100}"
    yield f"    num_leaves: {8 if profile.n_rows < _LARGE else 31}"
    yield f"    min_child_samples: {5 if profile.n_rows < _SMALL else 10}"
    if profile.is_rare:
        yield "    class_weight: balanced  # a class is rare"
    yield "    importance_type: gain"
    yield "    random_state: 0"
    yield "    verbosity: -1"


def _scoring(profile: Profile) -> Iterator[str]:
    if not profile.counts:
        yield "# The root of the mean squared error, in the unit of the target."
        yield "scoring: neg_root_mean_squared_error"
    elif len(profile.counts) > 2:
        if profile.is_rare:
            yield "# The mean recall of the classes, so that rare ones count."
        yield f"scoring: {'balanced_accuracy' if profile.is_rare else 'accuracy'}"
    else:
        yield "# Whether rows of the positive class are ranked first, however rare they are."
        yield "scoring: roc_auc"
        rare = next(iter(profile.counts))
        if set(profile.counts) not in ({0, 1}, {-1, 1}):
            yield f"pos_label: {_text(rare)}  # the rarer class"


def _name(path: str) -> str:
    stem = Path(path).name.split(".")[0]
    name = re.sub(r"[^A-Za-z0-9._-]+", "_", stem).strip("_")[:100]
    return name if re.search(r"[A-Za-z0-9]", name) else "table"


def _text(value: Any) -> str:
    """Return a value as JSON, which is YAML too."""
    return json.dumps(value, ensure_ascii=False)


def _texts(values: tuple[str, ...]) -> str:
    return f"[{', '.join(map(_text, values))}]"


def _short(label: Any) -> str:
    text = " ".join(str(label).split())
    return text if len(text) <= 20 else f"{text[:19]}…"

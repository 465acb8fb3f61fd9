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

__all__ = ["first_without_errors"]

# How rows are divided: split.kind and folds.kind, by what is known of the rows.
_PLANS = {
    "group": ("group", "stratified_group"),
    "time": ("time", "time"),
    "class": ("stratified", "stratified"),
    "random": ("random", "random"),
}
_SMALL, _LARGE = 500, 5000

# Values are written as JSON, which is YAML too.
_TEMPLATE = """\
# Written by `swarm init` from {{ "{:,}".format(profile.n_rows) }} rows. Read the comments, then
# `swarm check`, `swarm plan` and `swarm select` this file.
name: {{ name | json }}

data:
  source: file
  path: {{ path | json }}
  target: {{ profile.target | json }}  # {{ target }}
{% if profile.n_unlabelled %}
  # {{ "{:,}".format(profile.n_unlabelled) }} further rows have no target.
  on_missing_target: drop
{% endif %}
{% if style != usual %}
  csv:
{% for key in ("separator", "decimal", "encoding", "na_values") if style[key] != usual[key] %}
    {{ key }}: {{ style[key] | json }}{{ "  # read as missing" if key == "na_values" }}
{% endfor %}
{% endif %}
{% if profile.dropped %}
  # Columns that are no features. Remove a line to keep the column.
  drop:
{% for name, why in profile.dropped.items() %}
    - {{ name | json }}  # {{ why.split() | join(" ") }}
{% endfor %}
{% endif %}
{% if profile.categorical %}
{% for name, number in profile.numbers.items() %}
  # {{ name | json }} has numbers as text, such as {{ number | json }}: convert them in the table.
{% endfor %}
  categorical: {{ profile.categorical | json }}
{% endif %}
{% if profile.dates %}
{% if profile.time not in profile.dates %}
  # Replaced by year, month, day and weekday.
{% elif profile.dates | length > 1 %}
  # Replaced by year, month, day and weekday, except the one that orders the rows.
{% else %}
  # The format of the column that orders the rows, which is not a feature.
{% endif %}
  dates:
{% for name, form in profile.dates.items() %}
    {{ name | json }}: {{ form | json }}
{% endfor %}
{% endif %}
{% if profile.group is not none %}
{% if plan == "group" %}
  # Rows with the same value seem to belong together. If not, drop the column,
  # and set split.kind and folds.kind to stratified or random.
{% else %}
  # Groups that cannot be kept on one side of the split.
{% endif %}
  group: {{ profile.group | json }}
{% endif %}
{% if profile.time is not none %}
{% if plan == "time" %}
  # The rows are in order of this column: test on the latest ones.
{% else %}
  # The rows are in order of this column; to test on the latest ones, set
  # split.kind and folds.kind to time.
{% endif %}
  time: {{ profile.time | json }}
{% if plan == "time" %}
  # If the target looks ahead, such as the sales of next week, set the number
  # of rows or a column of durations: rows whose target overlaps are left out.
  # horizon: 7
{% endif %}
{% endif %}

# The test rows, which no search sees.
split:
  kind: {{ split }}
  test_size: 0.3
folds:
  kind: {{ folds }}
  n_folds: {{ n_folds }}
{% if plan == "time" %}
  # gap: 7  # rows left out between training and test rows; split has it too
  # max_train_size: 1000  # train on the latest rows only: a rolling window
{% endif %}
{% if forbidden %}

# Features with a single value in the training rows, such as parts of dates.
space:
  forbidden: {{ forbidden | json }}
{% endif %}

# Takes missing values and categories as they are.
model:
  estimator: lightgbm.{{ "LGBMClassifier" if classes else "LGBMRegressor" }}
  params:
    n_estimators: {{ 60 if profile.n_rows < large else 100 }}
    num_leaves: {{ 8 if profile.n_rows < large else 31 }}
    min_child_samples: {{ 5 if profile.n_rows < small else 10 }}
{% if profile.is_rare %}
    class_weight: balanced  # a class is rare
{% endif %}
    importance_type: gain
    random_state: 0
    verbosity: -1

{% if not classes %}
# The root of the mean squared error, in the unit of the target.
scoring: neg_root_mean_squared_error
{% elif classes | length == 2 %}
# Whether rows of the positive class are ranked first, however rare they are.
scoring: roc_auc
{% if not numbered %}
pos_label: {{ classes[0] | json }}  # the rarer class
{% endif %}
{% elif profile.is_rare %}
# The mean recall of the classes, so that rare ones count.
scoring: balanced_accuracy
{% else %}
scoring: accuracy
{% endif %}

budget:
  epochs: 20  # `swarm plan` estimates the time
"""


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
    from jinja2 import Environment, StrictUndefined

    environment = Environment(
        trim_blocks=True, keep_trailing_newline=True, undefined=StrictUndefined
    )
    environment.filters["json"] = lambda value: json.dumps(value, ensure_ascii=False)
    classes = list(profile.counts)
    split, folds = _PLANS[plan]
    return environment.from_string(_TEMPLATE).render(
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

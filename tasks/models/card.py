"""The model card: ``README.md`` in the folder of a stored model."""

from __future__ import annotations

import math
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from swarm.metrics import display_name
from swarm.validation import Judgement
from swarm.validation.sentences import format_score
from swarm.wording import listed


def render_card(facts: Mapping[str, Any], uri: str, example: Mapping[str, Any]) -> str:
    """Render the card of a model from its facts, its address and a row."""
    from jinja2 import Environment, StrictUndefined

    environment = Environment(undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {"cell": _cell, "code": _code, "values": _values}
    template = environment.from_string(
        (files("tasks.models") / "card.md.j2").read_text(encoding="utf-8")
    )
    return template.render(facts, uri=uri, example=repr(dict(example))) + "\n"


def score_rows(judgement: Judgement, contender: str) -> list[tuple[str, str, str]]:
    """Return each metric with the score of a contender and that of a model of all columns."""
    rows = {(row["contender"], row["metric"]): row for row in judgement.table.to_dict("records")}

    def score(name: str, metric: str) -> str:
        row = rows[name, metric]
        low, high = row["low"], row["high"]
        reach = "" if math.isnan(low) else f" [{format_score(low)}, {format_score(high)}]"
        return f"{format_score(row['value'])}{reach}"

    return [
        (display_name(each), score(contender, each), score("all_features", each))
        for each in judgement.metrics
    ]


def _cell(text: object) -> str:
    """Return a text in one line, in a cell of a table."""
    return " ".join(str(text).split()).replace("|", "\\|")


def _code(name: object) -> str:
    return _cell(f"`{str(name).replace('`', chr(39))}`")


def _values(column: Mapping[str, Any]) -> str:
    """Return the categories of a column, or its range."""
    if "levels" in column:
        return listed(column["levels"])
    if column.get("low") is None:
        return ""
    low, high = (f"{each:.6g}" if isinstance(each, float) else each for each in _range(column))
    return f"{low} to {high}"


def _range(column: Mapping[str, Any]) -> tuple[Any, Any]:
    """Return the bounds of a column, those of dates without a time if none has one."""
    low, high = column["low"], column["high"]
    if "format" in column and str(low).endswith("T00:00:00") and str(high).endswith("T00:00:00"):
        return low[:10], high[:10]
    return low, high

"""The model card: ``README.md`` in the folder of a stored model."""

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
        interval = "" if math.isnan(low) else f" [{format_score(low)}, {format_score(high)}]"
        return f"{format_score(row['value'])}{interval}"

    return [
        (display_name(metric), score(contender, metric), score("all_features", metric))
        for metric in judgement.metrics
    ]


def _cell(text: object) -> str:
    """Format a text in one line, for a cell of a Markdown table."""
    return " ".join(str(text).split()).replace("|", "\\|")


def _code(name: object) -> str:
    return _cell(f"`{str(name).replace('`', chr(39))}`")


def _values(column: Mapping[str, Any]) -> str:
    """Return the categories of a column, or its range."""
    if "levels" in column:
        return listed(column["levels"])
    if column.get("low") is None:
        return ""
    low, high = (f"{bound:.6g}" if isinstance(bound, float) else bound for bound in _range(column))
    return f"{low} to {high}"


def _range(column: Mapping[str, Any]) -> tuple[Any, Any]:
    """Return the bounds of a column; dates that are both at midnight are shown without a time."""
    low, high = column["low"], column["high"]
    if "format" in column and str(low).endswith("T00:00:00") and str(high).endswith("T00:00:00"):
        return low[:10], high[:10]
    return low, high

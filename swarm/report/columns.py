"""The table of columns in words: why each is in or out, see :mod:`swarm.search.columns`."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from swarm.json_data import records
from swarm.metrics import display_name
from swarm.report.table import TextTable
from swarm.search.columns import CHOSEN, FRESH_FOLDS, IN_ENSEMBLE
from swarm.validation.sentences import format_score
from swarm.wording import counted

_HEADER = ("column", "is", "scored on", "nearest", "|ρ|", "subsets", "with", "without", "swapped")
# The first columns are texts.
_N_TEXTS = 4
_STATUS = {CHOSEN: "chosen", IN_ENSEMBLE: "in other members of the ensemble", "out": "out"}


def column_records(columns: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the table of columns as JSON data, a mapping per column; unknown scores are null."""
    return records(columns.reset_index())


def columns_in_rows(columns: Sequence[Mapping[str, Any]]) -> TextTable:
    """Return the records of columns as a table of texts; it has swaps if any was measured."""
    rows = [
        (
            str(column["column"]),
            ", ".join(filter(None, (column["status"], column["note"]))),
            column["scored_on"],
            str(column["nearest"]),
            "" if column["correlation"] is None else f"{column['correlation']:.2f}",
            f"{column['n_subsets']:,}",
            _score(column["score_with"]),
            _score(column["score_without"]),
            _swapped(column),
        )
        for column in columns
    ]
    n_shown = len(_HEADER) if any(row[-1] for row in rows) else len(_HEADER) - 1
    return TextTable(_HEADER[:n_shown], [row[:n_shown] for row in rows], n_left=_N_TEXTS)


def describe_column(column: Mapping[str, Any], metric: str) -> Iterator[str]:
    """Yield sentences on why a column is in or out."""
    group = f", in the group {column['group']}" if column["group"] else ""
    note = f", {column['note']}" if column["note"] else ""
    yield f"{column['column']}: {_STATUS[column['status']]}{note}{group}"
    metric = display_name(metric)
    scores = [
        f"{_score(column[key])} {side} it"
        for key, side in (("score_with", "with"), ("score_without", "without"))
        if column[key] is not None
    ]
    text = f"measured in {counted(column['n_subsets'], 'subset')}"
    if scores:
        text += f"; {metric} of the best subset {' and '.join(scores)}, on {column['scored_on']}"
    yield text
    if column["nearest"] != "":
        other = "column left out" if column["status"] == CHOSEN else "chosen column"
        swapped = "not measured"
        if column["score_swapped"] is not None:
            swapped = f"{_score(column['score_swapped'])} on {column['swapped_on']}"
        yield (
            f"nearest {other}: {column['nearest']} (|ρ| {column['correlation']:.2f}); {metric} if "
            f"they change places: {swapped}"
        )


def _score(value: float | None) -> str:
    return "" if value is None else format_score(value)


def _swapped(column: Mapping[str, Any]) -> str:
    """Format the score of the swap, marked if it was not measured on fresh folds."""
    mark = "" if column["swapped_on"] in ("", FRESH_FOLDS) else " (search)"
    return f"{_score(column['score_swapped'])}{mark}"

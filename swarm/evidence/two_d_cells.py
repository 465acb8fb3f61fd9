"""Tables of two lines per cell: our figure, and under it the published one in italics."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import pandas as pd

from swarm.evidence.page import markdown_table
from swarm.evidence.published import (
    ALGORITHMS,
    CLASSIFIERS,
    DATASETS,
    SIGNS,
    TABLES,
    at,
    shown,
)
from swarm.evidence.two_d_claims import published_ranks
from swarm.evidence.two_d_tables import Tables, average_ranks

__all__ = ["classifier_section"]

_NONE = "–"
Cell = Callable[[str, str], str]


def classifier_section(tables: Tables, part: str) -> str:
    """Tables 3, 5, 6 and 8 (naive Bayes), or 4, 5, 7 and 9 (5-NN), as a section of the page."""
    numbers = {kind: TABLES[part, kind] for kind in ("error", "size", "time")}
    names = tables.algorithms
    return "\n".join(
        [
            f"## {_capital(CLASSIFIERS[part])}\n",
            f"### Error (Table {numbers['error']})\n",
            "Mean classification error of the best subsets.\n",
            _grid(tables, names, _error(tables.mean, part, "mean"), [], runs=True),
            "Its standard deviation over the runs.\n",
            _grid(tables, names, _error(tables.sd, part, "sd"), []),
            f"### Improvement and rank (Table {numbers['error']})\n",
            "PI in percent of the error of all features, rank in brackets.\n",
            _grid(tables, names, _percent(tables, part, "error"), _feet(tables, part, "error")),
            f"### Paired t-tests (Table {SIGNS})\n",
            "2D-UPSO against each other algorithm, two-sided at 95 %: + better, - worse, = every"
            " pair equal, ? not told apart. A pair is two runs with the same seed; the document"
            " does not say how it forms pairs. As there, nothing is corrected for the number of"
            " tests.\n",
            _tests(tables, part),
            f"### Subset size (Table {numbers['size']})\n",
            "Mean number of features of the best subsets.\n",
            _grid(tables, names, _size(tables, part), []),
            f"### Reduction and rank (Table {numbers['size']})\n",
            "Features left out in percent of all, rank in brackets.\n",
            _grid(tables, names, _percent(tables, part, "size"), _feet(tables, part, "size")),
            f"### Times (Table {numbers['time']})\n",
            "Mean seconds T1 (search) + T2 (evaluations) = T, rank by T in brackets.\n",
            _grid(
                tables,
                [str(name) for name in tables.t.columns],
                _time(tables, part),
                _feet(tables, part, "time"),
            ),
        ]
    )


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _stacked(ours: str, theirs: str) -> str:
    return f"{ours}<br>*{theirs}*" if theirs else ours


def _grid(
    tables: Tables, names: Sequence[str], cell: Cell, feet: list[list[str]], runs: bool = False
) -> str:
    """Data sets as rows, algorithms as columns, and what stands under the columns."""
    header = ["Data set", *(ALGORITHMS[name] for name in names)]
    rows = [
        [DATASETS.get(data, data), *(cell(data, name) for name in names)]
        for data in tables.datasets
    ]
    if runs:
        header.insert(1, "Runs")
        for row, data in zip(rows, tables.datasets, strict=True):
            counts = [float(at(tables.runs, data, name)) for name in names]
            low, high = int(min(counts)), int(max(counts))
            row.insert(1, str(low) if low == high else f"{low}–{high}")
    return markdown_table(header, [*rows, *feet])


def _text(frame: pd.DataFrame, data: str, name: str) -> str:
    """Figure as printed, empty where the document has none."""
    return str(at(frame, data, name)) if data in frame.index and name in frame else ""


def _rank(frame: pd.DataFrame, data: str, name: str) -> str:
    value = float(at(frame, data, name))
    return f" ({value:.0f})" if math.isfinite(value) else ""


def _small(value: float) -> str:
    return f"{value:.4f}" if value < 1e-12 or value >= 0.00005 else f"{value:.0e}"


def _error(ours: pd.DataFrame, part: str, quantity: str) -> Cell:
    theirs = shown(TABLES[part, "error"], quantity)

    def cell(data: str, name: str) -> str:
        value, printed = float(at(ours, data, name)), _text(theirs, data, name)
        # Some printed deviations of equal runs are rounding alone, such as 5.62E-17.
        return _stacked(
            _small(value) if math.isfinite(value) else _NONE,
            _small(float(printed)) if printed else "",
        )

    return cell


def _percent(tables: Tables, part: str, kind: str) -> Cell:
    error = kind == "error"
    ours = tables.improvement if error else tables.reduction
    places = tables.rank if error else tables.size_rank
    theirs = shown(TABLES[part, kind], "improvement" if error else "reduction")
    given = shown(TABLES[part, kind], "rank")

    def cell(data: str, name: str) -> str:
        value = float(at(ours, data, name))
        text = f"{value:.1f}" if math.isfinite(value) else _NONE
        printed = _text(theirs, data, name)
        return _stacked(
            text + _rank(places, data, name),
            f"{printed} ({_text(given, data, name)})" if printed else "",
        )

    return cell


def _size(tables: Tables, part: str) -> Cell:
    theirs = shown(TABLES[part, "size"], "size")

    def cell(data: str, name: str) -> str:
        value = float(at(tables.size, data, name))
        text = f"{value:.2f}" if math.isfinite(value) else _NONE
        return _stacked(text, _text(theirs, data, name))

    return cell


def _time(tables: Tables, part: str) -> Cell:
    table = TABLES[part, "time"]
    t1, t2, t, given = (shown(table, name) for name in ("t1", "t2", "t", "rank"))

    def cell(data: str, name: str) -> str:
        ours = [float(at(frame, data, name)) for frame in (tables.t1, tables.t2, tables.t)]
        text = _NONE
        if all(map(math.isfinite, ours)):
            text = f"{ours[0]:.2f} + {ours[1]:.2f} = {ours[2]:.2f}"
        parts = [_text(frame, data, name) for frame in (t1, t2, t, given)]
        printed = f"{parts[0]} + {parts[1]} = {parts[2]} ({parts[3]})" if parts[0] else ""
        return _stacked(text + _rank(tables.t_rank, data, name), printed)

    return cell


def _feet(tables: Tables, part: str, kind: str) -> list[list[str]]:
    """Average and overall rank over the ranked sets, and those of the document."""
    frame = {"error": tables.rank, "size": tables.size_rank, "time": tables.t_rank}[kind]
    names = [str(name) for name in frame.columns]
    ours = average_ranks(frame)
    same = [str(data) for data in frame.dropna().index if data in DATASETS]
    theirs = average_ranks(published_ranks(part, kind, same, names))
    table = TABLES[part, kind]
    rows = []
    for column, printed, label, form in (
        ("average", "average_rank", "Average rank", ".1f"),
        ("overall", "overall_rank", "Overall rank", ".0f"),
    ):
        given = shown(table, printed)
        line, whole = [f"**{label}**"], [f"*{label}, 16 sets*"]
        for name in names:
            value = float(at(ours, name, column))
            text = format(value, form) if math.isfinite(value) else _NONE
            known = name in theirs.index and same
            beside = format(float(at(theirs, name, column)), form) if known else ""
            line.append(_stacked(text, beside))
            whole.append(f"*{at(given, 'all', name)}*" if name in given else _NONE)
        rows += [line, whole]
    # Both lines of ours first, then what the document prints over all of its data sets.
    return [rows[0], rows[2], rows[1], rows[3]]


def _tests(tables: Tables, part: str) -> str:
    theirs = shown(SIGNS, f"sign_{part}")
    names = [str(name) for name in tables.signs.columns]

    def cell(data: str, name: str) -> str:
        ours = str(at(tables.signs, data, name)) or _NONE
        return _stacked(_sign(ours), _sign(_text(theirs, data, name)))

    same = [data for data in tables.datasets if data in theirs.index]
    counts = [
        "**+ - = ?**",
        *(
            _stacked(_counted(tables.signs[name]), _counted(theirs.loc[same, name]) if same else "")
            for name in names
        ),
    ]
    return _grid(tables, names, cell, [counts])


def _sign(text: str) -> str:
    """A sign that Markdown does not take for a list or a rule."""
    return {"+": "\\+", "-": "\\-"}.get(text, text)


def _counted(signs: pd.Series) -> str:
    return " / ".join(str(int((signs == mark).sum())) for mark in "+-=?")

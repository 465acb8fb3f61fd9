"""What must not be compared with document 002, and why: its errors of all features."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from swarm.evidence.page import markdown_table
from swarm.evidence.published import ALGORITHMS, CLASSIFIERS, DATASETS, shown
from swarm.evidence.two_d_tables import Tables

__all__ = ["caveats_section"]

# A share of a class and a mean error of 10 folds of unequal size differ by about this much.
_NEAR = 0.001
# Our facts of a data set, and the columns of Table 1.
_COUNTS = {"rows": "instances", "columns": "features", "classes": "classes"}


def caveats_section(tables: Mapping[str, Tables], facts: Mapping[str, Any]) -> str:
    """Section of the page: our errors of all features beside the published ones."""
    sets = facts.get("sets", {})
    names = [
        name
        for name in dict.fromkeys(data for found in tables.values() for data in found.datasets)
        if name in DATASETS
    ]
    if not names:
        return ""
    said = [
        _guessed(names, sets),
        _zoo(tables, sets),
        _sonar(tables),
        _others(names, tables, sets),
        _evaluations(tables),
    ]
    return "\n".join(
        [
            "## What is not compared\n",
            "The errors of all features in Table 1 of the document are not those of standard"
            " classifiers, so ranks, improvements and sizes are compared here, and absolute errors"
            " are not.\n",
            *(f"- {text}" for text in said if text),
            "",
            _table(names, tables, sets),
        ]
    )


def _known(tables: Mapping[str, Tables], part: str, data: str) -> float:
    found = tables.get(part)
    return float(found.everything.get(data, math.nan)) if found is not None else math.nan


def _four(value: float) -> str:
    return f"{value:.4f}" if math.isfinite(value) else "–"


def _size(name: str, data: str, sets: Mapping[str, Any], tables: Mapping[str, Tables]) -> str:
    """Rows or columns of a data set as we have it, for a cell."""
    known = sets.get(data, {}).get(name)
    if known is None and name == "columns":
        counts = [found.available.get(data, math.nan) for found in tables.values()]
        known = next((int(count) for count in counts if math.isfinite(count)), None)
    return "–" if known is None else str(known)


def _table(names: list[str], tables: Mapping[str, Tables], sets: Mapping[str, Any]) -> str:
    printed = {name: shown(1, name)["all"] for name in _COUNTS.values()}
    errors = {part: shown(1, f"error_{part}")["all"] for part in CLASSIFIERS}
    rows = []
    for data in names:
        cells = [DATASETS[data]]
        for ours, theirs in _COUNTS.items():
            cells.append(f"{_size(ours, data, sets, tables)}<br>*{printed[theirs][data]}*")
        cells += [
            f"{_four(_known(tables, part, data))}<br>*{errors[part][data]}*" for part in CLASSIFIERS
        ]
        rows.append(cells)
    header = ["Data set", "Rows", "Features", "Classes"]
    return markdown_table([*header, *(f"J(U), {name}" for name in CLASSIFIERS.values())], rows)


def _guessed(names: list[str], sets: Mapping[str, Any]) -> str:
    """Data sets whose published error is that of always guessing the largest class."""
    errors = shown(1, "error_nb")["all"]
    found = []
    for data in names:
        counts = sets.get(data, {}).get("class_rows")
        if not counts:
            continue
        total, largest = sum(counts), max(counts)
        if abs(1 - largest / total - float(errors[data])) <= _NEAR:
            found.append(
                f"{DATASETS[data]} ({errors[data]}; {total - largest} of {total} rows are"
                f" {'the smaller class' if len(counts) == 2 else 'not of the largest class'},"
                f" {1 - largest / total:.4f})"
            )
    if not found:
        return ""
    return (
        "With naive Bayes the published error of all features is that of always guessing the"
        f" largest class on {', '.join(found)}: a model that has learnt nothing."
    )


def _zoo(tables: Mapping[str, Tables], sets: Mapping[str, Any]) -> str:
    theirs, ours = shown(1, "features")["all"]["zoo"], _size("columns", "zoo", sets, tables)
    if ours in ("–", theirs):
        return ""
    return (
        f"Zoo has {theirs} features in the document and {ours} here: it counts the animal's name"
        " as a feature."
    )


def _sonar(tables: Mapping[str, Tables]) -> str:
    ours, theirs = _known(tables, "knn", "sonar"), shown(1, "error_knn")["all"]["sonar"]
    if not ours < float(theirs) - 0.1:
        return ""
    return (
        f"On Sonar the published 5-NN error of all features is {theirs}, here it is {ours:.4f}. The"
        " file is in an order, and folds that are cut from it unshuffled give errors of that"
        " size; the document does not say whether it shuffles."
    )


def _others(names: list[str], tables: Mapping[str, Tables], sets: Mapping[str, Any]) -> str:
    """Data sets that are not of the document's size here."""
    found = []
    for data in names:
        for ours, theirs in (("rows", "instances"), ("columns", "features")):
            here, there = _size(ours, data, sets, tables), shown(1, theirs)["all"][data]
            if here not in ("–", there) and (data, ours) != ("zoo", "columns"):
                what = "rows" if ours == "rows" else "features"
                note = str(sets.get(data, {}).get("note", ""))
                why = f": {note}" if note else ""
                found.append(f"{DATASETS[data]} ({here} {what}, document {there}{why})")
    return f"Of another size here than in Table 1: {', '.join(found)}." if found else ""


def _evaluations(tables: Mapping[str, Tables]) -> str:
    """What T2 counts: repeated subsets cost nothing here."""
    told = []
    for part, found in tables.items():
        means = found.distinct.loc[found.ranked].mean()
        if found.ranked:
            each = ", ".join(f"{ALGORITHMS[str(name)]} {means[name]:.0f}" for name in means.index)
            told.append(f"{CLASSIFIERS[part]}: {each}")
    if not told:
        return ""
    return (
        "Times are of another machine and program. A subset that comes up again is not evaluated"
        " again here, so T2 also depends on how many different subsets a search tries. Mean number"
        f" of those over the ranked data sets: {'; '.join(told)}."
    )

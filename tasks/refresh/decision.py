"""The decision of a refresh: the rows that it rests on, its comparison, and its outputs.

Rows that a champion was trained on are known again in a later table by their hashes.
"""

from __future__ import annotations

import contextlib
import io
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from swarm.answers import Answers
from swarm.arrays import AnyArray
from swarm.errors import InputError
from swarm.findings.rows import hash_rows, is_distinguished
from swarm.json_data import json_file, plain
from swarm.problem.problem import Problem
from swarm.problem.table import plain_target
from swarm.rows import Rows
from swarm.validation.answers import EvaluationTarget
from swarm.validation.jackknife import MIN_GROUPS
from swarm.validation.judgement import guess_of
from tasks.prefect_artifacts import show_table
from tasks.refresh.champion import ROLLED_BACK, Champion, Champions, publish_features
from tasks.refresh.paired_comparison import PairedComparison, duel
from tasks.step import step
from tasks.steps import positive_of
from tasks.table import Table

# Rows of each class without which a comparison promotes nothing.
_LEAST_OF_CLASS = 10


def record_of_rows(train: Table) -> bytes:
    """Return the names of the columns and a hash of 32 bits of each row, as a file of NumPy.

    One row in 4,000 is found by mistake among a million others, which does no harm. Where rows are
    equal by chance, as in a few columns of categories, the file has no hashes.
    """
    names = list(map(str, train.features))
    rows = np.unique(_hashes(train, names))
    if not is_distinguished(train.features, len(rows)):
        rows = rows[:0]
    file = io.BytesIO()
    np.savez(file, columns=np.array(names, dtype=str), rows=rows)
    return file.getvalue()


def find_trained_rows(record: bytes, table: Table) -> NDArray[np.bool_] | None:
    """Find the rows of a table that a champion was trained on, or that share a group with one.

    The record is one of :func:`record_of_rows`. None if it has no hashes, or the table lacks one of
    its columns.
    """
    with np.load(io.BytesIO(record)) as stored:
        names, rows = stored["columns"].tolist(), stored["rows"]
    if not len(rows) or not set(names) <= set(table.features):
        return None
    is_trained = np.isin(_hashes(table, names), rows)
    if table.groups is not None:
        is_trained = table.groups.isin(table.groups[is_trained]).to_numpy()
    return is_trained


def _hashes(table: Table, names: list[str]) -> NDArray[np.uint32]:
    """Hash features and target of each row."""
    target = table.target.to_frame() if isinstance(table.target, pd.Series) else table.target
    both = pd.concat([table.features[names], target], axis=1)
    return (hash_rows(both) >> np.uint64(32)).astype(np.uint32)


def labels_of(*targets: Any) -> list[Any]:
    """Return the distinct labels of classes as JSON types, in the order of their text."""
    labels = {plain(label) for target in targets for label in plain_target(target)}
    known = (label if isinstance(label, str | int | float) else str(label) for label in labels)
    return sorted(known, key=str)


def shortage(compared: PairedComparison, target: Any, least_rows: int) -> str:
    """Say what the compared rows lack for a promotion; empty if nothing.

    `target` is that of these rows if they have classes, else None.
    """
    lacks = []
    if compared.n_rows < least_rows:
        lacks.append(f"at least {least_rows} test rows, got {compared.n_rows}")
    counts = pd.Series(dtype=int) if target is None else pd.Series(target).value_counts()
    if len(counts) and counts.min() < _LEAST_OF_CLASS:
        least = f"{counts.min()} of {plain(counts.idxmin())!r}"
        lacks.append(f"at least {_LEAST_OF_CLASS} of each class, got {least}")
    if math.isnan(compared.low):
        few = compared.n_groups is not None and compared.n_groups < MIN_GROUPS
        groups = f"at least {MIN_GROUPS} groups, got {compared.n_groups}"
        lacks.append(groups if few else "an interval of the gain, which these rows do not give")
    return f"a promotion needs {', and '.join(lacks)}" if lacks else ""


def worse_than_guessing(
    problem: Problem,
    train: Table,
    test: Table,
    champion: Answers,
    *,
    metric: str,
    split: str,  # kind of the split
) -> PairedComparison | None:
    """Compare a champion with a guess, in a duel; None if it is not significantly worse."""
    truth = _truth(problem, train, test, test.rows_to_test(problem, split))
    # A metric that is undefined for these rows is refused with the reason when they are judged.
    with contextlib.suppress(InputError):
        guess = guess_of(truth, metric)
        if guess is not None:
            # Directly, as it is not the duel that Prefect's page shows.
            found = measure.fn(problem, train, test, guess, champion, metric=metric, split=split)
            return found if found.high < 0.0 else None
    return None


def _truth(problem: Problem, train: Table, test: Table, rows: Rows) -> EvaluationTarget:
    positive = positive_of(problem)
    return EvaluationTarget.of(problem.estimator, train.target, test.target, positive, rows.weight)


@step("duel")
def measure(
    problem: Problem,
    train: Table,
    test: Table,
    champion: Answers,
    challenger: Answers,
    *,
    metric: str,
    split: str,  # kind of the split
    **options: Any,
) -> PairedComparison:
    """Compare two predictions of the test rows."""
    rows = test.rows_to_test(problem, split)
    truth = _truth(problem, train, test, rows)
    before, now = (
        replace(one, predicted=plain_target(one.predicted)) for one in (champion, challenger)
    )
    return duel(truth, before, now, metric, groups=rows.groups, time=rows.time, **options)


def compared_predictions(
    predictions: pd.DataFrame,  # those of the answer and its baselines on the test rows
    test: Rows,
    answers: Mapping[str, Answers],  # of "served", and of the "champion" of a refresh
) -> pd.DataFrame:
    """Return the predictions of all contenders with everything that a comparison needs.

    The probability of a class is in the column ``served.proba.CLASS``, a decision value in
    ``served.decision``.
    """
    columns: dict[str, Any] = {}
    given = {"group": test.groups, "time": test.time, "weight": test.weight}
    columns |= {name: values for name, values in given.items() if values is not None}
    labels = list(test.target.columns) if isinstance(test.target, pd.DataFrame) else []
    for name, one in answers.items():
        columns |= _by_column(name, plain_target(one.predicted), labels)
        if isinstance(one.proba, list):
            columns |= {
                f"{name}.proba.{label}": proba[:, -1]
                for label, proba in zip(labels, one.proba, strict=True)
            }
        elif one.proba is not None:
            columns |= _by_column(f"{name}.proba", one.proba, one.classes)
        if one.decision is not None:
            columns |= _by_column(f"{name}.decision", one.decision, one.classes)
    return predictions.assign(**columns)


def _by_column(name: str, values: AnyArray, labels: Any) -> dict[str, AnyArray]:
    """Return an array (n_rows,) or (n_rows, n_labels) as columns."""
    if values.ndim == 1:
        return {name: values}
    return {f"{name}.{label}": values[:, i] for i, label in enumerate(labels)}


def decision_files(record: Mapping[str, Any], drift: pd.DataFrame) -> dict[str, bytes]:
    """Return the artifacts ``decision.json`` and ``drift.csv``."""
    return {
        "decision.json": json_file(record),
        "drift.csv": drift.to_csv(index=False).encode(),
    }


def show_decision(record: Mapping[str, Any]) -> None:
    """Show the decision in Prefect's UI; a failure is ignored."""
    duel_of = record["duel"] or {}
    sides = {side: record[side] for side in ("winner", "loser")}
    row = {
        "decision": record["decision"],
        "why": record["why"],
        **{side: f"version {one['version']}" if one else "none" for side, one in sides.items()},
        "gain": duel_of.get("gain"),
        "chance": duel_of.get("chance"),
        "data": record["data"],
        "run": record["run"],
    }
    show_table(f"decision-{_key(record['name'])}", [row], str(record["why"]))


def complete_change(champions: Champions, champion: Champion, *, events: bool = True) -> None:
    """Publish the features of a new champion, and emit the event on which automations run.

    What an interrupted refresh or rollback has done is not repeated, but for an event of which it
    is not known whether it was sent.
    """
    publish_features(champions, champion)
    if not champion.pending:
        return
    why = champion.why
    if champion.pending == ROLLED_BACK and champion.instead_of:
        why = f"rolled back from version {champion.instead_of}"
    if events:
        emit_change(champion, champion.pending, why, _difference(champions, champion))
    champions.complete(champion)


def _difference(champions: Champions, champion: Champion) -> str:
    """Return how a promoted champion differs from the one before; empty after a rollback."""
    if champion.pending == ROLLED_BACK:
        return ""
    tags: Mapping[str, str] = champions.tracking.run(champion.run_id).data.tags
    return tags.get("difference", "")


def emit_change(champion: Champion, decision: str, why: str, difference: str = "") -> None:
    """Emit the event of a changed champion; a failure is ignored."""
    from prefect.events import emit_event

    with contextlib.suppress(Exception):
        emit_event(
            event="swarm.champion.promoted",
            resource={
                "prefect.resource.id": f"swarm.champion.{_key(champion.name)}",
                "prefect.resource.name": champion.name,
            },
            payload={
                "decision": decision,
                "why": why,
                "difference": difference,
                "champion": f"{champion.name} version {champion.version}",
                "run": champion.run_id,
                # For automations, which hand them on as parameters.
                "name": champion.name,
                "version": champion.version,
            },
        )


def _key(name: str) -> str:
    return "".join(c if c.isalnum() else "-" for c in name.lower()).strip("-")

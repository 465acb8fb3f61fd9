"""The decision of a refresh: the rows that it rests on, its comparison, and its outputs.

Rows that a champion was trained on are known again in a later table by their hashes.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from swarm.ensemble import plain_target
from swarm.findings.rows import hash_rows, is_distinguished
from swarm.problem.problem import Problem
from swarm.validation.answers import Answers, EvaluationTarget
from swarm.validation.paired_comparison import PairedComparison, duel
from tasks.prefect_artifacts import show_table
from tasks.step import step
from tasks.steps import positive_of
from tasks.table import Table, formerly_named
from tasks.tracking.run_log import json_file


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

    Parameters
    ----------
    record : bytes
        From :func:`record_of_rows`.
    table : Table

    Returns
    -------
    bool (n_rows,) or None
        None if the table lacks one of the columns by which rows are recognised.
    """
    with np.load(io.BytesIO(record)) as stored:
        names, rows = stored["columns"].tolist(), stored["rows"]
    table = replace(table, features=formerly_named(table.features, names))
    if not set(names) <= set(table.features):
        return None
    found = np.isin(_hashes(table, names), rows)
    if table.groups is not None:
        found = table.groups.isin(table.groups[found]).to_numpy()
    return found


def _hashes(table: Table, names: list[str]) -> NDArray[np.uint32]:
    """Hash features and target of each row."""
    target = table.target.to_frame() if isinstance(table.target, pd.Series) else table.target
    both = pd.concat([table.features[names], target], axis=1)
    return (hash_rows(both) >> np.uint64(32)).astype(np.uint32)


@step("duel")
def measure(
    problem: Problem,
    train: Table,
    test: Table,
    champion: Answers,
    challenger: Answers,
    *,
    metric: str,
    **options: Any,
) -> PairedComparison:
    """Compare two predictions of the test rows by a paired bootstrap."""
    truth = EvaluationTarget.of(
        problem.estimator,
        train.target,
        test.target,
        positive_of(problem),
        test.weight_in_score(problem),
    )
    groups = None if test.groups is None else test.groups.to_numpy()
    before, now = (
        replace(one, predicted=plain_target(one.predicted)) for one in (champion, challenger)
    )
    return duel(truth, before, now, metric, groups=groups, **options)


def decision_files(record: Mapping[str, Any], drift: pd.DataFrame) -> dict[str, bytes]:
    """Return the artifacts ``decision.json`` and ``drift.csv``."""
    return {
        "decision.json": json_file(record),
        "drift.csv": drift.to_csv(index=False).encode(),
    }


def announce(record: Mapping[str, Any]) -> None:
    """Show the decision in Prefect's UI, and emit an event if the champion changed.

    A failure of either is ignored: the refresh itself is complete.
    """
    champion = record["champion"]
    duel_of = record["duel"] or {}
    row = {
        "decision": record["decision"],
        "why": record["why"],
        "champion": f"{champion['name']} version {champion['version']}",
        "challenger": f"version {record['challenger']['version']}",
        "gain": duel_of.get("gain"),
        "chance": duel_of.get("chance"),
        "data": record["data"],
        "run": record["challenger"]["run"],
    }
    show_table(f"decision-{_key(champion['name'])}", [row], str(record["why"]))
    if record["decision"] in ("first", "promoted", "replaced"):
        emit_change(champion["name"], champion["version"], row["run"], row["decision"], row["why"])


def emit_change(name: str, version: str, run_id: str, decision: str, why: str) -> None:
    """Emit the event of a changed champion, on which automations run; a failure is ignored."""
    from prefect.events import emit_event

    with contextlib.suppress(Exception):
        emit_event(
            event="swarm.champion.promoted",
            resource={
                "prefect.resource.id": f"swarm.champion.{_key(name)}",
                "prefect.resource.name": name,
            },
            payload={
                "decision": decision,
                "why": why,
                "champion": f"{name} version {version}",
                "run": run_id,
                # For automations, which hand them on as parameters.
                "name": name,
                "version": version,
            },
        )


def _key(name: str) -> str:
    return "".join(c if c.isalnum() else "-" for c in name.lower()).strip("-")

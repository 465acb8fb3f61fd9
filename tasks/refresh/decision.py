"""The decision of a refresh: its rows, its comparison, and its outputs.

Rows that a champion was trained on are recognised in a later table by their hashes.
"""

import contextlib
import io
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from swarm.answers import Answers
from swarm.arrays import AnyArray, Bool
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

# A comparison on fewer rows of a class promotes nothing.
_MIN_CLASS_ROWS = 10


def record_of_rows(train: Table) -> bytes:
    """Return the names of the columns and a hash of 32 bits of each row, as a file of NumPy.

    Among a million other rows, one in 4,000 is found by mistake, which does no harm. If rows are
    equal by chance, as in a few columns of categories, the file has no hashes.
    """
    names = list(map(str, train.features))
    rows = np.unique(_hashes(train, names))
    if not is_distinguished(train.features, len(rows)):
        rows = rows[:0]
    file = io.BytesIO()
    np.savez(file, columns=np.array(names, dtype=str), rows=rows)
    return file.getvalue()


def find_trained_rows(record: bytes, table: Table) -> Bool | None:
    """Find the rows of a table that a champion was trained on, or that share a group with one.

    The record comes from :func:`record_of_rows`. None if it has no hashes, or the table lacks one
    of its columns.
    """
    with np.load(io.BytesIO(record)) as stored:
        names = stored["columns"].tolist()
        rows = stored["rows"]
    if not len(rows) or not set(names) <= set(table.features):
        return None
    is_trained = np.isin(_hashes(table, names), rows)
    if table.groups is not None:
        is_trained = table.groups.isin(table.groups[is_trained]).to_numpy()
    return is_trained


def _hashes(table: Table, names: list[str]) -> NDArray[np.uint32]:
    """Hash features and target of each row."""
    target = table.target.to_frame() if isinstance(table.target, pd.Series) else table.target
    features_and_target = pd.concat([table.features[names], target], axis=1)
    return (hash_rows(features_and_target) >> np.uint64(32)).astype(np.uint32)


def labels_of(*targets: ArrayLike) -> list[Any]:
    """Return the distinct labels of classes as JSON types, in the order of their text."""
    labels = {plain(label) for target in targets for label in plain_target(target)}
    as_json = (label if isinstance(label, str | int | float) else str(label) for label in labels)
    return sorted(as_json, key=str)


def shortage(compared: PairedComparison, target: ArrayLike | None, least_rows: int) -> str:
    """Say what the compared rows lack for a promotion; empty if nothing.

    `target` is the target of these rows if they have classes, else None.
    """
    needs = []
    if compared.n_rows < least_rows:
        needs.append(f"at least {least_rows} test rows, got {compared.n_rows}")
    counts = pd.Series(dtype=int) if target is None else pd.Series(target).value_counts()
    if len(counts) and counts.min() < _MIN_CLASS_ROWS:
        rarest = f"{counts.min()} of {plain(counts.idxmin())!r}"
        needs.append(f"at least {_MIN_CLASS_ROWS} of each class, got {rarest}")
    if math.isnan(compared.low):
        if compared.n_groups is not None and compared.n_groups < MIN_GROUPS:
            needs.append(f"at least {MIN_GROUPS} groups, got {compared.n_groups}")
        else:
            needs.append("an interval of the gain, which these rows do not give")
    return f"a promotion needs {', and '.join(needs)}" if needs else ""


def worse_than_guessing(
    problem: Problem,
    train: Table,
    test: Table,
    champion: Answers,
    *,
    metric: str,
    split: str,
) -> PairedComparison | None:
    """Compare a champion with a guess, in a duel; None if it is not significantly worse.

    `split` is the kind of the split.
    """
    truth = _truth(problem, train, test, test.rows_to_test(problem, split))
    # A metric that is undefined for these rows is refused with the reason when they are judged.
    with contextlib.suppress(InputError):
        guess = guess_of(truth, metric)
        if guess is not None:
            # `measure` itself would show this duel on Prefect's page.
            compared = measure.fn(problem, train, test, guess, champion, metric=metric, split=split)
            return compared if compared.high < 0.0 else None
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
    split: str,
    **options: Any,
) -> PairedComparison:
    """Compare two predictions of the test rows; see :func:`duel`.

    `split` is the kind of the split.
    """
    rows = test.rows_to_test(problem, split)
    truth = _truth(problem, train, test, rows)
    before, now = (
        replace(answers, predicted=plain_target(answers.predicted))
        for answers in (champion, challenger)
    )
    return duel(truth, before, now, metric, groups=rows.groups, time=rows.time, **options)


def compared_predictions(
    predictions: pd.DataFrame, test: Rows, answers: Mapping[str, Answers]
) -> pd.DataFrame:
    """Return the predictions of all contenders with everything that a comparison needs.

    The probability of a class is in the column ``served.proba.CLASS``, a decision value in
    ``served.decision``.

    Parameters
    ----------
    predictions : DataFrame
        Predictions of the answer and its baselines on the test rows.
    test : Rows
    answers : dict
        Answers of "served", and of the "champion" of a refresh.
    """
    roles = {"group": test.groups, "time": test.time, "weight": test.weight}
    columns: dict[str, Any] = {name: values for name, values in roles.items() if values is not None}
    labels = list(test.target.columns) if isinstance(test.target, pd.DataFrame) else []
    for name, answer in answers.items():
        columns |= _by_column(name, plain_target(answer.predicted), labels)
        if isinstance(answer.proba, list):
            columns |= {
                f"{name}.proba.{label}": proba[:, -1]
                for label, proba in zip(labels, answer.proba, strict=True)
            }
        elif answer.proba is not None:
            columns |= _by_column(f"{name}.proba", answer.proba, answer.classes)
        if answer.decision is not None:
            columns |= _by_column(f"{name}.decision", answer.decision, answer.classes)
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
    compared = record["duel"] or {}
    versions = {
        side: f"version {record[side]['version']}" if record[side] else "none"
        for side in ("winner", "loser")
    }
    row = {
        "decision": record["decision"],
        "why": record["why"],
        **versions,
        "gain": compared.get("gain"),
        "chance": compared.get("chance"),
        "data": record["data"],
        "run": record["run"],
    }
    show_table(f"decision-{_key(record['name'])}", [row], str(record["why"]))


def complete_change(champions: Champions, champion: Champion, *, events: bool = True) -> None:
    """Publish the features of a new champion, and emit the event on which automations run.

    Work of an interrupted refresh or rollback is not repeated, except for an event that may or may
    not have been sent.
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
                # Automations pass these two on as parameters.
                "name": champion.name,
                "version": champion.version,
            },
        )


def _key(name: str) -> str:
    return "".join(c if c.isalnum() else "-" for c in name.lower()).strip("-")

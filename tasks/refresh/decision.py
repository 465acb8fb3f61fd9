"""The decision of a refresh and its outputs: record, features file, artifact and event."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pandas as pd

from swarm.ensemble import plain_target
from swarm.problem.problem import Problem
from swarm.validation.answers import Answers
from swarm.validation.evaluation_target import EvaluationTarget
from swarm.validation.paired_comparison import PairedComparison, duel
from tasks.prefect_artifacts import show_table
from tasks.refresh.champion import Champion, Champions
from tasks.refresh.publish import publish, published_version
from tasks.secrets import expand
from tasks.step import step
from tasks.steps import positive_of
from tasks.table import Table
from tasks.tracking.run_log import json_file

__all__ = ["announce", "decision_files", "emit_change", "measure", "publish_features"]


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
    truth = EvaluationTarget.of(problem.estimator, train.target, test.target, positive_of(problem))
    groups = None if test.groups is None else test.groups.to_numpy()
    before, now = (
        replace(one, predicted=plain_target(one.predicted)) for one in (champion, challenger)
    )
    return duel(truth, before, now, metric, groups=groups, **options)


def publish_features(
    champions: Champions,
    champion: Champion,
    location: str | None,
    *,
    only_if_stale: bool = False,
) -> None:
    """Publish the features of a champion; with `only_if_stale` unless they are already there."""
    if location is None:
        return
    location = expand(location, "address to publish to")
    if only_if_stale and published_version(location) == champion.version:
        return
    answer = champions.answer(champion)
    publish(
        location,
        {
            "name": champion.name,
            "version": champion.version,
            "model": champion.uri,
            "run": champion.run_id,
            "since": champion.since,
            "why": champion.why,
            **answer,
        },
    )


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

"""The description of an experiment: the answers of its last runs.

MLflow shows it above the table of runs, which has no tags or metrics before a user adds columns. A
link can only add columns by a shared view, with a banner that asks whether to keep it.
"""

from __future__ import annotations

import contextlib
from typing import Any, NamedTuple

from swarm.metrics import display_name, natural_name
from tasks.tracking.curves import best_score, fresh_score, unseen_score
from tasks.tracking.writes import NOTE

# Their rows fit into a tag of an experiment, which has 5,000 characters at most.
_MOST_RUNS = 10
# Any other description is somebody's own.
_END = "*Written at the end of each run of swarm, unless you change it.*"


class Score(NamedTuple):
    """A score of a run, by the name of its metric, and what it was measured on."""

    metric: str
    value: float
    where: str


def score_of(run: Any) -> Score | None:
    """Return the score of the best subset on unseen rows, else on fresh folds or of the search.

    `run` is an ``mlflow.entities.Run``.
    """
    scorer, metrics = run.data.tags.get("scoring", ""), run.data.metrics
    for name, where in (
        (unseen_score(natural_name(scorer)), "on unseen rows"),
        (fresh_score(scorer), "on new folds"),
        (best_score(scorer), "in the search"),
    ):
        if name in metrics:
            return Score(display_name(natural_name(scorer)), metrics[name], where)
    return None


def describe_experiment(client: Any, experiment_id: str) -> None:
    """Write the last answers into the description of an experiment, if that is not a user's.

    It is no part of a run: a store that refuses it, or is away, is ignored.
    """
    with contextlib.suppress(Exception):
        written = client.get_experiment(experiment_id).tags.get(NOTE, "")
        if written and not written.endswith(_END):
            return
        runs = client.search_runs(
            [experiment_id],
            "tags.headline LIKE '%'",
            max_results=_MOST_RUNS,
            order_by=["attributes.start_time DESC"],
        )
        client.set_experiment_tag(experiment_id, NOTE, _description(experiment_id, runs))


def _description(experiment_id: str, runs: list[Any]) -> str:
    """Return the last answer in one line, which MLflow shows at once, and a table of all."""
    first, rows = "", list[str]()
    for run in runs:
        tags, score = run.data.tags, score_of(run)
        link = f"[{run.info.run_name}](#/experiments/{experiment_id}/runs/{run.info.run_id})"
        answer = tags["headline"]
        value = "" if score is None else f"{score.metric} {score.value:.3f}"
        first = first or f"{link}: {'. '.join(filter(None, [value, answer]))}"
        where = "" if score is None else f" {score.where}"
        cells = (link, answer, f"{value}{where}", tags.get("kept", ""), tags.get("strategy", ""))
        rows.append(f"| {' | '.join(cell.replace('|', ' ') for cell in cells)} |")
    header = "| run | answer | score | kept | strategy |\n| --- | --- | --- | --- | --- |"
    return "\n\n".join([first, "\n".join([header, *rows]), _END])

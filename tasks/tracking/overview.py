"""The description of an experiment: the answers of its last runs.

MLflow shows it above the table of runs, which has no tags or metrics before a user adds columns. A
link can only add columns by a shared view, with a banner that asks whether to keep it.
"""

import contextlib
from typing import Any, NamedTuple

from swarm.metrics import display_name, natural_name
from tasks.tracking.curves import best_score, fresh_score, unseen_score
from tasks.tracking.writes import NOTE

# So many rows fit into a tag of an experiment, which has 5,000 characters at most.
_MAX_RUNS = 10
# A description with another end was written by a user.
_END = "*Written at the end of each run of swarm, unless you change it.*"


class Score(NamedTuple):
    """A score of a run.

    Attributes
    ----------
    metric : str
        Name of the metric, as it is shown.
    value : float
    where : str
        Rows on which it was measured, such as "on unseen rows".
    """

    metric: str
    value: float
    where: str


def score_of(run: Any) -> Score | None:
    """Return the score of the best subset on unseen rows, else on fresh folds or of the search.

    `run` is an ``mlflow.entities.Run``.
    """
    scorer = run.data.tags.get("scoring", "")
    metrics = run.data.metrics
    for name, where in (
        (unseen_score(natural_name(scorer)), "on unseen rows"),
        (fresh_score(scorer), "on new folds"),
        (best_score(scorer), "in the search"),
    ):
        if name in metrics:
            return Score(display_name(natural_name(scorer)), metrics[name], where)
    return None


def describe_experiment(client: Any, experiment_id: str) -> None:
    """Write the last answers into the description of an experiment, unless a user has written it.

    The description is no part of a run: a store that refuses it, or is away, is ignored.
    """
    with contextlib.suppress(Exception):
        description = client.get_experiment(experiment_id).tags.get(NOTE, "")
        if description and not description.endswith(_END):
            return
        runs = client.search_runs(
            [experiment_id],
            "tags.headline LIKE '%'",
            max_results=_MAX_RUNS,
            order_by=["attributes.start_time DESC"],
        )
        client.set_experiment_tag(experiment_id, NOTE, _description(experiment_id, runs))


def _description(experiment_id: str, runs: list[Any]) -> str:
    """Return the last answer in one line, which MLflow shows at once, and a table of all."""
    first = ""
    rows: list[str] = []
    for run in runs:
        tags = run.data.tags
        link = f"[{run.info.run_name}](#/experiments/{experiment_id}/runs/{run.info.run_id})"
        answer = tags["headline"]
        value = where = ""
        if score := score_of(run):
            value = f"{score.metric} {score.value:.3f}"
            where = f" {score.where}"
        first = first or f"{link}: {'. '.join(filter(None, [value, answer]))}"
        cells = (link, answer, f"{value}{where}", tags.get("kept", ""), tags.get("strategy", ""))
        rows.append(f"| {' | '.join(cell.replace('|', ' ') for cell in cells)} |")
    header = "| run | answer | score | kept | strategy |\n| --- | --- | --- | --- | --- |"
    return "\n\n".join([first, "\n".join([header, *rows]), _END])

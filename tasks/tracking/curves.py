"""The figures of an epoch that are logged, by the names under which MLflow draws them.

MLflow has a section of charts for each prefix, in the order of their names: the curves of the
search come first. Scores have the sign and the unit of the metric of the configuration.
`history.parquet` has all figures.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from swarm.metrics import natural_name

if TYPE_CHECKING:
    from swarm.problem.scoring import Scoring

_COUNTS = {
    "best_size": "epoch/n_features",
    "diversity": "epoch/diversity",
    "evaluations": "spent/evaluations",
    "distinct_evaluations": "spent/distinct_evaluations",
    "fits": "spent/fits",
}


def best_score(scorer: str) -> str:
    """Return the name of the score of the best subset so far."""
    return f"epoch/best_{natural_name(scorer)}"


def fresh_score(scorer: str) -> str:
    """Return the name of the score of the result on fresh folds."""
    return f"fresh/{natural_name(scorer)}"


def unseen_score(metric: str) -> str:
    """Return the name of a score of the best subset on the test rows."""
    return f"test/best_subset_{metric}"


def epoch_metrics(metrics: Mapping[str, float], scoring: Scoring) -> dict[str, float]:
    """Return the figures of an epoch that are logged, by their names in MLflow."""
    costs = {
        best_score(scoring.name): metrics["best_cost"],
        f"epoch/mean_{natural_name(scoring.name)}": metrics["pbest_cost_mean"],
    }
    scores = {name: scoring.natural(cost) for name, cost in costs.items()}
    return scores | {name: metrics[key] for key, name in _COUNTS.items()}

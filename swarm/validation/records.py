"""A judgement and a headline as JSON types."""

from dataclasses import asdict
from typing import Any

from swarm.json_data import as_json
from swarm.validation.judgement import Judgement
from swarm.validation.verdict import Headline, outcome_in


def headline_record(head: Headline) -> dict[str, Any]:
    """Return the title and the fields, NaN as None."""
    return {**as_json(head), "title": head.title, "beats_guessing": head.beats_guessing}


def judgement_record(judgement: Judgement) -> dict[str, Any]:
    """Return everything except the predictions, NaN as None."""
    contenders: dict[str, Any] = {}
    differences: dict[str, Any] = {}
    for row in judgement.table.to_dict("records"):
        name, metric = row["contender"], row["metric"]
        sizes = {key: int(row[key]) for key in ("n_features", "n_models")}
        cost = judgement.costs.get(name)
        entry = contenders.setdefault(name, {**sizes, "cost": cost, "metrics": {}})
        entry["metrics"][metric] = {key: row[key] for key in ("value", "low", "high")}
        if name == "ensemble":
            continue
        low, high = row["difference_low"], row["difference_high"]
        favours = {"better": "ensemble", "worse": name}.get(outcome_in(metric, low, high))
        differences.setdefault(name, {})[metric] = {
            "difference": row["difference"],
            "low": low,
            "high": high,
            "favours": favours or "neither",
        }
    verdict = judgement.verdict
    jackknife = judgement.jackknife
    guess = judgement.guessing
    record = {
        "verdict": judgement.sentence(),
        "task": judgement.task,
        "vote": judgement.vote,
        "pos_label": judgement.pos_label,
        "pos_share": judgement.pos_share,
        "n_rows": judgement.n_rows,
        "n_groups": judgement.n_groups,
        "contenders": contenders,
        "differences_from_ensemble": differences,
        "best_subset_against_all_features": {
            **asdict(verdict),
            "difference": verdict.difference,
        },
        "guessing": None
        if guess is None
        else {
            "metric": judgement.metrics[0],
            "value": guess.value,
            "outcome": guess.outcome,
            "gains": {name: [*verdict.gain] for name, verdict in guess.verdicts.items()},
        },
        "cv_cost": judgement.cv_cost,
        "test_cost": judgement.costs.get("best_subset"),
        "optimism": judgement.optimism,
        "intervals": {
            "level": jackknife.level,
            "unit": jackknife.unit,
            "n_units": jackknife.n_units,
        },
    }
    return dict(as_json(record))

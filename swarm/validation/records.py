"""A judgement and a headline as JSON types."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

from swarm.validation.judgement import Judgement
from swarm.validation.verdict import Headline, outcome_in


def headline_record(head: Headline) -> dict[str, Any]:
    """Return the title and the fields, NaN as None."""
    evidence = [_plain_values(asdict(verdict)) for verdict in head.evidence]
    return {**asdict(head), "evidence": evidence, "title": head.title}


def judgement_record(judgement: Judgement) -> dict[str, Any]:
    """Return everything except the predictions, NaN as None."""
    contenders: dict[str, Any] = {}
    differences: dict[str, Any] = {}
    for row in judgement.table.to_dict("records"):
        name, metric = row["contender"], row["metric"]
        sizes = {key: int(row[key]) for key in ("n_features", "n_models")}
        cost = _plain(judgement.costs.get(name))
        entry = contenders.setdefault(name, {**sizes, "cost": cost, "metrics": {}})
        entry["metrics"][metric] = {key: _plain(row[key]) for key in ("value", "low", "high")}
        if name == "ensemble":
            continue
        low, high = row["difference_low"], row["difference_high"]
        gap = {"difference": row["difference"], "low": low, "high": high}
        favours = {"better": "ensemble", "worse": name}.get(outcome_in(metric, low, high))
        differences.setdefault(name, {})[metric] = {
            **_plain_values(gap),
            "favours": favours or "neither",
        }
    verdict, bootstrap, guess = judgement.verdict, judgement.bootstrap, judgement.guess
    return {
        "verdict": judgement.sentence(),
        "task": judgement.task,
        "vote": judgement.vote,
        "pos_label": _plain(judgement.pos_label),
        "pos_share": _plain(judgement.pos_share),
        "n_rows": judgement.n_rows,
        "n_groups": judgement.n_groups,
        "contenders": contenders,
        "differences_from_ensemble": differences,
        "best_subset_against_all_features": _plain_values(
            {**asdict(verdict), "difference": verdict.difference}
        ),
        "guessing": None
        if guess is None
        else {
            "metric": judgement.metrics[0],
            "value": _plain(guess),
            "beaten": judgement.beats_guessing,
        },
        "cv_cost": _plain(judgement.cv_cost),
        "test_cost": _plain(judgement.costs.get("best_subset")),
        "optimism": _plain(judgement.optimism),
        "bootstrap": {
            "n_resamples": bootstrap.n_resamples,
            "level": bootstrap.level,
            "seed": bootstrap.seed,
            "unit": "row" if bootstrap.groups is None else "group",
        },
    }


def _plain(value: Any) -> Any:
    """Convert NumPy scalars to Python types, NaN and infinities to None."""
    value = value.item() if hasattr(value, "item") else value
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _plain_values(values: dict[str, Any]) -> dict[str, Any]:
    return {key: _plain(value) for key, value in values.items()}

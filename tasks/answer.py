"""The result of a search as artifacts, byte-identical whenever the search is run again."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pandas as pd

from swarm.problem.space import SearchSpace
from swarm.search.asked import asked_evaluations
from swarm.search.confirmation import Confirmation
from swarm.search.prefilter import MANY_COLUMNS, Cut
from swarm.search.result import SearchResult
from swarm.search.tuning import TuningResult
from swarm.storage.archive import KnownEvaluations
from swarm.validation import Judgement
from swarm.validation.headline import Headline
from tasks.tracking.run_log import json_file, parquet

__all__ = ["answer_files", "evaluation_table", "judgement_files"]


def answer_files(
    result: SearchResult,
    known: KnownEvaluations,
    n_models: int,
    union_at_most: int | float | None = None,
) -> dict[str, bytes]:
    """Return features, subsets, history and evaluations of a search, by artifact path.

    ``features.json``, ``subsets.csv``, ``confirmation.csv`` (of a confirmed search),
    ``prefilter.csv`` (with a prefilter), ``settings.csv`` (with a choice of settings of the model)
    and ``history.parquet`` depend only on configuration, seed and data. So do the evaluations in
    ``archive.parquet``, but for the seconds that they took; those with other settings are left out.
    """
    masks, costs = result.best_members(n_models, union_at_most)
    together = result.space.subset(np.logical_or.reduce(masks, axis=0))
    features = {
        "features": result.features,
        "n_features": len(result.features),
        "n_available": result.space.n_columns,
        **({} if result.price is None else {"price": result.price}),
        "cost": result.cost,
        "subsets": [
            {"features": result.space.subset(mask), "cost": float(cost)}
            for mask, cost in zip(masks, costs, strict=True)
        ],
        "together": {
            "features": together,
            "n_features": len(together),
            "at_most": union_at_most,
        },
    }
    confirmation = result.confirmation
    confirmed: dict[str, bytes] = {}
    if confirmation is not None:
        features["confirmation"] = {
            **confirmation.as_dict(),
            "smallest_within_margin": _smallest(confirmation, result.space),
        }
        confirmed["confirmation.csv"] = _confirmed(confirmation, result.space)
    if result.cut is not None:
        features["prefilter"] = _cut_figures(result.cut)
        confirmed["prefilter.csv"] = _ranking(result.cut, result.space)
    if result.tuning is not None:
        features["model"] = _chosen_setting(result.tuning)
        confirmed["settings.csv"] = _settings(result.tuning)
    return {
        **confirmed,
        "features.json": json_file(features),
        "subsets.csv": _subsets(result).to_csv(index=False).encode(),
        "history.parquet": parquet(result.history),
        "archive.parquet": parquet(evaluation_table(result, known)),
    }


def _cut_figures(cut: Cut) -> dict[str, Any]:
    """Return how many units a prefilter kept, and the cost of each number that was tried."""
    costs = [{"kept": int(n), "cost": float(c)} for n, c in zip(cut.sizes, cut.costs, strict=True)]
    return {
        "kept": cut.n_kept,
        "units": len(cut.kept),
        "ranked_by": cut.source,
        "fits": cut.n_fits,
        "n_folds": cut.n_folds,
        "costs": costs,
    }


def _chosen_setting(tuning: TuningResult) -> dict[str, Any]:
    """Return the setting of the model, and the rounds in which it was chosen."""
    rounds = [{"settings": each.n_settings, "subsets": each.n_subsets} for each in tuning.rounds]
    return {
        "setting": tuning.params,
        "settings": len(tuning.settings),
        "combinations": tuning.n_grid,
        "rounds": rounds,
        "fits": tuning.fits,
    }


def _settings(tuning: TuningResult) -> bytes:
    """Return a row per setting, with its lowest cost in each round that it took part in."""
    costs = {f"cost_round_{number}": row for number, row in enumerate(tuning.costs, 1)}
    chosen = np.arange(len(tuning.settings)) == tuning.chosen
    table = pd.DataFrame([dict(setting) for setting in tuning.settings], dtype=object)
    return table.assign(**costs, chosen=chosen).to_csv(index=False).encode()


def _ranking(cut: Cut, space: SearchSpace) -> bytes:
    """Return a row per unit, those that were kept first, each part by importance."""
    order = np.lexsort((-cut.importances, ~cut.kept))
    table = pd.DataFrame(
        {
            "unit": [space.names[unit] for unit in order],
            "importance": cut.importances[order],
            "kept": cut.kept[order],
        }
    )
    # Six digits of each of many thousand units say enough.
    digits = "%.6g" if len(table) > MANY_COLUMNS else None
    return table.to_csv(index=False, float_format=digits).encode()


def _smallest(confirmation: Confirmation, space: SearchSpace) -> list[str] | None:
    """Features of the smallest subset that is not worse than all features, if there is one."""
    row = confirmation.smallest_within_margin(confirmation.baseline)
    return None if row is None else space.subset(confirmation.masks[row])


def _confirmed(confirmation: Confirmation, space: SearchSpace) -> bytes:
    """Return a row per confirmed subset, the lowest cost on fresh folds first."""
    table = pd.DataFrame(
        {
            "cost": confirmation.costs,
            "searched_cost": confirmation.searched,
            "size": confirmation.sizes,
            **({} if confirmation.prices is None else {"price": confirmation.prices}),
            "chosen": np.arange(len(confirmation.masks)) == confirmation.chosen,
            "features": [json.dumps(space.subset(mask)) for mask in confirmation.masks],
        }
    )
    return table.to_csv(index=False).encode()


def evaluation_table(result: SearchResult, known: KnownEvaluations) -> pd.DataFrame:
    """Return one row per distinct mask that the search evaluated.

    Columns: size, cost, folds, failed, seconds, the fold costs, features. `cost` is missing if
    pruning skipped some of the folds.
    """
    rows = [
        {
            "size": int(mask.sum()),
            "cost": record.cost if record.complete else np.nan,
            "folds": int(record.known.sum()),
            "failed": record.failed,
            "seconds": record.seconds,
            **{f"fold_{i}": cost for i, cost in enumerate(record.fold_costs)},
            "features": json.dumps(result.space.subset(mask)),
        }
        for mask, record in asked_evaluations(result, known)
    ]
    return pd.DataFrame(rows)


def judgement_files(judgement: Judgement, head: Headline) -> dict[str, bytes]:
    """Return ``evaluation.json`` and ``predictions.parquet``."""
    return {
        "evaluation.json": json_file({"headline": head.as_dict(), **judgement.as_dict()}),
        "predictions.parquet": parquet(judgement.predictions.reset_index(drop=True)),
    }


def _subsets(result: SearchResult) -> pd.DataFrame:
    """Return pbest positions and costs, a column of 0 and 1 per unit, best first.

    Of a wide table only the units that are in any of them. A unit with the name of one of the first
    two columns gets the prefix ``feature_``.
    """
    members = result.state.strategy.members
    # In the order of the search, with costs as in the other files.
    order = np.lexsort((members.masks.sum(axis=1), members.costs))
    costs = result.space.without_penalty(members.masks, members.costs)
    names = list(result.space.names)
    for taken in ("cost", "group"):
        if taken in names:
            place, free = names.index(taken), f"feature_{taken}"
            while free in names:
                free = f"feature_{free}"
            names[place] = free
    masks = members.masks[order]
    if len(names) > MANY_COLUMNS:
        kept = np.flatnonzero(masks.any(axis=0))
        masks, names = masks[:, kept], [names[unit] for unit in kept]
    table = pd.DataFrame(masks.astype(int), columns=names)
    table.insert(0, "cost", costs[order])
    table.insert(1, "group", members.group[order])
    return table

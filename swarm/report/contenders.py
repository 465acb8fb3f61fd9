"""The ensemble and its baselines in a report."""

from dataclasses import dataclass
from typing import Any

from swarm.report.formatting import interval, signed
from swarm.validation import Judgement
from swarm.validation.sentences import IN_TABLES

_NOTES = {
    "ensemble": "The result of this run: one model per chosen subset, combined by a vote.",
    "best_subset": "One model on the best subset: the selection without a vote.",
    "all_features": "One model on all features: no selection and no vote.",
    "all_features_ensemble": (
        "All features, with as many models and the same vote: a vote by itself changes the "
        "results, so this baseline isolates the effect of the selection."
    ),
    "random_subsets": (
        "Random subsets of the same sizes, with the same vote: if they do as well, it hardly "
        "matters which features are kept."
    ),
}
_CONTENDERS = {name: (IN_TABLES[name].capitalize(), note) for name, note in _NOTES.items()}
# Rivals have the vote of the ensemble, so a difference to them is due to the selection alone.
_RIVALS = ("all_features_ensemble", "random_subsets")

# If there is no ensemble, every contender is one model.
_SINGLE = {
    "ensemble": ("Chosen features", "One model of the chosen features."),
    "all_features": ("All features", _NOTES["all_features"]),
    "random_subsets": (
        "Random subsets",
        "One model each of random subsets of the same size: if they do as well, it hardly "
        "matters which features are kept.",
    ),
}
# In that case these contenders equal other ones.
_COPIES = ("best_subset", "all_features_ensemble")
_SINGLE_RIVALS = ("all_features", "random_subsets")
_JUDGEMENTS = {
    "better": "the selection is better",
    "worse": "the selection is worse",
    "neither": "no clear difference",
}


@dataclass(frozen=True)
class PairedDifference:
    """Paired difference to one baseline; `kind` is "better", "worse" or "neither"."""

    name: str
    difference: str
    bounds: str
    judgement: str
    kind: str


def is_single(judgement: Judgement) -> bool:
    """Whether a single model is compared on the test rows, and no ensemble."""
    return bool(judgement.first_metric["ensemble"]["n_models"] == 1)


def paired_differences(judgement: Judgement | None) -> list[PairedDifference]:
    """Return the differences to the baselines with the same vote, for the first metric."""
    if judgement is None:
        return []
    names, rivals = _names_and_rivals(judgement)
    differences = []
    for name in rivals:
        row = judgement.first_metric[name]
        outcome = judgement.outcome(name)
        bounds = interval(row["difference_low"], row["difference_high"])
        kind = outcome if outcome in ("better", "worse") else "neither"
        differences.append(
            PairedDifference(
                name=names[name][0],
                difference=signed(row["difference"]),
                bounds=bounds or "no interval",
                judgement=_JUDGEMENTS[kind] if bounds else "no interval, so no conclusion",
                kind=kind,
            )
        )
    return differences


def contender_rows(judgement: Judgement | None) -> list[dict[str, Any]]:
    """Return a row per contender; `cells` has its row of the table per metric."""
    if judgement is None:
        return []
    names, rivals = _names_and_rivals(judgement)
    table = judgement.table
    if is_single(judgement):
        table = table[~table["contender"].isin(_COPIES)]
    rows: list[dict[str, Any]] = []
    for name, cells in table.groupby("contender", sort=False):
        title, note = names[str(name)]
        kind = "rival-row" if name in rivals else "other"
        rows.append(
            {
                "name": title,
                "note": note,
                "kind": "own" if name == "ensemble" else kind,
                "n_features": int(cells["n_features"].iloc[0]),
                "n_models": int(cells["n_models"].iloc[0]),
                "cells": cells.to_dict("records"),
            }
        )
    return rows


def _names_and_rivals(judgement: Judgement) -> tuple[dict[str, tuple[str, str]], tuple[str, ...]]:
    """Return name and note of each contender, and its rivals, which differ by the selection."""
    return (_SINGLE, _SINGLE_RIVALS) if is_single(judgement) else (_CONTENDERS, _RIVALS)

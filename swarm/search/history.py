"""What is kept of each epoch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from swarm.evaluation.types import Evaluations, Work
from swarm.search.budget import Counts
from swarm.strategies.base import Members, Proposal

__all__ = ["EpochRecord", "diversity", "history_table", "record_epoch", "work_table"]


@dataclass(frozen=True)
class EpochRecord:
    """One epoch: what happened, and what it took.

    Attributes
    ----------
    epoch : int
        From 1.
    metrics : dict of str to float
        The same in every run of the same search, resumed or not.
    columns : mapping of str to arrays (n, ...)
        What `particles` is made of.
    work : Work
        What this machine really did; an archive makes it less.
    """

    epoch: int
    metrics: dict[str, float]
    columns: Mapping[str, Any] = field(repr=False)
    work: Work

    @property
    def particles(self) -> pd.DataFrame:
        """One row per mask proposed, as a table that is made when it is asked for.

        ``role``, ``group``, ``size``, ``cost`` (missing where worse than the pbest),
        ``pbest_cost``, ``mask`` (a string of 0 and 1 over the units) and others.
        """
        bits = self.columns["mask"].astype(np.uint8) + ord("0")
        masks = [row.tobytes().decode() for row in bits]
        return pd.DataFrame({**self.columns, "mask": masks})


def record_epoch(
    epoch: int,
    proposal: Proposal,
    evaluations: Evaluations,
    members: Members,
    best: tuple[float, int],
    counts: Counts,
) -> EpochRecord:
    """Put together the record of an epoch.

    Parameters
    ----------
    members : Members
        What the strategy holds after observing.
    best : (cost, size)
        Of the best subset so far.
    """
    finite = members.costs[np.isfinite(members.costs)]
    # Rows that the budget did not pay for are censored too, but no fold was needed for them.
    pruned = evaluations.censored & evaluations.needed.any(axis=1)
    metrics = {
        "best_cost": best[0],
        "best_size": float(best[1]),
        "pbest_cost_mean": float(finite.mean()) if finite.size else float("inf"),
        "pbest_cost_median": float(np.median(finite)) if finite.size else float("inf"),
        "size_mean": float(proposal.masks.sum(axis=1).mean()),
        "diversity": diversity(members.masks),
        "evaluations": float(counts.evaluations),
        "distinct_evaluations": float(counts.distinct),
        "fits": float(counts.fits),
        "folds_pruned": float((~evaluations.needed[pruned]).sum()),
        "failed_evaluations": float(counts.failed),
    }
    groups = np.unique(members.group)
    if len(groups) > 1:
        for group in groups:
            metrics[f"swarm_{group}_best_cost"] = float(members.costs[members.group == group].min())
    return EpochRecord(epoch, metrics, _columns(proposal, evaluations, members), evaluations.work)


def diversity(masks: NDArray[np.bool_]) -> float:
    """Mean Hamming distance between pairs of masks (n, n_units), as a share of the units."""
    n, n_units = masks.shape
    if n < 2:
        return 0.0
    on = masks.sum(axis=0).astype(np.float64)
    return float((on * (n - on)).sum() / (n * (n - 1) / 2) / n_units)


def _columns(proposal: Proposal, evaluations: Evaluations, members: Members) -> Mapping[str, Any]:
    """Columns of the particles: a table for each epoch would cost more than a cheap epoch."""
    owned = proposal.owner >= 0
    owner = np.where(owned, proposal.owner, 0)
    return {
        "particle": proposal.owner.copy(),
        "role": list(proposal.role),
        "group": np.where(owned, members.group[owner], -1),
        "size": proposal.masks.sum(axis=1),
        "cost": np.where(evaluations.censored, np.nan, evaluations.costs),
        "failed": evaluations.failed.copy(),
        "pbest_cost": np.where(owned, members.costs[owner], np.nan),
        "pbest_size": np.where(owned, members.masks[owner].sum(axis=1), 0),
        # Copies: whatever a strategy does to its arrays, the record stays.
        "mask": proposal.masks.copy(),
    }


def history_table(records: Sequence[EpochRecord]) -> pd.DataFrame:
    """One row per epoch with its metrics: byte for byte the same after any interruption."""
    rows = [{"epoch": record.epoch, **record.metrics} for record in records]
    return pd.DataFrame(rows)


def work_table(records: Sequence[EpochRecord]) -> pd.DataFrame:
    """One row per epoch with what this machine did for it."""
    return pd.DataFrame([{"epoch": record.epoch, **vars(record.work)} for record in records])

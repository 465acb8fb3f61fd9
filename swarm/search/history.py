"""The record of each epoch."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from swarm.arrays import Bool
from swarm.evaluation.types import Evaluations, Work
from swarm.search.budget import Budget, Counts
from swarm.strategies.base import Members, Proposal


@dataclass(frozen=True)
class EpochRecord:
    """The record of one epoch.

    Attributes
    ----------
    epoch : int
        Number of the epoch, from 1.
    metrics : dict of str to float
        Figures that are identical in every run of the same search, resumed or not.
    columns : mapping of str to arrays (n, ...)
        Columns of `particles`.
    work : Work
        Work done by this process; cached evaluations do not count.
    """

    epoch: int
    metrics: dict[str, float]
    columns: Mapping[str, Any] = field(repr=False)
    work: Work

    @property
    def particles(self) -> pd.DataFrame:
        """Table with one row per proposed mask, built on access.

        ``role``, ``group``, ``size``, ``cost`` (missing if worse than the pbest),
        ``pbest_cost``, ``mask`` (a string of 0 and 1 over the units) and others.
        """
        bits = self.columns["mask"].astype(np.uint8) + ord("0")
        masks = [row.tobytes().decode() for row in bits]
        return pd.DataFrame({**self.columns, "mask": masks})

    def shares(self, budget: Budget, seconds: float) -> dict[str, float]:
        """Return the share of each limit of a budget that is spent after the epoch."""
        spent = {
            "epochs": float(self.epoch),
            "evaluations": self.metrics["evaluations"],
            "distinct": self.metrics["distinct_evaluations"],
            "fits": self.metrics["fits"],
            "seconds": seconds,
        }
        return {name: spent[name] / limit for name, limit in budget.limits.items()}


def record_epoch(
    epoch: int,
    proposal: Proposal,
    evaluations: Evaluations,
    members: Members,
    best: tuple[float, int],
    counts: Counts,
) -> EpochRecord:
    """Build the record of an epoch; `best` is the cost and size of the best subset so far."""
    finite = members.costs[np.isfinite(members.costs)]
    # Rows beyond the budget are censored too, but no fold was needed for them.
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
    has_owner = proposal.owner >= 0
    owner = np.where(has_owner, proposal.owner, 0)
    # Building a table would take longer than a cheap epoch.
    columns = {
        "particle": proposal.owner.copy(),
        "role": list(proposal.role),
        "group": np.where(has_owner, members.group[owner], -1),
        "size": proposal.masks.sum(axis=1),
        "cost": np.where(evaluations.censored, np.nan, evaluations.costs),
        "failed": evaluations.failed.copy(),
        "pbest_cost": np.where(has_owner, members.costs[owner], np.nan),
        "pbest_size": np.where(has_owner, members.masks[owner].sum(axis=1), 0),
        # The strategy cannot change a copy.
        "mask": proposal.masks.copy(),
    }
    return EpochRecord(epoch, metrics, columns, evaluations.work)


def diversity(masks: Bool) -> float:
    """Mean Hamming distance between pairs of masks (n, n_units), relative to n_units."""
    n, n_units = masks.shape
    if n < 2:
        return 0.0
    counts = masks.sum(axis=0).astype(np.float64)
    return float((counts * (n - counts)).sum() / (n * (n - 1) / 2) / n_units)

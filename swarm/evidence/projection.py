"""How long a study takes, told from the searches that it has made."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

__all__ = ["projected_seconds"]


def projected_seconds(
    searches: Sequence[tuple[str, str, str]], rows: pd.DataFrame, workers: int
) -> float:
    """Tell the time of all searches from those of the same kind that were made.

    Parameters
    ----------
    searches : sequence of (part, dataset, strategy)
        Every search of the study, finished ones included.
    rows : DataFrame
        See :class:`swarm.evidence.rows.Rows`.
    workers : int
        Searches at a time.

    Returns
    -------
    float
        Wall seconds. A search of which there is none of its kind counts as the mean of its
        data set and part, else of its part, else of all; 0 without any row.
    """
    if rows.empty:
        return 0.0
    spent = rows.assign(seconds=rows["seconds_algorithm"] + rows["seconds_evaluation"])
    levels = (["part", "dataset", "strategy"], ["part", "dataset"], ["part"])
    means = [spent.groupby(keys)["seconds"].mean().to_dict() for keys in levels]
    overall = float(spent["seconds"].mean())

    def of(part: str, dataset: str, strategy: str) -> float:
        for mean, key in zip(
            means, ((part, dataset, strategy), (part, dataset), part), strict=True
        ):
            if key in mean:
                return float(mean[key])
        return overall

    return sum(of(*search) for search in searches) / workers

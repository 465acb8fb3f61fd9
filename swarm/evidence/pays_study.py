"""All numbers of the page on where selection pays, computed once, and the strategy it speaks of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from swarm.evidence.pays_tables import (
    STRATEGIES,
    average,
    gains,
    in_order,
    one_per_resample,
    ranks_on_test,
)

__all__ = ["Study", "study"]


@dataclass(frozen=True)
class Study:
    """What all sections of the page are written from.

    Attributes
    ----------
    table, averages, gains : DataFrame
        Of :func:`one_per_resample`, :func:`average` and :func:`gains`.
    ranks : Series
        Average test ranks, the best first; `ranked` cells are behind them.
    best, voting : str
        Strategy with the best average test rank, and the best of those with ensembles.
    """

    table: pd.DataFrame
    averages: pd.DataFrame
    gains: pd.DataFrame
    ranks: pd.Series[float]
    ranked: int
    best: str
    voting: str
    facts: Mapping[str, Any]

    @property
    def parts(self) -> list[str]:
        """Parts, in their order."""
        return list(dict.fromkeys(self.table["part"]))

    def strategies(self, part: str | None = None) -> list[str]:
        """Searching strategies, of one part or of all."""
        known = self.averages
        here = known[known["part"] == part] if part is not None else known
        names = in_order(list(here["strategy"]), STRATEGIES)
        return [name for name in names if name != "full"]

    def cells(
        self, contrast: str, strategy: str | None = None, part: str | None = None
    ) -> pd.DataFrame:
        """Gains of one contrast, beside the averages of the same cells."""
        here = self.gains[self.gains["contrast"] == contrast]
        if strategy is not None:
            here = here[here["strategy"] == strategy]
        if part is not None:
            here = here[here["part"] == part]
        return here.merge(self.averages.drop(columns="n"), on=["part", "dataset", "strategy"])


def study(rows: pd.DataFrame, facts: Mapping[str, Any]) -> Study | None:
    """Compute everything once; None if no search was judged on test rows beside all features."""
    table = one_per_resample(rows)
    if table.empty:
        return None
    averages = average(table)
    found = gains(table, facts)
    if not (found["contrast"] == "subset").any():
        return None
    ranks, ranked = ranks_on_test(averages)
    with_ensembles = set(found.loc[found["contrast"] == "ensemble", "strategy"])
    order = [str(name) for name in ranks.index]
    voting = [name for name in order if name in with_ensembles] or sorted(with_ensembles)
    return Study(table, averages, found, ranks, ranked, order[0], (voting or order)[0], facts)

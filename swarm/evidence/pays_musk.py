"""Musk version 2 on the page on where selection pays: its seeds, without a test."""

from __future__ import annotations

import pandas as pd

from swarm.evidence.page import markdown_table
from swarm.report.words import number

__all__ = ["musk_section"]

_SPLITS = {"random": "random rows", "group": "whole molecules"}
_CONTENDERS = {
    "test_cost": "best subset of `{}`",
    "test_ensemble": "ensemble of `{}`",
    "test_all_ensemble": "all features, same vote as `{}`",
    "test_random": "random subsets, same vote as `{}`",
}


def musk_section(rows: pd.DataFrame) -> str:
    """Write what the rows of Musk say.

    Parameters
    ----------
    rows : DataFrame
        Columns as elsewhere; `part` is ``random`` or ``group``, `resample` the seed.
    """
    table, said = [], []
    for part in dict.fromkeys(rows["part"]):
        here = rows[rows["part"] == part]
        split = _SPLITS.get(part, part)
        full = here[here["strategy"] == "full"]
        if full["test_cost"].notna().any():
            table.append([split, "all features", *_cells(full, "test_cost")])
        for strategy in [name for name in dict.fromkeys(here["strategy"]) if name != "full"]:
            own = here[here["strategy"] == strategy]
            for column, label in _CONTENDERS.items():
                if own[column].notna().any():
                    table.append([split, label.format(strategy), *_cells(own, column)])
            said += _compared(split, strategy, own, full)
    header = ("test rows", "contender", "searches", "mean test cost", "lowest to highest", "size")
    return "\n".join(
        [
            "## Musk version 2\n",
            markdown_table(header, table, "llrrrr"),
            "These are seeds of the search, not resamples of the rows: there is no test, and a "
            "difference that all seeds share can still be that of one split.\n",
            *(f"- {sentence}" for sentence in said),
            "",
        ]
    )


def _cells(rows: pd.DataFrame, column: str) -> list[object]:
    costs = rows[column].dropna()
    # The sizes of a vote's members are not in the rows; random subsets have those of the search.
    size = f"{rows['size'].mean():.1f}" if column == "test_cost" else "–"
    ends = f"{number(costs.min())} to {number(costs.max())}" if len(costs) > 1 else "–"
    return [len(costs), number(costs.mean()), ends, size]


def _compared(split: str, strategy: str, own: pd.DataFrame, full: pd.DataFrame) -> list[str]:
    """Count the seeds in which the selection was better than its rival."""
    said = []
    subset = own["test_cost"].dropna()
    if len(subset) and full["test_cost"].notna().any():
        # All features may have been judged once for all seeds.
        rival = full.groupby("resample")["test_cost"].mean()
        rivals = own["resample"].map(rival).fillna(rival.mean())
        differences = (rivals - own["test_cost"]).dropna()
        said.append(
            f"{_name(split)}: the best subset of `{strategy}` was {_split(differences)} than all "
            "features."
        )
    differences = (own["test_all_ensemble"] - own["test_ensemble"]).dropna()
    if len(differences):
        said.append(
            f"{_name(split)}: the ensemble of `{strategy}` was {_split(differences)} than the same "
            "vote of all features."
        )
    return said


def _name(split: str) -> str:
    return f"With {split} held out"


def _split(differences: pd.Series[float]) -> str:
    better, worse = int((differences > 1e-12).sum()), int((differences < -1e-12).sum())
    n = len(differences)
    return f"better in {better} and worse in {worse} of {n} search{'' if n == 1 else 'es'}"

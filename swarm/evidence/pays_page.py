"""The page on where selection pays and where not: its sections, in their order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

from swarm.evidence.page import Page, run_line
from swarm.evidence.pays_decisions import decision_table
from swarm.evidence.pays_figures import forest_figure, size_figure
from swarm.evidence.pays_musk import musk_section
from swarm.evidence.pays_sections import (
    costs_section,
    gains_section,
    spent_section,
    verdicts_section,
    votes_section,
)
from swarm.evidence.pays_study import Study, study
from swarm.evidence.pays_tables import MODELS
from swarm.evidence.pays_words import advice, tally

__all__ = ["pays_page"]

_TITLE = "# Where selection pays, and where not\n"


def pays_page(
    rows: pd.DataFrame, facts: Mapping[str, Any], musk: pd.DataFrame | None = None
) -> Page:
    """Write the page from the rows of the nested searches.

    Parameters
    ----------
    rows : DataFrame
        A row per search; `part` names the model, `resample` one of the stratified 70/30 splits,
        `strategy` ``full`` is all features. Rows may be missing: what is there is written.
    facts : mapping
        Facts of the study; `sets` tells the rows of the data sets.
    musk : DataFrame, optional
        The same columns for Musk version 2, with the parts ``random`` and ``group``.

    Returns
    -------
    Page
        With the figures ``pays-forest.svg`` and ``pays-size.svg``, and every tested difference
        in the table ``pays_gains.csv``.

    Raises
    ------
    ValueError
        If a column is missing.
    """
    found = study(rows, facts)
    shown = None if musk is None or musk.empty else musk_section(musk)
    if found is None:
        told = "There are no searches yet with test rows beside all features.\n"
        return Page("\n".join([_TITLE, run_line(facts), "", told, *([shown] if shown else [])]))
    figures = {
        "pays-forest.svg": forest_figure(found.gains, found.best, found.voting, MODELS),
        "pays-size.svg": size_figure(found.cells("subset"), found.best, MODELS),
    }
    sections = [
        _TITLE,
        _start(found),
        "## What to do\n",
        decision_table(found),
        verdicts_section(found),
        "## Test costs and sizes\n",
        "Mean cost on the test rows, lower is better; bold is the lowest of those with all "
        "resamples, (k) says that there are k only. The vote of all features, the random subsets "
        f"and the ensemble are those of `{found.voting}`; the last columns are one model of the "
        "best subset of each strategy.\n",
        *(costs_section(found, part) for part in found.parts),
        gains_section(found),
        votes_section(found),
        spent_section(found),
        *([shown] if shown else []),
        _missing(found),
    ]
    columns = {"pays_gains.csv": found.gains.reset_index(drop=True)}
    return Page("\n".join(sections), figures, columns)


def _start(study: Study) -> str:
    resamples = {
        MODELS.get(part, part): study.table.loc[study.table["part"] == part, "resample"].nunique()
        for part in study.parts
    }
    counted = ", ".join(f"{number} with {name}" for name, number in resamples.items())
    unranked = [f"`{name}`" for name in study.strategies() if name not in study.ranks.index]
    lines = [
        "Each search saw the 70 % training rows of a stratified split only; what it found is "
        "judged on the other 30 %. Cost is an error: lower is better, and a gain is the cost of "
        f"the rival minus one's own. Resamples: {counted}.",
        "",
        run_line(study.facts, study.parts),
        "",
        f"`{study.best}` has the best average rank of the best subsets on test rows "
        f"({study.ranks.iloc[0]:.2f} of {len(study.ranks)} strategies over {study.ranked} cells; a "
        "cell is a model and a data set), so it stands for selection below. It was picked on the "
        "rows it is judged on, which flatters it a little; the tables show the others."
        + (
            f" Not ranked, as they are not in all cells: {', '.join(unranked)}." if unranked else ""
        ),
        "",
    ]
    for part in study.parts:
        cells = study.cells("subset", study.best, part)
        if len(cells):
            said = f"- **{MODELS.get(part, part)}**: one subset {tally(cells)}. "
            lines.append(said + advice(cells, float(cells["kept"].mean())))
    return "\n".join([*lines, ""])


def _missing(study: Study) -> str:
    lines = list(_gaps(study))
    said = "\n".join(f"- {line}" for line in lines) if lines else "Nothing: every cell is whole."
    return f"## What is missing\n\n{said}\n"


def _gaps(study: Study) -> Iterator[str]:
    """Say per model which sets, strategies and resamples are not there, where others have them."""
    everywhere = sorted(
        set(study.table["dataset"]) | set(study.facts.get("sets", {})), key=str.casefold
    )
    for part in study.parts:
        name = MODELS.get(part, part)
        here = study.averages[study.averages["part"] == part]
        most = int(here["n"].max())
        absent = [dataset for dataset in everywhere if dataset not in set(here["dataset"])]
        if absent:
            yield f"{name}: no searches on {', '.join(absent)}."
        runs = here.set_index(["dataset", "strategy"])["n"]
        expected = ["full", *study.strategies(part)]
        for dataset in dict.fromkeys(here["dataset"]):
            short: dict[int, list[str]] = {}
            for strategy in expected:
                n = int(runs.get((dataset, strategy), 0))
                if n < most:
                    short.setdefault(n, []).append(f"`{strategy}`")
            for n, names in sorted(short.items()):
                who = "all" if len(names) == len(expected) else ", ".join(names)
                yield f"{name}, {dataset}: {n} of {most} resamples for {who}."
    for part in [part for part in MODELS if part not in study.parts]:
        yield f"{MODELS[part]}: no searches."

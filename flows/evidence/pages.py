"""Pages of the studies, written from stored rows alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from flows.evidence.musk import stored
from flows.evidence.run import Places, facts_of
from swarm.errors import InputError
from swarm.evidence.page import Page

__all__ = ["write_page"]


def write_page(study: str, places: Places) -> Path:
    """Write the page of a study with its figures and tables, and return its path.

    Raises
    ------
    InputError
        If the study has no rows yet.
    """
    rows = places.rows(study).read()
    if rows.empty and (study != "musk" or stored(places)["runs"].empty):
        raise InputError(
            f"there are no rows of the study {study!r} in {places.rows(study).path}; run"
            f" `swarm evidence {study}` without --page first"
        )
    made = _made(study, rows, facts_of(places, study), places)
    places.out.mkdir(parents=True, exist_ok=True)
    for name, content in made.figures.items():
        (places.out / "figures").mkdir(exist_ok=True)
        (places.out / "figures" / name).write_bytes(content)
    for name, table in made.tables.items():
        table.to_csv(places.out / "results" / name, index=False, lineterminator="\n")
    path = places.out / f"{study}.md"
    path.write_text(made.text, encoding="utf-8")
    return path


def _made(study: str, rows: pd.DataFrame, facts: dict[str, Any], places: Places) -> Page:
    if study == "two-d":
        from swarm.evidence.two_d_page import two_d_page

        return two_d_page(rows, facts)
    if study == "bees":
        from swarm.evidence.bees_page import bees_page

        return bees_page(rows, facts)
    if study == "musk":
        from swarm.evidence.musk_page import musk_page

        tables = stored(places)
        return musk_page(tables["figures"], tables["epochs"], tables["runs"], rows, facts)
    from swarm.evidence.pays_page import pays_page

    return pays_page(rows, facts, _musk(places))


def _musk(places: Places) -> pd.DataFrame | None:
    """Rows of Musk for the page on all sets, where its study was run."""
    from swarm.evidence.musk_page import musk_rows

    tables = stored(places)
    return None if tables["runs"].empty else musk_rows(tables["figures"], tables["runs"])

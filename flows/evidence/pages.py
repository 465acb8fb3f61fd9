"""Pages of the studies, written from stored rows alone."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from conf.run_sections import TrackingSection
from flows.configured import tracking_as_configured
from flows.evidence.musk import stored
from flows.evidence.run import Places, facts_of
from swarm.errors import InputError
from swarm.evidence.index_page import STUDIES, index_page
from swarm.evidence.page import Page
from tasks.evidence_log import log_study

__all__ = ["keep", "write_page"]


def write_page(study: str, places: Places) -> dict[str, Path]:
    """Write the page of a study with its figures and tables, and return all by their names.

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
    contents = {f"figures/{name}": content for name, content in made.figures.items()}
    for name, table in made.tables.items():
        contents[f"results/{name}"] = table.to_csv(index=False, lineterminator="\n").encode()
    contents[f"{study}.md"] = made.text.encode()
    contents["index.md"] = _index(places)
    for name, content in contents.items():
        (places.out / name).parent.mkdir(parents=True, exist_ok=True)
        (places.out / name).write_bytes(content)
    return {name: places.out / name for name in contents}


def _index(places: Places) -> bytes:
    """Page that leads to those of all studies that were run."""
    there = [study for study in STUDIES if places.facts(study).exists()]
    searches = {study: len(places.rows(study).read()) for study in there}
    if "musk" in searches:
        searches["musk"] += len(stored(places)["runs"])
    return index_page({study: facts_of(places, study) for study in there}, searches).encode()


def keep(study: str, files: Mapping[str, Path], places: Places) -> str:
    """Log a study with its page and its rows in the store of the studies; return the run."""
    store = TrackingSection(
        uri=f"sqlite:///{places.work / 'mlflow.db'}",
        artifacts=str(places.work / "artifacts"),
        experiment="evidence",
    )
    path, facts = places.rows(study).path, facts_of(places, study)
    rows = places.rows(study).read()
    counts = {f"parts.{part}": len(own) for part, own in rows.groupby("part")}
    logged = {**files, f"results/{path.name}": path}
    return log_study(tracking_as_configured(store), study, counts, rows, facts, logged)


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

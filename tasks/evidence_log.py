"""A study in MLflow: one run with its page, its rows and the mean costs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from tasks.compare_log import log_files, log_metrics
from tasks.tracking import Tracking

__all__ = ["log_study"]


def log_study(
    tracking: Tracking,
    study: str,
    params: Mapping[str, object],
    rows: pd.DataFrame,
    facts: Mapping[str, Any],
    files: Mapping[str, Path],
) -> str:
    """Log a study that has ended, and return the id of its run.

    Parameters
    ----------
    tracking : Tracking
    study : str
    params : mapping
        What the command was given.
    rows : DataFrame
        See :class:`swarm.evidence.rows.Rows`.
    facts : mapping
        Versions, machine and times.
    files : mapping of artifact path to Path
    """
    versions = {f"version.{name}": number for name, number in facts.get("versions", {}).items()}
    tags = {"kind": "evidence", "study": study, **versions}
    description = f"The searches behind the page {study} of the evidence."
    run_id = tracking.start_run(f"evidence {study}", params, tags, description)
    metrics: dict[str, float] = {"work/searches": float(len(rows))}
    metrics |= {
        f"work/seconds_{part}": float(value) for part, value in facts.get("seconds", {}).items()
    }
    keys = rows["part"] + "/" + rows["dataset"] + "/" + rows["strategy"]
    for name in ("cost", "size"):
        means = rows[name].groupby(keys).mean()
        metrics |= {f"{name}/{key}": float(value) for key, value in means.items()}
    log_metrics(tracking, run_id, [(0, metrics)])
    log_files(tracking, run_id, {path: file.read_bytes() for path, file in files.items()})
    tracking.finish(run_id)
    return run_id

"""Weekly refresh: a first champion, a week without and one with a promotion, and a rollback.

All files are in a temporary folder. In production use `swarm refresh CONFIG` with cron, or
`swarm serve CONFIG` with a schedule.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

import swarm

CONFIG = """
name: churn
data:
  source: file
  path: {folder}/snapshots/rows_{{date:%Y-%m-%d}}.parquet   # the newest of them
  target: y
  time: week
split: {{kind: time}}            # test on the latest rows, unseen by the champion too
model: {{estimator: sklearn.naive_bayes.GaussianNB}}
budget: {{epochs: 6}}
champion:
  margin: 0.01                 # minimum gain of a challenger
  publish: {folder}/features.json
tracking:
  uri: sqlite:///{folder}/mlflow.db
  artifacts: {folder}/artifacts
archive: {{url: "sqlite:///{folder}/archive.db"}}
"""


def snapshot(folder: Path, day: str, weeks: int, moved_in: int) -> None:
    """Write the rows of some weeks; from week `moved_in` on other columns are informative."""
    rng = np.random.default_rng(5)
    week = np.repeat(np.arange(weeks), 60)
    table = pd.DataFrame(rng.normal(size=(len(week), 8)), columns=[f"x{i}" for i in range(8)])
    before, after = table["x0"] + table["x1"], table["x6"] - table["x7"]
    signal = np.where(week < moved_in, before, after) + rng.normal(scale=0.3, size=len(week))
    table.assign(y=(signal > 0).astype(int), week=week).to_parquet(folder / f"rows_{day}.parquet")


def main() -> None:
    """Refresh on three snapshots, then roll back."""
    # Prefect writes no logs and sends no telemetry if this is set before it is imported.
    for name in ("PREFECT_LOGGING_LEVEL", "PREFECT_SERVER_LOGGING_LEVEL"):
        os.environ.setdefault(name, "CRITICAL")
    os.environ.setdefault("PREFECT_SERVER_ANALYTICS_ENABLED", "false")
    os.environ.setdefault("DO_NOT_TRACK", "1")
    from conf.load import load_as
    from conf.schema import RefreshConfig
    from flows.cli.stored import champion, rollback
    from flows.refresh import refresh
    from flows.run.prefect_server import start_prefect

    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        snapshots = folder / "snapshots"
        snapshots.mkdir()
        file = folder / "churn.yaml"
        file.write_text(CONFIG.format(folder=folder.as_posix()))
        start_prefect()
        for day, weeks, moved_in in (
            ("2026-01-05", 3, 99),  # the first champion
            ("2026-01-12", 4, 99),  # another week of the same: the champion is kept
            ("2026-03-30", 16, 1),  # customers have changed: promotion
        ):
            snapshot(snapshots, day, weeks, moved_in)
            done = refresh(load_as(RefreshConfig, str(file)), verbosity=0)
            used = ", ".join(swarm.load_features(str(folder / "features.json")))
            print(
                f"{day}  {done.decision}: {done.why}\n            version {done.champion.version}"
                f" uses {used}"
            )
        uri = f"sqlite:///{folder.as_posix()}/mlflow.db"
        rollback("churn", tracking_uri=uri)
        champion("churn", tracking_uri=uri)


if __name__ == "__main__":
    main()

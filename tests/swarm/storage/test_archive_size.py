"""Claims on runs that share an archive: what they read depends on them, not on its size."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pandas as pd
import pytest
import sqlalchemy as sa

from benchmarks.filled_archive import fill
from flows.select import select
from swarm.search.runner import run
from swarm.storage import archive as storage
from swarm.storage.archive import Archive
from swarm.storage.records import Record
from tests.small_run import BAYES, Bench, prepared_by_hand
from tests.swarm.search.test_runner import plan, problem


class Reads:
    """What was read of the evaluations: rows, and the statements that read them."""

    def __init__(self) -> None:
        self.rows = 0
        self.statements: set[str] = set()


@contextmanager
def reads(monkeypatch: pytest.MonkeyPatch) -> Iterator[Reads]:
    """Count the rows that are decoded, and keep every SELECT on the evaluations."""
    found, decode = Reads(), storage.decode

    def counted(*args: Any) -> Any:
        found.rows += 1
        return decode(*args)

    def executed(connection: Any, cursor: Any, statement: str, *_: Any) -> None:
        if statement.startswith("SELECT") and "archive_evaluations" in statement:
            found.statements.add(statement)

    with monkeypatch.context() as patched:
        patched.setattr(storage, "decode", counted)
        sa.event.listen(sa.Engine, "before_cursor_execute", executed)
        try:
            yield found
        finally:
            sa.event.remove(sa.Engine, "before_cursor_execute", executed)


def wide_table() -> pd.DataFrame:
    """So many columns that two random subsets are never the same."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(120, 40)), columns=[f"x{i}" for i in range(40)])
    frame["y"] = (frame["x0"] + frame["x1"] + rng.normal(size=120) > 0).astype(int)
    return frame


@pytest.mark.slow
@pytest.mark.usefixtures("prefect_server", "plain")
def test_a_run_and_its_resume_read_no_more_of_an_archive_that_holds_much(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither rows of others nor a scan of the table, from the opening to the report."""
    counts, answers = [], []
    for name, others in (("alone", 0), ("shared", 2000)):
        place = bench.other(name)
        wide_table().to_csv(place.folder / "table.csv", index=False)
        config = place.config(data={"drop": []}, model=BAYES)
        posed = prepared_by_hand(config)[2]
        archive = Archive(place.archive)
        fill(archive, posed, others)
        archive.close()
        with reads(monkeypatch) as run:
            run_id = select(config, verbosity=0).run_id
        with reads(monkeypatch) as resumed:
            select(config, run_id=run_id, verbosity=0)
        counts.append((run.rows, resumed.rows))
        answers.append(place.answer(run_id))
        engine = sa.create_engine(place.archive)
        with engine.connect() as connection:
            for statement in run.statements | resumed.statements:
                values = [0] * statement.count("?")
                rows = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", tuple(values))
                steps = [row[-1] for row in rows]
                assert not [step for step in steps if step.startswith("SCAN")], statement
        engine.dispose()
    assert counts[0] == counts[1]
    assert answers[0] == answers[1]
    assert counts[0][0] > 0


def test_ctrl_c_in_the_first_epoch_reads_its_own_subsets_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Costs of others, whatever they are, are not the result."""
    searched, answers = [], []
    for others in (0, 2000):
        archive, posed, fitted = Archive(), problem(n_columns=40), 0

        def interrupt(mask: Any, record: Record) -> None:
            nonlocal fitted
            fitted += 1
            if fitted == 4:
                raise KeyboardInterrupt

        fill(archive, posed, others, cost=0.0)
        asked = plan(posed, evaluation={"exact": False, "pruning": False})
        with reads(monkeypatch) as read:
            result = run(asked, archive, on_fit=interrupt, salvage=True)
        assert result.interrupted
        searched.append(read.rows)
        answers.append((result.best_mask.tobytes(), result.cost))
    assert searched[0] == searched[1] > 0
    assert answers[0] == answers[1]

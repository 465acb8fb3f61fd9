"""A search reads as much of a shared archive as it needs, whatever the size of the archive."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import sqlalchemy as sa

from benchmarks.filled_archive import fill
from swarm.search.runner import run
from swarm.storage import archive as storage
from swarm.storage.archive import Archive
from swarm.storage.records import Record
from tests.swarm.search.test_runner import plan, problem


class Reads:
    """Number of evaluations that were read, and the statements that read them."""

    def __init__(self) -> None:
        self.rows = 0
        self.statements: set[str] = set()


@contextmanager
def reads(monkeypatch: pytest.MonkeyPatch) -> Iterator[Reads]:
    """Count the rows that are decoded, and keep every SELECT on the evaluations."""
    counter = Reads()
    decode = storage.decode

    def count_and_decode(*args: Any) -> Any:
        counter.rows += 1
        return decode(*args)

    def store_statement(connection: Any, cursor: Any, statement: str, *_: Any) -> None:
        if statement.startswith("SELECT") and "archive_evaluations" in statement:
            counter.statements.add(statement)

    with monkeypatch.context() as patch:
        patch.setattr(storage, "decode", count_and_decode)
        sa.event.listen(sa.Engine, "before_cursor_execute", store_statement)
        try:
            yield counter
        finally:
            sa.event.remove(sa.Engine, "before_cursor_execute", store_statement)


@pytest.mark.parametrize("interrupt_after", [4, 10**6])
def test_a_search_and_its_repeat_read_no_row_of_others_and_scan_no_table(
    interrupt_after: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other evaluations, whatever their costs, do not change the result, even after Ctrl-C."""
    counts = []
    results = []
    for n_others in (0, 2000):
        archive = Archive()
        search_problem = problem(n_columns=40)
        n_fits = 0
        fill(archive, search_problem, n_others, cost=0.0)

        def interrupt(mask: Any, record: Record) -> None:
            nonlocal n_fits
            n_fits += 1
            if n_fits == interrupt_after:
                raise KeyboardInterrupt

        search = plan(search_problem, evaluation={"exact": False, "pruning": False})
        with reads(monkeypatch) as first:
            result = run(search, archive, on_fit=interrupt, salvage=True)
        with reads(monkeypatch) as repeated:
            run(search, archive)
        counts.append((first.rows, repeated.rows))
        results.append((result.best_mask.tobytes(), result.cost, result.interrupted))
        with archive._engine.connect() as connection:
            for statement in first.statements | repeated.statements:
                values = tuple([0] * statement.count("?"))
                rows = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", values)
                assert not [row[-1] for row in rows if row[-1].startswith("SCAN")], statement
    assert counts[0] == counts[1]
    assert counts[0][1] > 0
    assert results[0] == results[1]

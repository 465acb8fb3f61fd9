"""What a search reads of a shared archive depends on the search, not on the size of the archive."""

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


@pytest.mark.parametrize("interrupt_after", [4, 10**6])
def test_a_search_and_its_repeat_read_no_row_of_others_and_scan_no_table(
    interrupt_after: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Costs of others, whatever they are, are not the result; not after Ctrl-C either."""
    counts, answers = [], []
    for others in (0, 2000):
        archive, posed, fitted = Archive(), problem(n_columns=40), 0
        fill(archive, posed, others, cost=0.0)

        def interrupt(mask: Any, record: Record) -> None:
            nonlocal fitted
            fitted += 1
            if fitted == interrupt_after:
                raise KeyboardInterrupt

        asked = plan(posed, evaluation={"exact": False, "pruning": False})
        with reads(monkeypatch) as first:
            result = run(asked, archive, on_fit=interrupt, salvage=True)
        with reads(monkeypatch) as again:
            run(asked, archive)
        counts.append((first.rows, again.rows))
        answers.append((result.best_mask.tobytes(), result.cost, result.interrupted))
        with archive._engine.connect() as connection:
            for statement in first.statements | again.statements:
                values = tuple([0] * statement.count("?"))
                rows = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", values)
                assert not [row[-1] for row in rows if row[-1].startswith("SCAN")], statement
    assert counts[0] == counts[1]
    assert counts[0][1] > 0
    assert answers[0] == answers[1]

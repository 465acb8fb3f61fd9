"""Write docs/performance.md, and into docs/trust.md the rates of right headlines, from ``results``.

The text of docs/performance.md is in performance.md.in.

python benchmarks/write_page.py
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench_verdict import short_form

RESULTS = Path(__file__).resolve().parent / "results"
TEMPLATE = RESULTS.parent / "performance.md.in"
DOCS = RESULTS.parents[1] / "docs"
BEGIN, END = "<!-- begin rates: benchmarks/write_page.py -->\n", "<!-- end rates -->\n"


def pages() -> dict[Path, str]:
    """Return the whole text of each page."""
    trust = DOCS / "trust.md"
    before, rest = trust.read_text().split(BEGIN)
    _, after = rest.split(END)
    rates = f"{before}{BEGIN}{short_form()}{END}{after}"
    return {DOCS / "performance.md": performance(), trust: rates}


def performance() -> str:
    """Return the page of durations."""
    tables = {path.stem: json.loads(path.read_text()) for path in sorted(RESULTS.glob("*.json"))}
    # Seconds, not ratios: they may be of another machine, which is named beside them.
    waiting, proxy = tables.pop("waiting"), tables.pop("musk_fast")
    whole, cheap = (_mean_of(search, proxy) for search in ("exact", "fast"))
    stepwise, swarms = tables.pop("peers_sequential"), tables.pop("peers_quality")
    work = [float(row[3]) for row in tables["strategies"]["rows"]]
    (training,) = (
        row[2] for row in tables["musk_profile"]["rows"] if row[0].startswith("training")
    )
    rows = [_row(["what", "against", "times as fast", "target"]), "|---|---|---|---|"]
    waited = [_row(["", "wall seconds", "processor seconds"]), "|---|---|---|"]
    return TEMPLATE.read_text().format(
        machine=_machine(tables),
        ratios="\n".join([*rows, *(_row(list(cells)) for cells in _ratios(tables))]),
        waiting="\n".join([*waited, *map(_row, waiting["rows"])]),
        stepwise="\n".join(_stepwise(stepwise)),
        swarms="\n".join(_swarms(swarms)),
        training=training,
        least=f"{min(work):.1f}",
        most=f"{max(work):.1f}",
        share_of_proxy=f"{float(cheap[2]) / float(whole[2]):.0%}",
        whole_cost=whole[3],
        cheap_cost=cheap[3],
        waiting_machine=_processor({"waiting": waiting}),
        peers_machine=_processor({"stepwise": stepwise, "swarms": swarms}),
        proxy_machine=proxy["machine"]["processor"],
    )


def _machine(tables: dict[str, dict]) -> str:
    """Describe the machine of all results, with the days of the first and the last one."""
    machines = [dict(table["machine"]) for table in tables.values()]
    days = sorted(machine.pop("date") for machine in machines)
    if any(machine != machines[0] for machine in machines):
        raise SystemExit("the results are of several machines; repeat all of them with make bench")
    described = ", ".join(f"{key} {value}" for key, value in machines[0].items())
    return f"{described}; {' to '.join(dict.fromkeys((days[0], days[-1])))}"


def _processor(tables: dict[str, dict]) -> str:
    return _machine(tables).partition(", ")[0].removeprefix("processor ")


def _ratios(tables: dict[str, dict]) -> Iterator[tuple[str, str, str, str]]:
    """Yield what was measured, against what, how many times as fast it is, and the target."""
    limit, naive = tables["musk_limit"]["rows"]
    fit = tables["musk_fit"]["rows"][0]
    alone = "LightGBM alone"
    yield "a search on Musk, 2 workers", alone, *_inverse(limit)
    yield "one fit with scoring and importances", alone, *_inverse(fit)
    yield "a search on Musk, 2 workers", "cross-validation in one process", *_inverse(naive)
    for name, _, _, ratio, asked, note in tables["exact"]["rows"]:
        peer = note.removeprefix("peer").lstrip(": ").partition(";")[0]
        against = "`cross_val_score`" if note == "-" else f"all pairs: {peer}"
        yield name, against, *_judged(float(ratio), asked)


def _stepwise(table: dict[str, Any]) -> Iterator[str]:
    """Yield the lines of sequential selection, ours and a peer's in turn."""
    yield _row(["", "cost", "wall seconds", "processor seconds", "MB"])
    yield "|---|---|---|---|---|"
    for ours, peer, *found in table["rows"]:
        wall, peer_wall, _, _, _, cost, peer_cost, spent, peer_spent, peak, peer_peak = found
        yield _row([f"`{ours}`", cost, wall, spent, f"{float(peak):.0f}"])
        yield _row([f"`{peer}`", peer_cost, peer_wall, peer_spent, f"{float(peer_peak):.0f}"])


def _swarms(table: dict[str, Any]) -> Iterator[str]:
    """Yield the lines of searches by populations."""
    yield _row(["", "data", "cost", "columns", "wall seconds", "processor seconds", "MB"])
    yield "|---|---|---|---|---|---|---|"
    for data, search, cost, _, size, _, wall, spent, peak in table["rows"]:
        label = f"`{search.removeprefix('ours: ')}`" if search != "all features" else search
        yield _row([label, data, cost, size, wall, spent, f"{float(peak):.0f}"])


def _mean_of(search: str, table: dict[str, Any]) -> list[str]:
    """Return the row of the means of a search on Musk, with a proxy or without."""
    return next(row for row in table["rows"] if row[:2] == [search, "mean"])


def _inverse(row: list[str]) -> tuple[str, str]:
    """Return ratio and target of a row of the time of ours in that of the peer."""
    asked = row[-1].removeprefix("at most ")
    return _judged(1 / float(row[3]), "-" if asked == "-" else f"{1 / float(asked):.2f}")


def _judged(ratio: float, asked: str) -> tuple[str, str]:
    """Return ratio and target, and whether it is missed."""
    missed = ", missed" if asked != "-" and ratio < float(asked) else ""
    return f"{ratio:.3g}" if ratio < 100 else f"{ratio:.0f}", f"{asked}{missed}"


def _row(cells: list[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "/") for cell in cells) + " |"


def main() -> None:
    """Write the pages, or with ``--check`` exit with 1 if one is not that of the stored results."""
    old = [(page, text) for page, text in pages().items() if page.read_text() != text]
    names = ", ".join(page.name for page, _ in old)
    if sys.argv[1:] == ["--check"]:
        sys.exit(f"not of the stored results: {names}; run benchmarks/write_page.py" if old else 0)
    for page, text in old:
        page.write_text(text)
    print(f"wrote {names or 'nothing: all pages are of the stored results'}")


if __name__ == "__main__":
    main()

"""Write docs/performance.md from the results that benchmarks left in ``benchmarks/results``.

python benchmarks/write_page.py
"""

from __future__ import annotations

import json
from pathlib import Path

RESULTS = Path(__file__).resolve().parent / "results"
PAGE = Path(__file__).resolve().parents[1] / "docs" / "performance.md"

# In the order of the page; what is not here follows in the order of the alphabet.
_ORDER = (
    "musk_limit",
    "musk_fit",
    "musk_profile",
    "musk_naive",
    "musk_fast",
    "exact",
    "peers_sequential",
    "peers_quality",
    "strategies",
)

_INTRODUCTION = """# Performance

This page is written by `benchmarks/write_page.py` from the results in `benchmarks/results`;
`make bench` measures anew. Every table is from one machine. Ratios hold better than seconds:
other work may share the machine.
"""

# What was tried, and what came of it; seconds are processor time of one fit of about 75 columns.
_TRIED = (
    (
        "bin each column once for each fold and put Datasets together",
        "kept: the models are the same bit for bit, and the Dataset of 80 columns takes 2 ms "
        "in place of 40 ms (`swarm/evaluation/boosted.py`)",
    ),
    (
        "train without the scikit-learn wrapper, on slices of a matrix",
        "kept for numeric columns, LightGBM's own two classes and scikit-learn's scorers; all "
        "else goes to the wrapper as it is. The first model of each process is made both ways "
        "and compared. Together with the above, a fit takes 0.91 of the time of LightGBM alone, "
        "where it took 1.02",
    ),
    (
        "keep the trained booster and skip its text form",
        "dropped: split gains have fewer digits in the text, so importances would not be the "
        "wrapper's; saves 4 ms of 400",
    ),
    (
        "one Dataset of all columns, others switched off by `interaction_constraints` or "
        "`feature_contri`",
        "dropped: the same predictions, but 0.78 s in place of 0.34 s, as histograms of all "
        "columns are made",
    ),
    (
        "`reference=` to a Dataset of all columns",
        "dropped: it takes over the columns too, so the model wants all 166",
    ),
    (
        "row subsets of one Dataset for all folds",
        "dropped: bins then follow from the test rows too, and the predictions are others",
    ),
    (
        "matrices in place of tables for other models",
        "dropped: their order in memory changes the last digits (`Ridge`, `LinearRegression`)",
    ),
)


def page() -> str:
    """Return the whole page."""
    names = sorted(
        (path.stem for path in RESULTS.glob("*.json")),
        key=lambda name: (_ORDER.index(name) if name in _ORDER else len(_ORDER), name),
    )
    tables = {name: json.loads((RESULTS / f"{name}.json").read_text()) for name in names}
    parts = [_INTRODUCTION, _shortfalls(tables), *(_section(table) for table in tables.values())]
    tried = ["## LightGBM: what was tried", "", _row(["tried", "outcome"]), "|---|---|"]
    return "\n".join([*parts, *tried, *(_row(list(pair)) for pair in _TRIED), ""])


def _section(table: dict) -> str:
    lines = [
        f"## {table['title']}",
        "",
        _row(table["columns"]),
        "|---" * len(table["columns"]) + "|",
    ]
    lines += [_row(row) for row in table["rows"]]
    lines += ["", *(f"- {note}" for note in table["notes"])]
    described = ", ".join(f"{key} {value}" for key, value in table["machine"].items())
    return "\n".join([*lines, *([""] if table["notes"] else []), f"Measured on: {described}.", ""])


def _row(cells: list[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "/") for cell in cells) + " |"


def _shortfalls(tables: dict[str, dict]) -> str:
    """List every figure that misses what was asked of it."""
    missed = []
    for table in tables.values():
        columns = table["columns"]
        if any("anew" in note for note in table["notes"]):
            missed.append(f"- {table['title']}: to be measured anew, see there")
        if "asked" not in columns:
            continue
        at = columns.index("asked")
        ratio = columns.index("ratio" if "ratio" in columns else "ours / peer")
        for row in table["rows"]:
            most = row[at].startswith("at most ")
            asked = row[at].removeprefix("at most ")
            if asked != "-" and (float(row[ratio]) > float(asked)) == most:
                missed.append(f"- {table['title']}; {row[0]}: {row[ratio]}, asked {row[at]}")
    return "\n".join(["## What falls short", "", *(missed or ["- nothing that was asked"]), ""])


def main() -> None:
    """Write the page."""
    PAGE.write_text(page())
    print(f"wrote {PAGE}")


if __name__ == "__main__":
    main()

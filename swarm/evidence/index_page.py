"""The page that leads to the pages of evidence: questions, commands, times, and what is missing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from swarm.evidence.page import duration, markdown_table, run_line

__all__ = ["STUDIES", "index_page"]

# In the order of the table: title and question of each study.
STUDIES = {
    "pays": (
        "Where selection pays",
        "on which data, with which model, is a chosen subset better than all features?",
    ),
    "musk": (
        "Musk, document 000",
        "are the figures of the worked example met, by rows and by molecules?",
    ),
    "two-d": (
        "2-D learning, document 002",
        "do its tables 3 to 9 come out, and does the gain survive on unseen rows?",
    ),
    "bees": (
        "Bees, document 004",
        "do its tables 2 and 3 come out, and what do single-label swarms do on labels?",
    ),
}
_BEGIN = """# Evidence

What the source documents claim, searched again, and what selection is worth on rows that no search
saw. Figures, tests and verdicts on these pages are computed from the rows in `results/`, and the
pages are written by the commands below; `--page` writes them again without data. Nothing was tuned
to the answer, and what does not hold is said.
"""
_AGAIN = """## Again, or on your data

Each command takes `--data`, a folder of Parquet tables with a column `target` or columns
`label_...`; a column `group` is never a feature. Without it Musk comes from the UCI repository,
and the others take the data sets that scikit-learn bundles. Every search leaves its row as it
ends, and what has a row is not searched twice: after Ctrl-C, a crash, or with more runs asked
for, the same command goes on. A first round runs one seed of everything and tells how long the
whole will take. `--only` names data sets, of your own too, `--leave-out PART:DATASET` what is not
to be run; `--help` lists the rest.
"""


def index_page(facts: Mapping[str, Mapping[str, Any]], searches: Mapping[str, int]) -> str:
    """Write the page.

    Parameters
    ----------
    facts : mapping of str to mapping
        Of each study that was run: `versions`, `machine`, `seconds`, `missing` and `whole`.
    searches : mapping of str to int
        Rows of each study.
    """
    there = [study for study in STUDIES if study in facts]
    rows = [
        [
            f"[{STUDIES[study][0]}]({study}.md)",
            STUDIES[study][1],
            f"`swarm evidence {study}`",
            f"{searches.get(study, 0):,}",
            duration(sum(facts[study].get("seconds", {}).values())),
        ]
        for study in there
    ]
    parts = [_BEGIN]
    if rows:
        header = ("page", "question", "command", "searches", "wall time")
        parts.append(markdown_table(header, rows, "lllrr"))
        first = dict(facts[there[0]])
        parts.append(
            run_line({**first, "seconds": {}})
            + " Wall times count whatever else the machine did meanwhile.\n"
        )
    parts += ["## What was not run\n", *_missing(there, facts), "", _AGAIN]
    return "\n".join(parts)


def _missing(there: list[str], facts: Mapping[str, Mapping[str, Any]]) -> list[str]:
    lines = []
    for study in there:
        title, whole = STUDIES[study][0], facts[study].get("whole", {})
        absent = facts[study].get("missing", {})
        if absent:
            told = ", ".join(f"{name} ({why})" for name, why in absent.items())
            lines.append(f"- {title}, data sets: {told}.")
        missing = whole.get("missing", {})
        if missing:
            told = ", ".join(f"{part} ({count})" for part, count in missing.items())
            lines.append(
                f"- {title}, {sum(missing.values()):,} of the {whole['searches']:,} searches of the"
                f" protocol, about {duration(whole['seconds'])} more on this machine: {told}."
            )
        notes = facts[study].get("notes", {})
        if "not_run" in notes:
            lines.append(f"- {title}: {notes['not_run']}")
    return lines or ["Nothing is missing."]

"""The page of document 002: eight searches, two classifiers, and what is left on test rows."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

from swarm.evidence.page import Page, markdown_table, run_line
from swarm.evidence.published import ALGORITHMS, CLASSIFIERS, DATASETS
from swarm.evidence.published_checks import contradictions
from swarm.evidence.two_d_caveats import caveats_section
from swarm.evidence.two_d_cells import classifier_section
from swarm.evidence.two_d_claims import Claim, agreement, claims, compared, sentence
from swarm.evidence.two_d_figures import agreement_figure, gain_figure, rank_figure
from swarm.evidence.two_d_nested import gains_of, nested_section, survival
from swarm.evidence.two_d_tables import Tables, tables_of, tidy
from swarm.report.words import counted
from swarm.validation.comparison import Comparison

__all__ = ["two_d_page"]

_NESTED = "nested"
_KINDS = {"error": "improvement", "size": "subset size"}


def two_d_page(rows: pd.DataFrame, facts: Mapping[str, Any]) -> Page:
    """Make the page from the rows that are there.

    Parameters
    ----------
    rows : DataFrame
        Rows of the study, parts ``nb``, ``knn`` and ``nested``; some or all may be missing.
    facts : mapping
        versions, machine, seconds by part, and sets.

    Returns
    -------
    Page
        With ``two_d_summary.csv``, all figures beside the published ones, and
        ``two_d_nested.csv``, as tables.
    """
    parts = {part: rows[rows["part"] == part] for part in CLASSIFIERS}
    parts = {
        part: here for part, here in parts.items() if here["strategy"].isin(list(ALGORITHMS)).any()
    }
    tables = {part: tables_of(here) for part, here in parts.items()}
    gains = gains_of(rows[rows["part"] == _NESTED])
    checked = {part: claims(found, part) for part, found in tables.items()}
    figures: dict[str, bytes] = {}
    agreed, words = _agreement_section(tables, figures)
    if not gains.empty:
        figures["two_d_nested.svg"] = gain_figure(gains)
    ending = "" if gains.empty else survival(gains)
    text = "\n".join(
        [
            "# Document 002: 2-D learning\n",
            _start(tables, facts),
            "## In short\n",
            "\n\n".join(told for told in (sentence(checked), words, ending) if told)
            or "There are no searches yet.",
            "",
            _claims_table(checked),
            caveats_section(tables, facts),
            agreed,
            *(classifier_section(found, part) for part, found in tables.items()),
            nested_section(gains, "two_d_nested.svg"),
            _contradictions(),
        ]
    )
    data = {"two_d_summary.csv": tidy(tables), "two_d_nested.csv": gains}
    kept = {name: table for name, table in data.items() if not table.empty}
    return Page(text=text, figures=figures, tables=kept)


def _start(tables: Mapping[str, Tables], facts: Mapping[str, Any]) -> str:
    lines = [
        "The document compares eight searches as wrappers of naive Bayes and of 5-NN: 6,000"
        " evaluations each, mean error of 10 stratified folds, 40 runs. The same is done here on"
        " the data sets at hand, with as many runs as the list below says. In the tables our"
        " figures stand above, *the published ones in italics below*; ranks are by the better"
        " figure, and equal ones share the smallest rank. Average ranks in italics are those of"
        " the document over the same data sets; the last lines are what it prints for all of its"
        " 16.\n",
    ]
    for part, found in tables.items():
        low, high = int(found.runs.to_numpy().min()), int(found.runs.to_numpy().max())
        count = counted(low, "run") if low == high else f"{low} to {high} runs"
        name = CLASSIFIERS[part]
        absent = [shown for data, shown in DATASETS.items() if data not in found.datasets]
        line = f"- {name}: {counted(len(found.datasets), 'data set')}, {count} of each algorithm"
        line += f"; not here: {', '.join(absent)}" if absent else ""
        gaps = [data for data in found.datasets if data not in found.ranked]
        lines.append(line + ".")
        if gaps:
            listed = ", ".join(DATASETS.get(data, data) for data in gaps)
            lines.append(f"- {name}: not every algorithm has runs on {listed}; unranked there.")
        missing = [shown for data, shown in ALGORITHMS.items() if data not in found.algorithms]
        if missing:
            lines.append(f"- {name}: no runs of {', '.join(missing)}.")
    lines += [
        f"- {CLASSIFIERS[part]}: no searches yet." for part in CLASSIFIERS if part not in tables
    ]
    return "\n".join(lines) + f"\n\n{run_line(facts)}\n"


def _claims_table(checked: Mapping[str, list[Claim]]) -> str:
    if not any(checked.values()):
        return ""
    verdict = {True: "yes", False: "**no**", None: "–"}
    listed = [
        [CLASSIFIERS[part], claim.text, claim.published, claim.ours, verdict[claim.holds]]
        for part, found in checked.items()
        for claim in found
    ]
    note = (
        "\n*Most* means on more than half of the data sets. A smallest subset or a lowest T2 may be"
        " shared with another algorithm. *Far* means ten times on every data set.\n"
    )
    header = ["Classifier", "Claim", "Document", "Here", "Holds here"]
    return markdown_table(header, listed, "lllll") + note


def _agreement_section(tables: Mapping[str, Tables], figures: dict[str, bytes]) -> tuple[str, str]:
    """The section, and its sentence for the summary; adds its figures."""
    panels: dict[str, pd.DataFrame] = {}
    listed, tests = [], []
    for part, found in tables.items():
        for kind, name in _KINDS.items():
            both = agreement(found, part, kind)
            if both.ranks.dropna().empty:
                continue
            panels[f"{CLASSIFIERS[part]}, {name}"] = both.ranks
            rho = f"{both.rho:.2f}" if math.isfinite(both.rho) else "–"
            p = f"{both.p:.3f}" if math.isfinite(both.p) else "–"
            listed.append([CLASSIFIERS[part], name, both.n_datasets, rho, p])
        comparison = compared(found)
        if comparison is not None:
            tests.append(_friedman(comparison, part, found))
            figures[f"two_d_ranks_{part}.svg"] = rank_figure(comparison, part)
    if not listed:
        return "", ""
    figures["two_d_agreement.svg"] = agreement_figure(panels)
    text = [
        "## Agreement of the ranks\n",
        "Spearman's correlation of our average ranks with the published ones, over the algorithms;"
        " both are over the data sets that both have.\n",
        markdown_table(
            ["Classifier", "Ranks by", "Data sets", "Spearman's rho", "p"], listed, "llrrr"
        ),
        "![Average ranks here against the published ones](figures/two_d_agreement.svg)\n",
        "\n".join(tests),
    ]
    told = "; ".join(f"{row[0]}, {row[1]}: {row[3]}" for row in listed)
    return "\n".join(
        text
    ), f"Our average ranks and the published ones correlate (Spearman): {told}."


def _friedman(comparison: Comparison, part: str, tables: Tables) -> str:
    friedman, difference = comparison.friedman, comparison.critical_difference
    assert friedman is not None
    assert difference is not None
    average = comparison.ranks["average"]
    told = ""
    if "two_d" in average.index:
        gap = average.drop("two_d") - average["two_d"]
        worse = [ALGORITHMS[str(name)] for name in gap.index if gap[name] > difference]
        better = [ALGORITHMS[str(name)] for name in gap.index if -gap[name] > difference]
        told = (
            f" By it 2D-UPSO is better than {', '.join(worse) or 'none'} and worse than"
            f" {', '.join(better) or 'none'}."
        )
    return (
        f"With {CLASSIFIERS[part]} Friedman's test over {len(tables.ranked)} data sets gives"
        f" chi2 = {friedman.chi2:.1f}, p = {friedman.p:.2g} (Iman and Davenport: F ="
        f" {friedman.f:.1f}, p = {friedman.f_p:.2g}). Nemenyi's critical difference of average"
        f" ranks is {difference:.2f}.{told} Equal errors share their average rank there, so these"
        " averages can differ from those of the table.\n\n"
        f"![Average ranks, {CLASSIFIERS[part]}](figures/two_d_ranks_{part}.svg)\n"
    )


def _contradictions() -> str:
    found = contradictions()
    return "\n".join(
        [
            "## Where the document contradicts itself\n",
            "Its tables were typed in and checked against one another and its section 6;"
            f" {len(found)} places do not agree beyond rounding. They are used as printed.\n",
            *(f"- {place}." for place in found),
            "",
        ]
    )

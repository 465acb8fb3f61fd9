"""Sections of the page on where selection pays: verdicts, costs, gains, votes, and what it took."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pandas as pd

from swarm.evidence.page import markdown_table
from swarm.evidence.pays_study import Study
from swarm.evidence.pays_tables import ALPHA, BANDS, MODELS, band, counts
from swarm.evidence.pays_words import between, change, percent
from swarm.report.words import number

__all__ = [
    "costs_section",
    "gains_section",
    "spent_section",
    "verdicts_section",
    "votes_section",
]

_VOTES = {
    "ensemble": "ensemble over all features",
    "vote": "vote of all features over one model",
    "ensemble_over_vote": "ensemble over the same vote of all features",
    "subset_over_random": "best subset over random subsets, same vote",
    "ensemble_over_random": "ensemble over random subsets, same vote",
}


def verdicts_section(study: Study) -> str:
    """Count the verdicts by model and strategy, and by rows per feature."""
    header = ("model", "what", "helps", "hurts", "not distinguishable", "mean gain", "kept")
    table = []
    for part in study.parts:
        kinds = [(f"subset of `{name}`", "subset", name) for name in study.strategies(part)]
        kinds.append((f"ensemble of `{study.voting}`", "ensemble", study.voting))
        for label, contrast, name in kinds:
            cells = study.cells(contrast, name, part)
            if len(cells):
                counted = _counted(cells)
                # What the members of an ensemble keep is not in the rows.
                kept = counted[-1] if contrast == "subset" else "–"
                table.append((MODELS.get(part, part), label, *counted[:-1], kept))
    ratios = []
    best = study.cells("subset", study.best)
    columns = best["n_available"].to_numpy(dtype="float64")
    bands = [
        str(band(str(name), float(count), study.facts))
        for name, count in zip(best["dataset"], columns, strict=True)
    ]
    best = best.assign(band=bands)
    for _, _, name in BANDS:
        for part in study.parts:
            cells = best[(best["band"] == name) & (best["part"] == part)]
            if len(cells):
                ratios.append((name, MODELS.get(part, part), *_counted(cells)))
    return "\n".join(
        [
            "## How often it helps\n",
            "Data sets on which the test cost differs from that of all features (corrected "
            f"resampled t-test, p corrected by Holm over the data sets, below {ALPHA:g}).\n",
            markdown_table(header, table, "llrrrrr"),
            f"By training rows per feature, for one subset of `{study.best}`:\n",
            markdown_table(("rows per feature", "model", *header[2:]), ratios, "llrrrrr"),
            _free(best),
        ]
    )


def _counted(cells: pd.DataFrame) -> tuple[object, ...]:
    found = counts(cells)
    gain, kept = float(cells["gain"].mean()), float(cells["kept"].mean())
    return found["helps"], found["hurts"], found["open"], change(gain), percent(kept)


def _free(cells: pd.DataFrame) -> str:
    """Say how small the subsets are where no loss could be shown, and what loss may be hidden."""
    free = cells[cells["verdict"].isin(["helps", "open"])]
    tested = cells[cells["verdict"] != "untested"]
    if free.empty:
        return "There is no cell yet in which fewer features came without a loss that shows.\n"
    undecided = free[free["verdict"] == "open"]
    text = (
        f"Fewer features without a loss that shows: in {len(free)} of {len(tested)} cells, with "
        f"{percent(float(free['kept'].mean()))} of the features kept on average."
    )
    if len(undecided):
        worst = max(0.0, -float(undecided["low"].median()))
        text += (
            f" Not distinguishable is not equal: in the {len(undecided)} undecided cells a loss of "
            f"{number(worst)} is still inside the interval of the median cell."
        )
    return text + "\n"


def costs_section(study: Study, part: str) -> str:
    """Tabulate the mean test costs of all contenders of a model, and the mean sizes."""
    here = study.averages[study.averages["part"] == part].set_index(["dataset", "strategy"])
    strategies = study.strategies(part)
    shown = [("full", "test_cost")]
    if study.voting in strategies and study.cells("ensemble", study.voting, part).size:
        votes = ("test_all_ensemble", "test_random", "test_ensemble")
        shown += [(study.voting, name) for name in votes]
    shown += [(name, "test_cost") for name in strategies]
    titles = {"test_all_ensemble": "all, same vote", "test_random": "random, same vote"}
    header = ["data set"]
    for name, column in shown:
        own = "all features" if name == "full" else f"`{name}`"
        header.append(f"ensemble, {own}" if column == "test_ensemble" else titles.get(column, own))
    most = int(here["n"].max())
    costs, sizes = [], []
    for dataset in dict.fromkeys(here.index.get_level_values(0)):
        block = here.loc[dataset]
        cells = [
            (float(block.at[name, column]), int(block.at[name, "n"]))
            if name in block.index
            else (math.nan, 0)
            for name, column in shown
        ]
        costs.append([dataset, *_marked(cells, most)])
        sizes.append(
            [dataset, f"{block['n_available'].max():.0f}"]
            + [f"{block.at[s, 'size']:.1f}" if s in block.index else "–" for s in strategies]
        )
    return "\n".join(
        [
            f"### {MODELS.get(part, part)}\n",
            markdown_table(header, costs),
            "Mean size of the best subset:\n",
            markdown_table(["data set", "all features", *(f"`{s}`" for s in strategies)], sizes),
        ]
    )


def _marked(cells: Sequence[tuple[float, int]], most: int) -> list[str]:
    """Write costs; bold is the lowest of those with as many resamples as any in the row."""
    here = max(n for _, n in cells)
    whole = [cost for cost, n in cells if n == here and cost == cost]
    # What reads the same as the lowest is as low as it.
    lowest = number(min(whole, default=math.nan))
    written = []
    for cost, n in cells:
        text = number(cost)
        if n == here and len(whole) > 1 and text == lowest:
            text = f"**{text}**"
        written.append(f"{text} ({n})" if 0 < n < most and cost == cost else text)
    return written


def gains_section(study: Study) -> str:
    """Tabulate the gains over all features with their intervals and tests."""
    parts = [
        "## Gains over all features\n",
        "Test cost of all features minus that of one model of the best subset, with half the "
        "width of its 95 % interval (corrected resampled t-test); bold where p, corrected by Holm "
        f"over the data sets, is below {ALPHA:g}. The intervals are not corrected, so "
        "that one may leave 0 out and its cell still not be bold. All of them, with p, are in "
        "`pays_gains.csv`.\n",
        "![Gain by data set and model](figures/pays-forest.svg)\n",
        "![Gain against the share of features kept](figures/pays-size.svg)\n",
    ]
    for part in study.parts:
        strategies = study.strategies(part)
        cells = {
            name: study.cells("subset", name, part).set_index("dataset") for name in strategies
        }
        datasets = list(dict.fromkeys(name for table in cells.values() for name in table.index))
        if not datasets:
            continue
        table = [[name, *(_half(cells[s], name) for s in strategies)] for name in datasets]
        parts += [
            f"### {MODELS.get(part, part)}\n",
            markdown_table(["data set", *(f"`{s}`" for s in strategies)], table),
            f"`{study.best}` in full:\n",
            _in_full(study.cells("subset", study.best, part)),
        ]
    return "\n".join(parts)


def _half(table: pd.DataFrame, dataset: str) -> str:
    if dataset not in table.index:
        return "–"
    row = table.loc[dataset].to_dict()
    gain, low, high, verdict = (row[name] for name in ("gain", "low", "high", "verdict"))
    if verdict == "untested":
        return f"{change(gain)} (1)"
    text = f"{change(gain)} ± {number((high - low) / 2)}"
    return text if verdict == "open" else f"**{text}**"


def _in_full(cells: pd.DataFrame) -> str:
    names = {"open": "not distinguishable", "untested": "not tested"}
    table = [
        [
            row["dataset"],
            row["n"],
            change(row["gain"]),
            between(row["low"], row["high"]),
            _p(row["p"]),
            _p(row["p_holm"]),
            names.get(row["verdict"], row["verdict"]),
        ]
        for row in cells.to_dict("records")
    ]
    header = ("data set", "resamples", "gain", "95 % interval", "p", "p (Holm)", "selection")
    return markdown_table(header, table, "lrrrrrl")


def votes_section(study: Study) -> str:
    """Tabulate what the subsets add to the vote, and to features drawn by chance."""
    parts = [
        "## What selection is worth beside the vote\n",
        "A vote of several models changes the score by itself. The differences below are gains of "
        f"the first named over the second, for `{study.voting}`, with half their 95 % interval; "
        "bold as above. The random subsets have the sizes of its subsets and the same vote.\n",
    ]
    for part in study.parts:
        cells = {c: study.cells(c, study.voting, part).set_index("dataset") for c in _VOTES}
        datasets = list(dict.fromkeys(name for table in cells.values() for name in table.index))
        if datasets:
            table = [[name, *(_half(cells[c], name) for c in _VOTES)] for name in datasets]
            parts += [
                f"### {MODELS.get(part, part)}\n",
                markdown_table(["data set", *_VOTES.values()], table),
            ]
    return "\n".join(parts)


def spent_section(study: Study) -> str:
    """Tabulate seconds, CV costs and optimism."""
    evaluations = study.averages.groupby("strategy")["evaluations"].mean()
    tried = [f"{evaluations[name]:,.0f} for `{name}`" for name in study.strategies()]
    parts = [
        "## What a search costs, and what it promises\n",
        "Seconds of a search, its own and those of its evaluations. Then the CV cost of the best "
        "subset, and its optimism: the test cost minus the CV cost. Evaluations of a search on "
        f"average: {', '.join(tried)}.\n",
    ]
    for part in study.parts:
        here = study.averages[study.averages["part"] == part].set_index(["dataset", "strategy"])
        strategies = study.strategies(part)
        datasets = list(dict.fromkeys(here.index.get_level_values(0)))
        seconds, promised = [], []
        for dataset in datasets:
            block = here.loc[dataset]
            seconds.append(
                [dataset]
                + [f"{block.at[s, 'seconds']:.1f}" if s in block.index else "–" for s in strategies]
            )
            promised.append(
                [dataset]
                + [
                    f"{number(block.at[s, 'cost'])} ({change(block.at[s, 'optimism'])})"
                    if s in block.index
                    else "–"
                    for s in ("full", *strategies)
                ]
            )
        names = [f"`{s}`" for s in strategies]
        parts += [
            f"### {MODELS.get(part, part)}\n",
            "Seconds per search:\n",
            markdown_table(["data set", *names], seconds),
            "CV cost (optimism):\n",
            markdown_table(["data set", "all features", *names], promised),
        ]
    return "\n".join(parts)


def _p(value: float) -> str:
    if math.isnan(value):
        return "–"
    return "< 0.001" if value < 0.001 else f"{value:.3f}"

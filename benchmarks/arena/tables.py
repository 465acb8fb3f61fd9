"""Write the page of the arena from its rows: ``python benchmarks/arena/tables.py``.

A method counts on the sets and resamples where it and every other method of its table have a
score. Methods that lack scores on many sets are listed below the table, each beside all features
on its own sets.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from data import MOST_TEST_ROWS, MOST_TRAINING_ROWS, TUNED_ON
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.weightstats import DescrStatsW

from swarm.validation.comparison import friedman_of_blocks
from swarm.validation.location import signed_rank
from swarm.validation.stability import nogueira

ALL = "all features"
# Beside which methods are shown that lack scores.
OURS = "swarm confirm"
# Differences in balanced accuracy below this are ties.
TIE = 0.002
# A method is in the main table if it has scores on this share of the sets.
COMPLETE = 0.9
# What the groups of sets are called; those whose informative columns are known are one table.
TITLES = {
    "keel": "keel sets",
    "semi": "sets of known columns",
    "noise": "sets of known columns",
    "file": "sets of a folder",
}
# With fewer sets no difference can be significant after Holm's correction.
FEWEST_SETS = 8
EVIDENCE = Path("docs/evidence")
HEAD = Path(__file__).with_name("page_head.txt")


def read(path: Path) -> pd.DataFrame:
    """Read the rows, the last one of a cell where there are several."""
    rows = pd.read_csv(path, dtype={"mask": str, "note": str}, keep_default_na=True)
    return rows.drop_duplicates(
        ["set", "model", "budget", "method", "resample"], keep="last", ignore_index=True
    )


def blocks(rows: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame, list[str]]:
    """Return rows that are complete, scores (n_sets, n_methods), and incomplete methods."""
    scored = rows[rows["score"].notna()]
    started = rows.loc[rows["method"] == ALL, ["set", "resample"]]
    cells = pd.MultiIndex.from_frame(started)
    counts = scored.groupby("method").apply(
        lambda own: pd.MultiIndex.from_frame(own[["set", "resample"]]).isin(cells).sum(),
        include_groups=False,
    )
    full = [name for name in counts.index if counts[name] >= COMPLETE * len(cells)]
    left = [name for name in counts.index if name not in full]
    wide = scored[scored["method"].isin(full)].pivot(
        index=["set", "resample"], columns="method", values="score"
    )
    wide = wide.dropna()
    whole = scored.set_index(["set", "resample"]).loc[wide.index].reset_index()
    return whole[whole["method"].isin(full)], wide.groupby("set").mean(), left


def ranking(rows: pd.DataFrame, scores: pd.DataFrame) -> pd.DataFrame:
    """Return one row per method, the best average rank first."""
    ranks = scores.rank(axis=1, ascending=False).mean()
    gains = scores.sub(scores[ALL], axis=0)
    share = (rows["size"] / rows["n_columns"]).groupby(rows["method"]).mean()
    means = rows.groupby("method")[["size", "fits", "seconds"]].mean()
    table = pd.DataFrame({"rank": ranks, "score": scores.mean(), "gain": gains.mean()})
    tests = {name: signed_rank(gains[name].to_numpy()) for name in gains if name != ALL}
    table["low"] = pd.Series({name: test.low for name, test in tests.items()})
    table["high"] = pd.Series({name: test.high for name, test in tests.items()})
    p = pd.Series({name: test.p for name, test in tests.items()})
    adjusted = multipletests(p.to_numpy(), method="holm")[1]
    table["p_holm"] = pd.Series(adjusted, index=p.index)
    table["win/tie/loss"] = [
        f"{(gains[name] > TIE).sum()}/{(gains[name].abs() <= TIE).sum()}"
        f"/{(gains[name] < -TIE).sum()}"
        for name in table.index
    ]
    table["stability"] = pd.Series({name: stability(rows, name) for name in table.index})
    return table.join(means).assign(share=share).sort_values("rank")


def stability(rows: pd.DataFrame, method: str) -> float:
    """Return the mean stability index over the sets with two resamples or more."""
    found = []
    for _, own in rows[rows["method"] == method].groupby("set"):
        # Columns that are constant in some resamples are left out of them.
        if len(own) < 2 or own["n_columns"].nunique() > 1:
            continue
        width = int(own["n_columns"].iloc[0])
        masks = np.array([_bits(text, width) for text in own["mask"]])
        found.append(nogueira(masks).index)
    return float(np.nanmean(found)) if found and not np.isnan(found).all() else float("nan")


def _bits(text: str, width: int) -> np.ndarray:
    packed = np.frombuffer(bytes.fromhex(text), dtype=np.uint8)
    return np.unpackbits(packed, count=width).astype(bool)


def report(rows: pd.DataFrame) -> Iterator[str]:
    """Yield the report, as Markdown."""
    budgets = sorted(set(rows["budget"]) - {0})
    for model, of_model in rows.groupby("model", sort=False):
        for budget in budgets:
            own = of_model[of_model["budget"].isin([0, budget])]
            own = own[own["resample"].isin(_shared_resamples(own))]
            groups = own["set"].str.split(":").str[0].map(TITLES)
            for sets, part in own.groupby(groups, sort=False):
                if budget in set(part["budget"]):
                    yield from _section(f"{model}, {budget} evaluations, {sets}", part)
                    if sets == TITLES["keel"]:
                        seen = part["set"].isin([f"keel:{name}" for name in TUNED_ON])
                        title = f"{model}, {budget} evaluations, keel sets that nobody tuned on"
                        yield from _section(title, part[~seen])


def _shared_resamples(rows: pd.DataFrame) -> list[int]:
    """Return the resamples on which at least half of the methods have scores."""
    counts = rows[rows["score"].notna()].groupby("resample")["method"].nunique()
    return counts[counts >= rows["method"].nunique() / 2].index.tolist()


def _section(title: str, rows: pd.DataFrame) -> Iterator[str]:
    whole, scores, left = blocks(rows)
    if len(scores) < FEWEST_SETS:
        return
    table = ranking(whole, scores)
    silent: dict[str, str] = {}
    friedman = friedman_of_blocks(1 - scores, silent)
    cells = len(whole[["set", "resample"]].drop_duplicates())
    yield f"## {title}\n"
    test = silent.get("friedman", "")
    if friedman is not None:
        test = f"Friedman chi2 {friedman.chi2:.1f}, p {friedman.p:.2g}"
    yield f"n = {len(scores)} sets, {cells} cells of set and resample. {test}.\n"
    shown = table.assign(
        gain=100 * table["gain"], low=100 * table["low"], high=100 * table["high"]
    ).round({"rank": 2, "score": 4, "gain": 2, "low": 2, "high": 2, "p_holm": 3, "size": 1})
    shown = shown.round({"fits": 0, "seconds": 2, "share": 2, "stability": 2})
    yield _markdown(shown.reset_index(names="method"))
    if whole["real_share"].notna().any():
        yield "Share of the selected columns that carry information, and share of those found:\n"
        yield _markdown(_shares(whole))
    if left:
        yield from _incomplete(rows, left)


def _shares(rows: pd.DataFrame) -> pd.DataFrame:
    """Return how many selected columns are informative, with 95 % t-intervals over the sets."""
    means = rows.groupby(["method", "set"])[["real_share", "found_share"]].mean()
    lines = []
    for method, own in means.groupby("method"):
        shares = DescrStatsW(own["real_share"])
        low, high = shares.tconfint_mean()
        found = own["found_share"].mean()
        lines.append([method, *np.round([shares.mean, low, high, found], 2).tolist()])
    table = pd.DataFrame(lines, columns=["method", "informative", "low", "high", "found"])
    return table.sort_values("informative", ascending=False)


def _incomplete(rows: pd.DataFrame, methods: list[str]) -> Iterator[str]:
    scores = rows.set_index(["method", "set", "resample"])["score"]
    everything, ours = scores[ALL], scores.get(OURS, pd.Series(dtype=float))
    lines = []
    for name in methods:
        own = rows[rows["method"] == name].set_index(["set", "resample"])
        gains = (own["score"] - everything).dropna()
        notes = own["note"].dropna().str.split(":").str[0].value_counts()
        cells = own[own["score"].notna()]
        ahead = 100 * (ours - own["score"]).dropna().groupby("set").mean()
        shift = signed_rank(ahead.to_numpy()) if len(ahead) >= FEWEST_SETS else None
        lines.append(
            {
                "method": name,
                "cells": len(gains),
                "sets": gains.index.get_level_values("set").nunique(),
                "gain": round(100 * gains.mean(), 2),
                f"{OURS}, ahead": round(ahead.mean(), 2),
                "low": float("nan") if shift is None else round(shift.low, 2),
                "high": float("nan") if shift is None else round(shift.high, 2),
                "size": round(cells["size"].mean(), 1),
                "seconds": round(cells["seconds"].mean(), 2),
                "without score": ", ".join(f"{n} {text}" for text, n in notes.items()) or "-",
            }
        )
    yield (
        "Methods without a score in some of these cells, on their own ones, and how many points\n"
        f"*{OURS}* is ahead of them there, with the interval of the shift over the sets:\n"
    )
    yield _markdown(pd.DataFrame(lines))


def _markdown(table: pd.DataFrame) -> str:
    lines = [list(table.columns), ["---"] * table.shape[1], *table.to_numpy().tolist()]
    text = [
        "| " + " | ".join("-" if cell != cell else str(cell) for cell in line) + " |"
        for line in lines
    ]
    return "\n".join(text) + "\n"


def page(rows: pd.DataFrame) -> str:
    """Return the page: what the columns mean, the tables, and what has no rows."""
    missing = rows[rows["score"].isna()]
    notes = missing["note"].str.split("(").str[0].str.strip()
    failures = missing.assign(note=notes).groupby(["method", "note"])["set"].nunique()
    counts = rows.groupby(["model", "budget"])["set"].nunique()
    there = ", ".join(f"{m} at {b:,} ({n} sets)" for (m, b), n in counts.items() if b)
    parts = [
        HEAD.read_text(encoding="utf-8").format(
            most=MOST_TRAINING_ROWS, test=MOST_TEST_ROWS, tie=100 * TIE
        )
    ]
    parts += list(report(rows))
    parts.append(
        f"## What was not run\n\nModels with rows: {there}; tables need {FEWEST_SETS} sets."
    )
    lines = [[method, note, str(n)] for (method, note), n in failures.items()]
    if lines:
        parts.append("Cells without a score:\n")
        parts.append(_markdown(pd.DataFrame(lines, columns=["method", "reason", "sets"])))
    return "\n".join(part.rstrip() + "\n" for part in parts)


def main() -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=Path, default=EVIDENCE / "results" / "arena.csv")
    parser.add_argument("--page", type=Path, default=EVIDENCE / "arena.md")
    options = parser.parse_args()
    options.page.write_text(page(read(options.rows)), encoding="utf-8")
    print(f"wrote {options.page}")


if __name__ == "__main__":
    main()

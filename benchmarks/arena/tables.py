"""Write the page of the arena and its tables from its rows: ``python benchmarks/arena/tables.py``.

A method counts on the sets and resamples where it and every other method of its cell have a
score. Methods that lack scores on many sets have a table of their own, each beside all features
on its own sets. The page has the main cells; the CSV files have all.
"""

from __future__ import annotations

import argparse
import re
import textwrap
from collections.abc import Callable, Iterator
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
# No difference can be significant on fewer sets after Holm's correction.
FEWEST_SETS = 8
EVIDENCE = Path("docs/evidence")
TEXT = Path(__file__).with_name("page.txt")
UNTUNED = "keel sets that nobody tuned on"
KEYS = ["model", "budget", "sets"]
# Cells that the text of the page names.
CELLS = {
    "nb": ("nb", 300, TITLES["keel"]),
    "knn": ("knn", 300, TITLES["keel"]),
    "lightgbm": ("lightgbm", 100, TITLES["keel"]),
    "logreg": ("logreg", 100, TITLES["keel"]),
    "nb_untuned": ("nb", 300, UNTUNED),
    "logreg_untuned": ("logreg", 100, UNTUNED),
    "nb_100": ("nb", 100, TITLES["keel"]),
    "knn_100": ("knn", 100, TITLES["keel"]),
    "nb_1000": ("nb", 1000, TITLES["keel"]),
    "knn_1000": ("knn", 1000, TITLES["keel"]),
    "lightgbm_known": ("lightgbm", 100, TITLES["semi"]),
    "logreg_known": ("logreg", 100, TITLES["semi"]),
}
# Those with a table on the page, and their models.
MAIN = {
    "nb": "naive Bayes",
    "knn": "5-NN",
    "lightgbm": "LightGBM",
    "logreg": "logistic regression",
}
# The page shows all of the first two, and of the others the best of each cell.
CLASSES = {
    "none": ("all features",),
    "multiswarm": (
        *("swarm", "swarm x8", "swarm confirm", "swarm confirm x8"),
        *("swarm confirm score", "swarm confirm size", "swarm confirm third"),
    ),
    "random ensemble": ("swarm random x8",),
    "random search": ("swarm random",),
    "random subsets": ("random of bpso's size",),
    "filter": ("SelectKBest F", "SelectKBest MI", "mRMR"),
    "importances": ("L1", "RFECV", "Boruta", "powershap", "ShapRFECV"),
    "sequential": ("sklearn SFS", "mlxtend SFFS", "swarm sffs"),
    "evolutionary": ("zoofs PSO", "sklearn-genetic"),
}
_OTHERS = ("filter", "importances", "sequential", "evolutionary")
CLASS_OF = {name: label for label, names in CLASSES.items() for name in names}


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
    ahead = scores.rsub(scores[OURS], axis=0).drop(columns=OURS)
    shifts = {name: signed_rank(ahead[name].to_numpy()) for name in ahead}
    table["ours_ahead"] = ahead.mean()
    table["ahead_low"] = pd.Series({name: test.low for name, test in shifts.items()})
    table["ahead_high"] = pd.Series({name: test.high for name, test in shifts.items()})
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


def cells(rows: pd.DataFrame) -> Iterator[tuple[tuple[str, int, str], pd.DataFrame]]:
    """Yield the rows of each cell after its key: model, budget, and kind of sets."""
    budgets = sorted(set(rows["budget"]) - {0})
    for model, of_model in rows.groupby("model", sort=False):
        for budget in budgets:
            part = of_model[of_model["budget"].isin([0, budget])]
            part = part[part["resample"].isin(_shared_resamples(part))]
            kinds = part["set"].str.split(":").str[0].map(TITLES)
            for kind, of_kind in part.groupby(kinds, sort=False):
                if budget in set(of_kind["budget"]):
                    yield (str(model), budget, str(kind)), of_kind
                    if kind == TITLES["keel"]:
                        tuned = of_kind["set"].isin([f"keel:{name}" for name in TUNED_ON])
                        yield (str(model), budget, UNTUNED), of_kind[~tuned]


def _shared_resamples(rows: pd.DataFrame) -> list[int]:
    """Return the resamples on which at least half of the methods have scores."""
    counts = rows[rows["score"].notna()].groupby("resample")["method"].nunique()
    return counts[counts >= rows["method"].nunique() / 2].index.tolist()


def tables(rows: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the methods of every cell that has enough sets, and those that lack scores in it."""
    complete, incomplete = [], []
    for key, part in cells(rows):
        whole, scores, left = blocks(part)
        if len(scores) < FEWEST_SETS:
            continue
        table = ranking(whole, scores)
        if whole["real_share"].notna().any():
            table = table.join(_shares(whole))
        friedman = friedman_of_blocks(1 - scores, {})
        facts = dict(zip(KEYS, key, strict=True))
        facts |= {"n_sets": len(scores), "n_methods": len(table)}
        facts["n_splits"] = len(whole[["set", "resample"]].drop_duplicates())
        facts["friedman_p"] = float("nan") if friedman is None else friedman.p
        complete.append(table.reset_index(names="method").assign(**facts))
        if left:
            incomplete.append(_incomplete(part, left).assign(**dict(zip(KEYS, key, strict=True))))
    tables = [pd.concat(each, ignore_index=True) for each in (complete, incomplete)]
    main, lacking = (table[[*KEYS, *table.columns.drop(KEYS)]] for table in tables)
    points = ["gain", "low", "high", "ours_ahead", "ahead_low", "ahead_high"]
    return main.assign(**100 * main[points]), lacking


def _shares(rows: pd.DataFrame) -> pd.DataFrame:
    """Return how many selected columns are informative, with 95 % t-intervals over the sets."""
    means = rows.groupby(["method", "set"])[["real_share", "found_share"]].mean()
    lines = {}
    for method, own in means.groupby("method"):
        shares = DescrStatsW(own["real_share"])
        lines[method] = [shares.mean, *shares.tconfint_mean(), own["found_share"].mean()]
    columns = ["informative", "informative_low", "informative_high", "found"]
    return pd.DataFrame.from_dict(lines, orient="index", columns=columns)


def _incomplete(rows: pd.DataFrame, methods: list[str]) -> pd.DataFrame:
    """Return the gains of methods on their own cells, and how far ours is ahead of them there."""
    scores = rows.set_index(["method", "set", "resample"])["score"]
    everything, ours = scores[ALL], scores.get(OURS, pd.Series(dtype=float))
    lines = []
    for name in methods:
        own = rows[rows["method"] == name].set_index(["set", "resample"])
        gains = (own["score"] - everything).dropna()
        notes = own["note"].dropna().str.split(":").str[0].value_counts()
        scored = own[own["score"].notna()]
        ahead = 100 * (ours - own["score"]).dropna().groupby("set").mean()
        shift = signed_rank(ahead.to_numpy()) if len(ahead) >= FEWEST_SETS else None
        lines.append(
            {
                "method": name,
                "n_splits": len(gains),
                "n_sets": gains.index.get_level_values("set").nunique(),
                "gain": 100 * gains.mean(),
                "ours_ahead": ahead.mean(),
                "ahead_low": float("nan") if shift is None else shift.low,
                "ahead_high": float("nan") if shift is None else shift.high,
                **scored[["size", "fits", "seconds"]].mean(),
                "without_score": ", ".join(f"{n} {text}" for text, n in notes.items()),
            }
        )
    return pd.DataFrame(lines)


def _markdown(table: pd.DataFrame) -> str:
    lines = [list(table.columns), ["---"] * table.shape[1], *table.to_numpy().tolist()]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def _interval(low: float, high: float) -> str:
    return "" if np.isnan(low) else f" [{low:+.2f}, {high:+.2f}]"


def _of(table: pd.DataFrame, cell: str) -> pd.DataFrame:
    """Return the rows of a cell."""
    return table[(table[KEYS] == list(CELLS[cell])).all(axis=1)].set_index("method")


def _main_table(table: pd.DataFrame) -> str:
    table = table[table.index.isin(CLASS_OF)]
    classes = table.index.map(CLASS_OF)
    shown = table[classes.isin(["none", "multiswarm"]) | ~classes.duplicated()]
    gains = shown["gain"].map("{:+.2f}".format) + [
        _interval(low, high) for low, high in shown[["low", "high"]].to_numpy()
    ]
    text = {
        "method": shown.index,
        "class": shown.index.map(CLASS_OF),
        "rank": shown["rank"].map("{:.2f}".format),
        "score": shown["score"].map("{:.4f}".format),
        "gain": gains,
        "columns": shown["share"].map("{:.0%}".format),
        "seconds": shown["seconds"].map("{:.1f}".format),
    }
    return _markdown(pd.DataFrame(text))


def _peers(main: pd.DataFrame, incomplete: pd.DataFrame) -> str:
    """Return the selectors of other packages, by model."""
    columns = {}
    for cell in ("nb", "knn"):
        table = pd.concat([_of(main, cell), _of(incomplete, cell)])
        shown = table[table.index.map(CLASS_OF.get).isin(_OTHERS)]
        columns[f"gain, {MAIN[cell]}"] = shown["gain"].map("{:+.2f}".format)
        columns[f"ahead, {MAIN[cell]}"] = shown["ours_ahead"].map("{:+.2f}".format) + [
            _interval(low, high) for low, high in shown[["ahead_low", "ahead_high"]].to_numpy()
        ]
    return _markdown(pd.DataFrame(columns).reset_index(names="method"))


def unsupported(main: pd.DataFrame, incomplete: pd.DataFrame) -> list[str]:
    """Return the statements of the page that the tables do not support."""
    of = {cell: _of(main, cell) for cell in CELLS}

    def best(cell: str, among: Callable[[str], bool] = lambda name: True) -> str:
        return next(name for name in of[cell].index if among(name))

    def better(cell: str) -> set[str]:
        table = of[cell]
        return set(table.index[(table["gain"] > 0) & (table["p_holm"] < 0.05)])

    def behind(cell: str) -> set[str]:
        both = pd.concat([of[cell], _of(incomplete, cell)])
        return set(both.index[both["ahead_low"] > 0])

    def singles(cell: str) -> list[str]:
        return [name for name in of[cell].index if not name.endswith("x8")]

    peers = {"Boruta", "RFECV", "powershap", "sklearn SFS", "sklearn-genetic", "L1", "mRMR"}
    peers |= {"SelectKBest F", "SelectKBest MI"}
    rivals = {"swarm random", "swarm sffs"}
    statements = {
        "best ranks": all(
            name.startswith("swarm") and name.endswith("x8") and name != "swarm random x8"
            for cell in ("nb", "knn")
            for name in of[cell].index[:6]
        )
        and all(
            name.startswith("swarm") and name not in rivals
            for cell in ("nb", "knn")
            for name in singles(cell)[:5]
        ),
        "significant gains": {"swarm confirm", "swarm confirm x8"} <= better("nb")
        and {"swarm random", "swarm random x8"} <= better("nb")
        and "swarm confirm x8" in better("nb_untuned")
        and {"swarm confirm x8", "swarm random x8"} <= better("knn")
        and not {"swarm confirm", "swarm random"} & better("knn"),
        "other budgets": {best(c) for c in ("nb_100", "knn_100", "nb_1000", "knn_1000")}
        <= {"swarm x8", "swarm confirm x8", "swarm confirm score x8"},
        "other packages": peers <= behind("nb")
        and {"Boruta", "RFECV"} <= behind("knn")
        and not {"mlxtend SFFS", "zoofs PSO"} & (behind("nb") | behind("knn")),
        "LightGBM": not better("lightgbm")
        and best("lightgbm") == "swarm random x8"
        and all(name.endswith("x8") for name in of["lightgbm"].index[:5])
        and of["lightgbm"]["p_holm"]["swarm confirm third"] < 0.05,
        "logistic regression": not better("logreg")
        and best("logreg") == "swarm confirm x8"
        and best("logreg", lambda name: CLASS_OF.get(name) in _OTHERS) == "SelectKBest MI"
        and {"sklearn SFS", "mlxtend SFFS", "powershap", "ShapRFECV"} <= behind("logreg")
        and "sklearn-genetic" in behind("logreg")
        and of["logreg_untuned"]["rank"]["swarm confirm"]
        < of["logreg_untuned"]["rank"]["SelectKBest MI"],
        "known columns": not better("logreg_known")
        and [*of["logreg_known"].index[:2]] == ["swarm confirm size x8", "SelectKBest MI"],
        "defaults": all(
            of[cell]["rank"][["swarm", "swarm clusters", "swarm bpso"]].is_monotonic_increasing
            for cell in ("nb", "knn")
        ),
    }
    return [name for name, holds in statements.items() if not holds]


def page(rows: pd.DataFrame, main: pd.DataFrame, incomplete: pd.DataFrame) -> str:
    """Return the page: protocol, findings, the main tables, and what has no rows."""
    of = {cell: _of(main, cell) for cell in CELLS}
    numbers = {
        cell: table.T.to_dict() | table[["n_sets", "n_methods"]].iloc[0].to_dict()
        for cell, table in of.items()
    }
    text = TEXT.read_text(encoding="utf-8")
    limits = {"most": MOST_TRAINING_ROWS, "test": MOST_TEST_ROWS, "tie": 100 * TIE}
    parts = [text.format(**limits, **numbers)]
    for cell, model in MAIN.items():
        table = of[cell]
        n_sets, n_splits = table.iloc[0][["n_sets", "n_splits"]]
        parts.append(
            f"## {model}, {CELLS[cell][1]} evaluations\n\n{n_sets} sets, {n_splits} splits.\n"
        )
        parts.append(_main_table(table))
    parts.append(
        "## Other packages\n\n300 evaluations. *ahead*: points by which *swarm"
        " confirm* is ahead, on the sets where the method has a score.\n"
    )
    parts.append(_peers(main, incomplete))
    missing = rows[rows["score"].isna()]
    reasons = missing["note"].str.split(":").str[0]
    failures = missing.groupby(["method", reasons])["set"].nunique()
    without = ", ".join(f"{method} ({note}: {n})" for (method, note), n in failures.items())
    counts = rows[rows["budget"] > 0].groupby(["model", "budget"])["set"].nunique()
    there = ", ".join(f"{m} at {b:,} ({n} sets)" for (m, b), n in counts.items())
    parts.append(
        f"## What was not run\n\nModels with rows: {there}; tables need {FEWEST_SETS} sets. Sets"
        f" without a score (reasons in `results/arena.csv`): {without}.\n"
    )
    return "\n".join(_fill(part).rstrip() + "\n" for part in parts)


def _fill(text: str) -> str:
    """Break lines anew in what is no table."""
    lines = []
    for paragraph in re.split(r"\n(?=\n|- )", text):
        if "| " in paragraph:
            lines.append(paragraph)
            continue
        words = re.sub(r"(?<=\d)%", " %", " ".join(paragraph.split()))
        indent = "  " if words.startswith("- ") else ""
        filled = textwrap.fill(words, 110, subsequent_indent=indent, break_on_hyphens=False)
        lines.append("\n" * paragraph.startswith("\n") + filled)
    return "\n".join(lines)


def main() -> None:
    """Write the tables and the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=Path, default=EVIDENCE / "results" / "arena.csv")
    parser.add_argument("--page", type=Path, default=EVIDENCE / "arena.md")
    options = parser.parse_args()
    rows = read(options.rows)
    complete, incomplete = tables(rows)
    for name, table in {"tables": complete, "incomplete": incomplete}.items():
        table.to_csv(
            options.rows.with_name(f"{options.rows.stem}_{name}.csv"),
            index=False,
            float_format="%.4g",
            lineterminator="\n",
        )
    if wrong := unsupported(complete, incomplete):
        raise SystemExit(
            f"the rows no longer support what the page says about {', '.join(wrong)}; correct"
            f" {TEXT.name}; {options.page} is as it was"
        )
    options.page.write_text(page(rows, complete, incomplete), encoding="utf-8")
    print(f"wrote {options.page}")


if __name__ == "__main__":
    main()

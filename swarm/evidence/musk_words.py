"""What the Musk page says: sentences computed from its tables, never more than they hold."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pandas as pd

from swarm.report.words import counted, number, signed

__all__ = [
    "METRIC_NAMES",
    "MODES",
    "SPLITS",
    "ablation_sentences",
    "bounds",
    "cost",
    "cost_gap",
    "gap",
    "joined",
    "leak_sentence",
    "mode_sentence",
    "outside",
    "p_value",
    "reading",
    "runs_sentences",
    "share",
    "spread",
    "worth_sentence",
]

SPLITS = {"random": "random split", "group": "split by molecule"}
METRIC_NAMES = {"f1": "F1", "accuracy": "accuracy", "recall": "recall", "precision": "precision"}
MODES = {"fast": "fast", "exact": "exact"}
_ON = {"random": "on the random split", "group": "by molecule"}
# Seeds that were asked for, by split and mode, and epochs of each.
_ASKED = {("random", "fast"): 5, ("random", "exact"): 1, ("group", "fast"): 5}
_EPOCHS = 100
_ABLATION_SEEDS = 5


def cost(value: float) -> str:
    """Cost with four decimals: those of the searches differ in the third."""
    return f"{_rounded(value, 4):.4f}".replace("-", "−") if math.isfinite(value) else "–"


def gap(value: float) -> str:
    """Difference of figures with its sign; one that rounds to 0 has none."""
    return signed(_rounded(value, 3))


def cost_gap(value: float) -> str:
    """Difference of costs with its sign."""
    return f"+{cost(value)}" if _rounded(value, 4) > 0 else cost(value)


def bounds(low: float, high: float, write: Callable[[float], str] = number) -> str:
    """Interval in brackets; empty where there is none."""
    if math.isnan(low) or math.isnan(high):
        return ""
    return f"[{write(_rounded(low, 4))}, {write(_rounded(high, 4))}]"


def share(value: float) -> str:
    """Share in percent."""
    return f"{100 * value:.0f} %".replace("-", "−")


def _rounded(value: float, digits: int) -> float:
    return round(value, digits) + 0.0


def spread(
    mean: float, least: float, most: float, n: int, write: Callable[[float], str] = number
) -> str:
    """Mean with the range in brackets, where there is more than one value."""
    return f"{write(mean)} ({write(least)} to {write(most)})" if n > 1 else write(mean)


def p_value(p: float) -> str:
    """Write a p-value with two digits that count."""
    return "–" if math.isnan(p) else "< 0.0001" if p < 1e-4 else f"{p:.2g}"


def joined(items: Sequence[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    return " and ".join([", ".join(items[:-1]), items[-1]] if len(items) > 1 else items)


def told(low: float, high: float) -> int | None:
    """Sign of a difference by its interval: 0 where that holds 0, None where there is none."""
    if math.isnan(low) or math.isnan(high):
        return None
    return 1 if low > 0 else -1 if high < 0 else 0


def reading(published: float, mean: float, low: float, high: float) -> str:
    """Say whether a published difference holds in ours."""
    sign = told(low, high)
    if sign is None:
        return "too few seeds for a test"
    if sign == 0:
        same = "same sign" if mean * published > 0 else "other sign"
        return f"cannot be told from 0 ({same})"
    return "holds" if sign * published > 0 else "the other way round"


def runs_sentences(runs: pd.DataFrame, ablation: pd.DataFrame) -> str:
    """Say which runs there are, and what is missing of those asked for."""
    there, missing = [], []
    found = runs[["split", "mode", "seed"]].drop_duplicates()
    counts = Counter(zip(found["split"], found["mode"], strict=True))
    for key in dict.fromkeys([*_ASKED, *counts]):
        n, asked = counts[key], _ASKED.get(key, 0)
        name = f"{MODES.get(key[1], key[1])} on the {SPLITS.get(key[0], key[0])}"
        if n:
            there.append(f"{n} {name}")
        if n < asked:
            missing.append(f"{asked - n} of {asked} {name}")
    short = runs.loc[runs["epochs"] < _EPOCHS, "epochs"]
    if len(short):
        missing.append(f"epochs: {len(short)} of {len(runs)} runs have less than {_EPOCHS}")
    seeds = ablation.groupby("strategy")["seed"].nunique()
    if not len(seeds):
        missing.append("the ablation")
    elif seeds.min() < _ABLATION_SEEDS:
        few = f"{seeds.min()} of {_ABLATION_SEEDS} seeds"
        missing.append(f"seeds of the ablation: it has {few} where it has the fewest")
    text = f"Runs: {joined(there)}." if there else "There is no run yet."
    return text + (f" Missing: {'; '.join(missing)}." if missing else "")


def worth_sentence(clauses: Mapping[str, Mapping[str, float]]) -> str:
    """Say in one sentence what selection is worth in F1.

    Parameters
    ----------
    clauses : mapping of split to mapping
        mean, low, high and n of the ensemble's F1 minus that of all features under the same
        vote; features there are (n_available), in use by the ensemble (together), and in its
        best subset (size).
    """
    parts = []
    for split, found in clauses.items():
        mean, low, high = (found[name] for name in ("mean", "low", "high"))
        sign = told(low, high)
        rival = "all features under the same vote"
        known = f"95 % interval {bounds(low, high)}, {counted(found['n'], 'seed')}"
        said = {
            1: f"selection gains {number(mean)} in F1 over {rival} ({known})",
            -1: f"selection loses {number(-mean)} in F1 to {rival} ({known})",
            0: f"no difference in F1 to {rival} can be told (mean {gap(mean)}, {known})",
            None: f"one seed differs by {gap(mean)} in F1 from {rival}, which is no evidence",
        }[sign]
        parts.append(
            f"{_ON[split]} {said}, with {found['size']:.0f} of "
            f"{found['n_available']:.0f} features in the best subset and {found['together']:.0f} "
            "in the ensemble"
        )
    if not parts:
        return "What selection is worth cannot be said yet: no run has been judged."
    return f"What selection is worth here: {'; '.join(parts)}."


def leak_sentence(random: Mapping[str, float], group: Mapping[str, float], who: str) -> str:
    """Say how much of an accuracy the random split owes to rows of the same molecules.

    Parameters
    ----------
    random, group : mapping
        mean, least and most over the seeds of the two splits.
    who : str
        Whose accuracy it is.
    """
    lost = random["mean"] - group["mean"]
    start = (
        f"The accuracy of {who} is {number(random['mean'])} on the random split and "
        f"{number(group['mean'])} on molecules never seen"
    )
    if group["most"] < random["least"]:
        times = (1 - group["mean"]) / (1 - random["mean"]) if random["mean"] < 1 else math.inf
        more = f", and the error is {times:.1f} times as large" if math.isfinite(times) else ""
        return f"{start}: {number(lost)} of it was the leak{more}."
    if lost > 0:
        return f"{start}: {number(lost)} less, but the ranges of the seeds overlap."
    return f"{start}: there is no sign of a leak."


def mode_sentence(exact: Mapping[Any, Any], fast: Mapping[Any, Any]) -> str:
    """Say what the fast search saved and lost on a seed that was searched in both modes."""
    more = fast["cost"] - exact["cost"]
    loss = (
        f"{cost(abs(more))} {'more' if more > 0 else 'less'} than that of the exact search"
        if abs(more) >= 5e-5
        else "as much as that of the exact search"
    )
    return (
        f"On the {SPLITS[exact['split']]}, seed {exact['seed']}, the fast search took "
        f"{share(fast['seconds'] / exact['seconds'])} of the time and "
        f"{share(fast['fits'] / exact['fits'])} of the fits; its best subset costs {loss}, and its "
        f"ensemble's F1 differs by {gap(fast['ensemble_f1'] - exact['ensemble_f1'])}. This is one "
        "seed: it tells what the fast search saves, but not whether it finds worse subsets."
    )


def ablation_sentences(table: pd.DataFrame, names: Mapping[str, str]) -> str:
    """Say which part of the search matters, as far as the intervals allow.

    Parameters
    ----------
    table : DataFrame
        As from :func:`swarm.evidence.musk_tables.ablation_table`.
    names : mapping of strategy to str
        What each strategy is: "without local search".
    """
    from scipy.stats import t

    known = table[table["difference"].notna() & (table["n_paired"] > 1)].to_dict("records")
    if not known:
        return "No two seeds have both the whole search and one without a part: nothing to compare."
    said = []
    parts = [row for row in known if row["strategy"] != "random"]
    for row in parts:
        sign = told(row["low"], row["high"])
        if sign:
            name = names[row["strategy"]]
            word = "more" if sign > 0 else "less"
            said.append(f"the search {name} costs {word} than the whole one ({_versus(row)})")
    rest = len(parts) - len(said)
    if said:
        text = f"{said[0][0].upper()}{joined(said)[1:]}."
        text += f" The other {rest} cannot be told from the whole." if rest else ""
    elif parts:
        text = "No part can be told to matter: every interval holds 0."
        worst = max(parts, key=lambda row: float(row["difference"]))
        if worst["difference"] > 0:
            text += (
                f" The largest loss is that of the search {names[worst['strategy']]} "
                f"({cost_gap(worst['difference'])}, worse in {worst['n_worse']:.0f} of "
                f"{counted(worst['n_paired'], 'seed')})."
            )
    else:
        text = ""
    for row in known:
        if row["strategy"] == "random":
            sign = told(row["low"], row["high"]) or 0
            word = {1: "costs more than", -1: "costs less than", 0: "cannot be told from"}[sign]
            text += f" Random search {word} the whole search ({_versus(row)})."
    n = int(min(row["n_paired"] for row in known))
    reach = t.isf(0.025, n - 1) / math.sqrt(n)
    text += (
        f" With {n} seeds an interval reaches {reach:.1f} standard deviations of the paired "
        f"differences to each side{_weak(n)}; the intervals are not corrected for their number."
    )
    return text.strip()


def _versus(row: Mapping[Any, Any]) -> str:
    return f"{cost_gap(row['difference'])} {bounds(row['low'], row['high'], cost)}"


def _weak(n: int) -> str:
    return ", so only a difference far larger than its own noise can show" if n < 5 else ""


def outside(figures: Mapping[str, float], ours: Mapping[str, Mapping[str, float]]) -> str:
    """Say which published figures lie within the range of our runs.

    Parameters
    ----------
    figures : mapping of metric to float
    ours : mapping of metric to mapping
        least and most.
    """
    within, out = [], []
    for metric, value in figures.items():
        if metric in ours:
            low, high = (round(ours[metric][end], 3) for end in ("least", "most"))
            name = METRIC_NAMES[metric]
            if low <= value <= high:
                within.append(name)
            else:
                out.append(f"{name} ({'above' if value > high else 'below'})")
    parts = []
    for names, where in ((within, "within the range of our runs"), (out, "outside it")):
        if names:
            verb = "are" if len(names) > 1 else "is"
            parts.append(f"{joined(names)} {verb} {where}")
    text = " and ".join(parts)
    return text if within else text.replace("outside it", "outside the range of our runs")

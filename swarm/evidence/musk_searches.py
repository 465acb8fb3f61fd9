"""What the Musk page says of its searches: courses of cost, the two modes, the ablation."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pandas as pd

from swarm.evidence.musk_figures import ablation_figure, cost_figure, course_figure
from swarm.evidence.musk_tables import ablation_table, both_modes, main_mode
from swarm.evidence.musk_words import (
    MODES,
    SPLITS,
    ablation_sentences,
    bounds,
    cost,
    cost_gap,
    joined,
    mode_sentence,
    share,
    spread,
)
from swarm.evidence.page import duration, markdown_table
from swarm.evidence.published_musk import BEST_COSTS, N_EPOCHS, SECONDS
from swarm.report.words import number

__all__ = ["ablation_section", "courses_section", "modes_section"]

_AT = (1, 10, 25, 50, 100)
_STRATEGIES = {
    "whole": "whole search",
    "no_local_search": "without local search",
    "no_regrouping": "without regrouping",
    "no_shrink": "without shrinking",
    "bernoulli_init": "with a Bernoulli start",
    "random": "random search",
}


def courses_section(
    epochs: pd.DataFrame, runs: pd.DataFrame, figures: pd.DataFrame, drawn: dict[str, bytes]
) -> str:
    """Published best costs by epoch beside ours; the figure is put into `drawn`."""
    text = "## Best cost by epoch\n\n"
    kinds = [(s, m) for s in SPLITS for m in ("exact", "fast") if len(_of(runs, s, m))]
    if not kinds:
        return text + "No run yet.\n"
    header = ["epoch", "document", *(_kind(*kind) for kind in kinds)]
    rows = [
        [epoch, cost(BEST_COSTS[epoch - 1]), *(_at(epochs, runs, kind, epoch) for kind in kinds)]
        for epoch in _AT
    ]
    ends = [_range(_of(runs, *kind)["cost"]) for kind in kinds]
    rows.append(["end, full model", cost(BEST_COSTS[-1]), *ends])
    text += markdown_table(header, rows)
    if any(mode == "fast" for _, mode in kinds):
        text += (
            "\nDuring a fast run costs are those of the cheaper model, and not to be compared with "
            "the document's; only the last row is on the full model for every column.\n"
        )
    said = [_falls(epochs, kinds), *_ends(runs), *_promises(figures, runs)]
    text += "".join(f"\n- {sentence}" for sentence in said + _cheaper(epochs, runs)) + "\n"
    splits = {s: t.capitalize() for s, t in SPLITS.items() if s in {kind[0] for kind in kinds}}
    drawn["musk-courses.svg"] = course_figure(epochs, runs, splits)
    return text + "\n![Best cost by epoch](figures/musk-courses.svg)\n"


def modes_section(figures: pd.DataFrame, runs: pd.DataFrame) -> str:
    """The seeds that were searched in both modes, one under the other."""
    text = "## Exact against fast\n\n"
    both = both_modes(figures, runs)
    if not len(both):
        return text + "No seed has been searched in both modes yet.\n"
    rows = [
        [
            f"{SPLITS[row['split']]}, seed {row['seed']}, {MODES[row['mode']]}",
            cost(row["cost"]),
            f"{row['size']:.0f}",
            *(number(row[f"{who}_{m}"]) for who in _JUDGED for m in ("f1", "accuracy")),
            f"{row['distinct']:,.0f}",
            f"{row['fits']:,.0f}",
            duration(row["seconds"]),
        ]
        for row in both.to_dict("records")
    ]
    measured = [f"{who}, {metric}" for who in ("ensemble", "best subset") for metric in _METRICS]
    header = ["", "cost, full model", "size", *measured, "distinct", "fits", "time"]
    said = []
    for _, pair in both.groupby(["split", "seed"], sort=False):
        exact, fast = pair.to_dict("records")
        said.append(mode_sentence(exact, fast))
    said.append(
        f"The document prints {duration(SECONDS)} for its {N_EPOCHS} epochs, in one process on a "
        "machine that it does not name."
    )
    return f"{text}{markdown_table(header, rows)}\n" + "\n\n".join(said) + "\n"


def ablation_section(
    ablation: pd.DataFrame,
    history: pd.DataFrame | None,
    drawn: dict[str, bytes],
    notes: Mapping[str, str],
) -> str:
    """The searches without one part, beside the whole; figures are put into `drawn`."""
    text = "## Which part of the search matters\n\n"
    if not len(ablation):
        return text + "The ablation has not been run yet.\n"
    table = ablation_table(ablation)
    names = {name: _STRATEGIES.get(name, name) for name in table["strategy"]}
    rows = [
        [
            names[row["strategy"]],
            f"{row['n']}",
            f"{cost(row['mean'])} ({cost(row['sd'])})",
            cost_gap(row["difference"]) if row["strategy"] != "whole" else "",
            bounds(row["low"], row["high"], cost),
            f"{row['n_worse']:.0f} of {row['n_paired']:.0f}" if row["n_paired"] > 0 else "",
            f"{row['size']:.0f}",
        ]
        for row in table.to_dict("records")
    ]
    header = ["", "seeds", "mean cost (SD)", "minus whole", "95 % interval", "worse in", "size"]
    least, most = table["distinct_least"].min(), table["distinct_most"].max()
    text += (
        f"Every search spent {most:,.0f} distinct evaluations. "
        if least == most
        else f"The searches spent {least:,.0f} to {most:,.0f} distinct evaluations, so they are "
        "not quite on equal terms. "
    )
    text = f"{text}{notes.get('ablation', '')}".rstrip() + "\n\n" + markdown_table(header, rows)
    text += f"\n{ablation_sentences(table, names)}\n"
    drawn["musk-ablation.svg"] = ablation_figure(ablation, names, "cost of the best subset")
    text += "\n![Costs of the ablation](figures/musk-ablation.svg)\n\n"
    text += "A dot is a seed, a stroke the mean; the dashed line is the mean of the whole search.\n"
    if history is not None and len(history):
        drawn["musk-ablation-courses.svg"] = cost_figure(history, names, "best cost")
        text += "\n![Best cost by evaluations](figures/musk-ablation-courses.svg)\n"
    return text


_METRICS = ("F1", "accuracy")
_JUDGED = ("ensemble", "best_subset")


def _of(rows: pd.DataFrame, split: str, mode: str) -> pd.DataFrame:
    return rows[(rows["split"] == split) & (rows["mode"] == mode)]


def _kind(split: str, mode: str) -> str:
    return f"{SPLITS[split]}, {MODES[mode]}" + (", cheaper model" if mode == "fast" else "")


def _at(epochs: pd.DataFrame, runs: pd.DataFrame, kind: tuple[str, str], epoch: int) -> str:
    own = _of(epochs, *kind)
    values = own.loc[own["epoch"] == epoch, "best_cost"].dropna()
    few = f", {len(values)} runs" if 0 < len(values) < len(_of(runs, *kind)) else ""
    return _range(values) + few


def _range(values: pd.Series[float], write: Callable[[float], str] = cost) -> str:
    known = values.dropna()
    if not len(known):
        return "–"
    return spread(known.mean(), known.min(), known.max(), len(known), write)


def _falls(epochs: pd.DataFrame, kinds: list[tuple[str, str]]) -> str:
    """By how much the best cost falls from the first epoch to the last one."""
    last = BEST_COSTS.index(BEST_COSTS[-1]) + 1
    parts = [
        f"by {share(1 - BEST_COSTS[-1] / BEST_COSTS[0])} in the document (for the last time "
        f"at epoch {last} of {N_EPOCHS})"
    ]
    for kind in kinds:
        shares = []
        for _, run in _of(epochs, *kind).dropna(subset=["best_cost"]).groupby("seed"):
            course = run.sort_values("epoch")["best_cost"]
            if course.iloc[0] > 0:
                shares.append(1 - float(course.iloc[-1]) / float(course.iloc[0]))
        if shares:
            mean = share(sum(shares) / len(shares)) + (" on average" if len(shares) > 1 else "")
            parts.append(f"by {mean} ({_kind(*kind)})")
    return f"From the first epoch to the last, the best cost falls {joined(parts)}."


def _ends(runs: pd.DataFrame) -> list[str]:
    """Where the published last cost lies among ours on the random split."""
    costs = runs.loc[runs["split"] == "random", "cost"].dropna()
    if not len(costs):
        return []
    published = BEST_COSTS[-1]
    where = (
        "below all of ours"
        if published < costs.min()
        else "above all of ours"
        if published > costs.max()
        else "within the range of ours"
    )
    return [
        f"The document's last cost, {cost(published)}, is {where} on the random split, "
        f"full model: {_range(costs)}."
    ]


def _promises(figures: pd.DataFrame, runs: pd.DataFrame) -> list[str]:
    """What the best subset was promised to cost, and what it costs on the test rows."""
    said = []
    recall = figures[(figures["contender"] == "best_subset") & (figures["metric"] == "recall")]
    for split in SPLITS:
        mode = main_mode(runs, split)
        if mode is None:
            continue
        both = (
            _of(runs, split, mode)
            .merge(recall, on=["split", "mode", "seed"])
            .dropna(subset=["cost", "value"])
        )
        if len(both):
            said.append(
                f"On the {SPLITS[split]}, cross-validation put the best subsets at "
                f"{cost(both['cost'].mean())} on average; on the test rows they cost "
                f"{cost(1 - both['value'].mean())}."
            )
    return said


def _cheaper(epochs: pd.DataFrame, runs: pd.DataFrame) -> list[str]:
    """How well the cheaper model of the fast runs stood for the full one."""
    said = []
    for split in SPLITS:
        fast = _of(runs, split, "fast").dropna(subset=["proxy_correlation"])
        if not len(fast):
            continue
        found = fast["proxy_correlation"]
        last = _of(epochs, split, "fast").sort_values("epoch").groupby("seed").tail(1)
        both = fast.merge(last[["seed", "best_cost"]], on="seed")
        both = both.dropna(subset=["cost", "best_cost"])
        told = (
            f": its best cost at the end is {cost(both['best_cost'].mean())} on average, and that "
            f"of the best subset on the full model {cost(both['cost'].mean())}"
            if len(both)
            else ""
        )
        said.append(
            f"On the {SPLITS[split]}, the costs of the cheaper model have a rank correlation of "
            f"{_range(found, number)} with those of the full one{told}."
        )
    return said

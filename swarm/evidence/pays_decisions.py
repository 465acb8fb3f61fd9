"""The decision table for users: every line is counted, and worded by what was counted."""

from __future__ import annotations

from collections.abc import Iterator

from swarm.evidence.page import duration, markdown_table
from swarm.evidence.pays_study import Study
from swarm.evidence.pays_tables import BANDS, MODELS, band, counts, duel
from swarm.evidence.pays_words import advice, change, percent, tally

__all__ = ["decision_table"]

# Columns from which a data set is called wide.
_WIDE = 30
Line = tuple[str, str, str]

_UNKNOWN = "Nothing can be said yet."
# Difference of two rates below which nothing is made of it.
_CLEAR = 0.25


def decision_table(study: Study) -> str:
    """Write the table, in Markdown: the case, what the rows say, what follows."""
    lines = [
        *_models(study),
        *_bands(study),
        *_wide(study),
        *_few_columns(study),
        *_price(study),
        *_short_of_time(study),
        *_plain_search(study),
        *_vote(study),
        *_which_features(study),
    ]
    return markdown_table(("your case", "what the rows say", "what follows"), lines, "lll")


def _models(study: Study) -> Iterator[Line]:
    for part in study.parts:
        cells = study.cells("subset", study.best, part)
        if cells.empty:
            continue
        kept = float(cells["kept"].mean())
        said = (
            f"One subset of `{study.best}`: {tally(cells)}; mean gain "
            f"{change(cells['gain'].mean())}, {percent(kept)} of the features kept."
        )
        votes = study.cells("ensemble", study.voting, part)
        if len(votes):
            said += (
                f" The ensemble of `{study.voting}`: {tally(votes)}; mean gain "
                f"{change(votes['gain'].mean())}."
            )
        follows = advice(cells, kept)
        if counts(votes)["helps"] > counts(cells)["helps"]:
            follows += " The ensemble helps more often than one subset."
        yield f"Your model is {MODELS.get(part, part)}", said, follows


def _bands(study: Study) -> Iterator[Line]:
    cells = study.cells("subset", study.best)
    columns = cells["n_available"].to_numpy(dtype="float64")
    bands = [
        band(str(dataset), float(count), study.facts)
        for dataset, count in zip(cells["dataset"], columns, strict=True)
    ]
    for _, _, name in BANDS:
        here = cells[[found == name for found in bands]]
        if here.empty:
            continue
        promised, kept = float(here["cv_gain"].mean()), float(here["gain"].mean())
        said = (
            f"`{study.best}` on {', '.join(sorted(set(here['dataset'])))}: mean gain "
            f"{change(promised)} in CV, {change(kept)} on test rows; {tally(here, 'cell')}."
        )
        yield (
            f"{name[0].upper()}{name[1:]} training rows per feature",
            said,
            _survives(promised, kept),
        )


def _survives(promised: float, kept: float) -> str:
    if not promised > 0:
        return "The search found nothing even on its own folds."
    if kept <= 0:
        return "The gain in CV did not survive on test rows: do not believe the cost of a search."
    share = kept / promised
    start = f"On test rows {percent(share)} of the gain in CV was left"
    if share < 0.5:
        return f"{start}: do not believe the cost of a search, judge on rows that it never saw."
    return f"{start}: {'expect a part of it only' if share < 0.8 else 'most of it survived'}."


def _wide(study: Study) -> Iterator[Line]:
    cells = study.cells("subset", study.best)
    cells = cells[cells["verdict"] != "untested"]
    wide = cells["n_available"] >= _WIDE
    if not wide.any() or wide.all():
        return
    rates = [counts(cells[side])["helps"] / int(side.sum()) for side in (wide, ~wide)]
    said = (
        f"With {_WIDE} columns or more one subset of `{study.best}` {tally(cells[wide], 'cell')}; "
        f"with fewer it {tally(cells[~wide], 'cell')}."
    )
    # A cell or two more or less is chance.
    if abs(rates[0] - rates[1]) < _CLEAR:
        follows = "Many columns made no clear difference to how often selection helped."
    elif rates[0] > rates[1]:
        follows = "Selection helped more often on wide data."
    else:
        follows = "Many columns alone are no reason to select: it helped less often there."
    yield "You have many columns", said, follows


def _few_columns(study: Study) -> Iterator[Line]:
    options = []
    for name in study.strategies():
        cells = study.cells("subset", name)
        cells = cells[cells["verdict"] != "untested"]
        if len(cells):
            hurts = counts(cells)["hurts"]
            options.append((hurts / len(cells), float(cells["kept"].mean()), name, cells))
    if not options:
        return
    _, kept, name, cells = min(options, key=lambda option: option[:3])
    said = f"`{name}` keeps {percent(kept)} of the features on average and {tally(cells, 'cell')}"
    mine = next((option for option in options if option[2] == study.best), None)
    if mine is not None and mine[2] != name:
        said += f"; `{study.best}` keeps {percent(mine[1])}"
    hurts = counts(cells)["hurts"]
    follows = (
        f"Take `{name}`: the smallest subsets of those that hurt least often"
        f"{f' (it still hurt on {hurts})' if hurts else ''}. The pick `parsimonious` never gives "
        "larger ones; these rows did not measure it."
    )
    yield "You need fewer columns", said + ".", follows


def _price(study: Study) -> Iterator[Line]:
    means = study.averages.groupby(["part", "strategy"])["seconds"].mean()
    said, prices = [], []
    for part in study.parts:
        if (part, study.best) not in means.index or not means.get((part, "full"), 0.0) > 0:
            continue
        spent = float(means[part, study.best])
        prices.append(spent / float(means[part, "full"]))
        said.append(f"{_seconds(spent)} with {MODELS.get(part, part)}")
    if said:
        low, high = (f"{price:,.0f}" for price in (min(prices), max(prices)))
        yield (
            "Training your model is expensive",
            f"A search of `{study.best}` took {', '.join(said)} on average.",
            f"Expect it to take {low if low == high else f'{low} to {high}'} times as long as one "
            "evaluation of all features takes you.",
        )


def _short_of_time(study: Study) -> Iterator[Line]:
    averages = study.averages[study.averages["strategy"].isin(study.strategies())]
    seconds = averages.pivot(index=["part", "dataset"], columns="strategy", values="seconds")
    even = seconds.dropna()
    if even.empty:
        return
    mean = even.mean()
    quick = str(mean.idxmin())
    spent = f"A search takes {_seconds(mean[quick])} with `{quick}`"
    if quick == study.best:
        yield (
            "You are short of time",
            f"{spent}, the least of all, on average of {len(even)} cells.",
            f"Take `{quick}`: it is the quickest, and has the best test rank.",
        )
        return
    cells = duel(study.table, study.facts, study.best, quick)
    said = (
        f"{spent}, the least of all, and {_seconds(mean[study.best])} with `{study.best}`, on "
        f"average of {len(even)} cells. `{study.best}` instead of `{quick}` "
        f"{tally(cells, 'cell')}."
    )
    found = counts(cells)
    if found["helps"] > found["hurts"]:
        follows = f"`{quick}` is quicker, and at times worse: spend the time if the score matters."
    elif found["helps"] + found["hurts"] + found["open"]:
        follows = (
            f"Take `{quick}`: the longer search was not better on more cells than it was worse."
        )
    else:
        follows = _UNKNOWN
    yield "You are short of time", said, follows


def _plain_search(study: Study) -> Iterator[Line]:
    rivals = [name for name in study.strategies() if name != "random"]
    if "random" not in study.strategies() or not rivals:
        return
    own = next((str(name) for name in study.ranks.index if name in rivals), rivals[0])
    cells = duel(study.table, study.facts, own, "random")
    found = counts(cells)
    if found["helps"] > found["hurts"]:
        follows = "A guided search is worth it on some data."
    elif found["helps"] + found["hurts"] + found["open"]:
        follows = "Plain random search is no worse a start: compare with it before you tune."
    else:
        follows = _UNKNOWN
    tried = study.averages.groupby("strategy")["evaluations"].mean()
    said = (
        f"One subset of `{own}` (after {tried[own]:,.0f} evaluations on average) instead of one "
        f"of random search (after {tried['random']:,.0f}): {tally(cells, 'cell')}; mean gain "
        f"{change(cells['gain'].mean())}."
    )
    yield "You wonder whether a guided search is needed", said, follows


def _vote(study: Study) -> Iterator[Line]:
    own = study.cells("ensemble_over_vote", study.voting)
    if own.empty:
        return
    vote = study.cells("vote", study.voting)
    found = counts(own)
    said = (
        f"The vote alone, with all features: {tally(vote, 'cell')}. The subsets of "
        f"`{study.voting}` beside the same vote: {tally(own, 'cell')}; mean gain "
        f"{change(own['gain'].mean())}."
    )
    if found["helps"] > found["hurts"]:
        follows = "Vote over subsets: beside the same vote of all features selection still helps."
    elif found["hurts"] > found["helps"]:
        follows = "Vote with all features: the subsets make the vote worse more often than better."
    elif not found["open"] + found["helps"]:
        follows = _UNKNOWN
    else:
        follows = "What the ensemble gains over one model cannot be credited to the selection."
    yield "You can afford several models", said, follows


def _which_features(study: Study) -> Iterator[Line]:
    own = study.cells("ensemble_over_random", study.voting)
    if own.empty:
        return
    one = study.cells("subset_over_random", study.voting)
    found = counts(own)
    said = (
        f"The ensemble of `{study.voting}` beside random subsets of the same sizes and vote: "
        f"{tally(own, 'cell')}; mean gain {change(own['gain'].mean())}. Its best subset alone "
        f"beside that vote: {tally(one, 'cell')}."
    )
    if found["helps"] > found["hurts"]:
        follows = (
            "Which features are kept matters"
            + (": " if found["helps"] > found["open"] else " on some data: ")
            + "drop columns by a search, not by chance."
        )
    elif not found["open"] + found["hurts"]:
        follows = _UNKNOWN
    else:
        follows = "On these data columns dropped by chance did as well."
    yield "You ask whether it matters which features go", said, follows


def _seconds(value: float) -> str:
    return f"{value:.1f} s" if value < 90 else duration(value)

"""What document 002 says of its tables 3 to 9, and whether our rows say so, too."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pandas as pd

from swarm.evidence.published import ALGORITHMS, CLASSIFIERS, SIGNS, TABLES, at, shown, wide
from swarm.evidence.two_d_tables import TIMED, Tables, average_ranks
from swarm.validation.comparison import Comparison, compare

__all__ = ["Agreement", "Claim", "agreement", "claims", "compared", "published_ranks", "sentence"]


@dataclass(frozen=True)
class Claim:
    """One claim for one classifier.

    Attributes
    ----------
    text : str
        What the document says.
    published : str
        What its tables show.
    ours : str
        What our rows show.
    holds : bool or None
        None: our rows cannot tell yet.
    """

    text: str
    published: str
    ours: str
    holds: bool | None


@dataclass(frozen=True)
class Agreement:
    """How alike our average ranks and the published ones are.

    Attributes
    ----------
    ranks : DataFrame (n_algorithms, 2)
        Average ranks over the data sets that both have, columns ours and published.
    rho, p : float
        Spearman's correlation over the algorithms; NaN where there is none.
    n_datasets : int
    """

    ranks: pd.DataFrame
    rho: float
    p: float
    n_datasets: int


def published_ranks(part: str, kind: str, datasets: list[str], names: list[str]) -> pd.DataFrame:
    """Published ranks of some data sets and algorithms, ranked anew if some are left out."""
    table = wide(TABLES[part, kind], "rank").loc[datasets]
    there = [name for name in names if name in table]
    return table[there].rank(axis=1, method="min")


def agreement(tables: Tables, part: str, kind: str) -> Agreement:
    """Correlate the average ranks by ``error`` or by ``size`` with the published ones."""
    from scipy.stats import spearmanr

    ours = (tables.rank if kind == "error" else tables.size_rank).loc[tables.shared]
    theirs = published_ranks(part, kind, tables.shared, tables.algorithms)
    both = pd.DataFrame({"ours": ours.mean(), "published": theirs.mean()})
    both = both.loc[tables.algorithms]
    if len(both) < 3 or not tables.shared or (both.nunique() < 2).any():
        return Agreement(both, float("nan"), float("nan"), len(tables.shared))
    rho, p = spearmanr(both["ours"], both["published"])
    return Agreement(both, float(rho), float(p), len(tables.shared))


def compared(tables: Tables) -> Comparison | None:
    """Friedman's test over the data sets with every algorithm; None where there are too few.

    It asks for the mean costs only, so each cell goes in as one run: data sets with fewer runs
    count like the others.
    """
    names = tables.ranked
    if len(names) < 2 or len(tables.algorithms) < 3:
        return None
    cells = pd.DataFrame(
        [
            {
                "dataset": data,
                "strategy": name,
                "seed": 0,
                # Equal but for the last bits is equal.
                "cost": round(float(at(tables.mean, data, name)), 10),
                "size": at(tables.size, data, name),
                "evaluations": 0,
                "distinct": at(tables.distinct, data, name),
            }
            for data in names
            for name in tables.algorithms
        ]
    )
    everything = {
        data: (float(tables.everything[data]), int(tables.available[data])) for data in names
    }
    comparison = compare(cells, everything, reference="two_d")
    return comparison if comparison.friedman is not None else None


def claims(tables: Tables, part: str) -> list[Claim]:
    """Check what section 6 says for one classifier on the rows of one part."""
    if "two_d" not in tables.algorithms:
        return []
    return [
        *_ranked(tables, part),
        _positive(tables, part),
        *_beaten(tables, part),
        _smallest(tables, part),
        *_times(tables, part),
    ]


def _ranked(tables: Tables, part: str) -> Iterator[Claim]:
    table = TABLES[part, "error"]
    theirs = wide(table, "overall_rank").loc["all"]
    averages = shown(table, "average_rank").loc["all"]
    ours = average_ranks(tables.rank)
    known = ours["average"].notna().all() and len(tables.algorithms) > 1
    for name, place, text in (
        ("two_d", 1, "2D-UPSO is first by average rank"),
        ("bpso", 2, "BPSO is second by average rank"),
    ):
        printed = f"rank {theirs[name]:.0f} ({averages[name]})"
        if name not in ours.index or not known:
            yield Claim(text, printed, "not known yet", None)
            continue
        rank, average = int(at(ours, name, "overall")), float(at(ours, name, "average"))
        yield Claim(text, printed, f"rank {rank} ({average:.1f})", rank == place)


def _positive(tables: Tables, part: str) -> Claim:
    theirs = wide(TABLES[part, "error"], "improvement")["two_d"]
    ours = tables.improvement["two_d"].dropna()
    return Claim(
        "2D-UPSO improves on all features on every data set",
        f"{int((theirs > 0).sum())} of {len(theirs)}",
        f"{int((ours > 0).sum())} of {len(ours)}" if len(ours) else "not known yet",
        bool((ours > 0).all()) if len(ours) else None,
    )


def _beaten(tables: Tables, part: str) -> Iterator[Claim]:
    theirs = shown(SIGNS, f"sign_{part}")
    for name in ("genetic", "erfs", "pso42"):
        printed = theirs[name]
        ours = tables.signs[name] if name in tables.signs else pd.Series(dtype=str)
        ours = ours[ours != ""]
        yield Claim(
            f"2D-UPSO is significantly better than {ALGORITHMS[name]} on every data set",
            f"{int((printed == '+').sum())} of {len(printed)}",
            f"{int((ours == '+').sum())} of {len(ours)}" if len(ours) else "not known yet",
            bool((ours == "+").all()) if len(ours) else None,
        )


def _lowest(frame: pd.DataFrame) -> tuple[int, int]:
    """On how many rows 2D-UPSO has the lowest value, alone or with others; and of how many."""
    whole = frame.dropna().round(10)
    if "two_d" not in whole or len(whole.columns) < 2:
        return 0, 0
    return int((whole["two_d"] == whole.min(axis=1)).sum()), len(whole)


def _most(text: str, theirs: pd.DataFrame, ours: pd.DataFrame, same: list[str]) -> Claim:
    count, n = _lowest(ours)
    first, all_sets = _lowest(theirs)
    there, shared = _lowest(theirs.loc[same])
    printed = f"{first} of {all_sets}"
    if 0 < shared < all_sets:
        printed += f", {there} of the {shared} that are here"
    if not n:
        return Claim(text, printed, "not known yet", None)
    return Claim(text, printed, f"{count} of {n}", count > n / 2)


def _smallest(tables: Tables, part: str) -> Claim:
    theirs = wide(TABLES[part, "size"], "size")
    text = "2D-UPSO has the smallest subsets on most data sets"
    return _most(text, theirs, tables.size, tables.shared)


def _times(tables: Tables, part: str) -> Iterator[Claim]:
    table = TABLES[part, "time"]
    t2 = wide(table, "t2")
    text = "2D-UPSO has the lowest T2 of four on most data sets"
    yield _most(text, t2, tables.t2, [name for name in tables.shared if name in t2.index])
    # There every search makes the same number of evaluations; here repeated ones cost nothing.
    text = "2D-UPSO has the lowest T2 of four per evaluated subset on most data sets"
    each = tables.t2 / tables.distinct[tables.t2.columns]
    yield _most(text, t2, each, [name for name in tables.shared if name in t2.index])
    yield _far(wide(table, "t2") / wide(table, "t1"), tables.t2 / tables.t1)
    t1, told = wide(table, "t1"), "T1 grows in the order ACO, GA, BPSO, 2D-UPSO"
    ours = tables.t1.dropna()
    if len(tables.t1.columns) < len(TIMED) or ours.empty:
        yield Claim(told, _order(t1), "not known yet", None)
    else:
        yield Claim(told, _order(t1), _order(ours), _order(ours) == "ACO, GA, BPSO, 2D-UPSO")


def _far(theirs: pd.DataFrame, ours: pd.DataFrame) -> Claim:
    """T2 against T1, as the least ratio over the data sets."""
    text, here = "T2 of 2D-UPSO is far above its T1", ours["two_d"].dropna()
    least = f"{theirs['two_d'].min():.0f} times or more"
    if here.empty:
        return Claim(text, least, "not known yet", None)
    ratio = float(here.min())
    return Claim(text, least, f"{ratio:.{0 if ratio >= 10 else 1}f} times or more", ratio >= 10)


def _order(t1: pd.DataFrame) -> str:
    """Algorithms by their average rank of T1, the least first."""
    return ", ".join(ALGORITHMS[str(name)] for name in t1.rank(axis=1).mean().sort_values().index)


def sentence(listed: Mapping[str, list[Claim]]) -> str:
    """Say in a list which claims hold and which do not; the table has the figures."""
    told = []
    for part, found in listed.items():
        judged = [claim for claim in found if claim.holds is not None]
        if not judged:
            continue
        count = sum(bool(claim.holds) for claim in judged)
        told.append(
            f"With {CLASSIFIERS[part]} {count} of {len(judged)} claims of the document"
            f" {'holds' if count == 1 else 'hold'} here.\n"
        )
        for verdict, wanted in (("holds", True), ("does not hold", False)):
            texts = [claim.text for claim in judged if claim.holds is wanted]
            if texts:
                told.append(f"- {verdict}: {'; '.join(texts)}")
        told.append("")
    return "\n".join(told).rstrip()

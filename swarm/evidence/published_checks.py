"""Where the printed figures of document 002 contradict one another, beyond rounding."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import pandas as pd

from swarm.evidence.published import (
    ALGORITHMS,
    CLASSIFIERS,
    DATASETS,
    SIGNS,
    TABLES,
    at,
    shown,
    wide,
)

__all__ = ["contradictions"]

_EVERYWHERE = {"genetic": 16, "erfs": 16, "pso42": 16}
# What section 6 says of Table 5: on how many of the 16 data sets 2D-UPSO is better.
_BETTER = {
    "nb": _EVERYWHERE | {"ant_colony": 12, "bpso": 9, "catfish": 11, "chaotic": 11},
    "knn": _EVERYWHERE | {"ant_colony": 10, "bpso": 8, "catfish": 8, "chaotic": 9},
}
_SMALLEST = {"nb": 12, "knn": 10}
_FASTEST = {"nb": 11, "knn": 9}


@cache
def contradictions() -> tuple[str, ...]:
    """Check every figure that follows from others, and what the text says of the tables.

    Improvements follow from Table 1 and the means by equation 22, reductions from the sizes,
    total times from their parts, ranks from what is ranked (equal ones share the smallest rank),
    and average ranks from ranks. Two figures contradict one another if no values that round to
    what is printed agree.

    Returns
    -------
    tuple of str
        A sentence for each.
    """
    found: list[str] = []
    for part in CLASSIFIERS:
        found += _percentages(part)
        found += _totals(part)
        for kind, quantity in (("error", "mean"), ("size", "size"), ("time", "t")):
            found += _ranks(TABLES[part, kind], quantity)
        found += _counts(part)
    return tuple(found)


def _step(text: str) -> float:
    """Half a unit of the last printed digit; an exact 0 or 100 is printed without digits."""
    digits, _, power = text.partition("E")
    places = len(digits.partition(".")[2])
    return 0.5 * float(10 ** (int(power or 0) - places))


def _name(table: int, dataset: str, algorithm: str) -> str:
    return f"Table {table}, {DATASETS.get(dataset, dataset)}, {ALGORITHMS[algorithm]}"


def _cells(frame: pd.DataFrame) -> Iterator[tuple[str, str]]:
    return ((str(row), str(column)) for row in frame.index for column in frame.columns)


def _percentages(part: str) -> Iterator[str]:
    whole_sizes, whole_errors = shown(1, "features")["all"], shown(1, f"error_{part}")["all"]
    for kind, quantity, percent, whole in (
        ("error", "mean", "improvement", whole_errors),
        ("size", "size", "reduction", whole_sizes),
    ):
        table = TABLES[part, kind]
        values, percents = shown(table, quantity), shown(table, percent)
        # A count of features is exact; an error is not.
        exact = kind == "size"
        for dataset in map(str, values.index):
            total = str(whole[dataset])
            cells = [
                (str(name), str(at(values, dataset, name)), str(at(percents, dataset, name)))
                for name in values.columns
            ]
            wrong = [cell for cell in cells if not _follows(*cell[1:], total, exact)]
            other = [
                n
                for n in range(1, 2 * int(float(total)) + 1)
                if all(_follows(*cell[1:], str(n), exact) for cell in cells)
            ]
            if exact and len(wrong) > 1 and len(other) == 1:
                yield (
                    f"Table {table}, {DATASETS[dataset]}: the reductions follow from {other[0]}"
                    f" features, not from the {total} of Table 1"
                )
                continue
            for algorithm, text, printed in wrong:
                follows = 100 * (float(total) - float(text)) / float(total)
                yield (
                    f"{_name(table, dataset, algorithm)}: {percent} {printed} %, but"
                    f" {text} of {total} gives {follows:.1f} %"
                )


def _follows(text: str, printed: str, whole: str, exact: bool) -> bool:
    """Whether a printed percentage may come from a printed value and that of all features."""
    total, value = float(whole), float(text)
    blur = 0.0 if exact else _step(whole)
    # An exact 0, and a whole percentage, stand for themselves.
    room = 100 * (_step(text) if value else 0.0) / total + 100 * value * blur / total**2
    return bool(
        abs(100 * (total - value) / total - float(printed))
        <= room + min(_step(printed), 0.05) + 1e-9
    )


def _totals(part: str) -> Iterator[str]:
    table = TABLES[part, "time"]
    first, second, total = (wide(table, name) for name in ("t1", "t2", "t"))
    for dataset, algorithm in _cells(total):
        follows = float(at(first, dataset, algorithm) + at(second, dataset, algorithm))
        printed = float(at(total, dataset, algorithm))
        if abs(follows - printed) > 0.015 + 1e-9:
            yield (
                f"{_name(table, dataset, algorithm)}: T is {printed:.2f} s, but T1 and T2 make"
                f" {follows:.2f} s"
            )


def _ranks(table: int, quantity: str) -> Iterator[str]:
    values, ranks = wide(table, quantity), wide(table, "rank")
    for dataset in map(str, values.index):
        row, given = values.loc[dataset], ranks.loc[dataset]
        for algorithm in row.index:
            # Printed as equal, they may differ by what is not printed.
            low, high = 1 + int((row < row[algorithm]).sum()), int((row <= row[algorithm]).sum())
            if not low <= given[algorithm] <= high:
                yield (
                    f"{_name(table, str(dataset), str(algorithm))}: rank {given[algorithm]:.0f},"
                    f" but {row[algorithm]:g} is rank {low}"
                )
        taken = set(given)
        if taken != set(given.rank(method="min")):
            yield (
                f"Table {table}, {DATASETS[str(dataset)]}: the ranks"
                f" {', '.join(f'{rank:.0f}' for rank in given)} are not those of any order in"
                " which equal ones share the smallest rank"
            )
    printed = shown(table, "average_rank").loc["all"]
    for algorithm in ranks.columns:
        follows, text = float(ranks[algorithm].mean()), str(printed[algorithm])
        if abs(follows - float(text)) > _step(text) + 1e-9:
            yield (
                f"Table {table}, {ALGORITHMS[algorithm]}: average rank {text}, but its ranks"
                f" average {follows:.4g}"
            )
    overall = wide(table, "overall_rank").loc["all"]
    averages = {str(name): float(str(printed[name])) for name in ranks.columns}
    for algorithm, average in averages.items():
        best = 1 + sum(other < average for other in averages.values())
        worst = sum(other <= average for other in averages.values())
        if not best <= overall[algorithm] <= worst:
            yield (
                f"Table {table}, {ALGORITHMS[algorithm]}: overall rank {overall[algorithm]:.0f},"
                f" but the average rank {printed[algorithm]} is rank {best}"
            )


def _counts(part: str) -> Iterator[str]:
    classifier = CLASSIFIERS[part]
    signs = shown(SIGNS, f"sign_{part}")
    for algorithm, told in _BETTER[part].items():
        count = int((signs[algorithm] == "+").sum())
        if count != told:
            yield (
                f"Table {SIGNS}, {classifier}, {ALGORITHMS[algorithm]}: section 6 tells of {told}"
                f" data sets on which 2D-UPSO is better, the table shows {count}"
            )
    for kind, quantity, counts, what in (
        ("size", "size", _SMALLEST, "smallest subsets"),
        ("time", "t2", _FASTEST, "lowest T2"),
    ):
        values = wide(TABLES[part, kind], quantity)
        count = int((values["two_d"] == values.min(axis=1)).sum())
        if count != counts[part]:
            yield (
                f"Table {TABLES[part, kind]}: section 6 tells of {counts[part]} data sets with the"
                f" {what} by 2D-UPSO, the table shows {count}"
            )
    means, tests = wide(TABLES[part, "error"], "mean"), signs
    for dataset, algorithm in _cells(tests):
        if algorithm == "two_d":
            continue
        difference = float(at(means, dataset, algorithm) - at(means, dataset, "two_d"))
        sign = str(at(tests, dataset, algorithm))
        if (sign == "+" and difference < 0) or (sign == "-" and difference > 0):
            yield (
                f"Table {SIGNS}, {classifier}, {DATASETS[dataset]}, {ALGORITHMS[algorithm]}:"
                f" {sign}, but the means of Table {TABLES[part, 'error']} say the opposite"
            )
        elif sign == "+" and difference == 0 and at(means, dataset, "two_d") == 0:
            yield (
                f"Table {SIGNS}, {classifier}, {DATASETS[dataset]}, {ALGORITHMS[algorithm]}: +,"
                f" but both means of Table {TABLES[part, 'error']} are 0"
            )

"""Findings of a table before the search."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from swarm.findings.columns import (
    constant_columns,
    duplicate_columns,
    id_columns,
    sentinels,
    text_columns,
    text_kind,
)
from swarm.findings.groups import group_columns
from swarm.findings.leaks import leak_columns
from swarm.findings.registry import Finding, make_finding
from swarm.findings.rows import repeated_rows
from swarm.json_data import plain
from swarm.problem.scoring import default_positive
from swarm.wording import listed, quoted

# Scorers that count rows, so that a rare class hardly matters.
_COUNTS_ROWS = ("accuracy", "top_k_accuracy")
_RARE = 0.1
# Scorers that square errors; the share of the rows, and of the squares that they may have.
_SQUARES = (
    *("r2", "explained_variance"),
    *("neg_mean_squared_error", "neg_root_mean_squared_error"),
)
_FEW_ROWS, _MOST_SQUARES = 0.01, 0.5
# In fewer rows two of an exponential distribution may have as much.
_LEAST_ROWS = 50
# Share of the rows.
_LEAST_COPIES = 0.01
# Pairs of classes of which the second is positive by convention.
_PLAIN_PAIRS = ((0, 1), (-1, 1), (False, True), ("0", "1"))


def column_findings(
    features: pd.DataFrame,
    target: NDArray[Any],
    task: str,
    *,
    grouped: bool = False,  # whether the groups of the rows are known
    # features of no column of the source, which thus cannot be dropped
    derived: Collection[str] = (),
) -> list[Finding]:
    """Return what is odd about the features of the training rows."""
    features = features.set_axis([str(name) for name in features.columns], axis=1)
    ids = id_columns(features)
    kinds = {name: text_kind(features[name]) for name in text_columns(features)}
    apart = {name for name, (kind, _) in kinds.items() if kind in ("prose", "date")}
    suspects = [] if grouped else group_columns(features, skip={*ids, *apart, *derived})
    findings = [
        *_identifiers(ids),
        *_constant(features, derived),
        *_equal(features),
        *([] if grouped else _copies(features.drop(columns=ids), target)),
        *_leaks(features, target, task),
        *_texts(kinds),
        *_marks(features),
        *(make_finding("SWM106", str(group), [group.name]) for group in suspects),
    ]
    return [_with_derived(each, derived) for each in findings]


def _identifiers(names: Sequence[str]) -> Iterator[Finding]:
    if names:
        yield make_finding("SWM111", f"{_each(names)} a value of its own in every row", names)


def _constant(features: pd.DataFrame, derived: Collection[str]) -> Iterator[Finding]:
    constant = constant_columns(features)
    for of_table in (True, False):
        names = [name for name in constant if (name not in derived) == of_table]
        if names:
            text = f"{_each(names)} a single value in all {len(features):,} training rows"
            yield make_finding("SWM112", text, names)


def _equal(features: pd.DataFrame) -> Iterator[Finding]:
    equal = duplicate_columns(features)
    if equal:
        pairs = [f"{name!r} equals {other!r}" for name, other in equal]
        yield make_finding("SWM113", listed(pairs, 3), [name for name, _ in equal])


def _copies(features: pd.DataFrame, target: NDArray[Any]) -> Iterator[Finding]:
    n_rows, copies = len(features), int(repeated_rows(features, target).sum())
    if copies and copies >= _LEAST_COPIES * n_rows:
        text = f"{copies:,} of {n_rows:,} training rows repeat another one in all columns"
        yield make_finding("SWM118", text)


def _leaks(features: pd.DataFrame, target: NDArray[Any], task: str) -> Iterator[Finding]:
    for leak in leak_columns(features, target, task):
        text = f"{leak.column!r} alone predicts the target with {leak.metric} {leak.score:.3f}"
        yield make_finding("SWM114", text, [leak.column])


def _texts(kinds: Mapping[str, tuple[str, str]]) -> Iterator[Finding]:
    """Find text that is no category; an example is shown of dates and numbers."""
    for kind, what in (
        ("prose", "mostly distinct texts of several words"),
        ("date", "dates as text ({} in {!r})"),
        ("number", "numbers as text ({!r} in {!r})"),
    ):
        examples = {name: example for name, (each, example) in kinds.items() if each == kind}
        if examples:
            name, example = next(iter(examples.items()))
            names = list(examples)
            yield make_finding("SWM115", f"{_each(names)} {what.format(example, name)}", names)


def _marks(features: pd.DataFrame) -> Iterator[Finding]:
    marks = sentinels(features)
    if marks:
        shown = [
            f"{name!r} is {value:.12g} in {share:.1%} of the rows"
            for name, (value, share) in marks.items()
        ]
        yield make_finding("SWM121", f"{listed(shown, 3)}, unlike all other values", list(marks))


def _with_derived(finding: Finding, derived: Collection[str]) -> Finding:
    """Say how to leave out parts of dates, which are no columns of the table."""
    parts = [name for name in finding.columns if name in derived]
    if not parts:
        return finding
    return replace(finding, remedy=f"{finding.remedy}; forbidden leaves out {quoted(parts, 3)}")


def target_findings(
    target: NDArray[Any], task: str, scoring: str, pos_label: object = None
) -> list[Finding]:
    """Return what is odd about the target of the training rows, given the scorer."""
    if task == "regression" and scoring in _SQUARES:
        return _extremes(target)
    if task not in ("binary", "multiclass") or np.ndim(target) != 1:
        return []
    classes, counts = np.unique(target, return_counts=True)
    findings = _blanks(classes)
    rarest = int(counts.argmin())
    share = float(counts[rarest] / counts.sum())
    counts_rows = scoring in _COUNTS_ROWS or scoring.endswith(("_micro", "_weighted"))
    if share < _RARE / max(1, len(classes) - 1) and counts_rows:
        findings.append(
            make_finding(
                "SWM004",
                f"{share:.1%} of the training rows ({counts[rarest]:,} of {counts.sum():,}) are of "
                f"class {plain(classes[rarest])!r}, and the scorer is {scoring}",
                remedy="use scoring roc_auc, average_precision, balanced_accuracy or f1_macro"
                if task == "binary"
                else "use scoring balanced_accuracy or f1_macro",
            )
        )
    labels = [plain(label) for label in classes]
    is_pair = task == "binary" and len(labels) == 2
    if is_pair and pos_label is None and tuple(labels) not in _PLAIN_PAIRS:
        positive = default_positive(target)
        other = labels[0] if labels[1] == positive else labels[1]
        why = f"the rarer one of {labels[0]!r} and {labels[1]!r}"
        if positive in (1, "1"):
            why = f"as the label 1, and {other!r} as negative"
        findings.append(make_finding("SWM003", f"class {positive!r} counts as positive, {why}"))
    return findings


def _extremes(target: NDArray[Any]) -> list[Finding]:
    """Find numbers so far from the others that they decide a sum of squares."""
    n_few = max(2, int(_FEW_ROWS * len(target)))
    squares = (target - target.mean()) ** 2
    furthest = np.argsort(-squares, kind="stable")[:n_few]
    share = squares[furthest].sum() / max(squares.sum(), np.finfo(np.float64).tiny)
    if share <= _MOST_SQUARES or len(target) < _LEAST_ROWS:
        return []
    values = ", ".join(f"{value:.6g}" for value in target[furthest[:3]])
    text = (
        f"{n_few:,} of {len(target):,} training rows have {share:.0%} of the squared deviations"
        f" from the mean target; the furthest values are {values}"
    )
    return [make_finding("SWM123", text)]


def _blanks(classes: NDArray[Any]) -> list[Finding]:
    """Find labels that differ by blanks only."""
    same: dict[str, list[str]] = {}
    for label in classes.tolist():
        if isinstance(label, str):
            same.setdefault(" ".join(label.split()), []).append(label)
    return [
        make_finding("SWM119", f"the classes {quoted(labels, 3)} differ by blanks only")
        for labels in same.values()
        if len(labels) > 1
    ]


def _each(names: Sequence[str]) -> str:
    return f"{quoted(names, 3)} {'has' if len(names) == 1 else 'each have'}"

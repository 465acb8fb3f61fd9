"""Findings of a table before the search."""

from collections.abc import Collection, Iterable, Iterator
from itertools import chain
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from swarm.findings.look import ColumnLook, look_at
from swarm.findings.registry import KINDS, Finding, make_finding
from swarm.findings.rows import repeated_rows
from swarm.json_data import plain
from swarm.problem.scoring import default_positive
from swarm.problem.table import as_frame, names_of
from swarm.wording import listed, quoted

# Every leak is grave enough for a finding of its own.
_LEAKS = ("SWM114", "SWM211")
# Scorers that count rows, so that a rare class hardly matters.
_COUNTS_ROWS = ("accuracy", "top_k_accuracy")
_MAX_SHARE_RARE = 0.1
# Scorers that square errors.
_SQUARES = ("r2", "explained_variance", "neg_mean_squared_error", "neg_root_mean_squared_error")
# So few of the rows may have at most this share of the squares.
_SHARE_FEW_ROWS = 0.01
_MAX_SHARE_SQUARES = 0.5
# Among fewer rows, two of an exponential distribution may have as much.
_MIN_ROWS_SQUARES = 50
_MIN_SHARE_COPIES = 0.01
# The second class of such a pair is positive by convention.
_PLAIN_PAIRS = ((0, 1), (-1, 1), (False, True), ("0", "1"))


def column_findings(
    features: Any,
    target: NDArray[Any],
    task: str,
    *,
    groups: pd.Series | None = None,
    derived: Collection[str] = (),
) -> list[Finding]:
    """Find what is odd about the features of the training rows.

    Parameters
    ----------
    features : table or array (n_rows, n_features)
    target : (n_rows,) or (n_rows, n_labels)
    task : str
    groups : Series, optional
        Groups of the rows, if they are known.
    derived : collection of str
        Features that are no columns of the source, and thus cannot be dropped.
    """
    features = as_frame(features, names_of(features))
    look = look_at(features, target, task, groups=groups)
    findings = list(flaw_findings(look.columns, derived))
    findings += [
        make_finding("SWM106", str(group), [group.name])
        for group in look.groups
        if group.name not in derived
    ]
    if groups is None:
        ids = [column.name for column in look.columns if column.kind == "identifier"]
        findings += _copies(features.drop(columns=ids), target)
    return findings


def flaw_findings(
    columns: Iterable[ColumnLook], derived: Collection[str] = ()
) -> Iterator[Finding]:
    """Report what is wrong with columns: a finding of each kind, and of each leak."""
    by_kind: dict[tuple[str, str], dict[str, list[str]]] = {}
    for column in columns:
        for flaw in column.flaws:
            leak = column.name if flaw.code in _LEAKS else ""
            clauses = by_kind.setdefault((flaw.code, leak), {})
            clauses.setdefault(flaw.clause, []).append(column.name)
    for (code, _), clauses in by_kind.items():
        text = listed([f"{quoted(names, 3)}: {clause}" for clause, names in clauses.items()], 3)
        names = list(dict.fromkeys(chain.from_iterable(clauses.values())))
        date_parts = [name for name in names if name in derived]
        remedy = None
        if date_parts:
            remedy = f"{KINDS[code].remedy}; forbidden leaves out {quoted(date_parts, 3)}"
        yield make_finding(code, text, names, remedy=remedy)


def _copies(features: pd.DataFrame, target: NDArray[Any]) -> Iterator[Finding]:
    n_rows = len(features)
    n_copies = int(repeated_rows(features, target).sum())
    if n_copies and n_copies >= _MIN_SHARE_COPIES * n_rows:
        text = f"{n_copies:,} of {n_rows:,} training rows repeat another one in all columns"
        yield make_finding("SWM118", text)


def target_findings(
    target: NDArray[Any], task: str, scoring: str, pos_label: object = None
) -> list[Finding]:
    """Find what is odd about the target of the training rows, given the scorer."""
    if task == "regression" and scoring in _SQUARES:
        return _extremes(target)
    if task not in ("binary", "multiclass") or np.ndim(target) != 1:
        return []
    classes, counts = np.unique(target, return_counts=True)
    findings = _blanks(classes)
    rarest = int(counts.argmin())
    share = float(counts[rarest] / counts.sum())
    counts_rows = scoring in _COUNTS_ROWS or scoring.endswith(("_micro", "_weighted"))
    if share < _MAX_SHARE_RARE / max(1, len(classes) - 1) and counts_rows:
        names = "balanced_accuracy or f1_macro"
        if task == "binary":
            names = "roc_auc, average_precision, balanced_accuracy or f1_macro"
        findings.append(
            make_finding(
                "SWM004",
                f"{share:.1%} of the training rows ({counts[rarest]:,} of {counts.sum():,}) are of "
                f"class {plain(classes[rarest])!r}, and the scorer is {scoring}",
                remedy=f"use scoring {names}",
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
    n_few = max(2, int(_SHARE_FEW_ROWS * len(target)))
    squares = (target - target.mean()) ** 2
    furthest = np.argsort(-squares, kind="stable")[:n_few]
    share = squares[furthest].sum() / max(squares.sum(), np.finfo(np.float64).tiny)
    if share <= _MAX_SHARE_SQUARES or len(target) < _MIN_ROWS_SQUARES:
        return []
    values = ", ".join(f"{value:.6g}" for value in target[furthest[:3]])
    text = (
        f"{n_few:,} of {len(target):,} training rows have {share:.0%} of the squared deviations"
        f" from the mean target; the furthest values are {values}"
    )
    return [make_finding("SWM123", text)]


def _blanks(classes: NDArray[Any]) -> list[Finding]:
    """Find labels that differ by blanks only."""
    by_words: dict[str, list[str]] = {}
    for label in classes.tolist():
        if isinstance(label, str):
            by_words.setdefault(" ".join(label.split()), []).append(label)
    return [
        make_finding("SWM119", f"the classes {quoted(labels, 3)} differ by blanks only")
        for labels in by_words.values()
        if len(labels) > 1
    ]

"""Every way to divide rows: folds, and a hold-out of a given share."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from dataclasses import KW_ONLY, dataclass
from fractions import Fraction
from reprlib import repr as shortly
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from swarm.arrays import AnyArray, Float, Int
from swarm.checks import require
from swarm.errors import ConfigError, DataError, InputError, as_clause, check_known
from swarm.protocols import Splitter

# Positions of the training and of the test rows.
Fold = tuple[Int, Int]
# Folds ``stratified`` by class, or by each label; ``random``; of whole groups (``group``,
# ``stratified_group``); tested on later rows than those of the training (``time``); or named by a
# ``column``: rows without a value are training rows of every fold, so that a single value gives a
# hold-out.
KINDS = ("stratified", "random", "group", "stratified_group", "time", "column")
# A hold-out consists of some of at most 20 folds, unless it is smaller than one of them.
_MAX_FOLDS_OF_HOLD_OUT = 20


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows to train on or to test on, with the values that they are divided by.

    Attributes
    ----------
    features : table, array or sparse matrix (n_rows, n_features)
        Features; None if rows are only divided.
    target : (n_rows,) or 0/1 (n_rows, n_labels)
        Target.
    groups : (n_rows,), optional
        Groups: rows with the same value belong together.
    weight : float64 (n_rows,), optional
        Sample weights.
    task : str, optional
        A task of :class:`swarm.problem.problem.Problem`, which folds by class need.
    time : (n_rows,), optional
        Values that order the rows in time.
    column : (n_rows,), optional
        The fold in which each row is tested.
    """

    features: Any
    target: Any
    groups: ArrayLike | None = None
    weight: Float | None = None
    _: KW_ONLY
    task: str | None = None
    time: AnyArray | None = None
    column: AnyArray | None = None

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(np.shape(self.target if self.features is None else self.features)[0])

    @property
    def labels(self) -> AnyArray:
        """The target as an array."""
        return np.asarray(self.target)

    @property
    def has_classes(self) -> bool:
        """Whether a row has one class."""
        return self.task in ("binary", "multiclass")

    @property
    def is_grouped(self) -> bool:
        """Whether rows have groups; several columns are for a custom splitter."""
        return self.groups is not None and np.shape(self.groups)[1:] in ((), (1,))

    @property
    def kind(self) -> str:
        """The kind of folds that suits the rows: by group, by class, or at random."""
        if self.is_grouped:
            return "stratified_group" if self.has_classes else "group"
        return "stratified" if self.has_classes or self.task == "multilabel" else "random"


@dataclass(frozen=True, eq=False)
class Division:
    """The folds of a problem, and how fresh folds of the same kind are drawn.

    `draw` returns the folds of a seed; it is None if folds do not depend on a seed.
    """

    rows: Rows
    folds: Sequence[Fold]
    seed: int = 0
    draw: Callable[[int], Sequence[Fold]] | None = None

    @property
    def is_forward(self) -> bool:
        """Whether every fold trains on rows before those that it tests."""
        return all(len(train) and train.max() < test.min() for train, test in self.folds)

    @classmethod
    def of_kind(
        cls,
        rows: Rows,
        kind: str,
        n_folds: int,
        *,
        seed: int = 0,
        shuffle: bool = True,
        gap: int = 0,
    ) -> Division:
        """Divide rows as :func:`divide` does."""

        def draw(seed: int) -> list[Fold]:
            return divide(rows, kind, n_folds, seed=seed, shuffle=shuffle, gap=gap)

        depends_on_seed = shuffle and kind not in ("time", "column")
        return cls(rows, draw(seed), seed, draw if depends_on_seed else None)

    @classmethod
    def of(
        cls, folds: int | Splitter | Sequence[Fold], X: Any, y: Any, rows: Rows, seed: int
    ) -> Division:
        """Divide rows by a number of folds, a splitter, or pairs of row positions.

        A splitter sees `X`, `y` and the groups as they were given.
        """
        if isinstance(folds, (int, np.integer)):
            if rows.groups is not None:
                groups = complete_groups(rows.groups)
                if groups.shape != (rows.n_rows,):
                    raise DataError(
                        f"groups must be one value for each of {rows.n_rows} rows, got the shape "
                        f"{groups.shape}; pass one column"
                    )
            return cls.of_kind(rows, rows.kind, int(folds), seed=seed)
        if hasattr(folds, "split") and not isinstance(folds, str):
            return cls._by_splitter(folds, X, y, rows, seed)
        try:
            return cls(rows, [(_positions(train), _positions(test)) for train, test in folds], seed)
        except (TypeError, ValueError) as error:
            raise ConfigError(
                "folds must be a number, a splitter or pairs of (train, test) rows, got "
                f"{shortly(folds)}"
            ) from error

    @classmethod
    def _by_splitter(cls, splitter: Any, X: Any, y: Any, rows: Rows, seed: int) -> Division:
        name = type(splitter).__name__
        state = getattr(splitter, "random_state", 0)
        if state is not None and not isinstance(state, (int, np.integer)):
            raise ConfigError(
                f"random_state of {name} must be an integer, got {state!r}; "
                "a generator is not reproducible"
            )
        if rows.groups is not None:
            refuse_missing(rows.groups)

        def split(splitter: Splitter) -> list[Fold]:
            try:
                pairs = splitter.split(X, y, rows.groups)
                return [(_positions(train), _positions(test)) for train, test in pairs]
            except InputError:
                raise
            except (TypeError, ValueError) as error:
                raise DataError(
                    f"{name} cannot split the rows: {as_clause(str(error))}; pass other folds"
                ) from error

        def draw(seed: int) -> list[Fold]:
            seeded = copy(splitter)
            seeded.random_state = seed
            return split(seeded)

        is_seeded = hasattr(splitter, "random_state") and getattr(splitter, "shuffle", True)
        folds = draw(seed) if state is None else split(splitter)
        return cls(rows, folds, seed, draw if is_seeded else None)


def divide(
    rows: Rows,
    kind: str,
    n_folds: int = 5,
    *,
    seed: int = 0,
    shuffle: bool = True,
    gap: int = 0,
) -> list[Fold]:
    """Divide rows into folds, as scikit-learn does.

    Parameters
    ----------
    rows : Rows
        The rows, with the values that the kind of folds needs.
    kind : str
        One of :data:`KINDS`.
    n_folds : int, default=5
        Number of folds; ``column`` has its own.
    seed : int, default=0
        Seed of shuffled folds.
    shuffle : bool, default=True
        Whether rows are shuffled; ``time`` and ``column`` ignore it.
    gap : int, default=0
        Number of rows left out between training and test rows, for ``time``.

    Returns
    -------
    list of (train, test)
        Row positions, ascending, or in order of time for ``time``.

    Raises
    ------
    DataError
        If the rows do not allow the folds.
    ConfigError
        If the kind is unknown, or its values are missing.
    """
    return list(_divided(rows, kind, n_folds, seed=seed, shuffle=shuffle, gap=gap))


def _divided(
    rows: Rows, kind: str, n_folds: int, *, seed: int, shuffle: bool = True, gap: int = 0
) -> Iterable[Fold]:
    """Yield the folds of :func:`divide`; those of a small share would not fit into memory."""
    check_known("kind of folds", kind, KINDS)
    if kind == "column":
        return _from_column(rows.column)
    if n_folds < 2:
        raise ConfigError(f"cross-validation needs at least 2 folds, got {n_folds}")
    if rows.n_rows < n_folds:
        raise DataError(
            f"{rows.n_rows} rows cannot make {n_folds} folds; use fewer folds or more rows"
        )
    if kind == "time":
        return _forward(rows.time, n_folds, gap)
    if kind == "stratified" and rows.task == "multilabel":
        rng = np.random.default_rng(seed) if shuffle else None
        return _from_column(_iterative_stratification(rows.labels, n_folds, rng))
    groups = complete_groups(rows.groups) if "group" in kind and rows.groups is not None else None
    _refuse_too_few(rows, kind, groups, n_folds)
    from sklearn.model_selection import GroupKFold, KFold, StratifiedGroupKFold, StratifiedKFold

    splitters = {
        "random": KFold,
        "stratified": StratifiedKFold,
        "group": GroupKFold,
        "stratified_group": StratifiedGroupKFold,
    }
    splitter = splitters[kind](n_folds, shuffle=shuffle, random_state=seed if shuffle else None)
    return splitter.split(rows.labels, rows.labels, groups)


def derived_seed(seed: int, number: int) -> int:
    """Return the seed of a division: fresh folds have numbers from 1, a prefilter has number 0."""
    return int(np.random.SeedSequence([seed, number]).generate_state(1)[0])


def partition_key(folds: Iterable[Fold]) -> frozenset[bytes]:
    """Return a key of a partition that does not depend on the order of its folds and rows."""
    return frozenset(np.sort(test).astype(np.int64).tobytes() for _, test in folds)


def hold_out(rows: Rows, kind: str, share: float, *, seed: int = 0, gap: int = 0) -> Fold:
    """Hold out a share of the rows, or of the groups: training and test rows, both ascending.

    The test rows are evenly spaced folds of the same kind, such as the first of three or three of
    ten. For ``time`` they are the latest rows, with rows of the same time on one side, and for
    ``column`` those of its first value.
    """
    require("share of the rows", share, above=0, below=1)
    check_known("kind of split", kind, KINDS)
    if kind == "time":
        return _latest(rows.time, share, gap)
    if kind == "column":
        return _from_column(rows.column)[0]
    if share > 0.5:
        test, train = hold_out(rows, kind, 1 - share, seed=seed)
        return train, test
    n_max = max(most_folds(rows, kind), 2)
    n_folds = round(1 / share)
    if share * min(_MAX_FOLDS_OF_HOLD_OUT, n_max) >= 1:
        of_folds = Fraction(share).limit_denominator(min(_MAX_FOLDS_OF_HOLD_OUT, n_max))
    elif n_folds <= n_max or "group" in kind:
        of_folds = Fraction(1, min(n_folds, n_max))
    else:
        raise DataError(
            f"a share of {share:g} of {rows.n_rows} rows leaves less than a row"
            f"{' of each class' * (kind == 'stratified')}; use more rows, or a share nearer to 0.5"
        )
    n_test, n_folds = of_folds.numerator, of_folds.denominator
    numbers = set((np.arange(n_test) * n_folds // n_test).tolist())
    with warnings.catch_warnings():
        # A class may have fewer rows than there are folds.
        warnings.simplefilter("ignore", UserWarning)
        folds = enumerate(_divided(rows, kind, n_folds, seed=seed))
        test = np.sort(np.concatenate([fold[1] for number, fold in folds if number in numbers]))
    return np.setdiff1d(np.arange(rows.n_rows), test), test


def most_folds(rows: Rows, kind: str) -> int:
    """Largest number of folds of a kind that the rows can be divided into."""
    n_max = rows.n_rows
    if "group" in kind and rows.groups is not None:
        n_max = len(np.unique(complete_groups(rows.groups)))
    if "stratified" in kind and rows.has_classes:
        n_max = min(n_max, int(np.unique(rows.labels, return_counts=True)[1].max()))
    return n_max


def _forward(time: AnyArray | None, n_folds: int, gap: int) -> list[Fold]:
    """Return folds that train on the rows before each block of test rows."""
    from sklearn.model_selection import TimeSeriesSplit

    if time is None:
        raise ConfigError("kind 'time' needs the order of rows; name a time column")
    order = np.argsort(time, kind="stable")
    try:
        places = list(TimeSeriesSplit(n_folds, gap=gap).split(order))
    except ValueError as error:
        with_gap = f" with a gap of {gap} rows" if gap else ""
        or_gap = " or a smaller gap" if gap else ""
        raise DataError(
            f"{len(order)} rows cannot make {n_folds} folds in time{with_gap}; use fewer "
            f"folds{or_gap}"
        ) from error
    return [(order[train], order[test]) for train, test in places]


def _latest(time: AnyArray | None, share: float, gap: int) -> Fold:
    """Return the latest rows, cut between two times, and the rows before them and the gap."""
    if time is None:
        raise ConfigError("kind 'time' needs the order of rows; name a time column")
    moments = np.unique(time, return_inverse=True)[1]
    order = np.argsort(moments, kind="stable")
    starts = np.flatnonzero(np.diff(moments[order])) + 1
    if not len(starts):
        raise DataError("every row has the same time; hold out rows by another kind")
    start = int(starts[np.abs(starts - (1 - share) * len(order)).argmin()])
    if start <= gap:
        raise DataError(
            f"gap {gap} leaves out all {start} rows before the test rows; use a smaller gap, or "
            "hold out fewer rows"
        )
    return np.sort(order[: start - gap]), np.sort(order[start:])


def _positions(rows: ArrayLike) -> Int:
    """Return the positions of rows, which may be given by a mask."""
    values = np.asarray(rows)
    if values.ndim != 1:
        raise ValueError(
            f"rows of a fold must be a list of positions, got the shape {values.shape}"
        )
    if values.dtype == bool:
        return np.flatnonzero(values)
    is_whole = values.dtype.kind in "iu" or np.array_equal(values, values.astype(int))
    if values.size and not is_whole:
        raise ValueError(f"{values.ravel()[0]!r} is no row")
    return values.astype(np.intp)


def refuse_missing(groups: ArrayLike) -> None:
    """Raise DataError if groups of rows are missing."""
    if not np.ndim(groups):
        raise DataError(f"groups must have a value for each row, got {groups!r}")
    # NumPy writes a missing value in a list of text as text.
    is_list = isinstance(groups, (list, tuple))
    is_missing = pd.isna(np.asarray(groups, dtype=object if is_list else None))
    if is_missing.any():
        raise DataError(
            f"groups are missing in {int(is_missing.sum())} of {len(is_missing)} rows; fill or drop"
            " them first"
        )


def complete_groups(groups: ArrayLike) -> AnyArray:
    """Return groups as an array that splitters can sort; DataError for missing groups."""
    refuse_missing(groups)
    values = np.asarray(groups)
    values = values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values
    if values.dtype == object and values.ndim == 1:
        try:
            np.unique(values)
        except TypeError:  # numbers and text cannot be sorted
            return np.asarray(pd.factorize(values)[0])
    return values


def _refuse_too_few(rows: Rows, kind: str, groups: AnyArray | None, n_folds: int) -> None:
    """Reject a target or groups that scikit-learn cannot divide into so many folds."""
    if "group" in kind:
        if groups is None:
            raise ConfigError(f"kind {kind!r} needs groups; pass the groups of the rows")
        n_groups = len(np.unique(groups))
        if n_groups == 1:
            raise DataError("all rows are of one group, which no fold may divide; use another kind")
        if n_groups < n_folds:
            raise DataError(f"{n_groups} groups cannot make {n_folds} folds; use fewer folds")
    if "stratified" not in kind:
        return
    if not rows.has_classes:
        other = "group" if "group" in kind else "random"
        raise ConfigError(
            f"kind {kind!r} needs classes but the target is {rows.task}; use {other!r}"
        )
    classes, counts = np.unique(rows.labels, return_counts=True)
    if counts.max() < n_folds:
        raise DataError(
            f"the most frequent class, {classes.tolist()[counts.argmax()]!r}, has fewer rows "
            f"({counts.max()}) than there are folds ({n_folds}); use fewer folds, or kind 'random'"
        )


def _iterative_stratification(
    target: AnyArray, n_folds: int, rng: np.random.Generator | None
) -> Int:
    """Assign each row to a fold, rarest label first, to the fold that lacks this label most.

    Ties are broken by the number of rows that a fold lacks, then by `rng`, or the first fold if it
    is None. Source: Sechidis, Tsoumakas and Vlahavas (2011), On the stratification of multi-label
    data, ECML PKDD.
    """
    n_rows, n_labels = target.shape
    order = np.arange(n_rows) if rng is None else rng.permutation(n_rows)
    chance = np.zeros((n_rows, n_folds)) if rng is None else rng.random((n_rows, n_folds))
    # All rows have the last label, so that a fold lacks as many rows as rows with this label.
    labels = np.column_stack([target[order] != 0, np.ones(n_rows, dtype=bool)])
    lacking = np.repeat(labels.sum(axis=0)[:, None] / n_folds, n_folds, axis=1)
    fold_in_order = np.full(n_rows, -1, dtype=np.int64)
    is_open = np.ones(n_rows, dtype=bool)
    while is_open.any():
        counts = labels[is_open, :n_labels].sum(axis=0)
        rarest = n_labels
        if counts.any():
            rarest = int(np.where(counts > 0, counts, n_rows + 1).argmin())
        rows = np.flatnonzero(is_open & labels[:, rarest])
        for row in rows:
            fold = _most_lacking(lacking[rarest], lacking[n_labels], chance[row])
            fold_in_order[row] = fold
            lacking[labels[row], fold] -= 1.0
        is_open[rows] = False
    fold_of = np.empty(n_rows, dtype=np.int64)
    fold_of[order] = fold_in_order
    return fold_of


def _most_lacking(lacking_label: Float, lacking_rows: Float, chance: Float) -> int:
    folds = np.flatnonzero(lacking_label == lacking_label.max())
    if len(folds) > 1:
        folds = folds[lacking_rows[folds] == lacking_rows[folds].max()]
    return int(folds[chance[folds].argmax()])


def _from_column(column: AnyArray | None) -> list[Fold]:
    if column is None:
        raise ConfigError("folds of kind 'column' need a fold column; name one")
    is_missing = np.asarray(pd.isna(column))
    names = np.unique(column[~is_missing])
    if len(names) == 0:
        raise DataError("the fold column is empty; name the fold of the rows to test on")
    if len(names) == 1 and not is_missing.any():
        raise DataError(
            f"the fold column has the single value {names.tolist()[0]!r}, which leaves no training"
            " rows; it needs a second value, or rows without a value"
        )
    tests = [np.asarray(column == name) & ~is_missing for name in names]
    return [(np.flatnonzero(~test), np.flatnonzero(test)) for test in tests]

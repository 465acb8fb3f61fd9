"""The budget of a search, and the counts that it limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from swarm.arrays import Bool
from swarm.checks import require
from swarm.errors import ConfigError
from swarm.evaluation.types import Evaluations
from swarm.search.packing import pack_folds, pack_masks

# Larger than any search needs, and exact in every store.
_MOST = 10**9


@dataclass(frozen=True)
class Counts:
    """What a search has requested so far, whether it was cached or not.

    Attributes
    ----------
    evaluations : int
        Requested masks, repeated ones included.
    distinct : int
        Distinct requested masks.
    fits : int
        Fold models that were needed; a fold of a mask counts once.
    failed : int
        Evaluations in which a fit raised an exception.
    on_parts : tuple of int
        Fold models on each part of the rows, see :mod:`swarm.search.row_parts`; in `fits` they
        count as their share of the rows, rounded up. Empty without parts.
    """

    evaluations: int = 0
    distinct: int = 0
    fits: int = 0
    failed: int = 0
    on_parts: tuple[int, ...] = ()


@dataclass(frozen=True)
class Budget:
    """Limits of a search, which ends when the first of them is reached.

    Parameters
    ----------
    epochs, evaluations, distinct, fits : int or None
        Counted as in :class:`Counts`. `evaluations` and `distinct` are exact: the last epoch is
        truncated. `fits` ends the search after the epoch that reaches it. If the space has too
        few masks to reach `distinct` or `fits`, the search ends after a hundred epochs without a
        new mask.
    seconds : float or None
        Wall time of this process, checked after each epoch, so that at least one epoch runs. It
        starts again when a search is resumed. This is the only limit that depends on the machine.
    patience : int or None
        Early stopping: epochs without an improvement of the best cost.
    noise_floor : int or None
        Early stopping: epochs over which the best subset has gained no more than the standard
        error of that gain, paired over the folds. Saves fits; the answer is not better for it.
    """

    epochs: int | None = None
    evaluations: int | None = None
    distinct: int | None = None
    fits: int | None = None
    seconds: float | None = None
    patience: int | None = None
    noise_floor: int | None = None

    def __post_init__(self) -> None:
        for name in ("epochs", "evaluations", "distinct", "fits", "patience", "noise_floor"):
            if getattr(self, name) is not None:
                require(
                    f"budget {name}", getattr(self, name), at_least=1, at_most=_MOST, whole=True
                )
        if self.seconds is not None:
            require("budget seconds", self.seconds, above=0)
        if all(value is None for value in vars(self).values()):
            raise ConfigError(
                "the budget has no limit, so the search would never end; set epochs, evaluations, "
                "distinct, fits, seconds, patience or noise_floor"
            )

    @property
    def limits(self) -> dict[str, float]:
        """The limits that measure progress, which those of early stopping do not."""
        names = ("epochs", "evaluations", "distinct", "fits", "seconds")
        known = {name: getattr(self, name) for name in names}
        return {name: limit for name, limit in known.items() if limit is not None}

    def reached(self, epoch: int, counts: Counts, seconds: float, stalled: int) -> str | None:
        """Return the name of the limit that is reached, or None.

        Parameters
        ----------
        epoch : int
            Finished epochs.
        seconds : float
            Wall time so far.
        stalled : int
            Epochs without an improvement of the best cost.
        """
        spent: dict[str, tuple[float, float | None]] = {
            "epochs": (epoch, self.epochs),
            "evaluations": (counts.evaluations, self.evaluations),
            "distinct": (counts.distinct, self.distinct),
            "fits": (counts.fits, self.fits),
            # At least one epoch runs, so that there is a result.
            "seconds": (seconds if epoch else 0.0, self.seconds),
            "patience": (stalled, self.patience),
        }
        for name, (value, limit) in spent.items():
            if limit is not None and value >= limit:
                return name
        return None


def added(
    asked: Mapping[bytes, int], masks: Bool, needed: Bool
) -> tuple[dict[bytes, int], list[int]]:
    """Add the folds (m, n_folds) of at least the masks to the packed folds of packed masks.

    Returns them, and the packed folds of each mask that are new.
    """
    asked, fresh = dict(asked), list[int]()
    for key, folds in zip(pack_masks(masks), map(pack_folds, needed), strict=False):
        before = asked.get(key, 0)
        fresh.append(folds & ~before)
        asked[key] = before | folds
    return asked, fresh


def charged(
    asked: Mapping[bytes, int],
    counts: Counts,
    masks: Bool,
    evaluations: Evaluations,
) -> tuple[dict[bytes, int], Counts]:
    """Count the masks and folds that a search has not requested before.

    Parameters
    ----------
    asked : mapping of packed mask to packed folds
        What it has requested before.
    counts : Counts
    masks : bool (n, n_units)
    evaluations : Evaluations
        At least those of the masks.
    """
    asked, fresh = added(asked, masks, evaluations.needed)
    after = replace(
        counts,
        evaluations=counts.evaluations + len(masks),
        distinct=len(asked),
        fits=counts.fits + sum(folds.bit_count() for folds in fresh),
        failed=counts.failed + int(evaluations.failed.sum()),
    )
    return asked, after

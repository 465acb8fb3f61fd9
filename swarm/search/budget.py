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
    stalled : int
        Epochs since the best cost improved.
    idle : int
        Epochs since a mask was new.
    """

    evaluations: int = 0
    distinct: int = 0
    fits: int = 0
    failed: int = 0
    stalled: int = 0
    idle: int = 0


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
    """

    epochs: int | None = None
    evaluations: int | None = None
    distinct: int | None = None
    fits: int | None = None
    seconds: float | None = None
    patience: int | None = None

    def __post_init__(self) -> None:
        for name in ("epochs", "evaluations", "distinct", "fits", "patience"):
            if getattr(self, name) is not None:
                require(
                    f"budget {name}", getattr(self, name), at_least=1, at_most=_MOST, whole=True
                )
        if self.seconds is not None:
            require("budget seconds", self.seconds, above=0)
        if all(value is None for value in vars(self).values()):
            raise ConfigError(
                "the budget has no limit, so the search would never end; set epochs, distinct, "
                "fits, seconds or patience"
            )

    @property
    def limits(self) -> dict[str, float]:
        """The limits that measure progress, which those of early stopping do not."""
        names = ("epochs", "evaluations", "distinct", "fits", "seconds")
        values = {name: getattr(self, name) for name in names}
        return {name: limit for name, limit in values.items() if limit is not None}

    def reached_limit(self, epoch: int, counts: Counts, seconds: float) -> str | None:
        """Return the name of the limit that is reached, or None.

        Parameters
        ----------
        epoch : int
            Finished epochs.
        seconds : float
            Wall time so far.
        """
        spent: dict[str, tuple[float, float | None]] = {
            "epochs": (epoch, self.epochs),
            "evaluations": (counts.evaluations, self.evaluations),
            "distinct": (counts.distinct, self.distinct),
            "fits": (counts.fits, self.fits),
            # At least one epoch runs, so that there is a result.
            "seconds": (seconds if epoch else 0.0, self.seconds),
            "patience": (counts.stalled, self.patience),
        }
        for name, (value, limit) in spent.items():
            if limit is not None and value >= limit:
                return name
        return None


def add_requests(
    requests: Mapping[bytes, int],
    counts: Counts,
    masks: Bool,
    evaluations: Evaluations,
) -> tuple[dict[bytes, int], Counts]:
    """Count the masks and folds that a search has not requested before.

    Parameters
    ----------
    requests : mapping of packed mask to packed folds
        What it has requested before.
    counts : Counts
    masks : bool (n, n_units)
    evaluations : Evaluations
        At least those of the masks.
    """
    requests, fresh = dict(requests), 0
    for key, folds in zip(pack_masks(masks), map(pack_folds, evaluations.needed), strict=False):
        before = requests.get(key, 0)
        fresh += (folds & ~before).bit_count()
        requests[key] = before | folds
    after = replace(
        counts,
        evaluations=counts.evaluations + len(masks),
        distinct=len(requests),
        fits=counts.fits + fresh,
        failed=counts.failed + int(evaluations.failed.sum()),
        idle=counts.idle + 1 if len(requests) == counts.distinct else 0,
    )
    return requests, after

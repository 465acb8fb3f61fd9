"""The budget of a search, and the counts that it limits."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from swarm.arrays import Bool
from swarm.checks import require
from swarm.errors import ConfigError
from swarm.evaluation.types import Evaluations
from swarm.search.packing import pack_folds, pack_masks

# No search needs more, and every store has exact integers of this size.
_MAX_LIMIT = 10**9


@dataclass(frozen=True)
class Counts:
    """The number of requests of a search so far, cached ones included.

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
    epochs : int, optional
        Number of epochs.
    evaluations, distinct : int, optional
        Number of evaluated masks, and of distinct ones. Both are exact: the last epoch is
        truncated.
    fits : int, optional
        Number of fold models that were needed. The search ends after the epoch that reaches it.
        If the space has too few masks to reach `distinct` or `fits`, it ends after a hundred epochs
        without a new mask.
    seconds : float, optional
        Wall time of this process, checked after each epoch, so that at least one epoch runs. It
        starts again when a search is resumed. This is the only limit that depends on the machine.
    patience : int, optional
        Early stopping: epochs without an improvement of the best cost.

    Raises
    ------
    ConfigError
        If there is no limit, or one is out of range.
    """

    epochs: int | None = None
    evaluations: int | None = None
    distinct: int | None = None
    fits: int | None = None
    seconds: float | None = None
    patience: int | None = None

    def __post_init__(self) -> None:
        for name in ("epochs", "evaluations", "distinct", "fits", "patience"):
            limit = getattr(self, name)
            if limit is not None:
                require(f"budget {name}", limit, at_least=1, at_most=_MAX_LIMIT, whole=True)
        if self.seconds is not None:
            require("budget seconds", self.seconds, above=0)
        if all(value is None for value in vars(self).values()):
            raise ConfigError(
                "the budget has no limit, so the search would never end; set epochs, distinct, "
                "fits, seconds or patience"
            )

    @property
    def limits(self) -> dict[str, float]:
        """The limits that measure progress, by name; patience does not."""
        names = ("epochs", "evaluations", "distinct", "fits", "seconds")
        values = {name: getattr(self, name) for name in names}
        return {name: limit for name, limit in values.items() if limit is not None}

    def reached_limit(self, epoch: int, counts: Counts, seconds: float) -> str | None:
        """Return the name of the limit that is reached, or None.

        Parameters
        ----------
        epoch : int
            Finished epochs.
        counts : Counts
            Requests so far.
        seconds : float
            Wall time so far.
        """
        spent: dict[str, float] = {
            "epochs": epoch,
            "evaluations": counts.evaluations,
            "distinct": counts.distinct,
            "fits": counts.fits,
            # At least one epoch runs, so that there is a result.
            "seconds": seconds if epoch else 0.0,
            "patience": counts.stalled,
        }
        for name, value in spent.items():
            limit = getattr(self, name)
            if limit is not None and value >= limit:
                return name
        return None


def add_requests(
    requests: Mapping[bytes, int],
    counts: Counts,
    masks: Bool,
    evaluations: Evaluations,
) -> tuple[dict[bytes, int], Counts]:
    """Add masks (n, n_units) and their folds to the requests of a search, and to its counts.

    `requests` has packed folds by packed mask; `evaluations` begin with those of the masks.
    """
    requests = dict(requests)
    n_new_fits = 0
    for key, folds in zip(pack_masks(masks), map(pack_folds, evaluations.needed), strict=False):
        before = requests.get(key, 0)
        n_new_fits += (folds & ~before).bit_count()
        requests[key] = before | folds
    counts = replace(
        counts,
        evaluations=counts.evaluations + len(masks),
        distinct=len(requests),
        fits=counts.fits + n_new_fits,
        failed=counts.failed + int(evaluations.failed.sum()),
        idle=counts.idle + 1 if len(requests) == counts.distinct else 0,
    )
    return requests, counts

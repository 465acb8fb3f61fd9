"""When a search ends."""

from __future__ import annotations

from dataclasses import dataclass

from swarm.checks import require
from swarm.errors import ConfigError

__all__ = ["Budget", "Counts"]

# Beyond any search; counts stay exact in every store, and null means no limit.
_MOST = 10**9


@dataclass(frozen=True)
class Counts:
    """What a search has asked for so far; the same whatever an archive knew.

    Attributes
    ----------
    evaluations : int
        Masks asked for; a repeated mask counts.
    distinct : int
        Different masks asked for.
    fits : int
        Fold models that the answers needed; a fold of a mask counts once.
    failed : int
        Evaluations in which a fit raised.
    """

    evaluations: int = 0
    distinct: int = 0
    fits: int = 0
    failed: int = 0


@dataclass(frozen=True)
class Budget:
    """Limits of a search; the first that is reached ends it.

    Parameters
    ----------
    epochs, evaluations, distinct, fits : int or None
        Counted as in :class:`Counts`. `evaluations` and `distinct` are kept exactly: the last
        epoch is cut where they run out. `fits` ends the search after the epoch that reaches it.
        Where `distinct` or `fits` is above what the space holds, the search ends after a
        hundred epochs without a new mask.
    seconds : float or None
        Wall time of this process, checked after each epoch, so that one epoch always runs; a
        resumed search gets it anew, so only this limit depends on the machine.
    patience : int or None
        Epochs without an improvement of the best cost.
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
                "the budget has no limit, so the search would never end; set epochs, evaluations, "
                "distinct, fits, seconds or patience"
            )

    def reached(self, epoch: int, counts: Counts, seconds: float, stalled: int) -> str | None:
        """Say which limit is reached, or None.

        Parameters
        ----------
        epoch : int
            Epochs finished.
        seconds : float
            Wall time so far.
        stalled : int
            Epochs since the best cost improved.
        """
        spent: dict[str, tuple[float, float | None]] = {
            "epochs": (epoch, self.epochs),
            "evaluations": (counts.evaluations, self.evaluations),
            "distinct": (counts.distinct, self.distinct),
            "fits": (counts.fits, self.fits),
            # Without a first epoch there would be nothing to answer.
            "seconds": (seconds if epoch else 0.0, self.seconds),
            "patience": (stalled, self.patience),
        }
        for name, (value, limit) in spent.items():
            if limit is not None and value >= limit:
                return name
        return None

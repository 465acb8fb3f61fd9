"""What a study is made of: parts, each a protocol on data sets, strategies and seeds."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from conf.run_sections import StrategySection
from conf.schema import SelectConfig
from swarm.errors import ConfigError
from swarm.strategies.catalogue import make

__all__ = ["Part", "Study"]

# Strategies that draw nothing at random: every seed gives the same search.
_SEEDLESS = ("exhaustive", "full", "rfe", "sfs", "sbs", "sffs", "sbfs")


@dataclass(frozen=True)
class Part:
    """One protocol on one data set.

    Attributes
    ----------
    name : str
        Name of the protocol; parts of several data sets share it.
    dataset : str
    config : SelectConfig
        All but the strategy and the seed of the searches: table, split, model, folds, budget.
    strategies : mapping of label to StrategySection
    seeds : tuple of int
    resample : int
        Number of the split into training and test rows; -1 searches on all rows.
    judged : bool
        Whether ensembles and their rivals are tried on the test rows.
    archived : bool
        Whether evaluations are kept in a file: those of costly models are.
    note : str
        What pages tell of the data set.
    """

    name: str
    dataset: str
    config: SelectConfig
    strategies: Mapping[str, StrategySection]
    seeds: tuple[int, ...]
    resample: int = -1
    judged: bool = False
    archived: bool = False
    note: str = ""

    def seeds_of(self, label: str) -> tuple[int, ...]:
        """Seeds of a strategy: one for those that draw nothing."""
        return self.seeds[:1] if self.strategies[label].name in _SEEDLESS else self.seeds

    def digest(self, label: str, fingerprint: str) -> str:
        """Name what a search depends on besides its seed: another digest, another search.

        Parameters
        ----------
        label : str
            Of the strategy.
        fingerprint : str
            Of the problem: rows, model, folds.
        """
        strategy = self.strategies[label]
        dumped = [
            fingerprint,
            strategy.model_dump(mode="json"),
            self.config.budget.model_dump(mode="json"),
            self.config.evaluation.racing,
            self.config.prepare.model_dump(mode="json"),
            self.judged,
        ]
        return hashlib.sha256(json.dumps(dumped).encode()).hexdigest()[:12]

    def searches(self) -> Iterator[tuple[str, str, int, str, int]]:
        """Part, data set, resample, strategy and seed of every search."""
        for label in self.strategies:
            for seed in self.seeds_of(label):
                yield self.name, self.dataset, self.resample, label, seed

    @property
    def needs(self) -> tuple[str, ...]:
        """Hints that its strategies need."""
        rivals = self.strategies.values()
        names = (name for rival in rivals for name in make(rival.name, rival.params).needs)
        return tuple(dict.fromkeys(names))

    @property
    def title(self) -> str:
        """Its name for people."""
        return f"{self.name} {self.dataset}" + ("" if self.resample < 0 else f" {self.resample}")


@dataclass(frozen=True)
class Study:
    """Everything behind one page.

    Attributes
    ----------
    name : str
    parts : sequence of Part
    missing : mapping of str to str
        Data sets that the source has and that were not searched, and why.
    notes : mapping of str to str
        What the page tells of the protocol and cannot see in the rows.
    """

    name: str
    parts: Sequence[Part]
    missing: Mapping[str, str] = field(default_factory=dict)
    notes: Mapping[str, str] = field(default_factory=dict)

    def without(self, left_out: Sequence[str]) -> Study:
        """Leave parts out, named ``PART:DATASET``.

        Raises
        ------
        ConfigError
            If there is no such part.
        """
        names = {f"{part.name}:{part.dataset}" for part in self.parts}
        for name in left_out:
            if name not in names:
                raise ConfigError(
                    f"there is no part {name!r} to leave out (there are {', '.join(sorted(names))})"
                )
        kept = [part for part in self.parts if f"{part.name}:{part.dataset}" not in left_out]
        missing = {**self.missing, **dict.fromkeys(left_out, "left out")}
        return replace(self, parts=kept, missing=missing)

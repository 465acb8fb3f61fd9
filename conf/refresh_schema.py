"""The configuration of a refresh: that of a select run, and rules for the promotion."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, FiniteFloat

from conf.base import Fraction, Location, Section
from conf.schema import SelectConfig

__all__ = ["ChampionSection", "DriftSection", "RefreshConfig"]

Threshold = Annotated[FiniteFloat, Field(gt=0)]


class ChampionSection(Section):
    """The champion, and when a challenger replaces it."""

    name: Annotated[str, Field(min_length=1)] | None = None
    """Name in the model registry; null uses the name of the run"""
    metric: Annotated[str, Field(min_length=1)] | None = None
    """Metric or scorer on the test rows that decides; null uses the scorer of the search"""
    margin: Annotated[FiniteFloat, Field(ge=0)] = 0.0
    """Minimum gain of a challenger, in units of the metric"""
    confidence: Fraction = 0.95
    """Share of bootstrap resamples in which the gain must exceed the margin"""
    approve: bool = False
    """Ask before a challenger that won replaces the champion: a deployed run pauses and shows the
    comparison in a form, a command asks on the terminal"""
    approve_seconds: Annotated[int, Field(ge=1, le=82_800)] = 43_200
    """Seconds to wait for an approval; after them the champion is kept"""
    publish: Location | None = None
    """Path or fsspec URL of the published features.json; null publishes none"""
    wait_seconds: Annotated[FiniteFloat, Field(ge=0)] = 0.0
    """Seconds to wait for another refresh of the same champion; 0 fails at once"""
    on_missing: Literal["stop", "replace"] = "stop"
    """If the champion cannot be compared, as the table lacks its columns, or has other types or
    another target: stop, or replace it by the challenger"""


class DriftSection(Section):
    """Thresholds for the drift of the champion's columns."""

    psi: Threshold = 0.2
    """Threshold of the population stability index (PSI)"""
    ks: Threshold = 0.2
    """Threshold of the Kolmogorov-Smirnov distance (KS)"""
    action: Literal["warn", "stop"] = "warn"
    """Action above a threshold: log a warning, or stop before the search"""


class RefreshConfig(SelectConfig):
    """A select run whose result becomes the champion if it is better."""

    champion: ChampionSection
    """The champion, and when a challenger replaces it"""
    drift: DriftSection = DriftSection()
    """Thresholds for the drift of the champion's columns"""

    @property
    def champion_name(self) -> str:
        """Name in the model registry."""
        return self.champion.name or self.name

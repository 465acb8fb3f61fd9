"""The configuration of a refresh: that of a select run, and what becomes of its answer."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, FiniteFloat

from conf.base import Fraction, Location, Section
from conf.schema import SelectConfig

__all__ = ["ChampionSection", "DriftSection", "RefreshConfig"]

Threshold = Annotated[FiniteFloat, Field(gt=0)]


class ChampionSection(Section):
    """The model in use, and what a challenger has to do to take its place."""

    name: Annotated[str, Field(min_length=1)] | None = Field(
        default=None, description="Name in the model registry; null takes the name of the run"
    )
    metric: Annotated[str, Field(min_length=1)] | None = Field(
        default=None,
        description="Metric of the test rows that decides; null takes the scorer where it is one,"
        " else the usual one",
    )
    margin: Annotated[FiniteFloat, Field(ge=0)] = Field(
        default=0.0, description="Gain that a challenger has to exceed, in units of the metric"
    )
    confidence: Fraction = Field(
        default=0.95, description="Share of bootstrap resamples in which it has to"
    )
    publish: Location | None = Field(
        default=None,
        description="Path or fsspec URL of the features.json that others read; null publishes none",
    )
    wait_seconds: Annotated[FiniteFloat, Field(ge=0)] = Field(
        default=0.0,
        description="How long a refresh waits for another of the same champion; 0 declines at once",
    )
    on_missing: Literal["stop", "replace"] = Field(
        default="stop",
        description="When the table lacks columns that the champion needs: stop, or let the"
        " challenger take its place",
    )


class DriftSection(Section):
    """When the columns of the champion have moved too far."""

    psi: Threshold = Field(default=0.2, description="Population stability index above this")
    ks: Threshold = Field(default=0.2, description="Kolmogorov-Smirnov distance above this")
    action: Literal["warn", "stop"] = Field(
        default="warn", description="What follows: a warning in the record, or no search at all"
    )


class RefreshConfig(SelectConfig):
    """A select run whose answer becomes the champion, if it is better."""

    champion: ChampionSection = Field(description="The model in use, and how it is replaced")
    drift: DriftSection = Field(
        default=DriftSection(), description="When the columns of the champion have moved too far"
    )

    @property
    def champion_name(self) -> str:
        """Name in the model registry."""
        return self.champion.name or self.name

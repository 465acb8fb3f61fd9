"""The tracking store of a configuration, for flows and for commands that only read it."""

from __future__ import annotations

from conf.run_sections import TrackingSection
from tasks.secrets import expand
from tasks.tracking import Tracking, open_tracking

__all__ = ["tracking_as_configured"]


def tracking_as_configured(section: TrackingSection) -> Tracking:
    """Open the tracking store of a configuration; see :func:`tasks.tracking.open_tracking`."""
    artifacts = expand(section.artifacts, "address of the artifacts")
    return open_tracking(section.uri, section.experiment, artifacts)

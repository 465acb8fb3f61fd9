"""What a configuration says, handed to what takes it: the same for every flow."""

from __future__ import annotations

from typing import Any

from conf.run_sections import EvaluationSection, TrackingSection
from tasks.secrets import expand
from tasks.tracking import Tracking, open_tracking

__all__ = ["evaluation_options", "tracking_as_configured"]


def tracking_as_configured(section: TrackingSection) -> Tracking:
    """Open the tracking store of a configuration; see :func:`tasks.tracking.open_tracking`."""
    artifacts = expand(section.artifacts, "address of the artifacts")
    return open_tracking(section.uri, section.experiment, artifacts)


def evaluation_options(section: EvaluationSection) -> dict[str, Any]:
    """Options of :class:`swarm.evaluation.crossval.CrossValidation`, as a configuration has them.

    What importances are and whether subsets race is said elsewhere: to the problem, and to the
    search.
    """
    return {
        "n_jobs": section.n_jobs,
        "backend": section.backend,
        "pruning": section.pruning,
        "exact": section.exact,
        "address": section.address,
        "timeout": section.timeout_seconds,
    }

"""Honest figures of a selection, on rows no search ever saw."""

from swarm.validation.holdout import judge
from swarm.validation.judgement import Judgement

__all__ = ["Judgement", "judge"]

"""Unbiased evaluation of a selection, on held-out test rows."""

from swarm.validation.holdout import judge
from swarm.validation.judgement import Judgement

__all__ = ["Judgement", "judge"]

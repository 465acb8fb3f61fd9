"""Unbiased evaluation of a selection, on held-out test rows."""

from swarm.rows import Rows
from swarm.validation.judgement import Judgement, judge

__all__ = ["Judgement", "Rows", "judge"]

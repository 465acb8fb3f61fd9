"""Honest figures of a selection, on rows no search ever saw."""

from swarm.judgement.judge import judge
from swarm.judgement.judgement import Judgement

__all__ = ["Judgement", "judge"]

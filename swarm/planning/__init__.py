"""What a search will take, told before it starts: a rehearsal, a few timed fits, the machine."""

from swarm.planning.machine import Machine, this_machine
from swarm.planning.plan import Plan, Span, make_plan
from swarm.planning.rehearsal import Rehearsal, rehearse
from swarm.planning.timing import Timing, time_subsets

__all__ = [
    "Machine",
    "Plan",
    "Rehearsal",
    "Span",
    "Timing",
    "make_plan",
    "rehearse",
    "this_machine",
    "time_subsets",
]

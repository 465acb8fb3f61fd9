"""How many random cases the fuzz tests try: 128 by default, others by SWARM_FUZZ_CASES."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

CASES = int(os.environ.get("SWARM_FUZZ_CASES", "128"))


def failures(seeds: Sequence[int], differences: Callable[[int], list[str]]) -> list[str]:
    """Return what differs in any case, each line with the seed that repeats it."""
    return [f"seed {seed}: {line}" for seed in seeds for line in differences(seed)]

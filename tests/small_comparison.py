"""A comparison so small that it takes a few seconds."""

from __future__ import annotations

from typing import Any

from conf.load import from_yaml
from conf.schema import CompareConfig
from conf.yaml_text import render
from tests.small_run import BAYES, Bench

# Artifacts of a comparison that must be the same whatever happened to it.
SAME = ("cells.csv", "summary.csv", "ranks.csv", "tests_over_datasets.csv", "tests_over_seeds.csv")


def of(bench: Bench, **sections: Any) -> CompareConfig:
    """Configuration of three strategies with two seeds on wine; other sections replace."""
    base = bench.mapping()
    mapping = {
        "name": "small",
        "datasets": {"wine": {"data": {"source": "bundled", "name": "wine"}}},
        "strategies": {
            "multiswarm": {"params": {"n_particles": 4, "n_swarms": 2}},
            "random": {"params": {"batch_size": 4}},
            "full": {},
        },
        "seeds": 2,
        "model": BAYES,
        "folds": {"n_folds": 3},
        "budget": {"distinct": 16},
        "runner": {"kind": "threads", "workers": 2},
        "tracking": base["tracking"],
        "archive": base["archive"],
        **sections,
    }
    config = from_yaml(render(mapping), env={})
    assert isinstance(config, CompareConfig)
    return config

"""A comparison so small that it takes a few seconds."""

from __future__ import annotations

from typing import Any

from conf.load import from_yaml
from conf.schema import CompareConfig
from conf.yaml_text import render
from tests.small_run import BAYES, Bench

# Artifacts of a comparison that must be the same whatever happened to it.
SAME = ("cells.csv", "summary.csv", "ranks.csv", "tests_over_datasets.csv", "tests_over_seeds.csv")


def small(bench: Bench, **sections: Any) -> dict[str, Any]:
    """Keys of a comparison of three strategies with two seeds on wine; others replace."""
    base = bench.mapping()
    return {
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


def of(bench: Bench, **sections: Any) -> CompareConfig:
    """Configuration of a small comparison."""
    config = from_yaml(render(small(bench, **sections)), env={})
    assert isinstance(config, CompareConfig)
    return config


def file(bench: Bench, **sections: Any) -> str:
    """Path of a file of a small comparison."""
    path = bench.folder / "comparison.yaml"
    path.write_text(render(small(bench, **sections)), encoding="utf-8")
    return str(path)

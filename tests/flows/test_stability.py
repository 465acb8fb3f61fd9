"""Tests of `swarm stability`: repeated searches find planted columns."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from flows.cli import app
from swarm.errors import InputError
from tests.small_run import BAYES, Bench

PLANTED = ["p0", "p1", "p2"]
TINY = ("--seeds", "3", "--resamples", "4")


@pytest.fixture
def planted(bench: Bench) -> str:
    """Return the configuration of a search where three of nine features predict the class."""
    rng = np.random.default_rng(3)
    signal = rng.normal(size=(400, 3))
    noise = rng.normal(size=(400, 6))
    frame = pd.DataFrame(np.hstack([signal, noise]), columns=[*PLANTED, *"qrstuv"])
    frame["y"] = (signal.sum(axis=1) + rng.normal(scale=0.2, size=400) > 0).astype(int)
    frame["who"] = np.arange(400) // 4
    frame.to_csv(bench.folder / "planted.csv", index=False)
    data = {"source": "file", "path": str(bench.folder / "planted.csv"), "target": "y"}
    return bench.file(data={**data, "drop": ["who"]}, model=BAYES, budget={"epochs": 12})


def swarm(*arguments: str) -> None:
    app([str(argument) for argument in arguments], standalone_mode=False)


@pytest.mark.slow
def test_planted_features_are_core_and_the_archive_answers_the_second_time(
    prefect_server, bench, planted, capsys, narrow
):
    swarm("stability", planted, *TINY, "--json", "-q")
    result = json.loads(capsys.readouterr().out)
    classes = {row["feature"]: row["class"] for row in result["features"]}
    assert [name for name in classes if classes[name] == "core"] == PLANTED
    assert set(PLANTED) <= set(result["consensus"])
    for source, count in (("seeds", 3), ("rows", 4)):
        index = result[f"stability_over_{source}"]
        assert (index["n_subsets"], index["level"]) == (count, 0.95)
        assert index["low"] <= index["index"] <= index["high"]

    run = bench.tracking.run(result["run"])
    assert (run.info.status, run.data.tags["kind"]) == ("FINISHED", "stability")
    assert run.data.metrics["stability_rows"] == result["stability_over_rows"]["index"]
    children = bench.children(result["run"])
    assert {child.info.status for child in children} == {"FINISHED"}
    parts = [child.data.tags["part"] for child in children]
    assert sorted(parts) == ["all rows"] * 3 + [f"draw {i}" for i in range(1, 5)]
    table = bench.table(result["run"], "stability.csv")
    assert table.set_index("feature")["class"].to_dict() == classes
    searches = bench.table(result["run"], "searches.csv")
    assert searches["features"].str.contains('"p0"').sum() == 7
    assert b"<svg" in bench.artifact(result["run"], "figures/stability.svg")

    before = bench.paid_for()
    swarm("stability", planted, *TINY, "-q")
    lines = narrow()
    assert all(name in " ".join(lines) for name in PLANTED)
    assert bench.paid_for() == before


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["--seeds", "1"], "seeds"),
        (["--seeds", "0", "--resamples", "0"], "both 0"),
        (["--share", "1"], "share"),
        (["--core", "0.2", "--noise", "0.4"], "noise.*core"),
    ],
)
def test_what_cannot_be_compared_is_refused_before_anything_is_searched(
    bench, planted, given, words
):
    with pytest.raises(InputError, match=words):
        swarm("stability", planted, *given)
    assert not bench.made_anything()

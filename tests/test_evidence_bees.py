"""Claims on the page of document 004, on rows made up for it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest

from swarm.evidence import bees_page as the_page
from swarm.evidence.bees_page import bees_page
from swarm.evidence.bees_tables import accuracies, agreement, comparisons_of, summary_of
from swarm.evidence.published_bees import MULTI_LABEL, PUBLISHED, implied_runs
from swarm.validation.location import rank_sum

COLUMNS = {"emotions": 72, "yeast": 103, "scene": 294}
FACTS = {
    "versions": {"python": "3.11"},
    "machine": {"cores": 2},
    "seconds": {"free": 100.0},
    "sets": {"yeast": {"rows": 2417, "columns": 103, "labels": 14, "note": "917 rows held out"}},
}
AS_PUBLISHED = {"bee_colony": 0.0, "memetic": -0.02, "mlaco": -0.04}


def searches(
    part: str,
    strategies: Mapping[str, float],
    datasets: tuple[str, ...] = ("emotions", "yeast", "scene"),
    runs: int = 8,
    size: int | None = 12,
) -> pd.DataFrame:
    """Rows whose mean accuracy is 0.5 and what the strategy is given above it."""
    rng = np.random.default_rng(3)
    rows = []
    for dataset in datasets:
        for strategy, above in strategies.items():
            one = strategy == "full"
            for seed in range(1 if one else runs):
                chosen = COLUMNS[dataset] if one else size or int(rng.integers(5, 60))
                rows.append(
                    {
                        "part": part,
                        "dataset": dataset,
                        "resample": -1,
                        "strategy": strategy,
                        "seed": seed,
                        "cost": 0.5 - above + rng.normal(0, 0.002),
                        "size": chosen,
                        "n_available": COLUMNS[dataset],
                        "evaluations": 1 if one else 500,
                        "distinct": 1 if one else 480,
                    }
                )
    return pd.DataFrame(rows)


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the drawing, which takes most of the time, where only the text is read."""
    monkeypatch.setattr(the_page, "boxplots", lambda *_: b"")


def test_the_published_figures_are_those_of_the_document_as_it_reads_them() -> None:
    # Section 5: "statistically different from ACO in 3 out of 4 cases, and in 2 out of 4 [...] MA".
    significant = {
        other: sum(row.tests[other].p < 0.05 for row in PUBLISHED.values())
        for other in ("mlaco", "memetic")
    }
    assert significant == {"mlaco": 3, "memetic": 2}
    assert all(row.order[0] == "bee_colony" for row in PUBLISHED.values())
    for row in PUBLISHED.values():
        for other, test in row.tests.items():
            shift = row.accuracy["bee_colony"][0] - row.accuracy[other][0]
            assert test.low < shift < test.high
            assert (test.p < 0.05) == (test.low > 0)


def test_implied_runs_come_back_from_an_interval_made_of_them() -> None:
    rng = np.random.default_rng(0)
    wide = [rank_sum(rng.normal(0, 1, 30), rng.normal(0, 1, 30)) for _ in range(15)]
    width = np.mean([shift.high - shift.low for shift in wide])
    assert pytest.approx(2 * (2 * 1.96 / width) ** 2, rel=0.15) == 30
    row = PUBLISHED["scene"]
    half = (row.tests["mlaco"].high - row.tests["mlaco"].low) / 2
    runs = implied_runs(row, "mlaco")
    assert half == pytest.approx(1.96 * math.sqrt((0.0151**2 + 0.0110**2) / runs), rel=1e-4)


def test_the_tests_are_rank_sums_of_the_bees_minus_the_other_in_accuracy() -> None:
    rows = searches("quarter", AS_PUBLISHED, ("yeast",))
    table = comparisons_of(accuracies(rows)).set_index("other")
    cost = {name: group["cost"].to_numpy() for name, group in rows.groupby("strategy")}
    expected = rank_sum(1 - cost["bee_colony"], 1 - cost["mlaco"])
    row = table.loc["mlaco"]
    assert (row["p"], row["low"], row["high"]) == (expected.p, expected.low, expected.high)
    assert 0.03 < row["low"] < row["high"] < 0.05
    assert row["sign"] == 1


@pytest.mark.usefixtures("undrawn")
def test_the_page_says_that_the_order_holds_only_where_it_does() -> None:
    two = ("emotions", "scene")
    turned = {"bee_colony": 0.0, "memetic": 0.02, "mlaco": -0.04}
    rows = pd.concat(
        [searches("tenth", AS_PUBLISHED, two), searches("free", turned, two, size=None)]
    )
    text = bees_page(rows, FACTS).text
    assert "is the published one on every data set here with `tenth`." in text
    assert "with `free` on 0 of 2 data sets" in text
    assert "| `free` | MA > BCOi > ACO |" in text
    assert "| `tenth` | **BCOi > MA > ACO** |" in text
    assert "(figures/bees_tenth.svg)\n\nPart `tenth`, whose order agrees best" in text
    against_it = bees_page(searches("free", turned, two, size=None), FACTS).text
    assert "No size gives the published order" in against_it
    assert "BCOi has the highest mean of the three in 0 of 2 pairs" in against_it


def test_neighbours_that_no_test_tells_apart_are_marked_so() -> None:
    close = AS_PUBLISHED | {"memetic": -0.0001}
    runs = accuracies(searches("tenth", close, ("emotions",)))
    assert " ≥ " in agreement(runs, ["tenth"], ["emotions"])["order"][0]


@pytest.mark.usefixtures("undrawn")
def test_the_page_says_whether_a_single_label_strategy_beats_the_bees() -> None:
    swarms = {"bpso": -0.03, "genetic": 0.03, "random": -0.05, "full": -0.01}
    better = bees_page(searches("half", AS_PUBLISHED | swarms, ("yeast",)), FACTS).text
    assert "A single-label strategy beats BCOi significantly in 1 of 1 pairs" in better
    assert "- with `half` on yeast: `genetic`\n" in better
    assert "with `bpso` and `genetic`, BCOi is better in 1, worse in 1" in better
    assert "(`random`), BCOi is better in 1 of 1 pairs" in better
    assert "above the accuracy of all features in 1 of 1 such pairs" in better
    worse = bees_page(searches("half", AS_PUBLISHED | {"bpso": -0.03}, ("yeast",)), FACTS).text
    assert "No single-label strategy beats BCOi significantly in any of 1 pairs" in worse


@pytest.mark.usefixtures("undrawn")
def test_what_is_missing_is_said_and_the_page_is_made() -> None:
    some = searches("half", AS_PUBLISHED | {"random": -0.05}, ("emotions",), runs=3)
    some = some[(some["strategy"] != "memetic") | (some["seed"] < 1)]
    other = searches("half", {"bee_colony": 0.0}, ("yeast",), runs=2)
    text = bees_page(pd.concat([some, other]), {}).text
    assert "without a search here: birds and scene." in text
    assert "with `half` on emotions `bee_colony`, `mlaco` and `random`, 3 runs; " in text
    assert "with `half` on emotions `memetic`, 1 run" in text
    assert "No run yet: with `half` on yeast `memetic`, `mlaco` and `random`." in text
    assert "too few runs for any difference to be significant on emotions" in text
    assert "| 3 / 1 / 3 |" in text
    assert "no search yet" in bees_page(some.iloc[:0], {}).text


@pytest.mark.usefixtures("undrawn")
def test_single_label_strategies_are_not_missed_where_none_was_to_run() -> None:
    two = ("emotions", "scene")
    swarms = AS_PUBLISHED | {"bpso": -0.03, "full": -0.01}
    rows = pd.concat(
        [searches("tenth", AS_PUBLISHED, two), searches("free", swarms, two, size=None)]
    )
    text = bees_page(rows, FACTS).text
    assert "No run yet" not in text
    assert "on emotions and scene `bee_colony`, `bpso`, `memetic` and `mlaco`, 8" in text
    assert "Only the document's three strategies were run with `tenth`." in text


def test_failed_runs_are_left_out_and_equal_means_share_their_rank() -> None:
    rows = searches("half", AS_PUBLISHED, ("yeast",), runs=4)
    rows.loc[rows["strategy"] == "memetic", "cost"] = rows.loc[
        rows["strategy"] == "bee_colony", "cost"
    ].to_numpy()[::-1]
    rows.loc[(rows["strategy"] == "mlaco") & (rows["seed"] == 0), "cost"] = math.inf
    table = summary_of(rows).set_index("strategy")
    assert list(table.loc[list(MULTI_LABEL), "rank"]) == [3.0, 1.5, 1.5]
    assert list(table.loc[list(MULTI_LABEL), "runs"]) == [3, 4, 4]


@pytest.mark.usefixtures("undrawn")
def test_the_published_counts_stand_beside_those_of_the_data_here() -> None:
    text = bees_page(searches("half", AS_PUBLISHED), FACTS).text
    assert "| yeast | here | 2417 | 103 | 14 | 8 |" in text
    assert "|  | published | 2417 | 130 | 14 | 30 | 0.1586 (0.0037) |" in text
    assert "- yeast: 917 rows held out" in text
    assert "Every subset of the three has 12 of 72 on emotions" in text


def test_figures_are_the_ones_the_page_shows_and_always_the_same() -> None:
    parts = ("tenth", "Half of it")
    rows = pd.concat([searches(part, AS_PUBLISHED, ("yeast",)) for part in parts])
    first, again = bees_page(rows, FACTS), bees_page(rows, FACTS)
    assert first.figures == again.figures
    assert first.text == again.text
    assert set(first.figures) == {"bees_tenth.svg", "bees_half_of_it.svg"}
    for name, svg in first.figures.items():
        assert first.text.count(f"(figures/{name})") == 1
        assert ElementTree.fromstring(svg).tag.endswith("svg")
        # As an image on a dark page it sees no colour of the page, so it brings its own paper.
        assert b"var(--" not in svg
        assert b'style="background:#ffffff;' in svg.split(b">")[0]

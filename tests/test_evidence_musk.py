import functools
import math
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product

import numpy as np
import pandas as pd
import pytest

from swarm.evidence import musk_page as the_page
from swarm.evidence import musk_searches
from swarm.evidence.musk_page import musk_page
from swarm.evidence.musk_tables import (
    ablation_table,
    differences,
    judged,
    main_mode,
    musk_rows,
    paired_t,
)
from swarm.evidence.published_musk import BEST_COSTS, FIGURES, POSITIVES, TEST_ROWS
from swarm.evidence.rows import COLUMNS
from swarm.validation.resampled import corrected_t

FACTS = {
    "versions": {"python": "3.12.1", "swarmselect": "0.1.0"},
    "machine": {"cores": 2, "memory_gib": 24},
    "seconds": {"random": 3600.0},
}
CONTENDERS = ("ensemble", "best_subset", "all_features", "all_features_ensemble", "random_subsets")
STRATEGIES = ("whole", "no_local_search", "no_regrouping", "no_shrink", "bernoulli_init", "random")
RUNS = [("random", "fast", seed) for seed in range(5)] + [("random", "exact", 0)]
RUNS += [("group", "fast", seed) for seed in range(5)]
# Enough where the runs are not what a claim is about.
FEW = [("random", "fast", 0), ("random", "exact", 0), ("group", "fast", 0)]


def rows(gain=0.0, runs=RUNS, n_epochs=100):
    """Figures, epochs and runs; `gain` is what selection adds to every figure of the ensemble."""
    rng = np.random.default_rng(7)
    figures, epochs, table = [], [], []
    for split, mode, seed in runs:
        level = {"random": 0.95, "group": 0.75}[split]
        for contender, metric in product(CONTENDERS, ("f1", "accuracy", "recall", "precision")):
            value = level + 0.004 * rng.normal() + gain * (contender == "ensemble")
            n = {"ensemble": 90, "best_subset": 38, "random_subsets": 120}.get(contender, 166)
            figures.append(
                (split, mode, seed, contender, metric, value, value - 0.01, value + 0.01, n)
            )
        drop = np.minimum.accumulate(0.09 - 0.0002 * np.arange(n_epochs) * rng.random(n_epochs))
        epochs += [(split, mode, seed, i + 1, cost, 40) for i, cost in enumerate(drop)]
        spent = (1600, 1500, 4000) if mode == "fast" else (1600, 1500, 7500)
        agreed = 0.91 if mode == "fast" else math.nan
        end = (agreed, 600.0, 1980, 4618, 1980)
        table.append((split, mode, seed, n_epochs, drop[-1] - 0.002, 38, 166, *spent, *end))
    names = ["split", "mode", "seed"]
    return (
        pd.DataFrame(
            figures,
            columns=[*names, "contender", "metric", "value", "low", "high", "n_features"],
        ),
        pd.DataFrame(epochs, columns=[*names, "epoch", "best_cost", "best_size"]),
        pd.DataFrame(
            table,
            columns=[
                *(*names, "epochs", "cost", "size", "n_available", "evaluations", "distinct"),
                *("fits", "proxy_correlation", "seconds", "test_rows", "n_train", "n_test"),
            ],
        ),
    )


def ablation(worse="no_local_search", by=0.01, n_seeds=3):
    rng = np.random.default_rng(3)
    table = []
    for seed in range(n_seeds):
        base = 0.065 + 0.002 * rng.normal()
        for name in STRATEGIES:
            cost = base + by * (name == worse) + 0.0004 * rng.normal()
            table.append(("ablation", "musk", name, seed, cost, 40, 640))
    columns = ["part", "dataset", "strategy", "seed", "cost", "size", "distinct"]
    return pd.DataFrame(table, columns=columns)


def history(searches):
    x = np.arange(1, 41) * 16
    parts = [
        pd.DataFrame(
            {"strategy": s.strategy, "seed": s.seed, "distinct": x, "best_cost": s.cost + 0.5 / x}
        )
        for s in searches.itertuples()
    ]
    return pd.concat(parts, ignore_index=True)


@contextmanager
def without_drawing() -> Iterator[None]:
    """Leave out the drawing, which takes most of the time, where only the text is read."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("ablation_figure", "cost_figure", "course_figure"):
            patch.setattr(musk_searches, name, lambda *_: b"")
        patch.setattr(the_page, "difference_figure", lambda *_: b"")
        yield


@pytest.fixture
def undrawn():
    with without_drawing():
        yield


def page(gain=0.0, searches=None, runs=RUNS, told=None):
    return musk_page(*rows(gain, runs), ablation() if searches is None else searches, FACTS, told)


@functools.cache
def text_with(gain=0.0):
    """Text of the page on whole rows, made once for all claims about it."""
    with without_drawing():
        return page(gain).text


def worth(text):
    return next(line for line in text.splitlines() if line.startswith("**What selection"))


def test_published_costs_are_those_the_document_prints():
    assert len(BEST_COSTS) == 100
    assert [round(BEST_COSTS[e - 1], 3) for e in (1, 10, 100)] == [0.082, 0.071, 0.064]
    assert list(BEST_COSTS) == sorted(BEST_COSTS, reverse=True)


@pytest.mark.parametrize("name", ["ensemble", "all_features"])
def test_published_figures_fit_together(name):
    found = FIGURES[name]
    hit = round(found["recall"] * POSITIVES)
    wrong = POSITIVES - hit + round(hit / found["precision"]) - hit
    assert found["accuracy"] == pytest.approx(1 - wrong / TEST_ROWS, abs=6e-4)
    assert found["f1"] == pytest.approx(2 * hit / (2 * hit + wrong), abs=6e-4)


def test_differences_are_paired_by_seed_and_judged_by_the_corrected_test():
    figures, _, runs = rows()
    shuffled = figures.sample(frac=1, random_state=1)
    pairs = differences(shuffled, "random", "fast")
    own = pairs.query("first == 'ensemble' & second == 'all_features' & metric == 'f1'")
    at = figures.query("split == 'random' & mode == 'fast' & metric == 'f1'").set_index(
        ["contender", "seed"]
    )["value"]
    expected = [at["ensemble", s] - at["all_features", s] for s in own["seed"]]
    assert own["difference"].tolist() == pytest.approx(expected)
    test = judged(own, runs).iloc[0]
    known = corrected_t(expected, 4618, 1980)
    assert (test["low"], test["p"]) == pytest.approx((known.low, known.p))


def test_one_seed_is_never_a_test(undrawn):
    figures, _, runs = rows(runs=[("random", "fast", 0)])
    tests = judged(differences(figures, "random", "fast"), runs)
    assert tests["p"].isna().all()
    assert tests["low"].isna().all()
    assert "which is no evidence" in worth(page(runs=[("random", "fast", 0)]).text)


def test_a_run_that_is_there_twice_is_refused(undrawn):
    figures, epochs, runs = rows()
    with pytest.raises(ValueError, match="duplicate"):
        musk_page(pd.concat([figures, figures]), epochs, runs, ablation(), FACTS)


@pytest.mark.parametrize(
    ("gain", "said"),
    [(0.05, "selection gains 0.0"), (-0.05, "selection loses 0.0"), (0.0, "no difference in F1")],
)
def test_what_selection_is_worth_follows_the_interval(gain, said):
    sentence = worth(text_with(gain))
    assert sentence.count(said) == 2
    assert "38 of 166 features" in sentence


def test_published_claim_that_does_not_hold_is_said_not_to():
    lines = text_with(-0.05).splitlines()
    recall = next(line for line in lines if line.startswith("| recall | +0.037"))
    assert "the other way round" in recall
    assert "holds" not in recall
    recall = next(
        line for line in text_with(0.05).splitlines() if line.startswith("| recall | +0.037")
    )
    assert recall.count("holds") == 2


def test_costs_of_fast_runs_are_named_as_those_of_the_cheaper_model():
    text = text_with()
    header = next(line for line in text.splitlines() if line.startswith("| epoch | document"))
    assert header.count("fast, cheaper model") == 2
    assert "| 100 | 0.0642 |" in text
    assert "not to be compared" in text


def test_the_leak_is_told_from_ranges_that_do_not_overlap(undrawn):
    assert "of it was the leak" in text_with()
    figures, epochs, runs = rows()
    figures.loc[figures["split"] == "group", "value"] += 0.2
    told = musk_page(figures, epochs, runs, ablation(), FACTS).text
    assert "of it was the leak" not in told


def test_ablation_pairs_by_seed():
    searches = ablation(n_seeds=5)
    table = ablation_table(searches.sample(frac=1, random_state=2)).set_index("strategy")
    wide = searches.pivot(index="seed", columns="strategy", values="cost")
    gap = wide["no_local_search"] - wide["whole"]
    assert tuple(table.loc["no_local_search", ["difference", "low", "high"]]) == pytest.approx(
        paired_t(gap)
    )
    # By known answer: mean 2, SD 1, three pairs, t = 4.3027.
    assert paired_t([1.0, 2.0, 3.0]) == pytest.approx((2.0, -0.4841, 4.4841), abs=1e-4)
    assert math.isnan(table.loc["whole", "difference"])


@pytest.mark.parametrize(
    ("by", "said"),
    [
        (0.01, "The search without local search costs more than"),
        (-0.01, "The search without local search costs less than"),
    ],
)
def test_the_part_that_matters_is_named(by, said, undrawn):
    text = page(searches=ablation(by=by), runs=FEW).text
    assert said in text
    assert "only a difference far larger than its own noise" in text


def test_nothing_matters_where_every_interval_holds_none(undrawn):
    searches = ablation()
    rng = np.random.default_rng(0)
    searches["cost"] = 0.07 + 0.002 * rng.random(len(searches))
    assert "No part can be told to matter" in page(searches=searches, runs=FEW).text


def test_unequal_budgets_are_said(undrawn):
    assert "Every search spent 640 distinct" in text_with()
    searches = ablation()
    searches.loc[0, "distinct"] = 600
    assert "not quite on equal terms" in page(searches=searches, runs=FEW).text


def test_page_is_made_from_whatever_is_there(undrawn):
    none = pd.DataFrame()
    empty = musk_page(none, none, none, none, {})
    assert "There is no run yet" in empty.text
    assert empty.figures == {}
    part = page(runs=[("random", "fast", 0), ("random", "fast", 1)])
    assert "Missing: 3 of 5 fast on the random split" in part.text
    assert "No run on this split yet" in part.text
    figures, epochs, runs = rows(n_epochs=40)
    short = musk_page(figures[figures["contender"] != "random_subsets"], epochs, runs, none, FACTS)
    assert "have less than 100" in short.text
    assert "| 50 | 0.0642 | – |" in short.text


def test_figures_are_those_the_text_refers_to_and_the_same_each_time():
    searches = ablation(n_seeds=2)
    once, again = (page(0.0, searches, FEW, history(searches)) for _ in range(2))
    assert len(once.figures) == 4
    for name in once.figures:
        assert f"(figures/{name})" in once.text
        assert b"var(--" not in once.figures[name]
    assert once.text.count("](figures/") == 4
    assert (once.text, once.figures) == (again.text, again.figures)


def test_rows_of_the_summary_have_the_columns_of_every_study():
    figures, _, runs = rows()
    found = musk_rows(figures, runs)
    assert tuple(found.columns) == COLUMNS
    assert found.groupby(["part", "strategy"]).size().to_dict() == dict.fromkeys(
        product(("group", "random"), ("full", "multiswarm")), 5
    )
    own = found.query("part == 'group' & strategy == 'multiswarm' & seed == 2").iloc[0]
    at = figures.query("split == 'group' & seed == 2 & metric == 'f1'").set_index("contender")
    assert own["test_all_ensemble"] == 1 - at.loc["all_features_ensemble", "value"]
    assert own["resample"] == 2
    full = found.query("strategy == 'full' & part == 'random'")
    assert (full["size"] == 166).all()
    assert main_mode(runs, "random") == "fast"

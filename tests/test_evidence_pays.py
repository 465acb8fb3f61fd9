"""The page on where selection pays: it says what its rows say, whichever way that is."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pandas as pd
import pytest
from statsmodels.stats.multitest import multipletests

from swarm.evidence import pays_page as the_page
from swarm.evidence.musk_words import p_value
from swarm.evidence.pays_decisions import decision_table
from swarm.evidence.pays_musk import musk_section
from swarm.evidence.pays_page import pays_page
from swarm.evidence.pays_sections import verdicts_section
from swarm.evidence.pays_study import study
from swarm.evidence.pays_tables import average, gains, holm, one_per_resample, ranks_on_test
from swarm.evidence.pays_words import between, change
from swarm.validation.resampled import corrected_t

SETS = {"wide": (200, 60), "middle": (400, 30), "long": (900, 18)}
STRATEGIES = ("multiswarm", "sffs", "random")
FACTS = {
    "versions": {"python": "3.12"},
    "machine": {"cores": 2},
    "seconds": {"nb": 60.0, "knn": 60.0},
    "sets": {name: {"rows": rows, "columns": columns} for name, (rows, columns) in SETS.items()},
}


def search_rows(
    gain: float,
    *,
    parts: tuple[str, ...] = ("nb", "knn"),
    resamples: int = 6,
    strategies: tuple[str, ...] = STRATEGIES,
    cv_gain: float = 0.05,
) -> pd.DataFrame:
    """Rows in which one subset gains `gain` on test rows, with a little noise."""
    rng = np.random.default_rng(3)
    rows: list[dict[str, Any]] = []
    for part in parts:
        for dataset, (_, columns) in SETS.items():
            for resample in range(resamples):
                start = {"part": part, "dataset": dataset, "resample": resample, "seed": resample}
                full = 0.2 + rng.normal(0, 0.01)
                spent = {"evaluations": 1, "seconds_algorithm": 0.0, "seconds_evaluation": 0.5}
                rows.append(
                    {**start, **spent, "strategy": "full", "cost": 0.2, "test_cost": full}
                    | {"size": columns, "n_available": columns, "test_ensemble": math.nan}
                    | {"test_all_ensemble": math.nan, "test_random": math.nan}
                )
                for rank, strategy in enumerate(strategies):
                    own = full - gain + 0.002 * rank + rng.normal(0, 0.002)
                    spent = {"evaluations": 90, "seconds_algorithm": 1.0 + rank}
                    rows.append(
                        {**start, **spent, "strategy": strategy, "cost": 0.2 - cv_gain}
                        | {"seconds_evaluation": 9.0, "test_cost": own, "size": columns // 3}
                        | {"n_available": columns, "test_ensemble": own - 0.01}
                        | {"test_all_ensemble": full - 0.001, "test_random": full + 0.01}
                    )
    return pd.DataFrame(rows)


def said(text: str, case: str) -> str:
    """Line of the decision table for a case."""
    return next(line for line in text.splitlines() if line.startswith(f"| {case}"))


def decisions(rows: pd.DataFrame) -> str:
    found = study(rows, FACTS)
    assert found is not None
    return decision_table(found)


@pytest.fixture
def undrawn(monkeypatch):
    """Leave out the drawing, which takes most of the time, where only the text is read."""
    for name in ("forest_figure", "size_figure"):
        monkeypatch.setattr(the_page, name, lambda *_: b"")


@pytest.fixture(scope="module")
def helping() -> Any:
    return pays_page(search_rows(0.04), FACTS)


# ---------------------------------------------------------------- what the page says


def test_where_every_subset_is_better_the_page_says_that_selection_helps(helping):
    line = said(helping.text, "Your model is Gaussian naive Bayes")
    assert "helps on 3, hurts on 0, not distinguishable on 0 of 3 data sets" in line
    assert "Selection pays: select." in line
    assert "most of it survived" in said(helping.text, "Fewer than 5")


def test_where_every_subset_is_worse_the_page_says_that_selection_hurts():
    text = decisions(search_rows(-0.04))
    line = said(text, "Your model is 5-NN")
    assert "helps on 0, hurts on 3, not distinguishable on 0 of 3 data sets" in line
    assert "Do not select for the score" in line
    assert "Selection pays" not in text
    assert "did not survive on test rows" in said(text, "20 or more")


def test_where_nothing_differs_the_page_says_so_and_that_this_is_no_proof():
    rows = search_rows(0.0, strategies=("multiswarm",))
    text = decisions(rows)
    line = said(text, "Your model is Gaussian naive Bayes")
    assert "helps on 0, hurts on 0, not distinguishable on 3 of 3 data sets" in line
    assert "Select for size, not for score" in line
    found = study(rows, FACTS)
    assert found is not None
    verdicts = verdicts_section(found)
    assert re.search(r"in the 6 undecided cells a loss of 0\.0\d\d is still", verdicts)


def test_the_strategy_that_the_page_speaks_of_has_the_best_rank_on_test_rows(helping):
    assert "`multiswarm` has the best average rank" in helping.text
    assert "of 3 strategies over 6 cells" in helping.text


def test_only_the_lowest_cost_is_bold(helping):
    row = next(
        line for line in helping.text.splitlines() if line.startswith("| long | ") and "**" in line
    )
    assert re.findall(r"\*\*([\d.]+)\*\*", row) == [min(re.findall(r"0\.\d{3}", row))]


def test_the_page_is_the_same_whatever_the_order_of_its_rows(helping):
    again = pays_page(search_rows(0.04).sample(frac=1, random_state=1), FACTS)
    assert again.text == helping.text
    assert again.figures == helping.figures
    assert all(f"](figures/{name})" in again.text for name in again.figures)


# ---------------------------------------------------------------- rows that are not there


@pytest.mark.usefixtures("undrawn")
def test_a_run_under_way_has_its_page_and_the_page_says_what_is_missing():
    rows = search_rows(0.04)
    one = (rows["part"] == "knn") & (rows["dataset"] == "long") & (rows["resample"] > 0)
    none = (rows["part"] == "knn") & (rows["dataset"] == "wide")
    few = (rows["part"] == "nb") & (rows["strategy"] == "sffs") & (rows["resample"] > 3)
    text = pays_page(rows[~one & ~none & ~(few & (rows["dataset"] == "wide"))], FACTS).text
    assert "5-NN on standardised features: no searches on wide." in text
    assert "5-NN on standardised features, long: 1 of 6 resamples for all." in text
    assert "Gaussian naive Bayes, wide: 4 of 6 resamples for `sffs`." in text
    assert "LightGBM: no searches." in text
    assert "0 of 1 data set (1 more not tested yet)" in said(text, "Your model is 5-NN")


def test_without_searches_the_page_says_that_there_are_none():
    rows = search_rows(0.04)
    for nothing in (rows.iloc[:0], rows[rows["strategy"] == "full"], rows.assign(resample=-1)):
        page = pays_page(nothing, FACTS)
        assert "There are no searches yet" in page.text
        assert not page.figures


@pytest.mark.usefixtures("undrawn")
def test_sets_without_facts_and_strategies_without_ensembles_still_have_a_page():
    rows = search_rows(0.04, parts=("other",)).assign(
        test_ensemble=math.nan, test_all_ensemble=math.nan, test_random=math.nan
    )
    page = pays_page(rows, {})
    assert "helps on 3" in said(page.text, "Your model is other")
    assert "nan" not in page.text


def test_a_missing_column_is_named():
    with pytest.raises(ValueError, match="column 'test_cost'"):
        pays_page(search_rows(0.04).drop(columns="test_cost"), FACTS)


# ---------------------------------------------------------------- the numbers behind it


def test_a_gain_is_the_paired_difference_under_the_corrected_test():
    rows = search_rows(0.01)
    found = gains(one_per_resample(rows), FACTS).set_index(
        ["part", "dataset", "strategy", "contrast"]
    )
    here = rows[(rows["part"] == "nb") & (rows["dataset"] == "wide")]
    costs = here.pivot(index="resample", columns="strategy", values="test_cost")
    test = corrected_t((costs["full"] - costs["sffs"]).to_numpy(), 140, 60)
    row = found.loc[("nb", "wide", "sffs", "subset")]
    assert row[["gain", "low", "high", "p"]].tolist() == pytest.approx(
        [test.mean, test.low, test.high, test.p]
    )
    own = here[here["strategy"] == "sffs"]
    expected = (own["test_random"] - own["test_ensemble"]).mean()
    assert found.loc[("nb", "wide", "sffs", "ensemble_over_random"), "gain"] == pytest.approx(
        expected
    )


@pytest.mark.parametrize("p", [[0.03], [0.04, 0.001, 0.02, 0.9, 0.02, 0.0, 0.02, 1.0]])
def test_holm_is_that_of_statsmodels(p):
    assert holm(np.array(p)) == pytest.approx(multipletests(p, method="holm")[1])


def test_ranks_leave_out_the_cells_that_some_strategy_has_fewer_resamples_of():
    rows = search_rows(0.04, parts=("nb",))
    # On this cell random search is best by far, but for one resample only.
    lucky = (rows["dataset"] == "long") & (rows["strategy"] == "random")
    rows.loc[lucky, "test_cost"] = 0.0
    ranks, cells = ranks_on_test(average(one_per_resample(rows[~lucky | (rows["resample"] == 0)])))
    assert cells == 2
    assert ranks.index[0] == "multiswarm"


def musk_rows(gain: float, splits: int = 6) -> pd.DataFrame:
    rows = search_rows(gain, parts=("group",), strategies=("multiswarm",), resamples=splits)
    return rows[rows["dataset"] == "wide"].assign(dataset="musk")


def test_musk_is_tested_on_the_paired_differences_of_its_splits():
    rows = musk_rows(0.004)
    own = rows[rows["strategy"] == "multiswarm"].set_index("resample")
    full = rows[rows["strategy"] == "full"].set_index("resample")["test_cost"]
    text = musk_section(rows.sample(frac=1, random_state=0))
    for rival, judged, names in (
        (full, "test_cost", "best subset of `multiswarm` | all features"),
        (own["test_all_ensemble"], "test_ensemble", "the same vote of all features"),
        (own["test_random"], "test_ensemble", "the same vote of random subsets"),
    ):
        test = corrected_t((rival - own[judged]).to_numpy(), 0.7, 0.3)
        told = f"{names} | 6 | {change(test.mean)} | {between(test.low, test.high)} |"
        assert f"{told} {p_value(test.p)} |" in text


@pytest.mark.parametrize(
    ("gain", "told"),
    [(0.04, "is better than"), (-0.04, "is worse than"), (0.0, "cannot be told from")],
)
def test_musk_says_what_its_test_says(gain, told):
    text = musk_section(musk_rows(gain))
    start = "- With whole molecules held out, the best subset of `multiswarm`"
    assert f"{start} {told} all features: mean gain" in text


def test_musk_with_one_split_has_no_test():
    text = musk_section(musk_rows(0.04, splits=1))
    assert "all features on 1 split only (gain +0.0" in text
    assert text.count("no test can be made") == 3
    assert " p = " not in text
    assert "t-test" not in text
    assert "is better than" not in text


def test_musk_stands_on_the_page_before_there_are_other_searches():
    rows = search_rows(0.04, parts=("nb",))
    musk = musk_rows(0.04)
    assert musk_section(musk) in pays_page(rows[rows["strategy"] == "full"], FACTS, musk).text

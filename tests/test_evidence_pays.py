"""The page on where selection pays: it says what its rows say, whichever way that is."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pandas as pd
import pytest
from statsmodels.stats.multitest import multipletests

from swarm.evidence.pays_decisions import decision_table
from swarm.evidence.pays_musk import musk_section
from swarm.evidence.pays_page import pays_page
from swarm.evidence.pays_sections import verdicts_section
from swarm.evidence.pays_study import study
from swarm.evidence.pays_tables import average, gains, holm, one_per_resample, ranks_on_test
from swarm.statistics.resampled import corrected_t

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


@pytest.mark.parametrize(
    "p", [[0.03], [0.04, 0.001, 0.03, 0.9], [0.02, 0.02, 0.02], [0.0, 1.0, 0.5]]
)
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


def test_musk_counts_its_seeds_and_claims_no_test():
    rows = search_rows(0.04, parts=("nb",), strategies=("multiswarm",))
    musk = rows[rows["dataset"] == "wide"].assign(part="group", dataset="musk_v2")
    text = musk_section(musk)
    assert "`multiswarm` was better in 6 and worse in 0 of 6 searches than all features" in text
    assert "there is no test" in text
    with_musk = pays_page(rows[rows["strategy"] == "full"], FACTS, musk).text
    assert text in with_musk

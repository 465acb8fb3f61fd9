"""The page of document 002: its printed figures, our tables in their form, and what it claims."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator

import numpy as np
import pandas as pd
import pytest

from swarm.evidence import two_d_page as the_page
from swarm.evidence.page import Page
from swarm.evidence.published import ALGORITHMS, DATASETS, SIGNS, TABLES, published, shown, wide
from swarm.evidence.published_checks import contradictions
from swarm.evidence.two_d_caveats import caveats_section
from swarm.evidence.two_d_claims import agreement, claims, sentence
from swarm.evidence.two_d_nested import gains_of, survival
from swarm.evidence.two_d_page import two_d_page
from swarm.evidence.two_d_tables import ranks, sign, tables_of
from swarm.validation.resampled import corrected_t
from tests.two_d_rows import FACTS, STRATEGIES, rows_of


@pytest.fixture(scope="module", autouse=True)
def checked_once() -> Iterator[None]:
    """Check the printed tables, which no row of ours changes, for the first page only."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(the_page, "contradictions", functools.cache(contradictions))
        yield


@pytest.fixture(scope="module")
def rows() -> pd.DataFrame:
    small = ("wine", "zoo", "wdbc", "my_own")
    parts = [
        rows_of("nb", small, seeds=4),
        rows_of("knn", small[:2], seeds=2, seed=1),
        rows_of("nested", small[:2], seeds=3),
    ]
    return pd.concat(parts, ignore_index=True)


@pytest.fixture(scope="module")
def page(rows: pd.DataFrame) -> Page:
    return two_d_page(rows, FACTS)


def as_published(part: str) -> pd.DataFrame:
    """Rows whose figures are the printed ones."""
    error, size, time = (TABLES[part, kind] for kind in ("error", "size", "time"))
    everything, available = wide(1, f"error_{part}")["all"], wide(1, "features")["all"]
    common = {"part": part, "seed": 0, "resample": -1, "distinct": 1}
    found = []
    for data in DATASETS:
        whole = {"dataset": data, "n_available": available[data], **common}
        full = {"strategy": "full", "cost": everything[data], "size": available[data]}
        found.append(whole | full)
        for name in ALGORITHMS:
            timed = name in wide(time, "t1")
            found.append(
                whole
                | {
                    "strategy": name,
                    "cost": wide(error, "mean").loc[data, name],
                    "size": wide(size, "size").loc[data, name],
                    "seconds_algorithm": wide(time, "t1").loc[data, name] if timed else 0,
                    "seconds_evaluation": wide(time, "t2").loc[data, name] if timed else 0,
                }
            )
    return pd.DataFrame(found)


def test_every_table_is_whole_and_reads_as_printed() -> None:
    figures = published()
    assert not figures.duplicated(["table", "dataset", "algorithm", "quantity"]).any()
    for table in (3, 4, 6, 7):
        assert list(shown(table, "rank").columns) == list(ALGORITHMS)
        assert list(shown(table, "rank").index) == list(DATASETS)
    assert shown(3, "mean").loc["wine", "genetic"] == "0.2259"
    assert shown(4, "improvement").loc["lsvt", "genetic"] == "-70.5"
    assert shown(7, "size").loc["secom", "two_d"] == "224.88"
    assert shown(9, "t").loc["secom", "bpso"] == "5983.16"
    assert shown(SIGNS, "sign_knn").loc["sonar", "bpso"] == "-"
    assert set(published().query("table == 5")["value"]) == {"+", "-", "=", "?"}


def test_the_contradictions_of_the_document_are_found_and_no_others() -> None:
    found = contradictions()
    assert len(found) == 14
    assert (
        "Table 6, Libras: the reductions follow from 92 features, not from the 90 of Table 1"
        in (found)
    )
    # Averages, ranks and times agree: what is wrong is Table 5, and reductions on two data sets.
    assert all(re.match(r"Table 5|Table [67], (Lung Cancer|Libras)", place) for place in found)


@pytest.mark.parametrize("part", ["nb", "knn"])
def test_on_the_printed_figures_the_document_agrees_with_itself(part: str) -> None:
    tables = tables_of(as_published(part))
    assert agreement(tables, part, "error").rho > 0.97
    assert agreement(tables, part, "size").rho > 0.97
    printed = wide(TABLES[part, "error"], "improvement")
    # The errors are printed with four digits, which on Ozone is 0.07 % of all features' error.
    assert np.abs(tables.improvement - printed).to_numpy().max() < 0.2
    told = {claim.text: claim for claim in claims(tables, part)}
    tested = [claim for claim in told.values() if claim.holds is not None]
    assert len(tested) == 8
    assert all(claim.holds for claim in tested)
    smallest = told["2D-UPSO has the smallest subsets on most data sets"]
    assert smallest.ours == smallest.published == {"nb": "12 of 16", "knn": "10 of 16"}[part]


def test_equal_algorithms_share_the_smallest_rank() -> None:
    values = pd.DataFrame([[0.2, 0.1, 0.1 + 1e-14, 0.3], [0.2, 0.1, np.nan, 0.3]])
    assert ranks(values).loc[0].tolist() == [3, 1, 1, 4]
    assert ranks(values).loc[1].isna().all()


def test_signs_are_those_of_the_paired_t_test() -> None:
    rng = np.random.default_rng(0)
    errors = rng.random(20)
    assert sign(errors, errors + 0.1 + 0.01 * rng.random(20)) == "+"
    assert sign(errors + 0.1, errors) == "-"
    assert sign(errors, errors.copy()) == "="
    assert sign(errors, errors + 1e-3 * rng.normal(size=20)) == "?"
    assert sign(errors[:1], errors[:1] + 1) == ""


def test_pairs_are_runs_with_the_same_seed() -> None:
    rows = rows_of("nb", ("wine",), ("bpso", "two_d"), seeds=6)
    shift = 0.1 * rows["seed"]
    rows["cost"] = shift + np.where(rows["strategy"] == "two_d", 0.0, 0.001 + 1e-5 * shift)
    shuffled = rows.sample(frac=1.0, random_state=0)
    assert tables_of(shuffled).signs.loc["wine", "bpso"] == "+"
    unpaired = rows[~((rows["strategy"] == "two_d") & (rows["seed"] > 0))]
    assert tables_of(unpaired).signs.loc["wine", "bpso"] == ""


def test_the_page_shows_all_its_figures_and_no_others(rows: pd.DataFrame, page: Page) -> None:
    assert set(re.findall(r"\(figures/([^)]+)\)", page.text)) == set(page.figures)
    again = two_d_page(rows.sample(frac=1.0, random_state=0), FACTS)
    assert (again.figures, again.text) == (page.figures, page.text)
    assert "nan" not in re.sub(r"[Nn]ant?[a-z]", "", page.text)
    summary = page.tables["two_d_summary.csv"]
    assert len(summary) == len(STRATEGIES) * (4 + 2)
    assert summary[summary["dataset"] == "my_own"]["published_mean"].isna().all()


def test_each_published_figure_stands_under_ours(page: Page) -> None:
    text = page.text
    section = text[text.index("### Error (Table 3)") : text.index("### Improvement and rank (Tab")]
    wine = next(line for line in section.splitlines() if line.startswith("| Wine"))
    assert len(re.findall(r"0\.\d{4}<br>\*0\.\d{4}\*", wine)) == 8
    assert wine.endswith("<br>*0.2122* |")


def test_claims_that_hold_and_that_fail_are_told_apart(rows: pd.DataFrame, page: Page) -> None:
    first, second = "2D-UPSO is first by average rank", "BPSO is second by average rank"
    holds, fails = page.text.split("- does not hold: ")[:2]
    assert first in holds.split("- holds: ")[1]
    assert second in fails.split("\n")[0]
    assert f"{first} | rank 1 (1.7)" in page.text
    worst = rows.assign(cost=rows["cost"].where(rows["strategy"] != "two_d", 0.29))
    told = sentence({"nb": claims(tables_of(worst[worst["part"] == "nb"]), "nb")})
    assert first in told.split("- does not hold: ")[1]


def test_the_naive_bayes_of_the_document_guesses_the_largest_class(
    rows: pd.DataFrame, page: Page
) -> None:
    text = page.text
    assert "WDBC (0.3726; 212 of 569 rows are the smaller class, 0.3726)" in text
    assert "Zoo has 17 features in the document and 16 here" in text
    unknown = caveats_section({"nb": tables_of(rows[rows["part"] == "nb"])}, {})
    assert "largest class on" not in unknown


def test_incomplete_rows_make_a_page_that_says_what_is_missing(
    rows: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Drawing takes most of the time, and only the text is read.
    for name in ("agreement_figure", "gain_figure", "rank_figure"):
        monkeypatch.setattr(the_page, name, lambda *_: b"")
    cut = rows[(rows["part"] == "nb") & (rows["strategy"] != "erfs")]
    cut = cut[~((cut["dataset"] == "wine") & (cut["strategy"] == "bpso"))]
    text = two_d_page(cut, FACTS).text
    assert "naive Bayes: no runs of ErFS." in text
    assert "naive Bayes: not every algorithm has runs on Wine; unranked there." in text
    assert "5-NN: no searches yet." in text
    assert "There are no searches on resamples yet." in text
    alone = two_d_page(rows_of("knn", ("zoo",), ("two_d",), seeds=1), {})
    assert "| Zoo | 1 |" in alone.text
    assert "There are no searches yet." in two_d_page(rows.iloc[:0], {}).text


def test_gains_are_judged_by_the_corrected_test_on_paired_resamples() -> None:
    rows = rows_of("nested", ("wine",), ("bpso",), seeds=10)
    gains = gains_of(rows.sample(frac=1.0, random_state=0))
    test = rows.pivot(index="resample", columns="strategy", values="test_cost")
    told = corrected_t((test["full"] - test["bpso"]).to_numpy(), 0.7, 0.3)
    assert gains[["test_gain", "low", "high", "p"]].iloc[0].tolist() == pytest.approx(
        [told.mean, told.low, told.high, told.p]
    )
    assert gains["resamples"].tolist() == [10]


def test_what_is_left_of_the_gain_is_computed() -> None:
    rows = rows_of("nested", ("wine", "sonar"), ("bpso", "two_d"), seeds=8)
    searched = rows["strategy"] != "full"
    kept = rows.assign(test_cost=rows["cost"].where(~searched, 0.3 - (0.3 - rows["cost"]) / 2))
    told = survival(gains_of(kept))
    assert ", 50 % is left on the test rows" in told
    assert "told from none on 4 of 4 pairs" in told
    lost = rows.assign(test_cost=0.3)
    told = survival(gains_of(lost))
    assert ", 0 % is left" in told
    assert "told from none on 0 of 4 pairs" in told

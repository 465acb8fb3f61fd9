"""Numbered findings: each kind is found where it is, and nowhere else."""

from __future__ import annotations

import json
import tracemalloc
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris, load_wine
from sklearn.naive_bayes import GaussianNB

from flows.cli_options import with_mute
from flows.progress import tell
from flows.select import select
from swarm import SubsetSelector
from swarm.errors import ConfigError
from swarm.findings import KINDS, Finding, codes_of, found, unmuted
from swarm.findings.columns import (
    date_format,
    duplicate_columns,
    group_columns,
    id_columns,
    signed_number,
)
from swarm.findings.leaks import leak_columns
from swarm.findings.outcome import search_findings
from swarm.findings.rows import repeated_rows
from swarm.findings.table import column_findings, target_findings
from swarm.problem.hints import Hints
from swarm.problem.problem import Problem
from swarm.problem.scoring import scorer_names
from swarm.report import render
from swarm.report.serialization import report_of, report_text
from swarm.search.budget import Budget
from swarm.search.plan import SearchPlan
from swarm.search.runner import FinishedSearch, run_search
from swarm.storage.archive import Archive
from swarm.strategies.catalogue import make
from swarm.validation.judgement import Evidence
from tests.small_report import plain_report
from tests.small_run import BAYES, OTHERS, Bench, table

N = 300
RNG = np.random.default_rng(3)
TARGET = (RNG.random(N) < 0.5).astype(int)
NOISE = {f"n{i}": RNG.normal(size=N) for i in range(4)}
WORDS = [" ".join(RNG.choice(list("abcdefghij"), 5)) for _ in range(N)]

# A column for each code that is about columns.
ODD: dict[str, Any] = {
    "SWM106": {"patient_id": RNG.integers(0, 60, N)},
    "SWM111": {"order": np.arange(N)[::-1] * 7},
    "SWM112": {"country": np.full(N, 3.5)},
    "SWM113": {"again": NOISE["n1"].copy()},
    "SWM114": {"refund": np.where(TARGET == 1, RNG.normal(9, 1, N), np.nan)},
    "SWM115": {"comment": pd.Categorical(WORDS)},
    "SWM120": {"rate": pd.Categorical([f"{x:,}%" for x in RNG.integers(900, 1100, N)])},
    "SWM116": {"day": pd.Categorical(pd.date_range("2020-01-31", periods=N).strftime("%d.%m.%Y"))},
}


def codes(findings: list[Finding]) -> list[str]:
    return [each.code for each in findings]


@pytest.mark.parametrize("code", ODD)
def test_an_odd_column_is_found_by_its_code_and_named(code: str) -> None:
    features = pd.DataFrame({**NOISE, **ODD[code]})
    (finding,) = column_findings(features, TARGET, "binary")
    assert finding.code == code
    assert list(finding.columns) == list(ODD[code])
    assert repr(next(iter(ODD[code]))) in finding.text


def test_ordinary_tables_have_no_findings() -> None:
    for load, task in (
        (load_breast_cancer, "binary"),
        (load_wine, "multiclass"),
        (load_iris, "multiclass"),
        (load_diabetes, "regression"),
    ):
        X, y = load(return_X_y=True, as_frame=True)
        assert column_findings(X, y.to_numpy(), task) == []


def test_copies_of_rows_are_counted_whatever_their_index_and_identifier() -> None:
    """As oversampling before the search makes them, with a new identifier each."""
    rows = np.r_[np.arange(N), np.flatnonzero(TARGET)[:40]]
    features = pd.DataFrame(NOISE).iloc[rows].assign(number=np.arange(len(rows)))
    named = column_findings(features, TARGET[rows], "binary")
    assert codes(named) == ["SWM111", "SWM118"]
    assert "40 of 340 training rows" in named[1].text
    # Copies that share a group are on one side of every division.
    assert codes(column_findings(features, TARGET[rows], "binary", grouped=True)) == ["SWM111"]


def test_rows_that_are_equal_by_chance_or_in_a_part_are_no_copies() -> None:
    counts = pd.DataFrame(RNG.integers(0, 3, (N, 4)))
    assert not repeated_rows(counts, TARGET).any()
    wide = pd.DataFrame(np.zeros((N, 300))).assign(last=NOISE["n0"])
    assert not repeated_rows(wide, TARGET).any()
    twice = pd.concat([wide, wide.head(3)])
    copies = repeated_rows(twice, np.r_[TARGET, TARGET[:3]])
    assert np.flatnonzero(copies).tolist() == [N, N + 1, N + 2]
    assert not repeated_rows(twice, np.r_[TARGET, 1 - TARGET[:3]]).any()


def test_identifiers_are_told_from_whole_numbers_that_happen_to_differ() -> None:
    incomes = RNG.permutation(100_000)[:N]
    frame = pd.DataFrame({"income": incomes, "customer_no": incomes, "share": RNG.random(N)})
    assert id_columns(frame) == ["customer_no"]
    assert id_columns(frame.head(40)) == []
    # Beyond the precision of floats.
    numbers = 2**60 + np.arange(N)
    frame = pd.DataFrame({"a": numbers, "b": numbers + 1})
    assert id_columns(frame) == ["a", "b"]
    assert duplicate_columns(frame) == []
    amounts = pd.DataFrame({"amount": [f"{i * 13:,}.50" for i in range(N)]})
    assert id_columns(amounts) == []


def test_columns_of_any_type_are_looked_at() -> None:
    half = N // 2
    frame = pd.DataFrame(
        {
            "lists": [[1], [2]] * half,
            "gaps": pd.array([1, None] * half, dtype="Int64"),
            "order": pd.array(range(N), dtype="Int64"),
            "sparse": pd.arrays.SparseArray([0, 1] * half),
            "moment": pd.date_range("2020", periods=N),
            "words": pd.array(["x", "y"] * half, dtype="string"),
            "mixed": [1, "a"] * half,
            7: [True, False] * half,
        }
    )
    told = column_findings(frame, TARGET, "binary")
    assert [(each.code, each.columns) for each in told] == [("SWM111", ("order",))]


def test_equal_columns_are_equal_with_their_gaps_and_found_without_a_copy_of_the_table() -> None:
    gaps = np.where(np.arange(N) % 3 == 0, np.nan, NOISE["n0"])
    frame = pd.DataFrame({"x": gaps, "y": NOISE["n0"], "z": gaps.copy(), "c": 1.0, "d": 1.0})
    assert duplicate_columns(frame) == [("z", "x")]
    long = pd.DataFrame(RNG.random((200_000, 64), dtype=np.float32)).add_prefix("x")
    long["again"] = long["x3"]
    tracemalloc.start()
    assert duplicate_columns(long) == [("again", "x3")]
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < long.to_numpy().nbytes


def test_a_date_has_the_first_format_that_all_its_values_fit() -> None:
    column = pd.Series(["03/04/2024", "31/01/2024", None])
    assert date_format(column) == "%d/%m/%Y"
    assert date_format(column.replace("31/01/2024", "01/31/2024")) == "%m/%d/%Y"
    assert date_format(column.replace("31/01/2024", "soon")) is None


def test_a_leak_is_found_in_whatever_form_it_has() -> None:
    classes = np.repeat(["a", "b", "c"], N // 3)
    numbers = RNG.normal(size=N)
    for target, task, leak in (
        (TARGET, "binary", np.abs(TARGET - 0.5 + RNG.normal(scale=0.01, size=N)) * TARGET),
        (classes, "multiclass", pd.Categorical(np.char.upper(classes))),
        (numbers, "regression", np.exp(numbers)),
    ):
        features = pd.DataFrame({**NOISE, "leak": leak})
        assert [each.column for each in leak_columns(features, target, task)] == ["leak"]


def test_a_rare_class_is_hidden_from_scorers_that_count_rows_only() -> None:
    rare = np.arange(N) < 9
    for scoring in ("accuracy", "f1_micro", "recall_weighted"):
        (finding,) = target_findings(rare, "binary", scoring)
        assert finding.code == "SWM004"
        assert "3.0% of the training rows (9 of 300)" in finding.text
        assert "roc_auc" in finding.remedy
        (several,) = target_findings(rare + (np.arange(N) > 150) * 2, "multiclass", scoring)
        named = several.remedy.replace(",", " ").split()
        scorers = [name for name in scorer_names() if name in named]
        assert scorers == ["balanced_accuracy", "f1_macro"]
    assert target_findings(rare, "binary", "roc_auc") == []
    assert target_findings(np.arange(N) < 90, "binary", "accuracy") == []


def test_labels_that_differ_by_blanks_are_named_and_no_others() -> None:
    labels = RNG.choice(["yes", "yes ", "no"], N)
    (finding,) = target_findings(labels, "multiclass", "balanced_accuracy")
    assert finding.code == "SWM119"
    assert "'yes', 'yes '" in finding.text
    assert target_findings(np.char.strip(labels), "binary", "accuracy", "yes") == []


def test_numbers_with_signs_are_told_from_codes_words_and_identifiers() -> None:
    for values in (["12%", "3"], ["1,200", "950"], ["$1,200.50"], ["1 200"], ["-1'200"]):
        assert signed_number(pd.Series(values)) == values[0]
    for values in (["00123", "004"], ["12%", "high"], ["A,B"], ["1.2.3%"], ["", " "], [None]):
        assert signed_number(pd.Series(values, dtype=object)) is None


def test_the_positive_class_is_named_unless_it_is_chosen_or_plain() -> None:
    names = np.where(np.arange(len(TARGET)) % 3 == 0, "churned", "loyal")
    (finding,) = target_findings(names, "binary", "roc_auc")
    assert (finding.code, finding.severity) == ("SWM003", "note")
    assert "'churned' counts as positive, the rarer one" in finding.text
    assert target_findings(names, "binary", "roc_auc", "churned") == []
    assert target_findings(TARGET, "binary", "roc_auc") == []
    (numbered,) = target_findings(np.where(TARGET == 1, 2, 1), "binary", "roc_auc")
    assert "class 1 counts as positive, as the label 1, and 2 as negative" in numbered.text


def test_groups_have_names_of_groups_and_repeat_their_values() -> None:
    ids = RNG.integers(0, 60, N)
    frame = pd.DataFrame({"patient_id": ids, "age": ids, "userId": np.arange(N), "valid": ids})
    assert group_columns(frame) == ["patient_id"]


def test_every_code_keeps_its_meaning_and_has_its_entry() -> None:
    page = (Path(__file__).parents[1] / "docs" / "findings.md").read_text(encoding="utf-8")
    for code, kind in KINDS.items():
        assert f"\n## {code}\n" in page
        assert kind.title in page
        assert not kind.remedy.endswith(".")
    # Codes of earlier versions.
    assert {"SWM101", "SWM102", "SWM103", "SWM104", "SWM201", "SWM301", "SWM302"} <= set(KINDS)
    with pytest.raises(KeyError):
        found("SWM999", "nothing")


def test_a_line_is_printed_whatever_its_columns_are_called_unless_it_is_muted(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    tell([found("SWM112", "'[/red]' has a single value")])
    assert "warning: SWM112: '[/red]' has a single value" in capsys.readouterr().err
    both = [found("SWM112", "a"), found("SWM111", "b"), found("SWM111", "b")]
    assert codes_of(unmuted(both)) == "SWM111 SWM112"
    assert unmuted(both, ["SWM112"]) == (both[1],)
    assert codes_of([]) == "none"
    # The command line adds to the configuration.
    config = bench.config(mute=["SWM112"])
    assert with_mute(config, ["SWM111", "SWM112"]).mute == ["SWM112", "SWM111"]
    with pytest.raises(ConfigError, match="unknown finding 'SWM11'"):
        with_mute(config, ["SWM11"])


def finished_search(n_rows: int) -> tuple[FinishedSearch, Any, str]:
    problem = Problem.build(
        pd.DataFrame(NOISE).head(n_rows), TARGET[:n_rows], GaussianNB(), folds=3
    )
    plan = SearchPlan(problem, make("random"), Hints(), budget=Budget(epochs=2))
    return run_search(plan, Archive()), problem.target, problem.task


@pytest.mark.parametrize(("low", "doubted"), [(0.01, False), (-0.01, True)])
def test_too_few_rows_are_doubted_until_unseen_rows_show_a_gain(low: float, doubted: bool) -> None:
    asked = finished_search(100)
    unseen = Evidence("90 unseen rows", "accuracy", 0.8, 0.7, low, 0.2)
    judgement: Any = SimpleNamespace(selection=unseen)
    assert "SWM205" in codes(search_findings(*asked))
    assert ("SWM205" in codes(search_findings(*asked, judgement))) == doubted


def test_members_are_no_doubt_if_all_features_are_the_result() -> None:
    finished, target, task = finished_search(N)
    told = {True: set[str](), False: set[str]()}
    for everything in told:
        mask = np.ones(4, dtype=bool) if everything else np.arange(4) < 2
        state = replace(finished.result.state, best_mask=mask)
        other = replace(finished, result=replace(finished.result, state=state))
        told[everything] = set(codes(search_findings(other, target, task)))
    assert told[False] - told[True] == {"SWM206"}


@pytest.mark.parametrize(("margin", "missed"), [(0.0, True), (0.9, False)])
def test_a_goal_that_was_not_reached_is_a_finding(margin: float, missed: bool) -> None:
    # One column alone cannot be as good as four that are equally informative.
    features = pd.DataFrame(NOISE).add(TARGET, axis=0)
    confirm = {"goal": "size", "margin": margin, "best": 4, "repeats": 2}
    selector = SubsetSelector(GaussianNB(), epochs=2, max_size=1, confirm=confirm, cv=3)
    selector.fit(features, TARGET)
    told = {each.code: each for each in selector.findings_}
    assert ("SWM210" in told) == selector.confirmation_.missed == missed
    if missed:
        assert told["SWM210"].text.startswith("confirm={'goal': 'size'} is given, and none of ")
        assert "(confirm={'margin': ...})" in told["SWM210"].remedy


def test_a_selector_has_findings_of_its_data_and_its_result() -> None:
    features = pd.DataFrame({**NOISE, **ODD["SWM112"]})
    selector = SubsetSelector(
        GaussianNB(), epochs=3, max_size=2, confirm=True, mute=["SWM202"], cv=3
    )
    told = selector.fit(features.head(100), TARGET[:100]).findings_
    assert {"SWM112", "SWM205"} <= {each.code for each in told}
    assert "SWM202" not in codes(list(told))
    assert clone(selector).mute == ["SWM202"]
    with pytest.raises(ConfigError, match="unknown finding"):
        clone(selector).set_params(mute=["SWM2"]).fit(features, TARGET)


@pytest.mark.usefixtures("plain", "prefect_server")
def test_a_run_prints_logs_and_keeps_its_findings(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    frame = table().assign(x8=7.0, when=np.arange(120))
    frame.to_csv(bench.folder / "table.csv", index=False)
    data = {"time": "when", "drop": [name for name in OTHERS if name != "when"]}
    config = bench.config(model=BAYES, data=data, budget={"epochs": 2}, mute=["SWM205"])
    outcome = select(config, None, 1)
    told = json.loads(bench.artifact(outcome.run_id, "findings.json"))
    listed = [each["code"] for each in told["findings"]]
    assert {"SWM107", "SWM112"} <= set(listed)
    assert "SWM205" not in listed
    assert told["muted"] == ["SWM205"]
    (run,) = bench.runs()
    assert run.data.tags["findings"] == " ".join(sorted(set(listed)))
    assert "warning: SWM112: 'x8' has a single value in all 84" in capsys.readouterr().err
    assert [str(each) for each in outcome.findings if each.severity != "note"] == list(
        outcome.warnings
    )


def test_the_report_lists_findings_with_what_to_do() -> None:
    told = [found("SWM114", "'<b>' alone predicts the target"), found("SWM207", "at a bound")]
    data = replace(plain_report(), findings=[each.as_dict() for each in told])
    page = render(data)
    assert render(report_of(report_text(data))) == page
    assert "&#39;&lt;b&gt;&#39; alone predicts the target." in page
    assert "Check when its values are known" in page
    assert 'id="findings"' not in render(plain_report())

"""Tests of numbered findings: each is reported where it applies, and nowhere else."""

from __future__ import annotations

import warnings
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris, load_wine
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier

from flows.cli.options import with_mute
from flows.display.terminal import print_findings, say
from swarm import SubsetSelector
from swarm.errors import ConfigError
from swarm.findings import KINDS, Finding, codes_of, make_finding, unmuted
from swarm.findings.columns import date_format, same_columns, sentinels, timestamps
from swarm.findings.groups import group_columns
from swarm.findings.leaks import leak_columns
from swarm.findings.outcome import dependence_findings, search_findings
from swarm.findings.rows import hash_rows, repeated_rows
from swarm.findings.table import column_findings, target_findings
from swarm.problem.problem import Problem
from swarm.problem.scoring import scorer_names
from swarm.problem.space import SearchSpace
from swarm.search.budget import Budget
from swarm.search.result import SearchResult
from swarm.search.runner import run
from swarm.search.search import Search
from swarm.storage.archive import Archive
from swarm.strategies.catalogue import make
from swarm.validation.drop_column import FeatureLosses, Indispensable
from swarm.validation.verdict import Verdict
from tests.small_run import Bench

N = 300
RNG = np.random.default_rng(3)
TARGET = (RNG.random(N) < 0.5).astype(int)
NOISE = {f"n{i}": RNG.normal(size=N) for i in range(4)}
WORDS = [" ".join(RNG.choice(list("abcdefghij"), 5)) for _ in range(N)]

# Columns that are odd by themselves, with their codes.
ODD: list[tuple[str, dict[str, Any]]] = [
    ("SWM106", {"patient_id": RNG.integers(0, 60, N)}),
    ("SWM111", {"order": np.arange(N)[::-1] * 7}),
    ("SWM112", {"country": np.full(N, 3.5)}),
    ("SWM113", {"again": NOISE["n1"].copy()}),
    ("SWM114", {"refund": np.where(TARGET == 1, RNG.normal(9, 1, N), np.nan)}),
    ("SWM115", {"comment": pd.Categorical(WORDS)}),
    ("SWM121", {"weight": np.where(RNG.random(N) < 0.1, -99.0, RNG.normal(70, 9, N))}),
    ("SWM115", {"rate": pd.Categorical([f"{x:,}%" for x in RNG.integers(900, 1100, N)])}),
    (
        "SWM115",
        {"day": pd.Categorical(pd.date_range("2020-01-31", periods=N).strftime("%d.%m.%Y"))},
    ),
]


def codes(findings: list[Finding]) -> list[str]:
    return [finding.code for finding in findings]


@pytest.mark.parametrize(("code", "odd"), ODD)
def test_an_odd_column_is_found_by_its_code_and_named(code: str, odd: dict[str, Any]) -> None:
    features = pd.DataFrame({**NOISE, **odd})
    (finding,) = column_findings(features, TARGET, "binary")
    assert finding.code == code
    assert list(finding.columns) == list(odd)
    assert repr(next(iter(odd))) in finding.text


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
    """Oversampling before the search makes such copies, each with a new identifier."""
    rows = np.r_[np.arange(N), np.flatnonzero(TARGET)[:40]]
    features = pd.DataFrame(NOISE).iloc[rows].assign(number=np.arange(len(rows)))
    findings = column_findings(features, TARGET[rows], "binary")
    assert codes(findings) == ["SWM111", "SWM118"]
    assert "40 of 340" in findings[1].text
    # Copies that share a group are on the same side of every division.
    assert codes(column_findings(features, TARGET[rows], "binary", groups=pd.Series(rows))) == [
        "SWM111"
    ]


def test_rows_of_a_wide_table_that_differ_in_its_last_column_are_no_copies() -> None:
    binary = pd.DataFrame(np.random.default_rng(0).integers(0, 2, (60, 1500)))
    twins = pd.concat([binary, binary.iloc[:2]], ignore_index=True)
    twins.insert(0, "measured", np.r_[np.arange(60), [0, 1]] + 0.5)
    twins.iloc[60, -1] = 1 - twins.iloc[60, -1]
    repeated = repeated_rows(twins, np.zeros(len(twins)))
    assert np.flatnonzero(repeated).tolist() == [61]


def test_rows_of_equal_numbers_have_equal_hashes_whatever_their_types() -> None:
    numbers = pd.DataFrame({"a": [0, 1, 2], "b": [1.5, np.nan, -0.0]})
    nullable = pd.DataFrame(
        {"a": pd.array([0, 1, 2], dtype="Int64"), "b": pd.array([1.5, None, 0.0], dtype="Float64")}
    )
    assert hash_rows(numbers).tolist() == hash_rows(nullable).tolist()
    assert len(set(hash_rows(numbers).tolist())) == 3


def test_equal_columns_are_equal_with_their_gaps() -> None:
    gaps = np.where(np.arange(N) % 3 == 0, np.nan, NOISE["n0"])
    frame = pd.DataFrame({"x": gaps, "y": NOISE["n0"], "z": gaps.copy(), "c": 1.0, "d": 1.0})
    assert same_columns(frame) == {"z": "equal to 'x'", "d": "equal to 'c'"}
    # Columns of other types are equal by their values.
    counts = pd.Series(np.arange(N) % 7)
    typed = pd.DataFrame(
        {"a": counts.astype("int64"), "b": counts.astype(float), "c": counts.astype("int8")}
    )
    assert same_columns(typed) == {"b": "equal to 'a'", "c": "equal to 'a'"}


@pytest.mark.parametrize(
    "form",
    [
        "%Y-%m-%dT%H:%M:%S+01:00",
        "%Y-%m-%d %H:%M:%S.123",
        "%m/%d/%Y %I:%M:%S %p",
        "%d-%b-%y",
        "%Y-%m",
        "%a, %d %b %Y %H:%M:%S GMT",
        " %d.%m.%y",
    ],
)
def test_dates_are_recognised_in_the_forms_that_people_and_programs_write(form: str) -> None:
    moments = pd.date_range("2023-03-20", periods=N, freq="31h17min")
    texts = pd.Series(moments.strftime(form))
    date_form = date_format(texts)
    assert date_form is not None
    assert timestamps(texts, date_form).is_monotonic_increasing


def test_codes_versions_numbers_and_words_are_no_dates() -> None:
    texts = "1.2.3 11.8.7 1.2.13|01234 20240131|2024 2023|12-34 3-4|10/12 3/4|21807-1090 01234-5678"
    texts += "|4011-02 9999-11|may march|10:30 11:45|1,200 3,400|192.168.1.1 10.0.0.1|MA-2024-01"
    for values in texts.split("|"):
        assert date_format(pd.Series(values.split())) is None, values


def test_values_that_only_look_like_marks_of_missing_ones_are_left_alone() -> None:
    often = RNG.random(N) < 0.1
    uniform = RNG.random(N)
    ordinary = pd.DataFrame(
        {
            "zeros": np.where(often, 0.0, 1000 + uniform),
            "age": np.minimum(RNG.integers(0, 110, N), 99),
            "capped": np.clip(RNG.normal(size=N), -1, 1),
            "once": np.where(np.arange(N) == 3, -999, uniform),
            "flag": np.where(often, 999, 0),
            "both": np.where(often, -99, RNG.normal(0, 500, N)),
        }
    )
    assert sentinels(ordinary) == {}


def test_a_leak_is_found_in_whatever_form_it_has() -> None:
    classes = np.repeat(["a", "b", "c"], N // 3)
    numbers = RNG.normal(size=N)
    for target, task, leak in (
        (TARGET, "binary", np.abs(TARGET - 0.5 + RNG.normal(scale=0.01, size=N)) * TARGET),
        (classes, "multiclass", pd.Categorical(np.char.upper(classes))),
        (numbers, "regression", np.exp(numbers)),
    ):
        features = pd.DataFrame({**NOISE, "leak": leak})
        assert [leaky.column for leaky in leak_columns(features, target, task)] == ["leak"]


@pytest.mark.parametrize("positives", [1000, 100, 25, 10])
def test_a_leak_of_a_rare_class_is_found(positives: int) -> None:
    rng = np.random.default_rng(0)
    target = (rng.permutation(5000) < positives).astype(int)
    noise = pd.DataFrame(rng.normal(size=(5000, 5)), columns=list("abcde"))
    leak = noise.assign(leak=target + rng.normal(scale=0.05, size=5000))
    assert [leaky.column for leaky in leak_columns(leak, target, "binary")] == ["leak"]
    good = noise.assign(good=target + rng.normal(scale=1.5, size=5000))
    assert leak_columns(good, target, "binary") == []


def test_a_rare_class_is_hidden_from_scorers_that_count_rows_only() -> None:
    rare = np.arange(N) < 9
    for scoring in ("accuracy", "f1_micro", "recall_weighted"):
        (finding,) = target_findings(rare, "binary", scoring)
        assert finding.code == "SWM004"
        assert "(9 of 300)" in finding.text
        assert "roc_auc" in finding.remedy
        (multiclass,) = target_findings(rare + (np.arange(N) > 150) * 2, "multiclass", scoring)
        words = multiclass.remedy.replace(",", " ").split()
        scorers = [name for name in scorer_names() if name in words]
        assert scorers == ["balanced_accuracy", "f1_macro"]
    assert target_findings(rare, "binary", "roc_auc") == []
    assert target_findings(np.arange(N) < 90, "binary", "accuracy") == []


def test_few_values_that_decide_a_squared_error_are_named() -> None:
    target = RNG.normal(size=N)
    assert target_findings(target, "regression", "r2") == []
    target[[3, 7]] = 90.0, -70.0
    for scoring in ("r2", "neg_root_mean_squared_error"):
        (finding,) = target_findings(target, "regression", scoring)
        assert finding.code == "SWM123"
        assert "90, -70" in finding.text
    assert target_findings(target, "regression", "neg_mean_absolute_error") == []
    assert target_findings(np.ones(N), "regression", "r2") == []
    for usual in (RNG.exponential(size=3_000), RNG.lognormal(size=3_000), [0.0] * 9 + [1.0]):
        assert target_findings(np.asarray(usual), "regression", "r2") == []


def test_labels_that_differ_by_blanks_are_named_and_no_others() -> None:
    labels = RNG.choice(["yes", "yes ", "no"], N)
    (finding,) = target_findings(labels, "multiclass", "balanced_accuracy")
    assert finding.code == "SWM119"
    assert "'yes', 'yes '" in finding.text
    assert target_findings(np.char.strip(labels), "binary", "accuracy", "yes") == []


def test_the_positive_class_is_named_unless_it_is_chosen_or_plain() -> None:
    names = np.where(np.arange(len(TARGET)) % 3 == 0, "churned", "loyal")
    (finding,) = target_findings(names, "binary", "roc_auc")
    assert (finding.code, finding.severity) == ("SWM003", "note")
    assert "'churned'" in finding.text
    assert target_findings(names, "binary", "roc_auc", "churned") == []
    assert target_findings(TARGET, "binary", "roc_auc") == []
    (numbered,) = target_findings(np.where(TARGET == 1, 2, 1), "binary", "roc_auc")
    assert "class 1 " in numbered.text
    # A single class has no positive one; it is refused elsewhere.
    findings = target_findings(np.array(["loyal"] * N), "binary", "roc_auc")
    assert "SWM003" not in codes(findings)


PEOPLE = 75
AGES = RNG.integers(18, 80, PEOPLE)
SEXES = RNG.choice(["f", "m"], PEOPLE)
VISITS = RNG.permutation(np.repeat(np.arange(PEOPLE), N // PEOPLE))
UNEVEN = np.repeat(np.arange(PEOPLE), RNG.multinomial(N - PEOPLE, np.full(PEOPLE, 1 / PEOPLE)) + 1)


@pytest.mark.parametrize(
    ("people", "name", "label"),
    [(VISITS, "person", lambda i: i * 7919 % 10007), (UNEVEN, "q7", lambda i: f"P{i:03d}")],
)
def test_groups_without_a_name_have_constant_columns(people: Any, name: str, label: Any) -> None:
    features = pd.DataFrame({**NOISE, name: [label(i) for i in people]})
    features = features.assign(age=AGES[people], sex=SEXES[people])
    (group,) = group_columns(features)
    assert group.name == name
    (finding,) = column_findings(features, TARGET, "binary")
    assert (finding.code, finding.columns) == ("SWM106", (name,))
    assert "75 values" in finding.text
    assert "'age', 'sex'" in finding.text
    assert column_findings(features, TARGET, "binary", groups=features[name]) == []


def test_ordinary_categories_and_numbers_are_no_groups() -> None:
    n = 2400
    hours = np.arange(n) % 24
    ages = RNG.integers(18, 80, n)
    towns = RNG.integers(0, 40, n)
    features = pd.DataFrame(
        {
            "hour": hours,
            "is_night": hours < 6,
            "hour_sin": np.sin(hours * np.pi / 12),
            "age": ages,
            "age_band": ages // 10,
            "town": towns,
            "town_name": [f"t{i}" for i in towns * 7 % 40],
            "rare": RNG.random(n) < 0.001,
            "count": RNG.poisson(30, n),
            "noise": RNG.normal(size=n),
        }
    )
    assert group_columns(features) == []
    assert group_columns(features.sample(frac=0.7, random_state=1).sort_index()) == []
    # Each value has few rows, and values without a row are not seen.
    rng = np.random.default_rng(0)
    assert not any(group_columns(pd.DataFrame({"x": rng.integers(0, 200, 440)})) for _ in range(20))
    # A level in a hierarchy of categories is no group.
    states = features.assign(state=RNG.choice(["north", "south"], 40)[towns])
    assert group_columns(states.drop(columns="town_name")) == []


def test_a_line_is_printed_whatever_its_columns_are_called_unless_it_is_muted(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    print_findings([make_finding("SWM112", "'[/red]' has a single value")])
    assert "warning: SWM112: '[/red]' has a single value" in capsys.readouterr().err
    say("in /data/[old]/[/bold] :smile:")
    assert "in /data/[old]/[/bold] :smile:" in capsys.readouterr().err
    findings = [
        make_finding("SWM112", "a"),
        make_finding("SWM111", "b"),
        make_finding("SWM111", "b"),
    ]
    assert codes_of(unmuted(findings)) == "SWM111 SWM112"
    assert unmuted(findings, ["SWM112"]) == (findings[1],)
    assert codes_of([]) == "none"
    # Codes on the command line are added to those of the configuration.
    config = bench.config(mute=["SWM112"])
    assert with_mute(config, ["SWM111", "SWM112"]).mute == ["SWM112", "SWM111"]
    with pytest.raises(ConfigError, match="unknown finding 'SWM11'"):
        with_mute(config, ["SWM11"])


def test_the_gravest_findings_come_first() -> None:
    findings = unmuted(make_finding(code, "x") for code in sorted(KINDS, reverse=True))
    assert [finding.code for finding in findings] != sorted(KINDS), "the order is that of the codes"
    assert sorted(finding.code for finding in findings) == sorted(KINDS)
    severities = [finding.severity for finding in findings]
    assert severities == sorted(severities, key=["error", "warning", "note"].index)
    positions = {finding.code: position for position, finding in enumerate(findings)}
    for false_score in ("SWM114", "SWM118", "SWM106"):
        assert positions[false_score] < positions["SWM205"] < positions["SWM112"]


def finished_search(n_rows: int) -> tuple[SearchResult, Any, str]:
    """Return the result of a search on the first rows, with the target and the task."""
    problem = Problem.build(
        pd.DataFrame(NOISE).head(n_rows), TARGET[:n_rows], GaussianNB(), folds=3
    )
    plan = Search(problem, make("random"), budget=Budget(epochs=2))
    return run(plan, Archive()), problem.target, problem.task


@pytest.mark.parametrize(("low", "doubted"), [(0.01, False), (-0.01, True)])
def test_too_few_rows_are_doubted_until_unseen_rows_show_a_gain(low: float, doubted: bool) -> None:
    search = finished_search(100)
    unseen = Verdict("90 unseen rows", "accuracy", 0.8, 0.7, low, 0.2)
    judgement: Any = SimpleNamespace(verdict=unseen)
    assert "SWM205" in codes(search_findings(*search))
    assert ("SWM205" in codes(search_findings(*search, judgement))) == doubted


@pytest.mark.parametrize(("margin", "missed"), [(0.0, True), (1000.0, False)])
def test_a_goal_that_was_not_reached_is_a_finding(margin: float, missed: bool) -> None:
    # One column alone cannot be as good as four that are equally informative.
    features = pd.DataFrame(NOISE).add(TARGET, axis=0)
    confirm = {"goal": "size", "margin": margin, "best": 4, "repeats": 2}
    selector = SubsetSelector(GaussianNB(), budget=2, size=(None, 1), confirm=confirm, cv=3)
    selector.fit(features, TARGET)
    findings = {finding.code: finding for finding in selector.findings_}
    assert ("SWM210" in findings) == selector.confirmation_.missed == missed
    if missed:
        assert "none of" in findings["SWM210"].text
        assert "margin" in findings["SWM210"].remedy


@pytest.mark.parametrize(("share", "doubted"), [(0.6, True), (0.4, False), (np.nan, True)])
def test_a_result_depends_on_a_column_that_has_most_of_the_importance(
    share: float, doubted: bool
) -> None:
    space = SearchSpace.build(["a", "b", "calls", "c"], groups={"both": ["a", "b"]})
    losses = FeatureLosses(
        "90 unseen rows", "roc_auc", indispensable=Indispensable("calls", 0.93, 0.68, 0.5)
    )
    importances = np.array([np.nan if name == "c" else 1 - share for name in space.names])
    importances[space.names.index("calls")] = share
    findings = dependence_findings(losses, importances, space)
    assert codes(findings) == (["SWM211"] if doubted else [])
    assert all(finding.columns == ("calls",) and "58%" in finding.text for finding in findings)
    dispensable = replace(losses, indispensable=None)
    assert dependence_findings(dispensable, importances, space) == []
    # A column that others can replace needs almost all of the importance.
    four_columns = SearchSpace.build(["calls", "c", "d", "e"])
    shares = np.where(np.array(four_columns.names) == "calls", share + 0.1, 0.1)
    assert codes(dependence_findings(dispensable, shares, four_columns)) == (
        ["SWM211"] if doubted and share == share else []
    )


def test_a_selector_has_findings_of_its_data_and_its_result() -> None:
    features = pd.DataFrame({**NOISE, **dict(ODD)["SWM112"]})
    selector = SubsetSelector(
        GaussianNB(), budget=3, size=(None, 2), confirm=True, mute=["SWM202"], cv=3
    )
    findings = selector.fit(features.head(100), TARGET[:100]).findings_
    assert {"SWM112", "SWM205"} <= {finding.code for finding in findings}
    assert "SWM202" not in codes(list(findings))
    assert clone(selector).mute == ["SWM202"]
    with pytest.raises(ConfigError, match="unknown finding"):
        clone(selector).set_params(mute=["SWM2"]).fit(features, TARGET)


def test_a_fit_warns_of_a_leak_once_unless_it_is_muted_or_forbidden() -> None:
    features = pd.DataFrame({**NOISE, "refund": TARGET + RNG.normal(0, 0.1, N), "constant": 1.0})

    def warned(X: Any, **options: Any) -> list[str]:
        selector = SubsetSelector(GaussianNB(), budget=1, cv=3, **options)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", UserWarning)
            selector.fit(X, TARGET)
        line = warned.__code__.co_firstlineno + 4
        assert all((warning.filename, warning.lineno) == (__file__, line) for warning in caught)
        return [str(warning.message) for warning in caught]

    (table,) = warned(features)
    assert "'refund'" in table
    assert "1.000" in table
    assert "drop it" in table
    (array,) = warned(features.to_numpy())
    assert "'x4'" in array
    assert warned(features, mute=["SWM114"]) == []
    assert warned(features, forbidden=["refund"]) == []
    assert warned(features.drop(columns="refund")) == []


def test_rows_whose_labels_are_in_another_order_than_those_of_x_are_noticed() -> None:
    features = pd.DataFrame(NOISE).head(100)
    target = pd.Series(TARGET[:100])
    shuffled = features.sample(frac=1, random_state=1)
    weight = pd.Series(np.ones(100))

    def order_findings(X: Any, y: Any, **fit_params: Any) -> list[str]:
        selector = SubsetSelector(DecisionTreeClassifier(), budget=1, cv=3)
        return [
            finding.text
            for finding in selector.fit(X, y, **fit_params).findings_
            if finding.code == "SWM122"
        ]

    (text,) = order_findings(shuffled, target)
    assert text.startswith("y has the row labels of X in another order")
    assert len(order_findings(shuffled, target.to_frame(), sample_weight=weight)) == 2
    for y in (target.loc[shuffled.index], target.to_numpy(), target.set_axis(range(100, 200))):
        assert order_findings(shuffled, y) == []
    assert order_findings(shuffled.to_numpy(), target) == []

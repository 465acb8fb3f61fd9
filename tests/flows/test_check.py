"""Tests of `swarm check`: it lists every error and every finding at once."""

from __future__ import annotations

import itertools
import json
import re
import shlex
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from conf.schema import SelectConfig
from conf.yaml_text import render
from flows.run import expected_time
from flows.run.checking import all_findings
from flows.run.configured import fetch_as_configured, prepare_as_configured
from flows.select import select
from swarm.errors import ConfigError, EvaluationError
from swarm.evaluation.crossval import CrossValidation
from swarm.findings import Finding
from tests.command import Swarm
from tests.nasty import write_nasty
from tests.small_run import BAYES, OTHERS, Bench, table

CSV = {"separator": ";", "decimal": ",", "encoding": "cp1252", "na_values": ["k.A."]}


def nasty(folder: Path, **sections: Any) -> str:
    """Write a configuration of the nasty table, and return its path."""
    data = {"source": "file", "path": str(write_nasty(folder)), "target": "gekuendigt", "csv": CSV}
    data |= sections.pop("data", {})
    file = folder / "nasty.yaml"
    file.write_text(render({"name": "nasty", "data": data, **sections}), encoding="utf-8")
    return str(file)


def errors(findings: tuple[Finding, ...]) -> list[str]:
    return [finding.text for finding in findings if finding.severity == "error"]


def test_a_table_as_people_export_it_has_all_its_findings_at_once(tmp_path: Path) -> None:
    texts = ["notiz", "tarif", "vertrag_seit", "land"]
    _, findings = all_findings(nasty(tmp_path, data={"categorical": texts}))
    assert errors(findings) == []
    assert [finding.code for finding in findings] == [
        *("SWM114", "SWM004", "SWM111", "SWM115", "SWM113", "SWM112", "SWM003")
    ]
    (leak,) = [finding for finding in findings if finding.code == "SWM114"]
    assert leak.columns == ("erstattung",)


def test_all_wrong_keys_are_listed_before_data_are_read(tmp_path: Path) -> None:
    file = nasty(tmp_path, budget={"epochs": 0}, foo=3, data={"path": "no"})
    config, findings = all_findings(file)
    assert config is None
    keys, values = errors(findings)
    assert "unknown key 'foo'" in keys
    assert "budget.epochs must be greater than or equal to 1, got 0" in values


def test_errors_of_names_columns_and_data_are_listed_together(tmp_path: Path) -> None:
    file = nasty(
        tmp_path,
        data={"group": "kunde", "drop": ["nirgends", "lag_*"], "dates": {"notiz": "%d.%m.%Y"}},
        scoring="acuracy",
        strategy={"name": "bpsoo"},
        mute=["SWM114"],
    )
    _, findings = all_findings(file)
    texts = errors(findings)
    for words in (
        "unknown scorer 'acuracy' in scoring; did you mean 'accuracy'",
        "unknown strategy 'bpsoo'",
        "unknown group column 'kunde'",
        "unknown drop column 'nirgends'",
        "no column matches 'lag_*'",
        "date column 'notiz' has",
        "'tarif' (3 different values), 'land' (1 different values) hold text",
    ):
        assert sum(words in text for text in texts) == 1, words
    assert len(texts) == 7
    assert {"SWM111", "SWM113"} <= {finding.code for finding in findings}
    assert "SWM114" not in {finding.code for finding in findings}


def test_a_mistyped_target_and_a_refused_secret_are_one_error_each(tmp_path: Path) -> None:
    dates = {"dates": {"vertrag_seit": "%d.%m.%Y"}}
    texts = errors(all_findings(nasty(tmp_path, data={"target": "gekuendigd", **dates}))[1])
    assert len(texts) == 1
    assert "unknown target column 'gekuendigd'" in texts[0]
    secret = "https://ann:hunter2@h/features.json"
    texts = errors(all_findings(nasty(tmp_path, warm=secret))[1])
    assert len(texts) == 1
    assert "warm holds a password" in texts[0]


SCORERS = """
from sklearn.metrics import accuracy_score, make_scorer

def lift(estimator, X, y):
    return (estimator.predict(X) == y).mean() / max(y.mean(), 1 - y.mean())

def share(y_true, y_pred):
    return accuracy_score(y_true, y_pred)

shared = make_scorer(share)
number = 1.0
"""


def test_a_function_of_an_allowed_package_is_a_scorer(bench: Bench) -> None:
    (bench.folder / "lift_scorers.py").write_text(SCORERS)
    allowed = {**BAYES, "allow": ["lift_scorers"]}

    def errors_of(scoring: str, model: dict[str, Any] = allowed) -> list[str]:
        return errors(all_findings(bench.file(model=model, scoring=scoring))[1])

    assert not errors_of("lift_scorers.lift")
    assert not errors_of("lift_scorers.shared")
    for scoring, model, sentence in (
        ("lift_scorers.lift", BAYES, "model.allow"),
        ("os.system", allowed, "outside lift_scorers"),
        ("lift_scorers.lft", allowed, "did you mean 'lift'?"),
        ("lift_scorers.number", allowed, "not a function"),
        ("lift_scorers.share", allowed, "make_scorer(share)"),
        ("mae", allowed, "did you mean 'neg_mean_absolute_error'"),
    ):
        (refused,) = errors_of(scoring, model)
        assert sentence in refused


def test_the_findings_of_rows_are_listed_beside_an_estimator_that_is_wrong(tmp_path: Path) -> None:
    texts = ["notiz", "tarif", "vertrag_seit", "land"]
    model = {"estimator": "lightgbm.LGBMClassifierr"}
    _, findings = all_findings(nasty(tmp_path, data={"categorical": texts}, model=model))
    assert len(errors(findings)) == 1
    assert {"SWM111", "SWM114"} <= {finding.code for finding in findings}


def test_rows_in_order_of_time_and_dropped_groups_are_noticed(bench: Bench) -> None:
    days = pd.date_range("2024-01-01", periods=120).strftime("%Y-%m-%d")
    frame = table().assign(day=days, patient_id=np.arange(120) // 4)
    frame.to_csv(bench.folder / "table.csv", index=False)
    data = {"drop": [*OTHERS, "day", "patient_*"]}
    findings = {
        finding.code: finding for finding in all_findings(bench.file(data=data, model=BAYES))[1]
    }
    assert findings["SWM107"].columns == ("day",)
    assert findings["SWM106"].columns == ("patient_id",)
    grouped = {"drop": [*OTHERS, "day"], "group": "patient_id"}
    file = bench.file(data=grouped, folds={"kind": "stratified"}, model=BAYES)
    codes = [finding.code for finding in all_findings(file)[1]]
    assert codes.count("SWM101") == 2
    assert "SWM106" not in codes
    # Automatic folds keep groups together; the split was chosen by the user.
    file = bench.file(data=grouped, model=BAYES)
    codes = [finding.code for finding in all_findings(file)[1]]
    assert codes.count("SWM101") == 1


RANDOM_BAYES: dict[str, Any] = {"model": BAYES, "folds": {"kind": "random"}}


def warnings_of(bench: Bench, frame: pd.DataFrame, **sections: Any) -> tuple[str, ...]:
    """Return the findings of a table before it is searched."""
    config = bench.config(**sections)
    frame.to_csv(bench.folder / "table.csv", index=False)
    data = prepare_as_configured(config, fetch_as_configured(config), hold_out=False)
    return tuple(map(str, data.findings))


def test_classes_of_two_rows_are_warned_about(bench: Bench) -> None:
    frame = table().assign(y=[f"c{i // 2}" for i in range(120)])
    (warning,) = warnings_of(bench, frame, **RANDOM_BAYES)
    assert warning.startswith("SWM102: ")
    assert "set folds.kind to 'stratified', or merge rare" in warning
    (single,) = warnings_of(
        bench, frame.assign(y=frame["y"].where(frame.index != 9, "c0")), **RANDOM_BAYES
    )
    assert "stratified" not in single
    three = table().assign(y=table()["kind"])
    assert warnings_of(bench, three, **RANDOM_BAYES) == ()


def test_a_metric_that_is_undefined_on_the_test_rows_is_refused(bench: Bench) -> None:
    late = table().assign(y=lambda frame: frame["y"].where(frame["when"] < 80, 0))
    late.to_csv(bench.folder / "table.csv", index=False)
    data = {"time": "when", "drop": [name for name in OTHERS if name != "when"]}
    sections = {"data": data, "split": {"kind": "time"}, "scoring": "roc_auc", "model": BAYES}
    file = bench.file(**sections)
    words = "scoring: the metric 'roc_auc' is undefined for these 36 test rows (all are of class 0)"
    findings = all_findings(file)[1]
    assert [text for text in errors(findings) if text.startswith(words)]
    assert "SWM102" in {finding.code for finding in findings}
    with pytest.raises(ConfigError) as refused:
        select.fn(bench.config(**sections), None, 0)
    assert str(refused.value).startswith(words)
    findings = all_findings(file, ["scoring=accuracy", "test.metrics=[roc_auc]"])[1]
    assert [text for text in errors(findings) if text.startswith("test.metrics: the metric")]


def test_every_data_set_of_a_comparison_is_checked(bench: Bench) -> None:
    small = bench.mapping()
    bad = {**small["data"], "drop": ["x0", "x1"]}
    datasets = {"good": {"data": small["data"]}, "bad": {"data": bad}}
    file = bench.folder / "both.yaml"
    file.write_text(render(bench.comparison(datasets=datasets)), encoding="utf-8")
    texts = errors(all_findings(str(file))[1])
    assert texts
    assert all(text.startswith("data set 'bad': ") for text in texts)


def test_the_command_has_a_status_a_line_each_and_json(bench: Bench, swarm: Swarm) -> None:
    fine = swarm("check", bench.file(), "--mute", "SWM205")
    assert (fine.status, fine.err) == (0, "")
    verdict, time = fine.out.splitlines()[-2:]
    assert verdict.endswith("small.yaml: no findings")
    assert time.startswith("search: about ")
    refused = swarm("check", bench.file(), "--set", "data.group=x9", "--json")
    assert refused.status == 1
    printed = json.loads(refused.out)
    assert printed["counts"]["error"] == 1
    assert printed["findings"][0]["page"] == "docs/findings.md#swm002"
    assert "unknown finding 'SWM1'" in swarm("check", bench.file(), "--mute", "SWM1").sentence
    missing = swarm("check", "nowhere.yaml")
    assert missing.status == 1
    assert "must be a file or a shipped configuration" in missing.out
    assert not bench.made_anything()


def test_a_database_that_cannot_be_reached_has_the_status_of_a_store(
    bench: Bench, swarm: Swarm
) -> None:
    data = ("source=sql", "url=postgresql://ann@127.0.0.1:9/d", "query=select 1", "path=null")
    settings = [word for key in data for word in ("--set", f"data.{key}")]
    for as_json in ((), ("--json",)):
        assert "127.0.0.1:9" in swarm("check", bench.file(), *settings, *as_json).sentence


def test_a_fit_that_cannot_be_timed_is_a_finding_beside_the_others(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: Any) -> Any:
        raise EvaluationError("the cost of the subset is NaN; check the scorer")

    monkeypatch.setattr(CrossValidation, "fold_costs", failing)
    times: list[str] = []
    model = {"estimator": "sklearn.tree.DecisionTreeClassifier"}
    _, findings = all_findings(bench.file(model=model), on_time=times.append)
    assert not times
    assert [finding.code for finding in findings if finding.severity == "error"] == ["SWM002"]


TREE = {"estimator": "sklearn.tree.DecisionTreeClassifier"}


def time_told(bench: Bench, **sections: Any) -> str:
    times: list[str] = []
    _, findings = all_findings(bench.file(model=TREE, **sections), on_time=times.append)
    assert not errors(findings)
    return times[0]


def test_columns_that_a_model_refuses_for_one_reason_are_one_error(bench: Bench) -> None:
    words = {name: np.resize(["red", "blue", "green"], 120) for name in ("paint", "roof")}
    table().assign(**words).to_csv(bench.folder / "table.csv", index=False)
    data = {"drop": OTHERS, "categorical": list(words)}
    (refused,) = errors(all_findings(bench.file(model=BAYES, data=data))[1])
    assert "column 'paint' and 1 more ('roof') has categories" in refused


def test_findings_of_the_default_scorer_are_not_told_beside_an_unknown_one(bench: Bench) -> None:
    rare = (np.arange(120) % 20 == 0).astype(int)
    table().assign(y=rare).to_csv(bench.folder / "table.csv", index=False)
    for scoring, codes in (("accuracy", {"SWM004"}), ("f1_score", {"SWM001"})):
        findings = all_findings(bench.file(model=BAYES, scoring=scoring, data={"drop": OTHERS}))[1]
        assert {finding.code for finding in findings} & {"SWM001", "SWM004"} == codes


def test_no_time_is_told_beside_an_error(bench: Bench) -> None:
    times: list[str] = []
    _, findings = all_findings(bench.file(model=TREE, scoring="mae"), on_time=times.append)
    assert len(errors(findings)) == 1
    assert not times


def test_a_proxy_is_proposed_for_what_takes_long_on_many_rows(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(expected_time, "_MAX_TIME", timedelta(0))
    assert "proxy" not in time_told(bench)
    monkeypatch.setattr(expected_time, "_MIN_PROXY_ROWS", 8)
    assert "prefilter" not in time_told(bench)
    monkeypatch.setattr(expected_time, "_MIN_PREFILTER_UNITS", 8)
    options = shlex.split(time_told(bench).replace(";", ""))
    pasted = [value for flag, value in itertools.pairwise(options) if flag == "--set"]
    config, findings = all_findings(bench.file(model=TREE), pasted)
    assert not errors(findings)
    assert isinstance(config, SelectConfig)
    assert config.prefilter == "always"
    assert config.proxy is not None
    assert config.proxy.rows == 0.1
    assert "--set" not in time_told(bench, proxy={"rows": 0.5}, prefilter="always")


def test_the_time_told_counts_the_full_model_after_a_proxy(bench: Bench) -> None:
    def max_fits(**sections: Any) -> int:
        (count,) = re.findall(r"about ([\d,]+) fits", time_told(bench, **sections))
        return int(count.replace(",", ""))

    n_folds = bench.mapping()["folds"]["n_folds"]
    proxy = {"rows": 0.5, "best": 3, "probes": 2}
    assert max_fits(proxy=proxy, confirm=None) - max_fits(confirm=None) == 5 * n_folds
    # Seven are confirmed: three subsets, two probes, the units that they share, and all features.
    confirm = {"best": 20, "repeats": 2}
    n_confirming = max_fits(proxy=proxy, confirm=confirm) - max_fits(proxy=proxy, confirm=None)
    assert n_confirming == 7 * 2 * n_folds


def test_the_time_told_has_no_confirmation_where_folds_cannot_be_drawn_again(bench: Bench) -> None:
    unshuffled = {**bench.mapping()["folds"], "shuffle": False}

    def fits(confirm: dict[str, int] | None) -> str:
        return time_told(bench, folds=unshuffled, confirm=confirm).partition(" fits")[0]

    assert fits({"best": 20}) == fits(None)

"""Tests of `swarm init`: `swarm check` passes what it writes, and `swarm select` runs it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from conf.load import load_as
from conf.schema import SelectConfig
from flows.run.configured import fetch_as_configured
from flows.select import select
from tasks.sources.sniff import CsvStyle, sniff
from tests.command import Swarm
from tests.nasty import nasty_table, write_nasty
from tests.small_run import Bench, table

N = 240


def frame_of(**columns: Any) -> pd.DataFrame:
    """Return four features, and a target that depends on the first of them and on noise."""
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(rng.normal(size=(N, 4)), columns=list("abcd"))
    frame["y"] = np.where(frame["a"] + rng.normal(size=N) > 0, "won", "lost")
    return frame.assign(**columns)


def with_outliers(signal: pd.Series) -> pd.Series:
    """Return a target that depends on `signal` and noise; one value in a hundred is an outlier."""
    rng = np.random.default_rng(3)
    target = 2 * signal + rng.normal(scale=0.5, size=len(signal))
    target[::100] += 500.0
    return target


def written(swarm: Swarm, file: Path, target: str = "y") -> SelectConfig:
    """Return the configuration that `swarm init` writes and checks."""
    return written_and_printed(swarm, file, target)[0]


def written_and_printed(swarm: Swarm, file: Path, target: str = "y") -> tuple[SelectConfig, str]:
    """Return the configuration that `swarm init` writes, and what it prints."""
    out = file.parent / "own.yaml"
    result = swarm("init", str(file), "--target", target, "--out", str(out), "--force")
    assert result.status == 0, result
    config = load_as(SelectConfig, out)
    assert all(f"dropped {name}: " in result.out for name in config.data.drop)
    return config, result.out


NUMBERS = frame_of()[["a", "b", "c"]].round(3)
WORDS = NUMBERS.assign(word=np.resize(["it's, isn't", "don't; can't", "O'Neil"], N))
USED = np.random.default_rng(2).random((N, 3)) < 0.6
SALES = {f"s{i}": [f"{n * i:,}" for n in range(1500, 1500 + N)] for i in (2, 3)}
THOUSANDS = NUMBERS.assign(**SALES)


@pytest.mark.parametrize(
    ("frame", "style"),
    [
        (nasty_table(100), CsvStyle(";", ",", "cp1252", ("k.A.",))),
        (nasty_table(100), CsvStyle("\t", ".", "utf-16", ("k.A.",))),
        (nasty_table(100), CsvStyle("|", ".", "utf-8", ("k.A.",))),
        (NUMBERS, CsvStyle(";", ",")),
        (WORDS, CsvStyle(",")),
        (WORDS, CsvStyle(";")),
        (THOUSANDS, CsvStyle(",")),
    ],
)
def test_the_style_of_a_file_is_found(frame: pd.DataFrame, style: CsvStyle, tmp_path: Path) -> None:
    """Commas, apostrophes and quoted thousands in its cells do not mislead."""
    file = tmp_path / "own.csv"
    options = {"sep": style.separator, "decimal": style.decimal, "na_rep": "k.A."}
    encoding = "utf-8-sig" if style.separator == "|" else style.encoding
    frame.to_csv(file, index=False, encoding=encoding, **options)
    assert sniff(str(file)) == style


def test_one_odd_row_or_cell_or_the_mark_of_an_encoding_hides_nothing(tmp_path: Path) -> None:
    file = tmp_path / "own.csv"
    rows = [f"{['none', 'few', 'many'][i % 3]},{'?' if i % 9 == 0 else i / 7}" for i in range(90)]
    for odd_row in ("none", f"none,{'9' * 140_000}", "none,1,2,3"):
        text = "\n".join(["level,number", *rows, odd_row]) + "\n"
        for encoding in ("utf-8", "utf-8-sig"):
            file.write_text(text, encoding=encoding)
            assert sniff(str(file), "level").na_values == ("?",)


def test_marks_of_missing_values_are_those_among_numbers_and_the_usual_ones(tmp_path: Path) -> None:
    file = tmp_path / "own.csv"
    rows = [
        f"{i},{'-99x' if i % 9 == 0 else i / 7},{'?' if i % 5 == 0 else 'a'}" for i in range(90)
    ]
    file.write_text("\n".join(["n,number,word", *rows]) + "\n")
    assert sniff(str(file)).na_values == ("-99x", "?")
    rows = [f"{i},{'1,200' if i % 30 == 0 else i}" for i in range(90)]
    file.write_text("\n".join(["n;number", *(row.replace(",", ";", 1) for row in rows)]) + "\n")
    assert sniff(str(file)).na_values == ()


def test_each_column_that_is_read_otherwise_than_it_is_written_is_told(
    tmp_path: Path, swarm: Swarm
) -> None:
    rng = np.random.default_rng(1)
    is_special = rng.random(N) < 0.1
    frame = frame_of(
        temperature=np.where(is_special, -999, rng.normal(20, 5, N).round(1)),
        income=np.where(is_special, -999, rng.integers(0, 90_000, N)),
        rate=[f"{x:.1f}%" for x in rng.uniform(0, 100, N)],
        zip=[f"{x:05d}" for x in rng.integers(500, 20_000, 60)[rng.integers(0, 60, N)]],
        account=rng.integers(10**17, 10**18, N),
        plan=rng.choice(["none", "basic", "gold"], N),
        country=rng.choice(["NA", "DE", "FR"], N),
        score=np.where(is_special, "low", rng.normal(size=N).round(2).astype(str)),
        pdays=np.where(is_special, 999, rng.integers(0, 900, N)),
        age=rng.integers(0, 99, N),
        uses=["; ".join(np.array(["car", "bike", "bus"])[np.array(x)]) for x in USED],
        town=[f"{place}ville, {place}land" for place in rng.choice([*"abcd"], N)],
        price=np.where(is_special, "prefer not to say", rng.integers(10, 99, N).astype(str)),
    )
    file = tmp_path / "own.csv"
    frame.to_csv(file, index=False)
    config, printed = written_and_printed(swarm, file)
    assert config.data.drop == ["account"]
    assert config.data.categorical == ["plan", "country", "uses", "town"]
    features = fetch_as_configured(config).features
    assert (features["temperature"].isna() == is_special).all()
    assert (features["income"].isna() == is_special).all()
    assert features["rate"].tolist() == [float(text[:-1]) for text in frame["rate"]]
    lines = dict(line.split(": ", 1) for line in printed.splitlines() if line.startswith("read "))
    words_of = {
        "temperature, income": "-999",
        "rate": "is read as the number",
        "zip": "without leading zeros",
        "plan": "'none'",
        "country": "'NA'",
        "score": "'low'",
        "price": "'prefer not to say'",
        "uses": "combination of its 3 answers",
    }
    assert set(lines) == {f"read {name}" for name in words_of}
    assert all(words in lines[f"read {name}"] for name, words in words_of.items())
    text = file.with_suffix(".yaml").read_text(encoding="utf-8")
    assert all(f"# - {json.dumps(names.split(', '))[1:-1]}: " in text for names in words_of)


def test_a_word_beside_empty_cells_or_in_the_target_is_a_value(
    tmp_path: Path, swarm: Swarm
) -> None:
    rng = np.random.default_rng(1)
    frame = frame_of(
        complaint=np.where(rng.random(N) < 0.2, "yes", ""),
        closed_by=rng.choice(["", "anna", "bob"], N, p=[0.7, 0.2, 0.1]),
        y=rng.choice(["yes", "none", "no"], N),
    )
    file = tmp_path / "own.csv"
    frame.to_csv(file, index=False)
    config, printed = written_and_printed(swarm, file)
    assert config.data.csv.na_values == []
    assert config.data.drop == []
    assert "240 rows" in printed
    table = fetch_as_configured(config)
    assert table.target.tolist() == frame["y"].tolist()
    assert table.features["complaint"].notna().sum() == (frame["complaint"] == "yes").sum()


def test_points_between_thousands_are_told(tmp_path: Path, swarm: Swarm) -> None:
    sizes = np.random.default_rng(1).integers(100, 90_000, N)
    frame = frame_of(people=[f"{size:,}".replace(",", ".") for size in sizes])
    file = tmp_path / "own.csv"
    frame.to_csv(file, index=False)
    _, printed = written_and_printed(swarm, file)
    assert "read people: " in printed
    assert "is read as a fraction" in printed
    # Points divide thousands if the decimal mark is a comma.
    frame.assign(a=frame["a"].round(3)).to_csv(file, index=False, sep=";", decimal=",")
    config, printed = written_and_printed(swarm, file)
    assert config.data.drop == []
    assert fetch_as_configured(config).features["people"].tolist() == sizes.tolist()
    assert "read people: " in printed


@pytest.mark.parametrize("zone", [None, "Europe/Berlin"])
def test_timestamps_of_parquet_are_dates(zone: str | None, tmp_path: Path, swarm: Swarm) -> None:
    file = tmp_path / "own.parquet"
    frame = frame_of(when=pd.date_range("2021-03-01", periods=N, freq="31h", tz=zone))
    frame.to_parquet(file)
    config = written(swarm, file)
    assert (config.data.time, config.split.kind, config.data.dates) == (
        "when",
        "time",
        {"when": None},
    )
    frame.sample(frac=1, random_state=1).to_parquet(file)
    features = fetch_as_configured(written(swarm, file)).features
    assert "when_month" in features
    assert "when" not in features


def test_a_number_that_is_a_value_in_another_column_is_not_read_as_missing(
    tmp_path: Path, swarm: Swarm
) -> None:
    rng = np.random.default_rng(1)
    frame = frame_of(
        days=np.where(rng.random(N) < 0.1, 999, rng.integers(0, 30, N)),
        price=np.arange(N) * 37 % 900 + 100 + (np.arange(N) == 5) * 714,
    )
    assert (frame["price"] == 999).sum() == 1
    file = tmp_path / "own.csv"
    frame.to_csv(file, index=False)
    assert written(swarm, file).data.csv.na_values == []
    assert "SWM121: 'days': 999 in" in swarm("check", str(file.with_suffix(".yaml"))).out
    # The number may be the name of a category, too.
    codes = rng.choice(["A1", "B2", "999", "C4"], N)
    frame.drop(columns="price").assign(code=codes).to_csv(file, index=False)
    assert written(swarm, file).data.csv.na_values == []


def test_the_target_decides_model_scorer_and_folds(tmp_path: Path, swarm: Swarm) -> None:
    frame = frame_of()
    file = tmp_path / "own.parquet"
    classes = "lightgbm.LGBMClassifier", "stratified"
    for y, scoring, (estimator, folds) in (
        (np.where(frame["y"] == "won", 1.0, 2.0), "roc_auc", classes),
        (pd.Categorical(frame["y"], categories=["gone", "lost", "won"]), "roc_auc", classes),
        (np.where(np.arange(N) % 30 == 0, "rare", frame["y"]), "balanced_accuracy", classes),
        (
            frame["a"] + np.random.default_rng(2).normal(size=N),
            "neg_root_mean_squared_error",
            ("lightgbm.LGBMRegressor", "random"),
        ),
    ):
        frame.assign(y=y).to_parquet(file)
        config = written(swarm, file)
        assert config.scoring == scoring
        assert (config.model.estimator, config.folds.kind) == (estimator, folds)
        assert config.folds.n_folds == 5
        assert config.data.csv == type(config.data.csv)()


@pytest.mark.usefixtures("plain")
def test_of_a_target_with_outliers_neither_scorer_nor_model_squares_errors(
    bench: Bench, swarm: Swarm
) -> None:
    """The answer beats guessing, and does not if the model squares its errors."""
    file = bench.folder / "own.csv"
    frame_of(y=with_outliers(frame_of()["a"])).to_csv(file, index=False)
    config = written(swarm, file)
    assert config.scoring == "neg_mean_absolute_error"
    assert config.model.params["objective"] == "mae"
    assert "SWM123" not in swarm("check", str(file.with_suffix(".yaml"))).out
    small = bench.config(budget={"epochs": 2}, confirm={"repeats": 1, "best": 2})
    sections = ("data", "split", "folds", "model", "scoring")
    small = small.model_copy(update={key: getattr(config, key) for key in sections})

    def beats_guessing(config: SelectConfig) -> bool:
        judgement = select.fn(config, None, 0).judgement
        assert judgement.metrics[0] == "mean_absolute_error"
        guess = judgement.guessing
        assert guess is not None
        value = judgement.first_metric["all_features"]["value"]
        return guess.outcome == "beaten" and bool(value < guess.value)

    assert beats_guessing(small)
    squares = {**config.model.params, "objective": "regression"}
    model = config.model.model_copy(update={"params": squares})
    assert not beats_guessing(small.model_copy(update={"model": model}))


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"y": 1}, "target 'y' is constant (1 in every row)"),
        ({"y": [f"u{i}" for i in range(N)]}, "240 different texts in 240 rows: an identifier"),
        ({"a": 1}, "no features are left"),
    ],
)
def test_a_configuration_that_cannot_be_run_is_no_success(
    changed: dict[str, Any], words: str, tmp_path: Path, swarm: Swarm
) -> None:
    frame_of(**changed)[["a", "y"]].to_csv(tmp_path / "own.csv", index=False)
    out = tmp_path / "own.yaml"
    result = swarm("init", str(tmp_path / "own.csv"), "--target", "y", "--out", str(out))
    assert result.status == 2
    assert words in result.out
    assert "swarm select" not in result.out
    assert "cannot be run: correct its errors" in result.out


@pytest.mark.slow
@pytest.mark.usefixtures("plain", "prefect_server")
def test_from_a_nasty_table_to_a_result(bench: Bench, swarm: Swarm) -> None:
    config = written(swarm, write_nasty(bench.folder), "gekuendigt")
    assert swarm("check", str(bench.folder / "own.yaml")).status == 0
    data = config.data
    assert set(data.drop) == {"kundennr", "betrag_5_kopie", "notiz", "land", "erstattung"}
    assert (data.dates, data.categorical) == ({"vertrag_seit": "%d.%m.%Y"}, ["tarif"])
    assert (config.scoring, config.pos_label) == ("roc_auc", "ja")
    assert config.model.params["class_weight"] == "balanced"
    features = fetch_as_configured(config).features
    years = pd.to_datetime(nasty_table()["vertrag_seit"], format="%d.%m.%Y").dt.year
    assert features["vertrag_seit_year"].tolist() == years.tolist()
    assert features["betrag_3"].isna().sum() == nasty_table()["betrag_3"].isna().sum()
    assert set(features["tarif"].cat.categories) == {"Basis", "Plus", "Größe L"}
    small = bench.config(budget={"epochs": 2}, confirm={"repeats": 1, "best": 2})
    sections = ("data", "split", "folds", "model", "scoring", "pos_label")
    small = small.model_copy(update={key: getattr(config, key) for key in sections})
    outcome = select(small, None, 0)
    assert bench.statuses() == ["FINISHED"]
    assert outcome.judgement.pos_label == "ja"
    assert {"betrag_0", "betrag_1"} & set(outcome.result.features)


def test_rows_without_a_target_are_left_out_and_counted(tmp_path: Path, swarm: Swarm) -> None:
    frame = table()
    frame["y"] = frame["y"].astype("Int64")
    frame.loc[100:, "y"] = None
    frame.to_csv(tmp_path / "own.csv", index=False)
    config = written(swarm, tmp_path / "own.csv")
    assert config.data.on_missing_target == "drop"
    out = str(tmp_path / "own.yaml")
    assert "SWM005: 20 rows without a target are left out" in swarm("check", out).out


def test_groups_and_time_decide_how_rows_are_divided(tmp_path: Path, swarm: Swarm) -> None:
    file = tmp_path / "own.csv"
    frame_of(patient_id=np.arange(N) // 4).to_csv(file, index=False)
    grouped = written(swarm, file)
    assert grouped.data.group == "patient_id"
    assert (grouped.split.kind, grouped.folds.kind) == ("group", "stratified_group")
    # Groups are recognised by their name, or by columns that are constant within them.
    people = np.random.default_rng(2).permutation(np.arange(N) // 4)
    ages = np.random.default_rng(3).integers(18, 80, N // 4)
    frame_of(person=people * 37, age=ages[people], sex=ages[people] % 2).to_csv(file, index=False)
    described = written(swarm, file)
    assert (described.data.group, described.split.kind) == ("person", "group")
    # Groups that are not known in all rows cannot divide them.
    gaps = np.where(np.arange(N) % 9 == 0, np.nan, np.arange(N) // 4)
    frame_of(patient_id=gaps).to_csv(file, index=False)
    assert written(swarm, file).data.drop == ["patient_id"]
    days = pd.date_range("2021-03-01", periods=N).strftime("%Y-%m-%d")
    frame_of(day=days).to_csv(file, index=False)
    timed = written(swarm, file)
    assert (timed.data.time, timed.split.kind, timed.folds.kind) == ("day", "time", "time")
    # All positives are among the earliest rows, so the latest ones cannot test anything.
    rare = np.where(np.arange(N) < 12, "won", "lost")
    frame_of(day=days, y=rare).to_csv(file, index=False)
    assert written(swarm, file).split.kind == "stratified"


@pytest.mark.parametrize("form", ["%Y-%m-%dT%H:%M:%SZ", "%d-%b-%Y"])
def test_the_order_of_time_is_seen_in_whatever_form_dates_are_written(
    form: str, tmp_path: Path, swarm: Swarm
) -> None:
    file = tmp_path / "own.csv"
    dates = pd.date_range("2021-03-01", periods=N, freq="31h")
    frame_of(when=dates.strftime(form)).to_csv(file, index=False)
    config = written(swarm, file)
    assert (config.data.time, config.split.kind, config.data.drop) == ("when", "time", [])
    # Dates that do not order the rows are features.
    frame_of(when=dates.strftime(form)).sample(frac=1, random_state=1).to_csv(file, index=False)
    features = fetch_as_configured(written(swarm, file)).features
    assert "when_month" in features
    assert ("when_hour" in features) == ("H" in form)


def test_a_constant_part_of_a_date_is_told(tmp_path: Path, swarm: Swarm) -> None:
    after = np.random.default_rng(1).integers(0, 300, N)
    days = pd.Timestamp("2021-01-01") + pd.to_timedelta(after, "D")
    file = tmp_path / "own.csv"
    frame_of(day=days.strftime("%Y-%m-%d"))[["a", "day", "y"]].to_csv(file, index=False)
    config, printed = written_and_printed(swarm, file)
    assert "2 columns to choose from" in printed
    assert "dropped day_year: one value in all training rows, a part of 'day'" in printed
    assert config.space.forbidden == ["day_year"]
    assert "SWM112" not in printed
    text = file.with_suffix(".yaml").read_text(encoding="utf-8")
    line_of_day = next(line for line in text.splitlines() if '"day": "%Y-%m-%d"' in line)
    features = fetch_as_configured(config).features
    assert line_of_day.partition("# ")[2].split(", ") == [
        name for name in features if name.startswith("day_")
    ]


def test_names_that_yaml_would_read_as_something_else_are_quoted(
    tmp_path: Path, swarm: Swarm
) -> None:
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(rng.normal(size=(N, 2)), columns=["yes", "1: # [x]"])
    frame["null"] = rng.choice(["no", "on"], N)
    frame["a\nb"] = np.arange(N)
    frame["y"] = np.where(frame["yes"] > 0.5, "off", "yes")
    file = tmp_path / "2024 own.csv"
    frame.to_csv(file, index=False)
    config = written(swarm, file)
    assert config.name == "2024_own"
    assert config.data.categorical == ["null"]
    assert config.pos_label == "off"
    assert "a\nb" in config.data.drop


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["table.csv", "--target", "z"], "unknown target column 'z'"),
        (["table.csv", "--target", "y", "--out", "table.csv"], "exists already; pass --force"),
        (["table.csv", "--target", "y", "--target", "x"], "for several labels write data.target"),
        (["table.json", "--target", "y"], "its extension is unknown"),
        (["empty.csv", "--target", "y"], "cannot read 'empty.csv': the file is empty"),
    ],
)
def test_what_cannot_be_read_is_refused_in_a_sentence(
    arguments: list[str], sentence: str, tmp_path: Path, swarm: Swarm, monkeypatch: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    table().to_csv("table.csv", index=False)
    Path("table.json").write_text("x")
    Path("empty.csv").write_text("")
    assert sentence in swarm("init", *arguments).sentence

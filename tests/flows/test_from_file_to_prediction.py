"""Tests from a file to a prediction: a stored model reads rows as its training table."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from conf.load import load_as
from conf.schema import SelectConfig
from flows.run.answer import SelectRun
from flows.run.configured import fetch_as_configured
from flows.select import select
from tasks.models.inference import load_model
from tasks.refresh.champion import Champion, Champions
from tests import ROOT
from tests.command import Swarm
from tests.small_run import OTHERS, Bench, leave_report_out, table

N = 300
# The code of a consumer who knows nothing of the configuration.
CONSUMER = """
import sys
import mlflow, pandas as pd
store, uri, rows, separator, answers = sys.argv[1:]
mlflow.set_tracking_uri(store)
model = mlflow.pyfunc.load_model(uri)
table = pd.read_csv(rows, sep=separator)
model.predict(table, params={"probabilities": True}).to_parquet(answers)
assert not {"swarm", "tasks"} & set(sys.modules)
"""


def cells(decimal: str) -> pd.DataFrame:
    """Return the cells of a file as texts, with every type that is converted as it is read."""
    rng = np.random.default_rng(0)

    def texts(values: Any, digits: int) -> np.ndarray:
        return np.array([f"{value:.{digits}f}".replace(".", decimal) for value in values])

    signal = rng.normal(size=N)
    days = rng.integers(0, 900, N)
    dates = pd.Timestamp("2021-03-01") + pd.to_timedelta(days, unit="D")
    plan = rng.choice(["basic", "plus", "max"], N)
    frame = pd.DataFrame(
        {
            "id": [f"K{i:05d}" for i in rng.permutation(N)],
            "load": texts(signal * 7, 15),
            "age": rng.integers(18, 80, N).astype(str),
            "used": texts(rng.uniform(0, 100, N), 1),
            "signed": dates.strftime("%d.%m.%Y"),
            "plan": plan,
            "paid": rng.choice(["€1,200", "€950", "€2,150"], N),
            "sold": rng.choice(["1 200", "2 450", "3 000"], N),
            "steps": rng.integers(1000, 9000, N).astype(str),
        }
    )
    frame["used"] += "%"
    gone = (signal + (plan == "max") + days / 900 + rng.normal(scale=0.4, size=N)) > 0.9
    frame["gone"] = np.where(gone, "yes", "no")
    for name, mark in (("age", "-999"), ("steps", "?"), ("used", ""), ("signed", ""), ("plan", "")):
        frame.loc[rng.random(N) < 0.1, name] = mark
    return frame


@dataclass(frozen=True)
class Trained:
    """A run on a file of `cells`, and the probabilities of its model on the table."""

    bench: Bench
    file: Path
    separator: str
    rows: pd.DataFrame
    config: SelectConfig
    outcome: SelectRun

    @property
    def expected(self) -> pd.DataFrame:
        table = fetch_as_configured(self.config)
        model = self.outcome.model
        return pd.DataFrame(model.mean_proba(table.features), columns=model.classes_)

    def write(self, rows: pd.DataFrame) -> str:
        file = self.bench.folder / "rows.csv"
        rows.to_csv(file, index=False, sep=self.separator)
        return str(file)

    def served(self) -> Any:
        return load_model(self.bench.tracking, self.outcome.model_uri)


@pytest.fixture(params=[(",", "."), (";", ",")], ids=["point", "comma"])
def trained(
    request: pytest.FixtureRequest,
    bench: Bench,
    swarm: Swarm,
    monkeypatch: pytest.MonkeyPatch,
    plain: None,
) -> Trained:
    separator, decimal = request.param
    leave_report_out(monkeypatch)
    file = bench.folder / "customers.csv"
    out = bench.folder / "customers.yaml"
    rows = cells(decimal)
    rows.to_csv(file, index=False, sep=separator)
    result = swarm("init", str(file), "--target", "gone", "--out", str(out))
    assert result.status == 0, result
    config = load_as(SelectConfig, out)
    assert config.data.drop == ["id"]
    assert set(config.data.csv.na_values) == {"?", "-999"}
    assert config.data.csv.decimal == decimal
    small = bench.config(
        budget={"epochs": 2},
        tracking={"register": True},
        space={"fixed": ["load", "age", "used", "signed_month", "plan", "paid", "sold", "steps"]},
    )
    sections = ("data", "split", "folds", "model", "scoring", "pos_label")
    small = small.model_copy(update={key: getattr(config, key) for key in sections})
    return Trained(bench, file, separator, rows, small, select.fn(small, None, 0))


def other_process(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    if arguments[0] == "-m":
        environment["PYTHONPATH"] = str(ROOT)
    command = [sys.executable, *arguments]
    return subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=240
    )


@pytest.mark.slow
def test_a_file_gives_the_same_probabilities_in_every_process_to_the_last_bit(
    trained: Trained, swarm: Swarm
) -> None:
    bench = trained.bench
    expected = trained.expected
    run_id = trained.outcome.run_id
    uri = trained.outcome.model_uri
    folder = bench.folder
    at = ("--tracking-uri", bench.uri)
    inputs = trained.served().metadata.get_input_schema().to_dict()
    assert {column["name"]: (column["type"], column["required"]) for column in inputs} == {
        "load": ("double", True),
        "age": ("double", False),
        "used": ("string", False),
        "signed": ("string", False),
        "plan": ("string", False),
        "paid": ("string", True),
        "sold": ("string", True),
        "steps": ("double", False),
    }
    arguments = (bench.uri, uri, str(trained.file), trained.separator, "answers.parquet")
    process = other_process("-c", CONSUMER, *arguments, cwd=folder)
    assert process.returncode == 0, process.stderr
    pd.testing.assert_frame_equal(
        pd.read_parquet(folder / "answers.parquet"), expected, check_exact=True
    )
    command = ("-m", "flows.cli", "predict", run_id, str(trained.file), *at, "--out", "own.parquet")
    process = other_process(*command, cwd=folder)
    assert process.returncode == 0, process.stderr
    assert process.stdout == f"wrote own.parquet: 300 predictions of {uri}\n"
    predictions = pd.read_parquet(folder / "own.parquet")
    proba = predictions[["probability_no", "probability_yes"]].set_axis(["no", "yes"], axis=1)
    pd.testing.assert_frame_equal(proba, expected, check_exact=True)
    table = fetch_as_configured(trained.config)
    assert np.array_equal(predictions["prediction"], trained.outcome.model.predict(table.features))
    # A refresh compares champions on the rows of its own table.
    name, _, version = uri.removeprefix("models:/").partition("/")
    champion = Champion(name, version, run_id)
    answers = Champions(bench.tracking).predict(champion, table.cells, expected.columns.to_numpy())
    assert np.array_equal(answers.proba, expected)
    # `swarm features` prints the names of the file.
    names = swarm("features", run_id, *at).out.split()
    assert (
        {"load", "signed"}
        <= set(names)
        <= set(pd.read_csv(trained.file, sep=None, engine="python"))
    )
    assert "signed_month" in swarm("features", run_id, *at, "--derived").out.split()
    assert set(swarm("features", run_id, *at, "--model-inputs").out.split()) == {
        column["name"] for column in inputs
    }


@pytest.mark.slow
def test_cells_that_are_numbers_and_dates_already_are_the_same(trained: Trained) -> None:
    model = trained.served()
    expected = trained.expected
    table = fetch_as_configured(trained.config)
    moments = pd.to_datetime(table.cells["signed"], format="%d.%m.%Y")
    texts = trained.rows.replace("", None)
    for batch in (
        table.cells,
        table.cells.assign(signed=moments, used=table.features["used"]),
        texts,
    ):
        proba = model.predict(batch, params={"probabilities": True})
        pd.testing.assert_frame_equal(proba, expected, check_exact=True)
    # A single row, as a table and as the records of a request.
    row = texts.iloc[[7]]
    for batch in (row, row.to_dict("records"), table.cells.iloc[[7]].convert_dtypes()):
        proba = model.predict(batch, params={"probabilities": True})
        assert np.array_equal(proba, expected.iloc[[7]])


@pytest.mark.slow
def test_what_training_did_not_have_is_warned_of_or_refused(trained: Trained, swarm: Swarm) -> None:
    rows = trained.rows.head(40)
    at = ("--tracking-uri", trained.bench.uri)
    out = trained.bench.folder / "predictions.csv"

    def predicted(changed: pd.DataFrame) -> tuple[pd.DataFrame, str]:
        result = swarm(
            "predict", trained.outcome.run_id, trained.write(changed), *at, "--out", str(out)
        )
        assert result.status == 0, result
        return pd.read_csv(out, float_precision="round_trip"), result.err

    usual, warning = predicted(rows)
    assert (warning, len(usual)) == ("", 40)
    assert np.array_equal(usual["probability_yes"], trained.expected["yes"].head(40))
    pd.testing.assert_frame_equal(predicted(rows.assign(more="extra"))[0], usual)
    new, warning = predicted(rows.assign(plan="gold"))
    assert "warning column 'plan' has categories" in warning
    assert "'gold', in 40 rows" in warning
    pd.testing.assert_frame_equal(new, predicted(rows.assign(plan=""))[0])
    for wrong, words in (
        (rows.drop(columns="age"), "no column 'age'"),
        (rows.drop(columns="plan"), "no column 'plan'"),
        (rows.assign(age=["7x", *rows["age"][1:]]), "column 'age' has '7x' in row 0"),
        (rows.assign(used=[*rows["used"][:39], "much"]), "column 'used' has 'much' in row 39"),
        (rows.assign(signed="2021-03-01"), "column 'signed' has '2021-03-01' in 40 rows"),
    ):
        out.unlink(missing_ok=True)
        file = trained.write(wrong)
        result = swarm("predict", trained.outcome.run_id, file, *at, "--out", str(out))
        assert words in result.sentence
        assert not out.exists()
        with pytest.raises(ValueError, match=words.split(" in ")[0]):
            trained.served().predict(pd.read_csv(file, sep=trained.separator))


# This tree accepts only the labels 0 to k-1, as XGBoost does.
ONLY_CODES = """
import numpy as np
from sklearn.tree import DecisionTreeClassifier


class XGBClassifier(DecisionTreeClassifier):
    def fit(self, X, y, sample_weight=None):
        if not np.array_equal(np.unique(y), np.arange(len(np.unique(y)))):
            raise ValueError("Invalid classes inferred from unique values of `y`")
        return super().fit(X, y, sample_weight)
"""


@pytest.fixture
def only_codes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the import path of that tree, in a package with the name of XGBoost."""
    package = tmp_path / "site" / "xgboost"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "sklearn.py").write_text(ONLY_CODES)
    described = tmp_path / "site" / "xgboost-1.0.dist-info"
    described.mkdir()
    (described / "METADATA").write_text("Metadata-Version: 2.1\nName: xgboost\nVersion: 1.0\n")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    for name in [name for name in sys.modules if name.partition(".")[0] == "xgboost"]:
        monkeypatch.delitem(sys.modules, name)
    return "xgboost.sklearn.XGBClassifier"


@pytest.mark.slow
@pytest.mark.usefixtures("plain")
@pytest.mark.parametrize("target", ["kind", "y"])
def test_a_model_that_accepts_codes_alone_predicts_labels(
    target: str, only_codes: str, bench: Bench
) -> None:
    rows = table()
    rows["y"] += 1
    rows.to_csv(bench.folder / "table.csv", index=False)
    drop = [name for name in [*OTHERS, "y"] if name != target]

    def run(estimator: str) -> SelectRun:
        params = {"max_depth": 3, "random_state": 0}
        config = bench.other(estimator.partition(".")[0]).config(
            data={"path": str(bench.folder / "table.csv"), "target": target, "drop": drop},
            model={"estimator": estimator, "params": params, "allow": ["xgboost"]},
            budget={"epochs": 2},
        )
        return select.fn(config, None, 0)

    codes = run(only_codes)
    labels = run("sklearn.tree.DecisionTreeClassifier")
    # Search, confirmation and judgement are the same as of a model that is fitted to labels.
    assert codes.result.features == labels.result.features
    assert codes.result.cost == labels.result.cost
    pd.testing.assert_frame_equal(codes.judgement.table, labels.judgement.table)
    pd.testing.assert_frame_equal(codes.judgement.predictions, labels.judgement.predictions)
    model = load_model(bench.tracking, codes.model_uri)
    assert np.array_equal(model.predict(rows), labels.model.predict(rows))
    proba = model.predict(rows, params={"probabilities": True})
    assert proba.columns.tolist() == [str(label) for label in sorted(rows[target].unique())]
    assert np.array_equal(proba, labels.model.mean_proba(rows))

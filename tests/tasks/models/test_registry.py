"""Tests of registered models: they predict elsewhere what the ensemble predicts here."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import skops.io
from lightgbm import LGBMClassifier, LGBMRegressor
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.svm import LinearSVC

from swarm.ensemble import SubsetEnsemble
from swarm.errors import StoreError
from swarm.reader import Reader
from tasks.models.registry import ModelInfo, default_store, log_ensemble
from tasks.tracking import Tracking, open_tracking

CONSUMER = """
import json, sys
import mlflow, numpy as np, pandas as pd
uri, table, answers = sys.argv[1:4]
mlflow.set_tracking_uri(uri)
frame = pd.read_parquet(table)
predictions = {}
for model in sys.argv[4:]:
    predictions[model] = np.asarray(mlflow.pyfunc.load_model(model).predict(frame)).tolist()
with open(answers, "w") as file:
    json.dump(predictions, file)
assert not {"swarm", "tasks"} & set(sys.modules)
"""


def table(n_rows: int = 120) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "length": rng.normal(size=n_rows),
            "count": rng.integers(0, 9, size=n_rows),
            "single": rng.normal(size=n_rows).astype("float32"),
            "flag": rng.random(n_rows) > 0.5,
            "place": pd.Categorical(rng.choice(["north", "south", "west"], size=n_rows)),
            "never used": rng.normal(size=n_rows),
        }
    )


def light(estimator: Any = LGBMClassifier) -> Any:
    return estimator(n_estimators=8, min_child_samples=5, verbose=-1, n_jobs=1)


SUBSETS = [["length", "place"], ["count", "flag", "single"], ["single", "length", "count"]]
NUMBERS = [["length", "count"], ["single", "length"], ["count", "single", "flag"]]


def ensembles() -> dict[str, SubsetEnsemble]:
    X = table()
    signal = X["length"] + X["count"] / 4 + X["single"]
    two = np.where(signal > 1, "sick", "healthy")
    three = np.array(["high", "low", "middle"])[pd.qcut(signal, 3, labels=False)]
    linear = make_pipeline(StandardScaler(), LogisticRegression())
    boosted = HistGradientBoostingClassifier(max_iter=5, categorical_features="from_dtype")
    labels = pd.DataFrame({"ill": signal > 1, "in danger": signal > 2}).astype(int)
    return {
        "binary_any": SubsetEnsemble(light(), SUBSETS, vote="any").fit(X, two),
        "multi_hard": SubsetEnsemble(light(), SUBSETS[:2], vote="hard").fit(X, three),
        "regression": SubsetEnsemble(light(LGBMRegressor), SUBSETS).fit(X, signal),
        "linear": SubsetEnsemble(linear, NUMBERS[:2], vote="soft").fit(X, three),
        "labels": SubsetEnsemble(KNeighborsClassifier(3), NUMBERS[:2]).fit(X, labels),
        "margins": SubsetEnsemble(LinearSVC(), NUMBERS[:2]).fit(X, three),
        "alone": SubsetEnsemble(linear, NUMBERS[:1]).fit(X, two),
        "boosted": SubsetEnsemble(boosted, SUBSETS[:2]).fit(X, two),
    }


@pytest.fixture(scope="module")
def tracking(tracking_uri: str, tmp_path_factory: pytest.TempPathFactory) -> Tracking:
    return open_tracking(tracking_uri, "registry", tmp_path_factory.mktemp("registry"))


@pytest.fixture(scope="module")
def run_id(tracking: Tracking) -> str:
    return tracking.start_run("one", {})


@pytest.fixture(scope="module")
def logged(
    tracking: Tracking, run_id: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, tuple[SubsetEnsemble, ModelInfo]]]:
    before = Path.cwd()
    os.chdir(tmp_path_factory.mktemp("elsewhere"))
    try:
        models = {
            name: (fitted, log_ensemble(tracking, run_id, fitted, table().head(60), name, "why"))
            for name, fitted in ensembles().items()
        }
        # The check of a model compiles its code, and what it leaves is not stored.
        for _, info in models.values():
            files = tracking.client.list_logged_model_artifacts(info.model_id)
            assert "__pycache__" not in {file.path for file in files}
        yield models
        assert list(Path.cwd().iterdir()) == []
    finally:
        os.chdir(before)


@pytest.fixture(scope="module")
def load(tracking: Tracking) -> Iterator[Any]:
    import mlflow

    with default_store(tracking.uri):
        yield mlflow.pyfunc.load_model


@pytest.mark.slow
def test_a_fresh_process_predicts_what_the_ensemble_predicts(
    logged: Any, tracking: Tracking, tmp_path: Path
) -> None:
    X = table()
    shuffled = X.iloc[:, ::-1].assign(extra="ignored")
    shuffled.to_parquet(tmp_path / "table.parquet")
    uris = [f"models:/{name}/1" for name in logged]
    arguments = [tracking.uri, "table.parquet", "answers.json", *uris]
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    process = subprocess.run(
        [sys.executable, "-c", CONSUMER, *arguments],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert process.returncode == 0, process.stderr
    answers = json.loads((tmp_path / "answers.json").read_text())
    for name, (fitted, info) in logged.items():
        assert info.uri == f"models:/{name}/1"
        assert np.array_equal(answers[info.uri], fitted.predict(X)), name


def test_the_served_model_returns_probabilities_on_request(logged: Any, load: Any) -> None:
    X = table()
    for name in ("multi_hard", "binary_any", "linear", "margins", "alone", "boosted"):
        fitted, info = logged[name]
        model = load(info.uri)
        assert model.metadata.get_params_schema().to_dict()[0]["name"] == "probabilities"
        proba = model.predict(X, params={"probabilities": True})
        assert proba.columns.tolist() == fitted.classes_.tolist()
        np.testing.assert_allclose(proba.to_numpy(), fitted.mean_proba(X), rtol=1e-12)
        assert np.array_equal(model.predict(X), fitted.predict(X)), name
    fitted, info = logged["labels"]
    proba = load(info.uri).predict(X, params={"probabilities": True})
    assert proba.columns.tolist() == ["ill", "in danger"]
    assert load(info.uri).predict(X).columns.tolist() == fitted.labels_ == ["ill", "in danger"]
    expected = np.column_stack([share[:, 1] for share in fitted.mean_proba(X)])
    np.testing.assert_allclose(proba.to_numpy(), expected, rtol=1e-12)
    assert load(logged["regression"][1].uri).metadata.get_params_schema() is None


def test_an_empty_batch_has_an_empty_answer(logged: Any, load: Any) -> None:
    empty = table().head(0)
    for name in ("binary_any", "regression", "labels"):
        fitted, info = logged[name]
        model = load(info.uri)
        answer = model.predict(empty)
        full_answer = model.predict(table())
        assert answer.shape == (0, *full_answer.shape[1:]), name
        assert np.asarray(answer).dtype == np.asarray(full_answer).dtype, name
        if getattr(fitted, "classes_", None) is not None:
            proba = model.predict(empty, params={"probabilities": True})
            expected = model.predict(table(), params={"probabilities": True}).head(0)
            pd.testing.assert_frame_equal(proba, expected)


def test_rows_may_come_otherwise_than_in_training(logged: Any, load: Any) -> None:
    X = table()
    # Batches may have whole or missing values in columns that had fractions or no gaps.
    whole = X.assign(length=X["length"].round(), single=X["count"])
    floats = whole.astype({"length": float, "single": "float32"})
    missing = floats.assign(length=np.nan)
    gaps = X.assign(count=X["count"].astype(float).where(np.arange(len(X)) % 7 > 0))
    batches = [
        (X.astype({"count": float, "flag": int, "single": float, "place": str}), X),
        *((whole.astype({"length": dtype}), floats) for dtype in ("int64", "Int64", "object")),
        (pd.read_csv(io.StringIO(whole.to_csv(index=False))), floats),
        (missing.assign(length=None), missing),
        (missing.astype({"length": "Int64"}), missing),
        (gaps, gaps),
    ]
    for name in ("multi_hard", "regression"):
        fitted, info = logged[name]
        model = load(info.uri)
        for batch, equivalent in batches:
            assert np.array_equal(model.predict(batch), fitted.predict(equivalent)), batch.dtypes
        for wrong in (X.assign(length="long"), X.drop(columns="length")):
            with pytest.raises(Exception, match="length"):
                model.predict(wrong)


def test_durations_may_come_as_they_are_or_as_seconds(
    tracking: Tracking, run_id: str, load: Any
) -> None:
    X = table().assign(length=table()["length"].abs().mul(100).round(1) + 0.5)
    fitted = SubsetEnsemble(light(), NUMBERS).fit(X, X["length"] > X["length"].median())
    model = load(log_ensemble(tracking, run_id, fitted, X, "durations").uri)
    waits = X.assign(length=pd.to_timedelta(X["length"], unit="s"))
    assert np.array_equal(model.unwrap_python_model().predict(None, waits), fitted.predict(X))


def test_the_model_has_signature_example_and_pinned_requirements(
    logged: Any, load: Any, tracking: Tracking
) -> None:
    _, info = logged["linear"]
    files = {file.path for file in tracking.client.list_logged_model_artifacts(info.model_id)}
    assert "MLmodel" in files
    model = load(info.uri)
    metadata = model.metadata
    assert metadata.get_input_schema().to_dict() == [
        {"name": "length", "type": "double", "required": True},
        {"name": "count", "type": "long", "required": True},
        {"name": "single", "type": "double", "required": True},
    ]
    rows = model.input_example
    assert np.array_equal(model.predict(rows), model.predict(table().head(len(rows))))
    assert metadata.saved_input_example_info is not None
    pins = [
        line.split("==") for line in (folder_of(model) / "requirements.txt").read_text().split()
    ]
    assert {name for name, _ in pins} == {"mlflow", "numpy", "pandas", "skops", "scikit-learn"}


@pytest.mark.parametrize(("name", "extension"), [("binary_any", ".txt"), ("linear", ".skops")])
def test_a_registered_model_loads_without_unpickling(
    name: str, extension: str, logged: Any, load: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for function in ("pickle.load", "pickle.loads", "cloudpickle.load", "joblib.load"):
        monkeypatch.setattr(function, pytest.fail)
    model = load(logged[name][1].uri)
    assert len(model.predict(table())) == len(table())
    assert {file.suffix for file in folder_of(model).rglob("member_*")} == {extension}


def folder_of(model: Any) -> Path:
    """The folder that a model is stored in."""
    return Path(model.metadata.artifact_path.removeprefix("file://"))


class Foreign:
    """A type that no stored model may contain."""

    def __reduce__(self) -> Any:
        return os.system, ("true",)


def test_a_tampered_skops_file_is_refused(logged: Any, load: Any, tmp_path: Path) -> None:
    folder = shutil.copytree(folder_of(load(logged["linear"][1].uri)), tmp_path / "copy")
    member = next(folder.rglob("member_000.skops"))
    estimator = skops.io.load(member, trusted=skops.io.get_untrusted_types(file=member))
    estimator.extra_ = Foreign()
    skops.io.dump(estimator, member)
    with pytest.raises(Exception, match="Foreign"):
        load(str(folder))


def test_an_estimator_that_no_safe_file_can_hold_is_refused_by_name(
    tracking: Tracking, run_id: str
) -> None:
    X = table()
    pipeline = make_pipeline(FunctionTransformer(_double), LogisticRegression())
    fitted = SubsetEnsemble(pipeline, NUMBERS).fit(X, X["flag"])
    with pytest.raises(StoreError, match=r"Pipeline contains .*_double"):
        log_ensemble(tracking, run_id, fitted, X, "refused")


def _double(frame: pd.DataFrame) -> pd.DataFrame:
    return frame * 2


TRUTH = pd.Categorical([True, False, True])
GAPS = pd.Series([True, False, None], dtype="boolean").astype("category").array


@pytest.mark.parametrize(
    ("levels", "values", "expected"),
    [
        *(
            (levels, values, [True, None, False])
            for levels in (TRUTH, GAPS)
            for values in (
                [True, None, False],
                ["True", None, "False"],
                pd.array([True, None, False], dtype="boolean"),
                [1.0, np.nan, 0.0],
            )
        ),
        # A new code with a letter makes the whole column text.
        (pd.Categorical([1, 2]), ["1", "2", "A7", None], [1, 2, None, None]),
        # A gap makes whole numbers floats.
        (pd.Categorical(["1", "2"]), [1.0, 2.0, None], ["1", "2", None]),
        (pd.Categorical(["1", "2"]), [1, 2, 3], ["1", "2", None]),
        (pd.Categorical(["a", "1.5"]), ["a", 1.5], ["a", "1.5"]),
    ],
)
def test_a_category_is_known_again_whatever_type_its_column_has(
    levels: pd.Categorical, values: list[Any], expected: list[Any]
) -> None:
    training = pd.Series(levels, name="code")
    reader = json.loads(json.dumps(Reader.learn(training.to_frame()).as_dict()))
    cast = Reader.from_dict(reader).read(pd.DataFrame({"code": values}))["code"]
    assert cast.dtype == training.dtype
    assert [None if pd.isna(value) else value for value in cast] == expected

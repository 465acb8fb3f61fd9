"""Fast paths on a device: NumPy and the strict namespace of the array API stand in for a GPU."""

from __future__ import annotations

import sys
import warnings
from dataclasses import replace
from importlib.util import find_spec
from types import ModuleType, SimpleNamespace
from typing import Any

import array_api_compat.numpy
import array_api_strict
import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, make_classification
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression, Ridge, RidgeClassifier
from sklearn.metrics import accuracy_score, make_scorer
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import swarm.fastpaths.device
from swarm import SubsetSelector
from swarm.errors import ConfigError
from swarm.evaluation import crossval
from swarm.fastpaths import Device, choose, exact_path, nearest, open_device, require_device
from swarm.fastpaths.solve import LinearOnDevice
from swarm.problem.problem import Problem
from tests.command import Swarm
from tests.fuzzing import CASES, failures
from tests.small_run import BAYES, Bench
from tests.test_fuzz_exact import case

NUMPY = Device("cuda by NumPy", array_api_compat.numpy)
STRICT = Device("cuda by the standard", array_api_strict)
KINDS = ("nearest", "naive Bayes", "linear discriminant", "linear classes")


def test_a_device_gives_the_costs_of_the_cpu_to_the_last_bit() -> None:
    compared = dict.fromkeys(KINDS, 0)

    def differences(kind: str, seed: int) -> list[str]:
        drawn = case(kind, seed)
        if drawn is None:
            return []
        problem, masks = replace(drawn[0], importance="none"), drawn[1]
        path, _ = exact_path(problem)
        if path is None:
            return []
        found = []
        for device in (NUMPY, STRICT):
            other, way = exact_path(problem, device)
            assert other is not None
            if not way.endswith(device.label):
                continue
            costs, here = path.answers(masks).costs, other.answers(masks).costs
            # What either leaves to a fitted model has the cost of that model.
            both = ~np.isnan(costs) & ~np.isnan(here)
            compared[kind] += int(both.sum())
            if not np.array_equal(costs[both], here[both]):
                found.append(f"{kind}, {device.label}, {problem.estimator!r}: {costs} and {here}")
        return found

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for kind in KINDS:
            for prefix in ("", "scaled "):
                name = prefix + kind
                compared.setdefault(name, 0)
                found = failures(range(CASES // 8), lambda seed, name=name: differences(name, seed))
                assert not found, "\n".join(found)
    assert min(compared.values()) > 20


@pytest.mark.parametrize(
    "model",
    [
        GaussianNB(),
        make_pipeline(StandardScaler(), KNeighborsClassifier()),
        RidgeClassifier(),
        LinearDiscriminantAnalysis(),
    ],
    ids=["naive Bayes", "neighbours", "ridge", "discriminant"],
)
def test_what_is_not_rounding_is_decided_on_the_device(
    model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    features, target = make_classification(200, 12, n_informative=6, n_redundant=0, random_state=0)
    problem = Problem.build(pd.DataFrame(features), target, model, importance="none")
    masks = np.random.default_rng(0).random((40, 12)) < 0.5
    masks[~masks.any(axis=1), 0] = True
    expected = exact_path(problem)[0]
    assert expected is not None
    costs = expected.answers(masks).costs

    def left(*given: Any) -> None:
        assert not given[-1].size, "computed on the CPU"

    def never(*_given: Any) -> None:
        raise AssertionError("computed on the CPU")

    monkeypatch.setattr(nearest, "vote", left)
    monkeypatch.setattr("swarm.fastpaths.naive_bayes._joint", never)
    monkeypatch.setattr("swarm.fastpaths.naive_bayes.exact_sums", never)
    monkeypatch.setattr("swarm.fastpaths.linear.solve_masks", never)
    monkeypatch.setattr("swarm.fastpaths.linear.predict_masks", never)
    path, _ = exact_path(problem, NUMPY)
    assert path is not None
    assert np.array_equal(path.answers(masks).costs, costs)
    # In chunks of one mask or a few rows.
    monkeypatch.setattr(swarm.fastpaths.device, "_CHUNK", 1000)
    assert np.array_equal(path.answers(masks).costs, costs)


def test_singular_systems_are_left_out_and_the_others_solved() -> None:
    gram = np.array([[4.0, 4.0, 0.0], [4.0, 4.0, 0.0], [0.0, 0.0, 1.0]])
    system = LinearOnDevice(NUMPY, gram, np.array([[4.0, 4.0, 2.0]]), np.eye(3))
    masks = np.array([[1, 1, 0], [1, 0, 1], [1, 1, 1], [0, 1, 0]], dtype=bool)
    found, bounds = system.solve(masks, 0.0, 0.0)
    assert np.isinf(bounds[[0, 2]]).all()
    assert np.allclose(found[[1, 3], 0], [[1.0, 0.0, 2.0], [0.0, 1.0, 0.0]])
    # The scaled matrices are identities; the unscaled ones have traces 5 and 4, their inverses
    # 1.25 and 0.25.
    assert np.allclose(bounds[[1, 3]], [[4.0, 6.25, 2.0], [1.0, 1.0, 1.0]])


def test_a_search_is_the_same_on_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    features, target = load_breast_cancer(return_X_y=True, as_frame=True)
    features, target = features.iloc[:200, :12], target.iloc[:200]

    def fitted(**options: Any) -> SubsetSelector:
        model = make_pipeline(StandardScaler(), KNeighborsClassifier())
        return SubsetSelector(model, epochs=3, n_jobs=2, **options).fit(features, target)

    on_cpu = fitted()
    monkeypatch.setattr(choose, "open_device", lambda _name: STRICT)
    monkeypatch.setattr(crossval, "open_device", lambda _name: STRICT)
    on_device = fitted(device="cuda")
    assert on_device.cost_ == on_cpu.cost_
    pd.testing.assert_frame_equal(on_device.results_, on_cpu.results_)


@pytest.mark.parametrize(
    ("model", "options", "words"),
    [
        (LogisticRegression(), {}, "no fast path for LogisticRegression"),
        (Ridge(), {"scoring": make_scorer(accuracy_score)}, "Ridge predicts numbers"),
        (KNeighborsClassifier(weights="distance"), {}, "KNeighborsClassifier has weights"),
        (GaussianNB(), {"scoring": "roc_auc"}, "'roc_auc' depends on the last bits"),
        (RidgeClassifier(), {}, "importances that are coefficients of RidgeClassifier"),
        (GaussianNB(priors=[0.5, 0.5]), {}, "GaussianNB has given priors"),
    ],
)
def test_a_device_that_would_have_nothing_to_do_is_refused(
    model: Any, options: dict[str, Any], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    features, target = make_classification(60, 5, random_state=0)
    problem = Problem.build(pd.DataFrame(features), target, model, **options)
    require_device(problem, "cpu")
    monkeypatch.setattr(choose, "open_device", lambda _name: NUMPY)
    with pytest.raises(ConfigError, match="would have nothing to do") as refused:
        require_device(problem, "cuda")
    assert words in str(refused.value)


def _library(name: str, available: bool) -> ModuleType:
    made = ModuleType(name)
    cuda = SimpleNamespace(is_available=lambda: available, Device=lambda: "the first GPU")
    made.__dict__.update(cuda=cuda, device=str)
    return made


@pytest.mark.parametrize(
    ("installed", "words"),
    [
        ({}, "the device 'cuda' needs PyTorch or CuPy, neither of which is installed"),
        ({"torch": False}, "PyTorch found no device 'cuda' on this machine"),
        ({"torch": False, "cupy": False}, "PyTorch and CuPy found no device 'cuda'"),
    ],
)
def test_a_device_that_is_not_there_is_refused(
    installed: dict[str, bool], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _install(installed, monkeypatch)
    with pytest.raises(ConfigError, match=words):
        open_device("cuda")
    with pytest.raises(ConfigError, match="unknown device 'tpu'; choose from cpu, cuda"):
        open_device("tpu")


def test_the_library_that_has_a_device_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    _install({"torch": False, "cupy": True}, monkeypatch)
    device = open_device("cuda")
    assert device is not None
    assert (device.label, device.device) == ("cuda by CuPy", "the first GPU")


def _install(installed: dict[str, bool], monkeypatch: pytest.MonkeyPatch) -> None:
    for name, available in installed.items():
        monkeypatch.setitem(sys.modules, name, _library(name, available))
        monkeypatch.setitem(sys.modules, f"array_api_compat.{name}", ModuleType(name))
    known = {"array_api_compat", *installed}
    monkeypatch.setattr(swarm.fastpaths.device, "find_spec", lambda name: name in known or None)


@pytest.mark.usefixtures("prefect_server")
def test_the_command_refuses_a_device_before_it_opens_a_run(swarm: Swarm, bench: Bench) -> None:
    if find_spec("torch") or find_spec("cupy"):
        pytest.skip("a library for GPUs is installed")
    config = bench.file(model=BAYES, evaluation={"device": "cuda"})
    assert "needs PyTorch or CuPy" in swarm("select", config).sentence
    assert not bench.made_anything()
    checked = swarm("check", config)
    assert checked.status
    assert "needs PyTorch or CuPy" in " ".join((checked.out + checked.err).split())


def test_a_gpu_gives_the_costs_of_the_cpu() -> None:
    try:
        device = open_device("cuda")
    except ConfigError as error:
        pytest.skip(str(error))
    features, target = load_breast_cancer(return_X_y=True, as_frame=True)
    masks: NDArray[np.bool_] = np.random.default_rng(0).random((64, 30)) < 0.5
    models = (GaussianNB(), KNeighborsClassifier(), RidgeClassifier(), LinearDiscriminantAnalysis())
    for model in models:
        problem = Problem.build(features, target, model, importance="none")
        on_cpu, on_gpu = exact_path(problem)[0], exact_path(problem, device)[0]
        assert on_cpu is not None
        assert on_gpu is not None
        costs, here = on_cpu.answers(masks).costs, on_gpu.answers(masks).costs
        both = ~np.isnan(costs) & ~np.isnan(here)
        assert both.mean() > 0.9
        assert np.array_equal(costs[both], here[both])

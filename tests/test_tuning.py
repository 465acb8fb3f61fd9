"""One search for columns and for a setting of the model."""

from __future__ import annotations

import io
import json
import multiprocessing
import os
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from conf.estimator import build_setting, settings_of
from conf.sections import ModelSection
from flows.configured import fetched, plan_as_configured, prepare_as_configured
from flows.nested import OuterPlan, nested
from flows.planning import lines, plan_search
from flows.select import select
from flows.stability import archived_evidence_of
from swarm import SubsetSelector
from swarm.errors import ConfigError, EvaluationError
from swarm.evaluation.crossval import CrossValidation
from swarm.evaluation.executors import process_pool
from swarm.evaluation.types import evaluate_fully
from swarm.evaluation.workers import _POOLS, Workers
from swarm.problem.problem import Problem
from swarm.search.budget import Budget
from swarm.search.confirmation import fresh_seed
from swarm.search.settings import MOST_SETTINGS, expanded
from swarm.search.tuning import rounds_of, subsets_in, without_rounds
from tests.small_run import Bench
from tests.test_prefilter import refuse_to_train

GRID = {"max_depth": [1, 4], "min_samples_leaf": [1, 8]}
SEARCH = {"num_leaves": [2, 4], "learning_rate": [0.01, 0.3]}
MODEL = {
    "estimator": "lightgbm.LGBMClassifier",
    "params": {"n_estimators": 5, "min_child_samples": 5},
    "search": SEARCH,
}
# The smallest budget for four settings, a few epochs of four particles.
ENOUGH = {"epochs": 14}


def numbers() -> tuple[pd.DataFrame, Any]:
    """Ten columns; the class depends on the product of two of them, which one split cannot tell."""
    rng = np.random.default_rng(1)
    X = pd.DataFrame(rng.normal(size=(160, 10)).round(2)).add_prefix("x")
    return X, ((X["x2"] * X["x7"]) > 0).astype(int)


def selector(**options: Any) -> SubsetSelector:
    given = {
        "estimator": DecisionTreeClassifier(random_state=0),
        "param_grid": GRID,
        "strategy_params": {"n_particles": 8, "n_swarms": 2},
        "fits": 360,
        "cv": 3,
        **options,
    }
    return SubsetSelector(**given)


def answer(fitted: SubsetSelector) -> tuple[Any, ...]:
    tuning = fitted.tuning_
    return (
        fitted.subset_,
        fitted.best_params_,
        json.dumps(tuning.costs.tolist()),
        (tuning.evaluations, tuning.distinct, tuning.fits),
        fitted.history_.to_json(double_precision=15),
    )


@pytest.mark.parametrize(
    "strategy",
    [
        "multiswarm",
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in ("bpso", "genetic", "ant_colony", "random")
        ),
    ],
)
def test_the_setting_and_the_columns_are_found_together(strategy: str, tmp_path: Path) -> None:
    X, y = numbers()
    given = {"strategy": strategy, "strategy_params": None, "archive": f"sqlite:///{tmp_path}/a.db"}
    fitted = selector(**given, fits=900).fit(X, y)
    assert fitted.best_params_["max_depth"] == 4
    model = DecisionTreeClassifier(random_state=0, **fitted.best_params_)
    with CrossValidation(Problem.build(X, y, model, folds=3)) as evaluator:
        found = evaluate_fully(evaluator, np.isin(X.columns, fitted.subset_)[None, :])
    assert fitted.cost_ == found.costs[0]
    assert fitted.cost_ <= np.nanmin(fitted.tuning_.costs)
    # The evaluations are those of a search with this model.
    warm = {"estimator": model, "param_grid": None, "warm": [fitted.subset_], "epochs": 1}
    direct = selector(**given, **warm).fit(X, y)
    assert direct.result_.records[0].work.hits > 0
    assert direct.cost_ <= fitted.cost_


def test_every_setting_starts_with_all_features_and_the_better_half_goes_on() -> None:
    X, y = numbers()
    fitted = selector().fit(X, y)
    tuning = fitted.tuning_
    assert [each.n_settings for each in tuning.rounds] == [4, 2]
    took_part = np.isfinite(tuning.costs)
    assert took_part.sum(axis=1).tolist() == [4, 2]
    # The two that go on are those with the lowest costs.
    assert tuning.costs[0, took_part[1]].max() <= tuning.costs[0, ~took_part[1]].min()
    assert tuning.costs[1, tuning.chosen] == np.nanmin(tuning.costs[1])
    for setting, lowest in zip(tuning.settings, tuning.costs[0], strict=True):
        model = DecisionTreeClassifier(random_state=0, **setting)
        with CrossValidation(Problem.build(X, y, model, folds=3)) as evaluator:
            assert lowest <= evaluate_fully(evaluator, np.ones((1, 10), dtype=bool)).costs[0]
    # Rounds and search share the budget, which the last epoch of eight subsets may exceed.
    assert 300 <= fitted.n_fits_ <= 360 + 3 * 9
    assert fitted.n_fits_ == fitted.result_.state.counts.fits + tuning.fits
    assert tuning.fits <= 0.75 * 360
    distinct = selector(fits=None, distinct=120).fit(X, y)
    assert distinct.tuning_.distinct + distinct.result_.state.counts.distinct <= 120


@pytest.mark.slow
def test_workers_and_the_order_of_the_grid_change_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    X, y = numbers()
    started = []

    def counted(*given: Any) -> Any:
        started.append(given)
        return process_pool(*given)

    monkeypatch.setitem(_POOLS, "loky", counted)
    few = {"param_grid": {"max_depth": [1, 4]}, "fits": 120, "confirm": {"repeats": 2}}
    assert answer(selector(**few, n_jobs=2).fit(X, y)) == answer(selector(**few).fit(X, y))
    # Processes start once: for all settings, the search, and its confirmation.
    assert len(started) == 1
    backwards = dict(reversed(GRID.items()))
    assert answer(selector(param_grid=backwards).fit(X, y)) == answer(selector().fit(X, y))


@pytest.mark.slow
def test_workers_that_share_processes_survive_the_death_of_one(tmp_path: Path) -> None:
    X, y = numbers()
    folder = tmp_path / "deaths"
    folder.mkdir()
    whole = np.ones((1, 10), dtype=bool)
    model = DecisionTreeClassifier(random_state=0)
    plain, mortal = (
        Problem.build(X, y, each, folds=3) for each in (model, DiesOnce(folder=str(folder)))
    )
    host = Workers(plain, 2)
    with closing(host), CrossValidation(plain, n_jobs=2, host=host) as first:
        cost = first.evaluate(whole, np.array([np.inf]), np.arange(3)).costs
        with CrossValidation(mortal, n_jobs=2, host=host) as second:
            assert second.evaluate(whole, np.array([np.inf]), np.arange(3)).costs == cost
        assert list(folder.iterdir())
        other = ~whole
        other[0, :3] = True
        assert np.isfinite(first.evaluate(other, np.array([np.inf]), np.arange(3)).costs).all()


class DiesOnce(DecisionTreeClassifier):
    """A tree whose first fit ends its process."""

    def __init__(self, folder: str = "", random_state: int = 0) -> None:
        super().__init__(random_state=random_state)
        self.folder = folder

    def fit(self, X: Any, y: Any) -> Any:
        """Die if no process has, in the workers."""
        note = Path(self.folder) / "died"
        if len(X) > 100 and not note.exists() and multiprocessing.parent_process() is not None:
            note.touch()
            os._exit(1)
        return super().fit(X, y)


class Killed(BaseException):
    """Ends a search like the death of its process: nothing handles it."""


@pytest.mark.parametrize(
    "share", [0.3, *(pytest.param(share, marks=pytest.mark.slow) for share in (0.0, 0.6, 0.9))]
)
def test_a_search_that_was_killed_at_any_stage_ends_as_if_it_was_not(
    share: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, y = numbers()
    url = f"sqlite:///{tmp_path}/archive.db"
    train, fits, limit = CrossValidation._train, 0, float("inf")

    def dying(self: CrossValidation, jobs: Any, records: Any) -> Any:
        nonlocal fits
        fits += len(jobs)
        if fits > limit:
            raise Killed
        return train(self, jobs, records)

    monkeypatch.setattr(CrossValidation, "_train", dying)
    whole = answer(selector().fit(X, y))
    # Of the masks that are trained: in the first round, the second one, and the search.
    fits, limit = 0, share * fits
    with pytest.raises(Killed):
        selector(archive=url).fit(X, y)
    limit = float("inf")
    assert answer(selector(archive=url).fit(X, y)) == whole

    monkeypatch.setattr(CrossValidation, "_train", refuse_to_train)
    assert answer(selector(archive=url).fit(X, y)) == whole


def test_ctrl_c_in_the_rounds_keeps_the_best_setting_so_far(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    X, y = numbers()
    train, calls = CrossValidation._train, 0

    def pressed(self: CrossValidation, jobs: Any, records: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 4:
            raise KeyboardInterrupt
        return train(self, jobs, records)

    monkeypatch.setattr(CrossValidation, "_train", pressed)
    with pytest.warns(UserWarning, match="interrupted"):
        fitted = selector().fit(X, y)
    assert fitted.interrupted_
    assert fitted.best_params_ in list(fitted.tuning_.settings)
    assert fitted.cost_ == np.nanmin(fitted.tuning_.costs)


@pytest.mark.slow
def test_parameters_of_a_step_are_named_as_in_scikit_learn() -> None:
    X, y = numbers()
    model = make_pipeline(StandardScaler(), LogisticRegression())
    grid = [
        {"logisticregression__C": np.logspace(-3, 0, 2)},
        {"standardscaler__with_mean": [False]},
    ]
    fitted = selector(estimator=model, param_grid=grid).fit(X, y)
    assert [dict(each) for each in fitted.tuning_.settings] == [
        {"logisticregression__C": 0.001},
        {"logisticregression__C": 1.0},
        {"standardscaler__with_mean": False},
    ]
    clone(model).set_params(**fitted.best_params_)
    json.dumps(fitted.best_params_)


def test_prefilter_prices_confirmation_and_repeats_work_with_it() -> None:
    X, y = numbers()
    fitted = selector(
        prefilter={"least": 4},
        costs={"x2": 3.0},
        cost_weight=0.001,
        repeats=2,
        confirm={"repeats": 2},
        fits=800,
    ).fit(X, y)
    kept = fitted.result_.space.subset(fitted.prefilter_.kept)
    assert set(fitted.subset_) <= set(kept)
    assert fitted.best_params_["max_depth"] == 4
    model = DecisionTreeClassifier(random_state=0, **fitted.best_params_)
    assert fitted.confirmation_ is not None
    # Fresh folds have the chosen setting too.
    fresh = StratifiedKFold(3, shuffle=True, random_state=fresh_seed(0, 2)).split(X, y)
    model = DecisionTreeClassifier(random_state=0, **fitted.best_params_)
    costs = [1 - clone(model).fit(X.iloc[t], y[t]).score(X.iloc[v], y[v]) for t, v in fresh]
    baseline = fitted.confirmation_.baseline
    assert any(baseline[i : i + 3] == pytest.approx(costs) for i in range(0, len(baseline), 3))
    assert fitted.n_fits_ > fitted.tuning_.fits + fitted.result_.state.counts.fits


def test_a_value_that_the_model_refuses_is_reported_with_its_setting() -> None:
    with pytest.raises(EvaluationError, match="with the setting max_depth -1: "):
        selector(param_grid={"max_depth": [-1, 3]}).fit(*numbers())


def test_a_large_grid_is_sampled_with_a_seed() -> None:
    grid = {"a": list(range(20)), "b": list(range(20))}
    settings, n_grid = expanded(grid, seed=3)
    assert (len(settings), n_grid) == (MOST_SETTINGS, 400)
    assert len({tuple(each.items()) for each in settings}) == MOST_SETTINGS
    assert expanded(dict(reversed(grid.items())), seed=3) == (settings, n_grid)
    assert expanded(grid, seed=4)[0] != settings


@given(st.integers(1, MOST_SETTINGS), st.integers(1, 5000))
def test_rounds_halve_the_settings_within_three_quarters_of_the_budget(
    n_settings: int, subsets: int
) -> None:
    try:
        rounds = rounds_of(n_settings, subsets)
    except ConfigError as error:
        least = int(str(error).rpartition("allow ")[2].split()[0].replace(",", ""))
        assert least > subsets
        assert rounds_of(n_settings, least)
        return
    left = n_settings
    for each in rounds:
        assert each.n_settings == left
        assert each.n_subsets >= 4
        left = -(-left // 2)
    assert left == 1
    assert sum(each.n_settings * each.n_subsets for each in rounds) <= 0.75 * subsets


def test_a_budget_is_counted_in_subsets_and_reduced_by_the_rounds() -> None:
    budget = Budget(epochs=30, fits=900, patience=3)
    assert subsets_in(budget, n_folds=5, per_epoch=8) == 180
    assert subsets_in(Budget(epochs=30), n_folds=5, per_epoch=8) == 240
    assert subsets_in(Budget(seconds=3.0), n_folds=5, per_epoch=8) is None
    left = without_rounds(budget, evaluations=50, distinct=40, fits=200, per_epoch=8)
    assert left == Budget(epochs=23, fits=700, patience=3)
    assert without_rounds(Budget(fits=10), 50, 40, 200, 8) == Budget(fits=1)


@pytest.mark.slow
def test_a_run_tells_and_stores_the_setting_and_resumes_to_the_same_bytes(
    prefect_server: str, bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    config = bench.config(model=MODEL, budget=ENOUGH)
    outcome = select(config)
    tuning = outcome.result.tuning
    assert tuning.sentence() in " ".join(capsys.readouterr().err.split())
    for name, value in tuning.params.items():
        assert outcome.ensemble.estimator.get_params()[name] == value
        for model in outcome.ensemble.models_:
            assert model.get_params()[name] == value
    (run,) = bench.runs()
    for name, value in tuning.params.items():
        assert run.data.tags[f"model.chosen.{name}"] == str(value)
    found = json.loads(bench.artifact(outcome.run_id, "features.json"))
    assert found["model"]["setting"] == tuning.params
    table = pd.read_csv(io.BytesIO(bench.artifact(outcome.run_id, "settings.csv")))
    assert table["chosen"].sum() == 1
    assert table.loc[table["chosen"], list(SEARCH)].iloc[0].to_dict() == tuning.params
    assert table["cost_round_1"].notna().all()
    page = bench.artifact(outcome.run_id, "report.html").decode().replace("<wbr>", "")
    assert tuning.outcome() in page
    before, paid = bench.answer(outcome.run_id), bench.paid_for()
    select(config, run_id=outcome.run_id)
    assert bench.answer(outcome.run_id) == before
    assert bench.paid_for() == paid
    other = bench.config(model={**MODEL, "search": {"num_leaves": [2, 4]}}, budget=ENOUGH)
    with pytest.raises(ConfigError, match=r"was started with model\.search\."):
        select(other, run_id=outcome.run_id)


def test_the_plan_of_a_run_counts_the_fits_of_the_choice(bench: Bench) -> None:
    config = bench.config(model=MODEL, budget=ENOUGH)
    found = plan_search(config)
    data = prepare_as_configured(config, fetched(config))
    planned = plan_as_configured(config, data)
    rounds = planned.rounds()
    assert found.tuning_fits == 3 * sum(each.n_settings * each.n_subsets for each in rounds)
    assert any(f"at most {found.tuning_fits} fits to choose" in line for line in lines(found))
    assert found.fits.high <= 3 * 14 * 4 * 1.5
    without = plan_search(bench.config())
    assert without.tuning_fits == 0


def test_a_setting_of_the_configuration_is_the_model_with_these_params(bench: Bench) -> None:
    config = bench.config(model=MODEL)
    data = prepare_as_configured(config, fetched(config))
    tuning = plan_as_configured(config, data).tuning
    for setting, problem in zip(tuning.settings, tuning.problems, strict=True):
        params = {**MODEL["params"], **setting}
        plain = bench.config(model={"estimator": MODEL["estimator"], "params": params})
        same = prepare_as_configured(plain, fetched(plain)).problem
        assert problem.fingerprint() == same.fingerprint()
        assert problem.exact_shrink == same.exact_shrink


@pytest.mark.slow
def test_outer_folds_choose_a_setting_each(prefect_server: str, bench: Bench) -> None:
    config = bench.config(model=MODEL, budget=ENOUGH)
    found = nested(config, OuterPlan(folds=2, repeats=1, rows="all"))
    for fold in found.folds:
        assert set(fold.setting) == set(SEARCH)
        assert fold.fits["search"] > 100
    told = json.loads(bench.artifact(found.run_id, "nested.json"))
    assert [fold["setting"] for fold in told["folds"]] == [dict(f.setting) for f in found.folds]


def test_a_searched_parameter_replaces_that_of_the_model() -> None:
    model = ModelSection.model_validate({**MODEL, "search": {"n_estimators": [2, 4]}})
    built = [build_setting(model, setting) for setting in settings_of(model, 0)[0]]
    assert [each.get_params()["n_estimators"] for each in built] == [2, 4]
    assert all(each.get_params()["min_child_samples"] == 5 for each in built)


def test_a_small_budget_is_refused_before_a_run_is_opened(bench: Bench) -> None:
    with pytest.raises(ConfigError, match=r"give fewer values, or allow 32 subsets or more"):
        plan_search(bench.config(model=MODEL, budget={"epochs": 3}))
    assert not bench.made_anything()


def test_evidence_of_an_archive_is_that_of_one_model(bench: Bench) -> None:
    config = bench.config(model=MODEL)
    with pytest.raises(ConfigError, match=r"remove model\.search"):
        archived_evidence_of(config)

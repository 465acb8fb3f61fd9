"""Units that are left out before a search, by the importances of the model."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lightgbm import LGBMClassifier
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier

from conf.estimator import build_estimator
from flows.configured import fetched, plan_as_configured, prepare_as_configured
from flows.planning import lines, plan_search
from flows.select import select
from swarm import SubsetSelector
from swarm.errors import ConfigError, SpaceError
from swarm.evaluation.crossval import CrossValidation
from swarm.problem.hints import Hints
from swarm.problem.problem import Problem
from swarm.problem.space import SearchSpace
from swarm.search.confirmation import fresh_seed
from swarm.search.narrowed import Narrowed
from swarm.search.prefilter import Prefilter, cut_units, golden_section, most_cut_fits
from swarm.strategies.catalogue import STRATEGIES, make
from swarm.testing.planted import drive, hints_for, plain_space, planted
from tasks.steps import split_rows
from tests.small_run import Bench

FEW = {"least": 5}
N_COLUMNS = 24


def numbers() -> tuple[pd.DataFrame, Any]:
    """24 columns, of which three tell the class."""
    rng = np.random.default_rng(3)
    X = pd.DataFrame(rng.normal(size=(90, N_COLUMNS)).round(2))
    X.columns = [f"x{i}" for i in range(N_COLUMNS)]
    return X, ((X["x9"] + X["x4"] - X["x17"] + rng.normal(size=90)) > 0).astype(int)


def selector(**options: Any) -> SubsetSelector:
    given = {"estimator": GaussianNB(), "epochs": 2, "cv": 3, "prefilter": FEW, **options}
    return SubsetSelector(**given)


def answer(fitted: SubsetSelector) -> tuple[Any, ...]:
    history = fitted.history_.filter(regex="^(?!.*seconds)").to_dict("list")
    cut = fitted.prefilter_
    return (
        sorted(fitted.subset_),
        json.dumps(history),
        cut.kept.tolist(),
        cut.importances.tolist(),
        cut.costs.tolist(),
    )


@pytest.mark.parametrize("strategy", sorted(STRATEGIES))
def test_every_strategy_searches_the_kept_units_and_answers_for_the_whole_table(
    strategy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, y = numbers()
    options = {"strategy": strategy, "fixed": ["x23"], "forbidden": ["x9"]}
    if strategy == "exhaustive":
        options["prefilter"] = {"least": 3}
    url = f"sqlite:///{tmp_path}/archive.db"
    fitted = selector(**options, archive=url).fit(X, y)
    cut = fitted.prefilter_
    space = fitted.result_.space
    assert space.columns == tuple(X.columns)
    kept = set(space.subset(cut.kept))
    assert "x23" in kept
    assert "x9" not in kept
    assert 3 <= len(kept) < N_COLUMNS
    for record in fitted.result_.records:
        assert record.columns["mask"].shape[1] == N_COLUMNS
        assert not (record.columns["mask"] & ~cut.kept).any()
    assert "x23" in fitted.subset_
    assert set(fitted.subset_) <= kept
    assert X.columns[fitted.get_support()].tolist() == fitted.subset_
    assert fitted.n_fits_ == fitted.result_.state.counts.fits + cut.n_fits

    shuffled = X.iloc[:, np.random.default_rng(1).permutation(N_COLUMNS)]
    monkeypatch.setattr(CrossValidation, "_compute", lambda self, jobs, _: (jobs, 0))
    monkeypatch.setattr(CrossValidation, "_train", refuse_to_train)
    assert answer(selector(**options, archive=url).fit(shuffled, y)) == answer(fitted)


def refuse_to_train(self: CrossValidation, jobs: list[Any], records: Any) -> tuple[int, float]:
    assert not jobs, "an evaluation is missing from the archive"
    return 0, 0.0


@pytest.mark.slow
@pytest.mark.parametrize(
    "estimator",
    [
        DecisionTreeClassifier(max_depth=3),
        LGBMClassifier(n_estimators=5, min_child_samples=3, verbosity=-1),
        KNeighborsClassifier(3),
    ],
    ids=lambda model: type(model).__name__,
)
def test_workers_change_nothing(estimator: Any) -> None:
    X, y = numbers()
    alone = selector(estimator=estimator).fit(X, y)
    assert answer(selector(estimator=estimator, n_jobs=2).fit(X, y)) == answer(alone)


@pytest.mark.parametrize(
    ("model", "importances_of"),
    [
        (LogisticRegression(), lambda fitted: np.abs(fitted.coef_[0])),
        # LightGBM ranks by gain.
        (
            LGBMClassifier(n_estimators=5, min_child_samples=3, verbosity=-1, random_state=0),
            lambda fitted: fitted.booster_.feature_importance("gain"),
        ),
    ],
)
def test_each_fold_ranks_by_its_own_training_rows_and_costs_are_those_of_its_test_rows(
    model: Any, importances_of: Any
) -> None:
    X, y = numbers()
    cut = selector(estimator=model).fit(X, y).prefilter_
    folds = StratifiedKFold(3, shuffle=True, random_state=fresh_seed(0, 0)).split(X, y)
    costs, importances = [], []
    for train, test in folds:
        values = importances_of(clone(model).fit(X.iloc[train], y[train]))
        ranking = np.argsort(-values, kind="stable")
        importances.append(values)
        costs.append([])
        for size in cut.sizes:
            columns = np.sort(ranking[:size])
            fitted = clone(model).fit(X.iloc[train, columns], y[train])
            costs[-1].append(1 - fitted.score(X.iloc[test, columns], y[test]))
    assert cut.costs == pytest.approx(np.mean(costs, axis=0))
    assert cut.importances == pytest.approx(np.mean(importances, axis=0))
    best = np.argsort(-np.mean(importances, axis=0), kind="stable")[: cut.n_kept]
    assert sorted(best) == np.flatnonzero(cut.kept).tolist()
    assert cut.n_kept == cut.sizes[np.argmin(cut.costs)]
    assert cut.cost == cut.costs.min()


def test_noise_does_not_look_like_signal_after_the_ranking() -> None:
    rng = np.random.default_rng(0)
    X, y = pd.DataFrame(rng.normal(size=(60, 400))), rng.integers(0, 2, 60)
    X.columns = X.columns.astype(str)
    costs = selector(estimator=GaussianNB(), cv=5).fit(X, y).prefilter_.costs
    # Ranked on all rows, the best ten columns of such a table cost about 0.15.
    assert costs.min() > 0.3


def test_a_requested_size_is_always_kept() -> None:
    X, y = numbers()
    for strategy in ("sfs", "multiswarm"):
        fitted = selector(strategy=strategy, size=12, epochs="auto").fit(X, y)
        assert len(fitted.subset_) == 12
        assert fitted.prefilter_.sizes.min() >= 12


@pytest.mark.slow
def test_auto_cuts_tables_of_more_than_5000_columns_alone() -> None:
    rng = np.random.default_rng(0)
    X, y = pd.DataFrame(rng.normal(size=(40, 5001))).add_prefix("x"), np.arange(40) % 2
    options = {"strategy": "random", "prefilter": "auto", "epochs": 1}
    wide = selector(**options).fit(X, y)
    assert 20 <= wide.prefilter_.n_kept <= 5001
    assert selector(**options).fit(X.iloc[:, :5000], y).prefilter_ is None


@given(st.integers(1, 3000), st.integers(1, 3000), st.integers(1, 3000))
def test_golden_section_finds_a_single_valley_to_a_tenth(least: int, most: int, low: int) -> None:
    least, most = min(least, most), max(least, most)
    low = min(max(low, least), most)
    asked: list[int] = []

    def cost(size: int) -> float:
        asked.append(size)
        return abs(np.log(size / low))

    size = golden_section(cost, least, most)
    assert least <= size <= most
    assert abs(np.log(size / low)) <= np.log(1.1) + 1 / low
    assert len(asked) == len(set(asked))


def test_equal_costs_beyond_the_used_units_leave_the_smallest() -> None:
    assert golden_section(lambda size: 0.2 if size < 30 else 0.1, 5, 5000) in range(30, 34)


def test_the_plan_bounds_the_number_of_fits() -> None:
    X, y = numbers()
    for width, least in ((N_COLUMNS, 1), (N_COLUMNS, 20), (9, 5), (3, 20)):
        table = X.iloc[:, :width]
        problem = Problem.build(table, y, GaussianNB(), folds=3)
        plan = Prefilter.of(problem, problem.folds, make("multiswarm"), least)
        with CrossValidation(plan.problem) as evaluator:
            assert cut_units(plan, evaluator).n_fits <= most_cut_fits(plan)


def test_a_strategy_on_all_units_is_the_strategy_itself() -> None:
    space = plain_space(9)
    strategy = make("multiswarm", {"n_particles": 4, "n_swarms": 2})
    whole = Narrowed(strategy, np.ones(9, dtype=bool), hints_for(space))
    for plain, narrowed in zip(
        drive(strategy, planted(space, 2)), drive(whole, planted(space, 2)), strict=True
    ):
        assert (plain.proposal.masks == narrowed.proposal.masks).all()
        assert (plain.after.members.masks == narrowed.after.members.masks).all()


def test_a_narrowed_strategy_starts_again_from_masks_of_the_whole_table() -> None:
    """A rotation starts it again on the next partition, from the members that it had."""
    space, kept = plain_space(9), np.arange(9) < 6
    strategy = make("multiswarm", {"n_particles": 4, "n_swarms": 2})
    narrowed = Narrowed(strategy, kept, hints_for(space.restricted(kept)))
    warm = np.array([[1, 0, 1, 0, 0, 0, 1, 0, 0], [0] * 6 + [1] * 3, [0, 1] + [0] * 7], dtype=bool)
    state = narrowed.start(space, Hints(warm=warm), np.random.default_rng(0))
    masks = narrowed.propose(state, np.random.default_rng(1))[1].masks
    assert (masks[:2] == (warm & kept)[[0, 2]]).all()


def test_a_narrowed_strategy_is_what_its_strategy_is() -> None:
    for name in STRATEGIES:
        strategy = make(name)
        narrowed = Narrowed(strategy, np.ones(9, dtype=bool), Hints())
        for attribute in ("ends_by_itself", "takes_warm_start", "uses_importances"):
            assert getattr(narrowed, attribute) is getattr(strategy, attribute)


def test_a_restricted_space_keeps_groups_and_constraints_in_their_order() -> None:
    space = SearchSpace.build(
        list("abcdef"), groups={"g": ["b", "e"]}, fixed=["g"], forbidden=["f"], max_size=4
    )
    kept = space.mask(["b", "c", "e"])
    inner = space.restricted(kept)
    assert inner.columns == ("b", "c", "e")
    assert inner.names == ("g", "c")
    assert inner.units == ((0, 2), (1,))
    assert inner.fixed.tolist() == [True, False]
    assert (inner.min_size, inner.max_size) == (1, 2)
    with pytest.raises(SpaceError, match="fixed unit 'g' must be kept"):
        space.restricted(space.mask(["a"]))


def test_a_model_that_fails_on_all_features_is_refused_in_one_sentence() -> None:
    class Narrow(DecisionTreeClassifier):
        def fit(self, X: Any, y: Any, **params: Any) -> Any:
            if X.shape[1] > 20:
                raise ValueError("too many columns")
            return super().fit(X, y, **params)

    with pytest.raises(ConfigError, match=r"cannot be fitted on all features.*too many columns"):
        selector(estimator=Narrow()).fit(*numbers())


@pytest.mark.slow
def test_a_run_logs_what_was_cut_and_resumes_to_the_same_bytes(
    prefect_server: str,
    bench: Bench,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config = bench.config(prefilter={"least": 3}, strategy={"name": "mlaco", "params": {}})
    outcome = select(config)
    cut = outcome.result.cut
    assert cut.sentence() in " ".join(capsys.readouterr().err.split())
    (run,) = bench.runs()
    assert run.data.tags["prefilter"] == f"{cut.n_kept} of 8 units"
    ranking = pd.read_csv(io.BytesIO(bench.artifact(outcome.run_id, "prefilter.csv")))
    space = outcome.result.space
    assert set(ranking["unit"][ranking["kept"]]) == set(space.subset(cut.kept))
    assert set(outcome.result.features) <= set(space.subset(cut.kept))
    answer = json.loads(bench.artifact(outcome.run_id, "features.json"))
    assert (answer["prefilter"]["kept"], answer["n_available"]) == (cut.n_kept, 8)
    page = bench.artifact(outcome.run_id, "report.html").decode()
    assert f"{cut.n_kept} of 8 units" in page
    before, paid = bench.answer(outcome.run_id), bench.paid_for()
    select(config, run_id=outcome.run_id)
    assert bench.answer(outcome.run_id) == before
    assert bench.paid_for() == paid
    # The columns of a wide table that no subset has would be zeros.
    members = outcome.result.state.strategy.members
    table = pd.read_csv(io.BytesIO(bench.artifact(outcome.run_id, "subsets.csv")))
    assert table.shape == (len(members.costs), 2 + 8)
    monkeypatch.setattr("tasks.report.MANY_COLUMNS", 7)
    select(config, run_id=outcome.run_id)
    narrow = pd.read_csv(io.BytesIO(bench.artifact(outcome.run_id, "subsets.csv")))
    used = [name for name in table if name in ("cost", "group") or table[name].any()]
    assert len(used) < table.shape[1]
    pd.testing.assert_frame_equal(narrow, table[used])


def test_the_test_rows_are_not_seen(bench: Bench) -> None:
    config = bench.config(prefilter={"least": 3})
    table = fetched(config)
    data = prepare_as_configured(config, table)
    estimator = build_estimator(config.model)
    rows = split_rows(
        table, config.split.kind, test_size=config.split.test_size, estimator=estimator
    ).test
    assert (table.features.iloc[rows].to_numpy() == data.test.features.to_numpy()).all()
    features = table.features.copy()
    features.iloc[rows] = 0.0
    other = replace(table, features=features)
    again = prepare_as_configured(config, other)
    cuts = []
    for each in (data, again):
        prefilter = plan_as_configured(config, each).prefilter
        with CrossValidation(prefilter.problem) as evaluator:
            cuts.append(cut_units(prefilter, evaluator))
    assert cuts[0].importances.tolist() == cuts[1].importances.tolist()
    assert cuts[0].costs.tolist() == cuts[1].costs.tolist()


@pytest.mark.slow
def test_the_plan_of_a_run_counts_the_fits_of_the_prefilter(
    prefect_server: str, bench: Bench
) -> None:
    config = bench.config(prefilter={"least": 3})
    found = plan_search(config)
    cut = select(config).result.cut
    assert cut.n_fits <= found.prefilter_fits <= 3 * 6
    assert any(f"at most {found.prefilter_fits} fits" in line for line in lines(found))
    without = plan_search(bench.config())
    assert without.prefilter_fits == 0
    assert not any("prefilter" in line for line in lines(without))

"""The fit that is tried before a run is opened."""

from __future__ import annotations

import errno
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.decomposition import PCA
from sklearn.impute import SimpleImputer
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline

from swarm.errors import ConfigError, TransientError
from swarm.evaluation.probe import probe
from swarm.evaluation.transient import is_out_of_memory
from swarm.problem.problem import Problem
from swarm.problem.space import SearchSpace
from swarm.storage.archive import Archive
from tests.fakes import evaluated

UNEVEN = [
    (np.arange(20, 60), np.arange(20)),
    (np.r_[0:40], np.arange(40, 60)),
    (np.r_[0:20, 50:60], np.arange(20, 50)),
]


class Noting(GaussianNB):
    """Writes the number of rows of each fit, their columns and `max_iter` to a file."""

    def __init__(self, file: str = "", max_iter: int = 1000, least: int = 0) -> None:
        super().__init__()
        self.file = file
        self.max_iter = max_iter
        self.least = least

    def fit(self, X: Any, y: Any, **options: Any) -> Noting:
        with Path(self.file).open("a") as notes:
            notes.write(f"{len(X)} {','.join(X.columns)} {self.max_iter}\n")
        if self.max_iter < self.least:
            raise ValueError("too few")
        return super().fit(X, y, **options)


class Sleepy(GaussianNB):
    """Never ends a fit to the rows of a fold."""

    def fit(self, X: Any, y: Any, **options: Any) -> Sleepy:
        if isinstance(X, pd.DataFrame):
            time.sleep(3600)
        return super().fit(X, y, **options)


def problem_of(model: Any, **options: Any) -> Problem:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(60, 4)), columns=list("abcd"))
    target = (frame["a"] + rng.normal(size=60) > 0).astype(int)
    return Problem.build(frame, target, model, **{"folds": UNEVEN, **options})


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    return tmp_path / "notes"


def test_all_features_but_forbidden_ones_and_the_fewest_are_fitted_on_the_smallest_fold(
    notes: Path,
) -> None:
    # Importances "auto" would need another fit.
    probe(problem_of(Noting(str(notes)), importance="none"))
    space = SearchSpace.build(list("abcd"), forbidden=["b"], fixed=["c"], min_size=2)
    probe(problem_of(Noting(str(notes)), importance="none", space=space))
    full = SearchSpace.build(list("abcd"), min_size=4)
    probe(problem_of(Noting(str(notes)), importance="none", space=full))
    assert notes.read_text() == "".join(
        f"30 {columns} 10\n" for columns in ("a,b,c,d", "a", "a,c,d", "a,c", "a,b,c,d")
    )


def test_a_model_that_fails_on_the_fewest_features_is_refused_unless_others_do_not_fail() -> None:
    pairs = make_pipeline(PCA(2), GaussianNB())
    with pytest.raises(ConfigError, match=r"with 1 feature: .*raise the smallest size"):
        probe(problem_of(pairs))
    probe(problem_of(pairs, space=SearchSpace.build(list("abcd"), min_size=2)))
    frame = pd.DataFrame({"a": np.nan, "b": np.arange(60.0)}, index=range(60))
    # The column has no value in the training rows of the smallest fold.
    frame.loc[20:49, "a"] = 1.0
    imputed = make_pipeline(SimpleImputer(), GaussianNB())
    probe(Problem.build(frame, np.arange(60) % 2, imputed, folds=UNEVEN))


def test_a_model_that_needs_its_iterations_is_tried_with_all_of_them(notes: Path) -> None:
    probe(problem_of(Noting(str(notes), least=500), importance="none"))
    assert notes.read_text() == "30 a,b,c,d 10\n30 a,b,c,d 1000\n30 a 1000\n"
    with pytest.raises(ConfigError, match=r"Noting .*30 training rows"):
        probe(problem_of(Noting(str(notes), least=5000)))


def test_nothing_is_archived_and_a_problem_that_is_known_is_not_tried(notes: Path) -> None:
    problem = problem_of(Noting(str(notes)))
    archive = Archive()
    probe(problem, archive)
    assert not archive.has_evaluations(problem)
    evaluated(problem, np.ones((1, 4), dtype=bool), archive)
    assert archive.has_evaluations(problem)
    assert not archive.has_evaluations(problem_of(Noting(str(notes)), scoring="roc_auc"))
    notes.unlink()
    probe(problem, archive)
    assert not notes.exists()


def test_fits_that_failed_do_not_vouch_for_a_model(notes: Path) -> None:
    problem = problem_of(Noting(str(notes), least=5000))
    archive = Archive()
    assert evaluated(problem, np.ones((1, 4), dtype=bool), archive).failed.all()
    with pytest.raises(ConfigError, match="too few"):
        probe(problem, archive)


def test_a_fit_that_hangs_is_left_to_the_search() -> None:
    # It would sleep for an hour.
    probe(problem_of(Sleepy(), importance="none"), timeout=1.0)


def test_a_fit_with_a_time_limit_is_refused_with_its_reason(notes: Path) -> None:
    with pytest.raises(ConfigError, match="too few"):
        probe(problem_of(Noting(str(notes), least=5000)), timeout=60.0)


@pytest.mark.parametrize("error", [ConnectionError("reset"), FileNotFoundError("weights.bin")])
def test_an_error_of_the_machine_is_not_blamed_on_the_model(
    error: OSError, monkeypatch: pytest.MonkeyPatch
) -> None:
    fit = GaussianNB.fit
    n_errors = 2

    def fit_after_errors(self: GaussianNB, X: Any, y: Any, **options: Any) -> GaussianNB:
        nonlocal n_errors
        n_errors -= 1
        if n_errors >= 0:
            raise error
        return fit(self, X, y, **options)

    problem = problem_of(GaussianNB())
    monkeypatch.setattr(GaussianNB, "fit", fit_after_errors)
    probe(problem)
    n_errors = 100
    with pytest.raises(TransientError, match=f"{type(error).__name__}: {error}"):
        probe(problem)


def test_a_scorer_is_tried_on_rows_of_the_kind_that_was_passed() -> None:
    containers: list[type] = []

    def score(model: Any, rows: Any, truth: Any) -> float:
        containers.append(type(rows))
        return 0.5

    problem = problem_of(GaussianNB(), scoring=score, importance="none")
    probe(problem)
    probe(replace(problem, X=problem.X.to_numpy()))
    assert containers == [pd.DataFrame] * 2 + [np.ndarray] * 2


@pytest.mark.parametrize(
    ("error", "is_memory"),
    [
        (MemoryError(), True),
        (OSError(errno.ENOMEM, "no"), True),
        (OSError(errno.EIO, "no"), False),
        (RuntimeError("can't start new thread"), True),
        (RuntimeError("no"), False),
        (ImportError("cannot allocate memory in static TLS block"), True),
        (ImportError("no module"), False),
        (ValueError("cannot allocate memory"), False),
        (ValueError("std::bad_alloc"), True),
        (ValueError("bad allocation"), True),
    ],
)
def test_an_error_for_lack_of_memory_is_known_by_its_type_and_words(
    error: Exception, is_memory: bool
) -> None:
    assert is_out_of_memory(error) == is_memory


def test_a_score_that_is_no_number_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"'odd' .*NaN .*GaussianNB .*30 test rows"):
        probe(problem_of(GaussianNB(), scoring=odd))


def odd(model: Any, rows: Any, truth: Any) -> float:
    return float("nan")

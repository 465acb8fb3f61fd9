"""Tests of a selector during its fit: interrupted, watched, stopped and resumed."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from typing import Any

import pandas as pd
import pytest
from sklearn.model_selection import cross_val_score
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline

from swarm import SubsetSelector
from tests.selecting import BRIEF as SHORT
from tests.selecting import IRIS, WINE

BRIEF: dict[str, Any] = {**SHORT, "budget": 6}


@pytest.fixture(autouse=True)
def heeded() -> Iterator[None]:
    """Heed Ctrl-C, which tests ignore if a shell starts them in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def press_at(epoch: int) -> Any:
    """Press Ctrl-C after an epoch."""

    def press(record: Any, state: Any) -> None:
        if record.epoch == epoch:
            signal.raise_signal(signal.SIGINT)

    return press


def test_ctrl_c_leaves_a_usable_selector_and_says_so() -> None:
    X, y = WINE
    selector = SubsetSelector(GaussianNB(), callbacks=[press_at(3)], **BRIEF)
    with pytest.warns(UserWarning, match="3 finished epochs"):
        selector.fit(X, y)
    assert selector.interrupted_
    shorter = SubsetSelector(GaussianNB(), **{**BRIEF, "budget": 3, "confirm": False}).fit(X, y)
    assert not shorter.interrupted_
    assert (selector.subset_, selector.cost_) == (shorter.subset_, shorter.cost_)
    assert selector.transform(X).shape == (len(X), len(selector.subset_))
    pd.testing.assert_frame_equal(selector.results_, shorter.results_)
    assert selector.repick("parsimonious").cost_ >= shorter.cost_


def test_ctrl_c_ends_the_model_selection_around_it_too() -> None:
    fits: list[int] = []
    callbacks = [lambda record, _: fits.append(record.epoch), press_at(1)]
    selector = SubsetSelector(GaussianNB(), callbacks=callbacks, **BRIEF)
    with pytest.raises(KeyboardInterrupt):
        cross_val_score(make_pipeline(selector, GaussianNB()), *WINE)
    assert fits == [1]


def test_it_is_quiet_unless_asked(capsys: pytest.CaptureFixture[str]) -> None:
    for verbose, lines in ((0, 0), (2, 7)):
        SubsetSelector(GaussianNB(), verbose=verbose, **BRIEF).fit(*WINE)
        printed = capsys.readouterr()
        assert len(printed.err.splitlines()) == lines
        assert printed.out == ""
    SubsetSelector(GaussianNB(), verbose=1, **BRIEF).fit(*WINE)
    assert "6/6" in capsys.readouterr().err.split("\r")[-1]


def test_a_search_that_did_not_reach_the_requested_size_says_so() -> None:
    model = KNeighborsClassifier(4)
    selector = SubsetSelector(model, strategy="sbs", size=1, callbacks=[press_at(2)])
    words = r"after 2 finished epochs.*; the search did not reach the requested size 1$"
    with pytest.warns(UserWarning, match=words):
        selector.fit(*IRIS)
    assert len(selector.subset_) == 3
    table = selector.metric_table()
    assert table.index.tolist() == [3, 4]
    assert selector.cost_ == table["cost"].min() == selector.pareto_["cost"].min()
    assert selector.repick("parsimonious").cost_ in table["cost"].tolist()
    with pytest.warns(UserWarning, match="interrupted") as warnings:
        SubsetSelector(model, strategy="sfs", size=(2, 4), callbacks=[press_at(2)]).fit(*IRIS)
    assert "requested" not in str(warnings[0].message)


def test_an_archive_may_be_a_path(tmp_path: Any) -> None:
    file = tmp_path / "b.db"
    fitted = SubsetSelector(GaussianNB(), archive=file, **SHORT).fit(*WINE)
    resumed = SubsetSelector(GaussianNB(), archive=f"sqlite:///{file}", **SHORT).fit(*WINE)
    assert fitted.result_.work["fits"].sum() > 0
    assert resumed.result_.work["fits"].sum() == 0

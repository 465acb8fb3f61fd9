"""Tests of the steps of flows under Ctrl-C."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest
from prefect import flow

from tasks.step import step

pytestmark = pytest.mark.usefixtures("prefect_server")


@pytest.fixture(autouse=True)
def handled() -> Iterator[None]:
    """Let SIGINT raise KeyboardInterrupt: a process in the background ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)


class Upstream(dict[str, int]):
    """A result that interrupts when Prefect reads it to create the run of the step."""

    def items(self) -> Any:
        interrupt()
        return super().items()


@pytest.mark.parametrize("within", ["the work of Prefect", "the function"])
def test_an_interrupt_within_a_step_reaches_the_flow_as_such_and_at_once(within: str) -> None:
    went_on = []

    @step("interrupted")
    def body() -> None:
        if within == "the function":
            interrupt()
        went_on.append(True)

    @flow
    def interrupted() -> str:
        try:
            (body if within == "the function" else body.after(Upstream(a=1)))()
        except KeyboardInterrupt:
            return "caught"
        return "finished"

    assert interrupted() == "caught"
    assert not went_on
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler

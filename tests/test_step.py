"""Steps of the flows under Ctrl-C."""

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
    """SIGINT raises KeyboardInterrupt, which a shell's background job ignores."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def test_an_interrupt_within_prefects_own_work_reaches_the_flow_as_such() -> None:
    ran = []

    @step("interrupted-before")
    def body() -> None:
        ran.append(True)

    class Upstream(dict[str, int]):
        """A result that Prefect looks into while it creates the run of the step."""

        def items(self) -> Any:
            interrupt()
            return super().items()

    @flow
    def interrupted() -> str:
        try:
            body.after(Upstream(a=1))()
        except KeyboardInterrupt:
            return "caught"
        return "finished"

    assert interrupted() == "caught"
    assert not ran


def test_an_interrupt_ends_the_function_of_a_step_at_once() -> None:
    went_on = []

    @step("interrupted-within")
    def body() -> None:
        interrupt()
        went_on.append(True)

    @flow
    def interrupted() -> str:
        try:
            body()
        except KeyboardInterrupt:
            return "caught"
        return "finished"

    assert interrupted() == "caught"
    assert not went_on
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler

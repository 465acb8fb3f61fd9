"""Every message reaches the store once and in order, whenever Ctrl-C comes."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from tasks.tracking.outbox import Message, Outbox


@pytest.mark.parametrize("is_started", [False, True], ids=["not started", "started"])
def test_ctrl_c_while_the_thread_that_sends_starts_loses_and_doubles_nothing(
    is_started: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupted, sent, may_send = list[bool](), list[int](), threading.Event()

    class Interrupted(threading.Thread):
        def start(self) -> None:
            if interrupted or is_started:
                super().start()
            if not interrupted:
                interrupted.append(True)
                raise KeyboardInterrupt

    def message(number: int) -> Message:
        def send() -> None:
            assert may_send.wait(60)
            sent.append(number)

        return Message(None, "a message", send)

    monkeypatch.setattr("tasks.tracking.outbox.threading.Thread", Interrupted)
    outbox = Outbox("sqlite://")
    with pytest.raises(KeyboardInterrupt):
        outbox.put(message(0))
    for number in range(1, 5):
        outbox.put(message(number))
    may_send.set()
    left: list[Any] = outbox.close(patience=60)
    assert not left
    assert sent == [0, 1, 2, 3, 4]

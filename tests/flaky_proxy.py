"""A way to a server on this machine that can be closed and opened again."""

from __future__ import annotations

import contextlib
import socket
import threading
import time


class FlakyProxy:
    """Forwards connections from a port of its own to another one of this machine; a context."""

    def __init__(self, target: int) -> None:
        self.target = target
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._listener: socket.socket | None = None
        self.port = 0
        self.up()

    def __enter__(self) -> FlakyProxy:
        return self

    def __exit__(self, *_: object) -> None:
        self.down()

    def up(self) -> None:
        """Let connections through."""
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", self.port))
        listener.listen(64)
        self.port = listener.getsockname()[1]
        self._listener = listener
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()

    def down(self) -> None:
        """Refuse connections, and break those that there are."""
        with self._lock:
            sockets, self._open = [*self._open], set()
        for each in (*sockets, self._listener):
            if each is not None:
                # Wakes the thread that waits in accept or recv; closing alone would not.
                with contextlib.suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)
                each.close()
        self._listener = None

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                near, _ = listener.accept()
                far = socket.create_connection(("127.0.0.1", self.target))
            except OSError:
                if self._listener is not listener:
                    return
                with contextlib.suppress(OSError, UnboundLocalError):
                    near.close()
                time.sleep(0.05)
                continue
            with self._lock:
                self._open |= {near, far}
            for source, sink in ((near, far), (far, near)):
                threading.Thread(target=self._copy, args=(source, sink), daemon=True).start()

    def _copy(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(data)
        for each in (source, sink):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

"""A Prefect server that ends with the process that started it.

It is run by path, not as a module, and imports nothing from this project, so that it starts
whatever the current folder and ``PYTHONPATH`` contain. The protocol with the parent process:

1. The server imports its modules, which takes most of the time and has no side effects.
2. It reads a line from standard input, a JSON object of environment variables, and starts.
3. It writes the address of the API to standard output once it accepts requests.
4. It ends when standard input is closed, also if the parent was killed.

``python flows/server_process.py --template`` only creates a database with Prefect's tables and
stores it in the environment. Copying it saves a new project seven seconds of migrations.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import socket
import sys
import tempfile
import threading
from pathlib import Path

# Seconds for open requests once the parent has ended.
_GRACE_SECONDS = 5.0


def database_template() -> Path:
    """Return the path of the template database in this environment."""
    import prefect

    return Path(sys.prefix, "share", "swarmselect", f"prefect-{prefect.__version__}.db")


def write_template(path: Path) -> None:
    """Create a database with Prefect's tables, atomically."""
    from prefect.server.database import provide_database_interface
    from prefect.settings import PREFECT_API_DATABASE_CONNECTION_URL, temporary_settings

    async def create() -> None:
        database = provide_database_interface()
        await database.create_db()
        await (await database.engine()).dispose()

    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        made = Path(folder, path.name)
        with temporary_settings(
            {PREFECT_API_DATABASE_CONNECTION_URL: f"sqlite+aiosqlite:///{made}"}
        ):
            asyncio.run(create())
        made.replace(path)


def copy_template(home: Path) -> None:
    """Copy the template to a new home, unless it has a database or just got one."""
    target, template = home / "prefect.db", database_template()
    if target.exists() or not template.exists():
        return
    with tempfile.TemporaryDirectory(dir=home) as folder:
        copy = shutil.copyfile(template, Path(folder, "prefect.db"))
        try:
            # A link, as a rename could replace a database that another server has open.
            os.link(copy, target)
        except OSError:
            return


def serve() -> None:
    """Serve Prefect's API on a free port of the loopback interface until standard input ends."""
    import uvicorn
    from prefect.context import refresh_global_settings_context
    from prefect.server.api.server import create_app
    from prefect.settings import PREFECT_HOME

    line = sys.stdin.readline()
    if not line:
        return
    os.environ.update(json.loads(line))
    refresh_global_settings_context()
    home = PREFECT_HOME.value()
    home.mkdir(parents=True, exist_ok=True)
    copy_template(home)
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    address = f"http://127.0.0.1:{listener.getsockname()[1]}/api"

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets=sockets)
            if not self.should_exit:
                print(address, flush=True)

    config = uvicorn.Config(
        create_app(ephemeral=True, final=True),
        log_level="error",
        lifespan="on",
        access_log=False,
        timeout_graceful_shutdown=int(_GRACE_SECONDS),
    )
    server = Server(config)

    def end_with_parent() -> None:
        sys.stdin.read()
        server.should_exit = True

    threading.Thread(target=end_with_parent, daemon=True).start()
    server.run(sockets=[listener])


if __name__ == "__main__":
    if sys.argv[1:] == ["--template"]:
        write_template(database_template())
    else:
        serve()

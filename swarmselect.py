"""The ``swarm`` command: it says what is missing or in its way before anything is imported."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

_PACKAGES = ("conf", "flows", "tasks", "swarm")
_EXTRAS = {
    "dask": "dask",
    "distributed": "dask",
    "psycopg": "postgres",
    "matplotlib": "report",
    "jinja2": "report",
    "markupsafe": "report",
    "statsmodels": "report",
    **dict.fromkeys(
        (
            "docstring_parser",
            "filelock",
            "mlflow",
            "prefect",
            "psutil",
            "pyarrow",
            "pydantic",
            "rich",
            "skops",
            "typer",
            "ucimlrepo",
            "uvicorn",
            "yaml",
        ),
        "workflow",
    ),
}


def main() -> None:
    """Run the command line; see :func:`flows.cli.main`."""
    _check_packages()
    try:
        from flows.cli import main as run

        run()
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in _EXTRAS:
            raise
        extra = _EXTRAS[package]
        sys.exit(
            _told(
                f"this needs the package {package!r}, which is not installed; run"
                f" `pip install 'swarmselect[{extra}]'`"
            )
        )


def _check_packages() -> None:
    """Refuse to run on folders that only have the names of this project's packages."""
    home = Path(__file__).resolve().parent
    for name in _PACKAGES:
        spec = find_spec(name)
        found = None if spec is None or spec.origin is None else Path(spec.origin).resolve()
        if found == home / name / "__init__.py":
            continue
        if found is None:
            sys.exit(_told(f"its package {name!r} is not there; install swarmselect again"))
        sys.exit(
            _told(
                f"{found.parent} stands in the way of its own package {name!r}; rename that folder,"
                f" or take {found.parent.parent} out of PYTHONPATH"
            )
        )


def _told(sentence: str) -> int:
    print(f"swarm: {sentence}", file=sys.stderr)
    return 2

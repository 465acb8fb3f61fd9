"""Limits of the size of the code: ``python -m tests.size`` pins them, ``--check`` checks them.

The figures are in ``size.json``: lines of each package and of the tests, keys of the configuration,
commands, codes of findings, and errors that are raised. A commit that raises one says why.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

from flows.cli import app
from swarm.findings.registry import KINDS
from tests.project.test_error_sentences import ERRORS

ROOT = Path(__file__).resolve().parents[1]
FILE = ROOT / "tests" / "size.json"
PACKAGES = ("conf", "flows", "tasks", "swarm", "tests")
_RAISED = re.compile(rf"\braise ({'|'.join(sorted(ERRORS))})\(")


def sizes() -> dict[str, int]:
    """Return the figures of this checkout."""
    texts = {
        package: [file.read_text("utf-8") for file in sorted((ROOT / package).rglob("*.py"))]
        for package in PACKAGES
    }
    keys = (ROOT / "docs" / "config-reference.md").read_text("utf-8")
    code = "".join(text for package in PACKAGES[:-1] for text in texts[package])
    return {
        **{
            f"lines of {package}": sum(text.count("\n") for text in files)
            for package, files in texts.items()
        },
        "keys of the configuration": len(re.findall(r"(?m)^\| `", keys)),
        "commands": len(app.registered_commands),
        "codes of findings": len(KINDS),
        "errors raised": len(_RAISED.findall(code)),
    }


def grown() -> list[str]:
    """Return the figures that are larger than in the file."""
    pinned = json.loads(FILE.read_text("utf-8"))
    return [
        f"{name}: {size:,}, at most {pinned[name]:,}"
        for name, size in sizes().items()
        if size > pinned[name]
    ]


if __name__ == "__main__":
    if "--check" in sys.argv:
        sentences = grown()
        if sentences:
            sys.exit("\n".join([*sentences, "reduce it, or pin it by `python -m tests.size`"]))
    else:
        FILE.write_text(json.dumps(sizes(), indent=1) + "\n", "utf-8")

"""``python -m swarm``: the command line, without a folder of scripts on the path."""

from __future__ import annotations

from importlib import import_module

if __name__ == "__main__":
    # The library itself does not import the workflow.
    import_module("swarmselect").main()

"""The tracking store of a configuration, and what a run in it records of the configuration."""

import platform
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from importlib.metadata import version
from typing import Any

from pydantic import JsonValue

from conf.load import AnyConfig, flatten
from conf.stores import TrackingSection
from conf.yaml_text import parse
from flows.display.terminal import store_option
from swarm.errors import ConfigError
from swarm.problem.problem import Problem
from tasks.tracking import Tracking, open_tracking
from tasks.tracking.writes import truncate

# Runs are filtered and compared by these keys, so they are logged even at their defaults.
_ALWAYS = ("seed", "strategy.name", "model.estimator", "folds.n_folds", "budget.epochs")
# These sections say where a run is kept and what it is for, not what it does.
_NEVER = ("description", "tracking", "archive", "schedule", "mute")


def tracking_as_configured(section: TrackingSection) -> Tracking:
    """Open the tracking store of a configuration; see :func:`tasks.tracking.open_tracking`."""
    tracking = open_tracking(section.uri, section.experiment, section.artifacts)
    return replace(tracking, option=store_option(section.uri))


def logged_parameters(config: AnyConfig) -> dict[str, JsonValue]:
    """Return the parameters of a run: what differs from the defaults, and a few keys always.

    A page that compares runs shows every parameter of any of them.
    """
    values = flatten(config)
    logged = {key: values[key] for key in _ALWAYS if key in values}
    logged |= flatten(config, without_defaults=True)
    return {
        key: "none" if value is None and key not in _ALWAYS else value
        for key, value in logged.items()
        if key.split(".")[0] not in _NEVER
    }


def stored_configuration(tracking: Tracking, run_id: str) -> Mapping[str, JsonValue]:
    """Return the configuration of a run by dotted key, as it was written."""
    text = tracking.download(run_id, "config.yaml").read_text(encoding="utf-8")
    return flatten(parse(text, f"the configuration of run {run_id}"))


def describe_run(problem: Problem, source: str, strategy: str, seed: int) -> dict[str, str]:
    """Return the tags of a run: problem, strategy, seed and versions."""
    tags = {
        "strategy": strategy,
        "seed": str(seed),
        "problem": problem.fingerprint(),
        "data": source,
        "task": problem.task,
        "rows": str(len(problem.target)),
        "columns": str(problem.space.n_columns),
        "scoring": problem.scoring.name,
        "estimator": type(problem.estimator).__name__,
        "python": platform.python_version(),
    }
    for package in ("swarmselect", "lightgbm", "scikit-learn", "numpy", "pandas", "prefect"):
        tags[f"version.{package}"] = version(package)
    commit = _git_commit()
    return {**tags, "mlflow.source.git.commit": commit} if commit else tags


# Runs that differ in one of these tags are different searches.
_IDENTITY = ("rows", "columns", "strategy", "seed")
# Keys of the configuration that change a search but not its problem.
_SEARCH = ("strategy.", "space.", "prepare.", "proxy", "prefilter", "warm")
# Keys of the configuration that may change the problem.
_PROBLEM = ("data.", "split.", "model.", "scoring", "pos_label", "folds.", "evaluation.importance")
# Characters of a value in an error.
_MAX_SHOWN = 200


def refuse_another_search(
    run: Any,
    earlier: Mapping[str, object],
    config: Mapping[str, object],
    tags: Mapping[str, str],
) -> None:
    """Raise ConfigError if a run would be resumed with settings that change its search.

    Parameters
    ----------
    run
        The run to resume, an ``mlflow.entities.Run``.
    earlier, config
        Its configuration and the present one, by dotted key.
    tags
        Tags of the present search.
    """
    changed = [
        (
            key,
            truncate(earlier.get(key, "not set"), _MAX_SHOWN),
            truncate(config.get(key, "not set"), _MAX_SHOWN),
        )
        for key in {**earlier, **config}
        # Sources of data have different keys.
        if earlier.get(key) != config.get(key)
    ]
    stored = {**tags, **run.data.tags}
    differences = [(key, stored[key], tags[key]) for key in _IDENTITY if stored[key] != tags[key]]
    differences += [change for change in changed if change[0].startswith(_SEARCH)]
    if stored["problem"] != tags["problem"]:
        differences += [change for change in changed if change[0].startswith(_PROBLEM)]
        differences += [
            (key, run.data.tags.get(key, "not set"), new)
            for key, new in tags.items()
            if key.startswith("version.") and run.data.tags.get(key) != new
        ]
        differences += [("the values of the table, problem", stored["problem"], tags["problem"])]
    if differences:
        key, old, new = differences[0]
        raise ConfigError(
            f"the run {run.info.run_id} was started with {key} {old!r} but now it is {new!r}; "
            "start a new run with `swarm select`"
        )


def _git_commit() -> str | None:
    try:
        process = subprocess.run(
            ["git", "rev-parse", "HEAD"], capture_output=True, text=True, timeout=5, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return process.stdout.strip() if process.returncode == 0 else None

"""What overrides a configuration file: the environment and `--set`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel

from conf.explain import shown
from conf.schema import SelectConfig
from swarm.errors import ConfigError
from swarm.redaction import redact

__all__ = ["Setting", "from_environment", "paths", "split", "with_value"]

# The keys to a value, the value as YAML text, and the option it came from.
Setting = tuple[tuple[str, ...], str, str]
_PREFIX = "SWARM_"


def split(override: str) -> Setting:
    """Take ``section.key=value`` apart.

    Raises
    ------
    ConfigError
        There is no ``=``, or a part of the key is empty.
    """
    key, equals, value = override.partition("=")
    keys = tuple(part.strip() for part in key.split("."))
    if not equals or not all(keys):
        raise ConfigError(
            f"--set {redact(override)!r} does not name a key and a value;"
            " write it as section.key=value"
        )
    return keys, value, f"--set {key.strip()}"


def from_environment(
    env: Mapping[str, str], model: type[BaseModel] = SelectConfig
) -> list[Setting]:
    """Find the variables that set keys: ``SWARM_A__B``, and ``SWARM_A`` where `a` is no section."""
    fields = model.model_fields
    settings = []
    for variable in sorted(env):
        keys = tuple(variable.removeprefix(_PREFIX).lower().split("__"))
        if not variable.startswith(_PREFIX) or not all(keys):
            continue
        # Others use the prefix too (a service called swarm gets SWARM_PORT from its orchestrator).
        if len(keys) > 1 or (keys[0] in fields and not _is_section(fields[keys[0]].annotation)):
            settings.append((keys, env[variable], variable))
    return settings


def paths(data: dict[Any, Any], above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Give the path of every key, three levels deep at most."""
    for key, value in data.items():
        yield (*above, key)
        if isinstance(value, dict) and len(above) < 2:
            yield from paths(value, (*above, key))


def with_value(
    data: dict[str, Any], keys: tuple[str, ...], value: Any, option: str, above: str = ""
) -> dict[str, Any]:
    """Return `data` with one nested value replaced; what is given is left as it was.

    Raises
    ------
    ConfigError
        A key on the way holds something else than keys; the error calls the value `option`.
    """
    head, *rest = keys
    if not rest:
        return {**data, head: value}
    below = data.get(head)
    if below is not None and not isinstance(below, dict):
        raise ConfigError(
            f"{option} goes below {above + head!r}, which holds {shown(below)} and no keys;"
            f" set {above + head!r} itself"
        )
    return {**data, head: with_value(below or {}, tuple(rest), value, option, f"{above}{head}.")}


def _is_section(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)

"""Read a configuration from YAML, the environment and `--set`."""

import json
import os
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import resources
from importlib.resources.abc import Traversable
from operator import eq
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, get_args

from pydantic import BaseModel, JsonValue, ValidationError

from conf.estimator import search_in
from conf.explain import sentences, shown
from conf.schema import CompareConfig, RefreshConfig, SelectConfig
from conf.stores import TrackingSection
from conf.yaml_text import parse, render
from swarm.errors import ConfigError, nearest
from swarm.redaction import redact

AnyConfig = SelectConfig | CompareConfig | RefreshConfig
C = TypeVar("C", SelectConfig, CompareConfig, RefreshConfig)
_COMMANDS = {SelectConfig: "select", CompareConfig: "compare", RefreshConfig: "refresh"}
_PREFIX = "SWARM_"


class Setting(NamedTuple):
    """A value that replaces that of a file, or is appended to it.

    Attributes
    ----------
    keys
        The key and the sections above it, from the top.
    text
        The value as YAML.
    option
        The option or variable that it comes from.
    appends
        Whether the value is appended to a list.
    """

    keys: tuple[str, ...]
    text: str
    option: str
    appends: bool = False


def load(
    path: str | Path, overrides: Sequence[str] = (), env: Mapping[str, str] | None = None
) -> AnyConfig:
    """Read a configuration file, or a shipped one by name; ConfigError if it is not valid.

    `overrides` take precedence over the environment, and the environment over the file.
    ``${NAME}`` in addresses is replaced only when the address is used.
    """
    config = from_yaml(*_read(path), overrides, env)
    _find_modules(path, config)
    return config


def load_as(model: type[C], path: str | Path, overrides: Sequence[str] = ()) -> C:
    """Read a configuration for one command, see :func:`load`; ConfigError if it is for another."""
    config = load(path, overrides)
    if isinstance(config, model):
        return config
    command = _COMMANDS[model]
    actual = _COMMANDS[type(config)]
    template = "default" if command == "select" else command
    raise ConfigError(
        f"{path} is for `swarm {actual}`, not for `swarm {command}`; run `swarm {actual}"
        f" {shlex.quote(str(path))}`, or start from `swarm config {template}`"
    )


def default_tracking(uri: str | None = None) -> TrackingSection:
    """Return the tracking store of the configuration `default`, at `uri` if one is given."""
    # Other variables may be meant for another kind of configuration.
    env = {key: text for key, text in os.environ.items() if key.startswith(f"{_PREFIX}TRACKING")}
    overrides = [] if uri is None else [f"tracking.uri={json.dumps(uri)}"]
    return load("default", overrides, env).tracking


def from_yaml(
    text: str,
    origin: str = "the configuration",
    overrides: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
) -> AnyConfig:
    """Read a configuration from YAML text; errors name `origin`; see :func:`load`."""
    config, problems = _validate(*_merge(text, origin, overrides, env))
    if config is None:
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        raise ConfigError(problems[0] + more)
    return config


def try_load(path: str | Path, overrides: Sequence[str] = ()) -> tuple[AnyConfig | None, list[str]]:
    """Read a configuration, or return None and every problem of its schema, a sentence each."""
    try:
        config, problems = _validate(*_merge(*_read(path), overrides, None))
    except ConfigError as error:
        return None, [str(error)]
    if config is not None:
        _find_modules(path, config)
    return config, problems


def _validate(
    model: type[AnyConfig], data: dict[str, Any], origin_of: Callable[[tuple[str, ...]], str]
) -> tuple[AnyConfig | None, list[str]]:
    """Return the configuration, or None and why its values are refused."""
    try:
        return model.model_validate(data), []
    except ValidationError as error:
        return None, sentences(error, data, model, origin_of)


def _find_modules(path: str | Path, config: AnyConfig) -> None:
    """Let the packages that a configuration allows be found in its folder."""
    allowed = (value for key, value in flatten(config).items() if key.endswith(".allow"))
    if any(allowed) and (file := Path(path).expanduser()).is_file():
        search_in(file.absolute().parent)


def _merge(
    text: str, origin: str, overrides: Sequence[str], env: Mapping[str, str] | None
) -> tuple[type[AnyConfig], dict[str, Any], Callable[[tuple[str, ...]], str]]:
    """Return the class of a configuration, its values, and a function that names their origin."""
    data = parse(text, origin)
    if not isinstance(data, dict):
        got = "nothing" if data is None else f"a {type(data).__name__}"
        raise ConfigError(f"{origin} must be a mapping of keys such as 'name: mine', got {got}")
    model: type[AnyConfig] = SelectConfig
    if "datasets" in data:
        model = CompareConfig
    elif "champion" in data:
        model = RefreshConfig
    settings = from_environment(os.environ if env is None else env, model)
    settings += map(_override, overrides)
    for setting in settings:
        data = _with_setting(data, setting)
    # A section whose keys are all commented out is null in YAML: use its defaults, unless null
    # turns it off. An option that says null means it.
    set_keys = {setting.keys[0] for setting in settings if len(setting.keys) == 1}
    data = {
        key: value
        for key, value in data.items()
        if value is not None or key in set_keys or _may_be_null(model, key)
    }

    def origin_of(keys: tuple[str, ...]) -> str:
        """Return the last option that set a key, a section above it or a key below it."""
        for setting in reversed(settings):
            if all(map(eq, setting.keys, keys)):
                return setting.option
        return origin

    return model, data, origin_of


def _with_setting(data: Mapping[str, Any], setting: Setting) -> dict[str, Any]:
    """Return `data` with one nested value replaced."""
    keys, text, option, appends = setting
    # Sections are copied, as the same one may be at two places of a file with aliases.
    merged = section = dict(data)
    for depth, key in enumerate(keys[:-1], 1):
        below = section.get(key)
        if not isinstance(below, dict | None):
            name = ".".join(keys[:depth])
            raise ConfigError(
                f"{option} goes below {name!r}, which is {shown(below)} and has no keys;"
                f" set {name!r} itself"
            )
        section[key] = section = dict(below or {})
    value = parse(text, option)
    if appends:
        values = section.get(keys[-1]) or []
        if not isinstance(values, list):
            raise ConfigError(f"{option} appends to a list, got {shown(values)}; set it with =")
        value = [*values, *(value if isinstance(value, list) else [value])]
    section[keys[-1]] = value
    return merged


def from_environment(
    env: Mapping[str, str], model: type[BaseModel] = SelectConfig
) -> list[Setting]:
    """Return settings from variables: ``SWARM_A__B``, and ``SWARM_A`` if `a` is not a section.

    Keys are lower case; others are set through their section: ``SWARM_MODEL__PARAMS={C: 1}``.
    """
    fields = model.model_fields
    settings = []
    for variable in sorted(name for name in env if name.startswith(_PREFIX)):
        keys = tuple(variable.removeprefix(_PREFIX).lower().split("__"))
        # Orchestrators use the prefix too: they set SWARM_PORT for a service called swarm.
        is_key = keys[0] in fields and not _is_section(fields[keys[0]].annotation)
        if all(keys) and (len(keys) > 1 or is_key):
            settings.append(Setting(keys, env[variable], variable))
    return settings


def _override(text: str) -> Setting:
    """Split ``section.key=value``, or ``section.key+=value``, which appends to a list."""
    key, equals, value = text.partition("=")
    appends = key.endswith("+")
    key = key.removesuffix("+")
    keys = tuple(name.strip() for name in key.split("."))
    if not equals or not all(keys):
        raise ConfigError(
            f"--set {redact(text)!r} has no key and value; write it as section.key=value"
        )
    return Setting(keys, value, f"--set {key.strip()}", appends)


def _may_be_null(model: type[BaseModel], key: str) -> bool:
    field = model.model_fields.get(key)
    return field is not None and type(None) in get_args(field.annotation)


def _is_section(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def as_yaml(config: AnyConfig) -> str:
    """Return the configuration with all defaults as YAML; the inverse of :func:`from_yaml`."""
    return render(config.model_dump(mode="json", by_alias=True))


def flatten(
    config: AnyConfig | Mapping[str, JsonValue], *, without_defaults: bool = False
) -> dict[str, JsonValue]:
    """Return all values by dotted key; lists and empty mappings are values.

    Defaults can only be left out of a configuration, not of the keys of a file.
    """

    def leaves(prefix: str, section: Mapping[str, JsonValue]) -> Iterator[tuple[str, JsonValue]]:
        for name, value in section.items():
            if isinstance(value, dict) and value:
                yield from leaves(f"{prefix}{name}.", value)
            else:
                yield prefix + name, value

    if isinstance(config, Mapping):
        return dict(leaves("", config))
    dumped = config.model_dump(mode="json", by_alias=True, exclude_defaults=without_defaults)
    return dict(leaves("", dumped))


def shipped() -> list[str]:
    """Return the names of the shipped configurations."""
    files = (file.name for file in resources.files("conf").iterdir())
    return sorted(name.removesuffix(".yaml") for name in files if name.endswith(".yaml"))


def _read(path: str | Path) -> tuple[str, str]:
    """Return the text of a file or of a shipped configuration, and its name."""
    file: Path | Traversable = Path(path)
    name = str(path)
    if not file.is_file():
        stem = Path(path).name.removesuffix(".yaml")
        if str(Path(path).parent) not in (".", "conf") or stem not in shipped():
            hint = nearest(stem, shipped()) or "; give the path of a YAML file"
            raise ConfigError(
                f"configuration {name!r} must be a file or a shipped configuration,"
                f" {', '.join(shipped())}{hint}"
            )
        name = f"conf/{stem}.yaml"
        file = resources.files("conf") / f"{stem}.yaml"
    try:
        return file.read_text(encoding="utf-8"), name
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise ConfigError(f"cannot read {name}: {reason}; give a readable YAML file") from None

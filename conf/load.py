"""Read a configuration from YAML, the environment and `--set`."""

from __future__ import annotations

import copy
import os
import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, ClassVar, get_args

import yaml
from pydantic import BaseModel, JsonValue, ValidationError

from conf.explain import explain, sentences, shown
from conf.schema import CompareConfig, RefreshConfig, SelectConfig
from swarm.errors import ConfigError, nearest
from swarm.redaction import redact

__all__ = [
    "AnyConfig",
    "CompareConfig",
    "RefreshConfig",
    "SelectConfig",
    "as_yaml",
    "flatten",
    "from_environment",
    "from_yaml",
    "json_schema",
    "load",
    "load_compare",
    "load_leniently",
    "load_refresh",
    "load_select",
    "only_select",
    "parse",
    "render",
    "shipped",
]

AnyConfig = SelectConfig | CompareConfig | RefreshConfig
# The path of a key, its value as YAML text, and the option that set it.
Setting = tuple[tuple[str, ...], str, str]
_PREFIX = "SWARM_"
# A repaired section may show a problem that its refused keys hid.
_MOST_REPAIRS = 5
# YAML 1.1, which PyYAML follows, reads 1e-3 as text; a learning rate must not become a string.
_EXPONENT = re.compile(r"^[-+]?[0-9][0-9_]*(?:\.[0-9_]*)?[eE][-+]?[0-9]+$")
_FLOAT = "tag:yaml.org,2002:float"
_MERGE = "tag:yaml.org,2002:merge"
# Maximum number of nodes in a document with all aliases expanded.
_MOST_NODES = 100_000


def load(
    path: str | Path, overrides: Sequence[str] = (), env: Mapping[str, str] | None = None
) -> AnyConfig:
    """Read a configuration file and its overrides.

    `overrides` take precedence over the environment, the environment over the file, and the file
    over the defaults. Only the configuration itself is validated; see :func:`conf.check.check`.

    Parameters
    ----------
    path : str or Path
        A YAML file. If there is none of that name, a shipped configuration: ``default``,
        ``default.yaml`` and ``conf/default.yaml`` are the same.
    overrides : sequence of str
        ``section.key=value`` each, with the value in YAML; the last one of a key wins.
    env : mapping of str to str, optional
        Environment variables; default: those of the process. ``SWARM_BUDGET__EPOCHS=5`` sets
        ``budget.epochs``; a name without ``__`` is used only if it is a top-level key, such as
        ``SWARM_SEED``. Keys are lower case; set others (``model.params.C``) through their section
        as a mapping, ``SWARM_MODEL__PARAMS={C: 1}``.

    Returns
    -------
    SelectConfig, CompareConfig or RefreshConfig
        A file with the key `datasets` is a comparison, one with `champion` a refresh.
        ``${NAME}`` in addresses is kept, and replaced only when the address is used.

    Raises
    ------
    ConfigError
        A file that cannot be read, an unknown key, or a value that is not allowed.
    """
    text, shown = _read(path)
    return from_yaml(text, shown, overrides, env)


def load_select(path: str | Path, overrides: Sequence[str] = ()) -> SelectConfig:
    """Read the configuration of a select run; see :func:`load`."""
    return only_select(load(path, overrides), str(path), str(path))


def only_select(config: AnyConfig, origin: str, command: str) -> SelectConfig:
    """Refuse a comparison, with a hint to ``swarm compare command``; errors name `origin`."""
    if isinstance(config, CompareConfig):
        raise ConfigError(
            f"{origin} is a comparison, as it has the key 'datasets'; run `swarm compare {command}`"
        )
    return config


def load_compare(path: str | Path, overrides: Sequence[str] = ()) -> CompareConfig:
    """Read the configuration of a comparison; see :func:`load`."""
    config = load(path, overrides)
    if isinstance(config, SelectConfig):
        raise ConfigError(
            f"{path} is not a comparison, as it has no key 'datasets'; run `swarm select {path}`,"
            " or start from `swarm config show compare`"
        )
    return config


def load_refresh(path: str | Path, overrides: Sequence[str] = ()) -> RefreshConfig:
    """Read the configuration of a refresh; see :func:`load`."""
    config = load(path, overrides)
    if not isinstance(config, RefreshConfig):
        raise ConfigError(
            f"{path} is not a refresh, as it has no key 'champion'; add it, or start from"
            " `swarm config show refresh`"
        )
    return config


def from_yaml(
    text: str,
    origin: str = "the configuration",
    overrides: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
) -> AnyConfig:
    """Read a configuration from YAML text; errors name `origin`; see :func:`load`."""
    model, data, where = _merged(text, origin, overrides, env)
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise ConfigError(explain(error, data, model, where)) from None


def load_leniently(
    path: str | Path, overrides: Sequence[str] = ()
) -> tuple[AnyConfig | None, list[str]]:
    """Read a configuration, and list every problem of its schema.

    Returns
    -------
    config : SelectConfig, CompareConfig, RefreshConfig or None
        Without the refused keys, so that the others can be checked; None if too little is left.
    problems : list of str
        A sentence each.
    """
    try:
        text, shown = _read(path)
        model, data, where = _merged(text, shown, overrides, None)
    except ConfigError as error:
        return None, [str(error)]
    problems: dict[tuple[str, ...], str] = {}
    for _ in range(_MOST_REPAIRS):
        try:
            return model.model_validate(data), list(problems.values())
        except ValidationError as error:
            told = sentences(error, data, model, where)
            problems = {**told, **problems}
            data = _repaired(data, told)
    return None, list(problems.values())


def _repaired(data: Mapping[str, Any], refused: Iterable[tuple[str, ...]]) -> dict[str, Any]:
    """Return a copy without the refused keys, and with a name."""
    left = copy.deepcopy({"name": "unnamed", **data})
    for path in refused:
        inside: Any = left
        for key in path[:-1]:
            inside = inside.get(key) if isinstance(inside, dict) else None
        if path == ("name",):
            left["name"] = "unnamed"
        elif isinstance(inside, dict) and path:
            inside.pop(path[-1], None)
    return left


def _merged(
    text: str, origin: str, overrides: Sequence[str], env: Mapping[str, str] | None
) -> tuple[type[AnyConfig], dict[str, Any], Callable[[tuple[str, ...]], str]]:
    """Return the kind of a configuration, its values, and a function that names their origin."""
    data = parse(text, origin)
    if not isinstance(data, dict):
        got = "nothing" if data is None else f"a {type(data).__name__}"
        raise ConfigError(f"{origin} must be a mapping of keys such as 'name: mine', got {got}")
    model = _kind_of(data)
    in_file = set(_paths(data))
    origins: dict[tuple[str, ...], str] = {}
    settings = [
        *from_environment(os.environ if env is None else env, model),
        *map(_override, overrides),
    ]
    for keys, value, option in settings:
        data = _with_value(data, keys, parse(value, option), option)
        origins = {known: name for known, name in origins.items() if known[: len(keys)] != keys}
        origins[keys] = option
    # A section whose keys are all commented out is null in YAML: use its defaults, unless null
    # turns it off. An option that says null means it.
    data = {
        key: value
        for key, value in data.items()
        if value is not None or (key,) in origins or _may_be_null(model, key)
    }

    def where(key: tuple[str, ...]) -> str:
        above = (key[:length] for length in range(len(key), 0, -1))
        below = (known for known in origins if known[: len(key)] == key and key not in in_file)
        return next((origins[part] for part in (*above, *below) if part in origins), origin)

    return model, data, where


def from_environment(
    env: Mapping[str, str], model: type[BaseModel] = SelectConfig
) -> list[Setting]:
    """Return settings from variables: ``SWARM_A__B``, and ``SWARM_A`` if `a` is not a section."""
    fields, settings = model.model_fields, []
    for variable in sorted(name for name in env if name.startswith(_PREFIX)):
        keys = tuple(variable.removeprefix(_PREFIX).lower().split("__"))
        # Others use the prefix too: orchestrators set SWARM_PORT for a service called swarm.
        is_key = keys[0] in fields and not _is_section(fields[keys[0]].annotation)
        if all(keys) and (len(keys) > 1 or is_key):
            settings.append((keys, env[variable], variable))
    return settings


def _may_be_null(model: type[BaseModel], key: str) -> bool:
    field = model.model_fields.get(key)
    return field is not None and type(None) in get_args(field.annotation)


def _is_section(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def as_yaml(config: AnyConfig) -> str:
    """Return the configuration with all defaults as YAML; the inverse of :func:`from_yaml`."""
    return render(config.model_dump(mode="json", by_alias=True))


def json_schema(model: type[AnyConfig] = SelectConfig) -> dict[str, Any]:
    """Return the JSON schema of a configuration file, with the description of every key."""
    return model.model_json_schema(by_alias=True)


def flatten(
    config: AnyConfig | Mapping[str, JsonValue], *, without_defaults: bool = False
) -> dict[str, JsonValue]:
    """Return all values by dotted key; lists and empty mappings are values.

    Parameters
    ----------
    config : AnyConfig or mapping
        A configuration, or the keys of a file.
    without_defaults : bool
        Leave out what has its default; of a configuration only.
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


def _override(text: str) -> Setting:
    """Split ``section.key=value``."""
    key, equals, value = text.partition("=")
    keys = tuple(part.strip() for part in key.split("."))
    if not equals or not all(keys):
        raise ConfigError(
            f"--set {redact(text)!r} has no key and value; write it as section.key=value"
        )
    return keys, value, f"--set {key.strip()}"


def _paths(data: Mapping[Any, Any], above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the path of every key, up to three levels deep."""
    for key, value in data.items():
        yield (*above, key)
        if isinstance(value, dict) and len(above) < 2:
            yield from _paths(value, (*above, key))


def _with_value(
    data: dict[str, Any], keys: tuple[str, ...], value: Any, option: str, above: str = ""
) -> dict[str, Any]:
    """Return `data` with one nested value replaced; errors name `option`."""
    head, *rest = keys
    if not rest:
        return {**data, head: value}
    below = data.get(head)
    if below is not None and not isinstance(below, dict):
        raise ConfigError(
            f"{option} goes below {above + head!r}, which is {shown(below)} and has no keys;"
            f" set {above + head!r} itself"
        )
    nested = _with_value(below or {}, tuple(rest), value, option, f"{above}{head}.")
    return {**data, head: nested}


def _kind_of(data: Mapping[str, Any]) -> type[AnyConfig]:
    if "datasets" in data:
        return CompareConfig
    return RefreshConfig if "champion" in data else SelectConfig


def _read(path: str | Path) -> tuple[str, str]:
    file: Path | Traversable = Path(path)
    shown = str(path)
    if not file.is_file():
        name = Path(path).name.removesuffix(".yaml")
        if str(Path(path).parent) not in (".", "conf") or name not in shipped():
            hint = nearest(name, shipped()) or "; give the path of a YAML file"
            raise ConfigError(
                f"configuration {shown!r} is neither a file nor a shipped configuration,"
                f" {', '.join(shipped())}{hint}"
            )
        shown = f"conf/{name}.yaml"
        file = resources.files("conf") / f"{name}.yaml"
    try:
        return file.read_text(encoding="utf-8"), shown
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise ConfigError(f"cannot read {shown}: {reason}; give a readable YAML file") from None


# ---------------------------------------------------------------- YAML


class _RepeatedKey(yaml.MarkedYAMLError):
    """A key that occurs twice in one mapping."""


def _with_exponents(resolvers: dict[str, Any]) -> dict[str, Any]:
    own = {first: [(_FLOAT, _EXPONENT)] for first in "-+0123456789"}
    return {first: own.get(first, []) + resolvers.get(first, []) for first in {*own, *resolvers}}


class _Loader(yaml.SafeLoader):
    yaml_implicit_resolvers = _with_exponents(yaml.SafeLoader.yaml_implicit_resolvers)

    def construct_document(self, node: yaml.Node) -> Any:
        # Ten aliases of ten aliases, nine times over, are 400 bytes and 10^9 values.
        if _nodes(node, {}) > _MOST_NODES:
            raise yaml.YAMLError(f"its aliases make more than {_MOST_NODES:,} values of it")
        return super().construct_document(node)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode) or key.tag == _MERGE:
                continue
            name = self.construct_object(key)
            if name in seen:
                raise _RepeatedKey(problem=str(name), problem_mark=key.start_mark)
            seen.add(name)
        return super().construct_mapping(node, deep)


def _nodes(node: yaml.Node, counted: dict[int, int]) -> int:
    """Count the nodes below a node with all aliases expanded."""
    if id(node) not in counted:
        counted[id(node)] = 1  # a node inside itself is refused elsewhere
        below = node.value if isinstance(node, yaml.CollectionNode) else []
        parts = (part for each in below for part in (each if isinstance(each, tuple) else (each,)))
        counted[id(node)] = 1 + sum(_nodes(part, counted) for part in parts)
    return counted[id(node)]


class _Dumper(yaml.SafeDumper):
    yaml_implicit_resolvers = _with_exponents(yaml.SafeDumper.yaml_implicit_resolvers)

    def represent_str(self, data: str) -> yaml.ScalarNode:
        # PyYAML writes these three literally, and reads each back as a line feed.
        style = '"' if any(mark in data for mark in "\x85\u2028\u2029") else None
        return self.represent_scalar("tag:yaml.org,2002:str", data, style)

    yaml_representers: ClassVar[dict[Any, Any]] = {
        **yaml.SafeDumper.yaml_representers,
        str: represent_str,
    }

    def ignore_aliases(self, data: Any) -> bool:
        return True


def parse(text: str, origin: str) -> Any:
    """Return the value of one YAML document.

    Parameters
    ----------
    text : str
        The document.
    origin : str
        Name of the document in errors: a file name or an option.

    Raises
    ------
    ConfigError
        The text is not YAML, has a tag that is not plain data, or repeats a key.
    """
    try:
        return yaml.load(text, _Loader)
    except _RepeatedKey as error:
        raise ConfigError(
            f"key {error.problem!r} occurs twice in {origin}{_line(error)}; keep one of them"
        ) from None
    except yaml.MarkedYAMLError as error:
        raise ConfigError(
            f"cannot read {origin}{_line(error)}: {_one_line(error.problem or error.context)};"
            " correct it so that it is YAML"
        ) from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ConfigError(
            f"cannot read {origin}: {_one_line(str(error))}; correct it so that it is YAML"
        ) from None


def render(data: Any) -> str:
    """Return `data` as YAML text; the inverse of :func:`parse`."""
    return yaml.dump(data, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)


def _line(error: yaml.MarkedYAMLError) -> str:
    mark = error.problem_mark or error.context_mark
    return f", line {mark.line + 1}" if mark else ""


def _one_line(text: str | None) -> str:
    return " ".join((text or "not YAML").split()).rstrip(".")

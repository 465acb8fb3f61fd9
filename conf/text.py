"""YAML of configurations: safe loading, no repeated keys, and 1e-3 is a number."""

from __future__ import annotations

import re
from collections.abc import Hashable
from typing import Any, ClassVar

import yaml

from swarm.errors import ConfigError

__all__ = ["parse", "render"]

# YAML 1.1, which PyYAML follows, reads 1e-3 as text; a learning rate must not become a string.
_EXPONENT = re.compile(r"^[-+]?[0-9][0-9_]*(?:\.[0-9_]*)?[eE][-+]?[0-9]+$")
_FLOAT = "tag:yaml.org,2002:float"
_MERGE = "tag:yaml.org,2002:merge"


# Maximum number of nodes in a document with all aliases expanded.
_MOST_NODES = 100_000


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

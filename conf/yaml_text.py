"""YAML text of a configuration: what it may hold, and how it is written."""

import re
from collections.abc import Hashable
from typing import Any

import yaml

from swarm.errors import ConfigError

# YAML 1.1, which PyYAML follows, reads 1e-3 as text; a learning rate must not become a string.
_EXPONENT = re.compile(r"^[-+]?[0-9][0-9_]*(?:\.[0-9_]*)?[eE][-+]?[0-9]+$")
_MERGE = "tag:yaml.org,2002:merge"
# Nodes of a document with all aliases expanded.
_MAX_NODES = 100_000


class _RepeatedKey(yaml.MarkedYAMLError):
    """A key that occurs twice in one mapping."""


class _Loader(yaml.SafeLoader):
    """A loader that refuses repeated keys, and aliases of aliases of aliases."""

    def construct_document(self, node: yaml.Node) -> Any:
        # Ten aliases of ten aliases, nine times over, are 400 bytes and 10^9 values.
        if _n_nodes(node, {}) > _MAX_NODES:
            raise yaml.YAMLError(f"its aliases make more than {_MAX_NODES:,} values of it")
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


class _Dumper(yaml.SafeDumper):
    """A dumper without aliases."""

    def ignore_aliases(self, data: object) -> bool:
        return True


def _text_node(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    """Quote the line breaks that PyYAML writes literally, and reads back as line feeds."""
    style = '"' if any(mark in text for mark in "\x85\u2028\u2029") else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style)


_Dumper.add_representer(str, _text_node)
for _resolver in (_Loader, _Dumper):
    _resolver.add_implicit_resolver("tag:yaml.org,2002:float", _EXPONENT, list("-+0123456789"))


def _n_nodes(node: yaml.Node, counts: dict[int, int]) -> int:
    """Count a node and those below it with all aliases expanded."""
    if id(node) not in counts:
        # A node inside itself is refused elsewhere.
        counts[id(node)] = 1
        children: list[yaml.Node] = []
        if isinstance(node, yaml.MappingNode):
            children = [child for pair in node.value for child in pair]
        elif isinstance(node, yaml.SequenceNode):
            children = node.value
        counts[id(node)] = 1 + sum(_n_nodes(child, counts) for child in children)
    return counts[id(node)]


def parse(text: str, origin: str) -> Any:
    """Return the value of one YAML document; `origin` names it in errors.

    ConfigError if it is not YAML, has a tag that is not plain data, or repeats a key.
    """
    try:
        return yaml.load(text, _Loader)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        place = f"{origin}, line {mark.line + 1}" if mark else origin
        reason = getattr(error, "problem", None) or getattr(error, "context", None) or str(error)
        if isinstance(error, _RepeatedKey):
            message = f"key {reason!r} occurs twice in {place}; keep one of them"
        else:
            reason = " ".join(reason.split()).rstrip(".")
            message = f"cannot read {place}: {reason}; correct it so that it is YAML"
        raise ConfigError(message) from None


def render(data: object) -> str:
    """Return `data` as YAML text; the inverse of :func:`parse`."""
    return yaml.dump(data, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)

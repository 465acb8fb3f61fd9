"""A hook of MkDocs: roles of docstrings, such as ``:class:`Problem```, become plain code."""

from __future__ import annotations

import re
from typing import Any

_ROLE = re.compile(r":(?:class|func|meth|mod|attr|data|exc):(?=<code|<a|<span)")


def on_page_content(html: str, **_: Any) -> str:
    """Remove the names of roles, which only Sphinx knows."""
    return _ROLE.sub("", html)

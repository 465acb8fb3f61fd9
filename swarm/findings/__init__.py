"""Numbered findings: reasons to doubt the data, the configuration or the result of a search."""

from swarm.findings.registry import (
    KINDS,
    Finding,
    Findings,
    Kind,
    as_file,
    codes_of,
    make_finding,
    unmuted,
)

__all__ = ["KINDS", "Finding", "Findings", "Kind", "as_file", "codes_of", "make_finding", "unmuted"]

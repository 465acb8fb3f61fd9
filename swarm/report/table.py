"""A table of texts, for pages, terminals and MLflow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class TextTable:
    """A table of texts, of which the first column has names."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    title: str = ""
    n_left: int = 1  # how many columns are left-justified; numbers are on the right

    def as_markdown(self) -> str:
        """Return the table as Markdown."""
        rule = ["---" if i < self.n_left else "--:" for i in range(len(self.header))]
        return "\n".join(f"| {' | '.join(cells)} |" for cells in (self.header, rule, *self.rows))

"""A table of texts, for pages, terminals and MLflow."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class TextTable:
    """A table of texts.

    Attributes
    ----------
    header : sequence of str
    rows : sequence of sequence of str
    title : str
    n_left : int
        Number of columns with names, which are left-justified; numbers are on the right.
    """

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    title: str = ""
    n_left: int = 1

    def as_markdown(self) -> str:
        """Return the table as Markdown."""
        rule = ["---" if i < self.n_left else "--:" for i in range(len(self.header))]
        return "\n".join(f"| {' | '.join(cells)} |" for cells in (self.header, rule, *self.rows))

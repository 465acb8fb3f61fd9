"""Objects that draw themselves where they are the last line of a notebook's cell."""

from __future__ import annotations

from importlib import import_module
from typing import Any


class Drawn:
    """Is a card of :mod:`swarm.report.cards` in a notebook, and its text elsewhere.

    Pages are above all that they show, and packages import downwards only: what draws is resolved
    when a notebook asks for it.
    """

    def _repr_html_(self) -> str | None:
        """Return the card; None without the packages that it takes."""
        html: str | None = import_module("swarm.report.cards").card_of(self)
        return html

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """Print the text, in IPython."""
        printer.text(str(self))

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

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        """Return the text for what shows no HTML, IPython in a terminal for one, and the card."""
        html = self._repr_html_()
        return {"text/plain": str(self)} | ({} if html is None else {"text/html": html})

"""Objects that draw themselves if they are the last line of a notebook's cell."""

from importlib import import_module
from typing import Any


class Drawn:
    """Shown as a card of :mod:`swarm.report.cards` in a notebook, and as text elsewhere.

    Cards are in a higher package, and packages import downwards only: the module is imported when a
    notebook asks for a card.
    """

    def _repr_html_(self) -> str | None:
        """Return the card; None if its packages are not installed."""
        return import_module("swarm.report.cards").card_of(self)

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        """Return the card, and the text for programs without HTML, such as a terminal."""
        html = self._repr_html_()
        return {"text/plain": str(self)} | ({} if html is None else {"text/html": html})

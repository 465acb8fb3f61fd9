"""The page that lies beside a saved ensemble: what is in it, and what loading it runs."""

from __future__ import annotations

from typing import Any

from tasks.model_files import serialisation

__all__ = ["model_card"]

_FORMS = {
    "lightgbm": (
        "Every member is in LightGBM's own text format (`member_NNN.txt`). Reading it parses\n"
        "numbers; no code comes from it."
    ),
    "skops": (
        "Every member is in skops format (`member_NNN.skops`). Only the types below are made from\n"
        "it; a file that holds any other is refused when the model is loaded."
    ),
    "lightgbm+skops": (
        "Some members are in LightGBM's own text format (`member_NNN.txt`), the others in skops\n"
        "format (`member_NNN.skops`). Of the latter only the types below are made; a file that\n"
        "holds any other is refused when the model is loaded."
    ),
}


def model_card(ensemble: Any, members: list[dict[str, Any]], packages: list[str]) -> str:
    """Return the card of a written ensemble as Markdown.

    Parameters
    ----------
    ensemble : SubsetEnsemble
        Fitted.
    members : list of dict
        As in ``ensemble.json``: ``subset``, ``kind``, and ``trusted`` where skops wrote it.
    packages : list of str
        Distributions that loading needs besides MLflow, NumPy and pandas.
    """
    form = serialisation(ensemble)
    used = sorted({name for member in members for name in member["subset"]})
    trusted = sorted({name for member in members for name in member.get("trusted", [])})
    types = "".join(f"- `{name}`\n" for name in trusted)
    besides = "\nTypes beyond those that skops trusts by itself:\n\n" + types if trusted else ""
    return f"""# Ensemble of {len(members)} models

Serialisation: {form}. Nothing is pickled.

{_FORMS[form]}
{besides}
Subsets, columns, classes and the vote are in `ensemble.json`. The one piece of code that runs is
`served_model.py` in this folder, which MLflow imports. Whoever may write to this folder may change
what it does: guard the artifact store as you guard the program.

- Vote: {getattr(ensemble, "vote_", ensemble.vote)}
- Columns needed ({len(used)}): {", ".join(f"`{name}`" for name in used)}
- Packages: {", ".join(packages)}
"""

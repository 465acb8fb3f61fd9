"""Model card of a saved ensemble: its content, and the code that runs when it is loaded."""

from __future__ import annotations

from typing import Any

from tasks.models.files import serialisation

__all__ = ["model_card"]

_FORMS = {
    "lightgbm": (
        "Every member is in LightGBM's own text format (`member_NNN.txt`). Loading it only parses\n"
        "numbers and runs no code."
    ),
    "skops": (
        "Every member is in skops format (`member_NNN.skops`). Only the types below are trusted;\n"
        "a file with any other type is refused when the model is loaded."
    ),
    "lightgbm+skops": (
        "Some members are in LightGBM's own text format (`member_NNN.txt`), the others in skops\n"
        "format (`member_NNN.skops`). Of the latter only the types below are trusted; a file with\n"
        "any other type is refused when the model is loaded."
    ),
}


def model_card(ensemble: Any, members: list[dict[str, Any]], packages: list[str]) -> str:
    """Return the card of a written ensemble as Markdown.

    Parameters
    ----------
    ensemble : SubsetEnsemble
        Fitted.
    members : list of dict
        As in ``ensemble.json``: ``subset``, ``kind``, and ``trusted`` for skops files.
    packages : list of str
        Packages needed to load the model besides MLflow, NumPy and pandas.
    """
    form = serialisation(ensemble)
    used = sorted({name for member in members for name in member["subset"]})
    trusted = sorted({name for member in members for name in member.get("trusted", [])})
    types = "".join(f"- `{name}`\n" for name in trusted)
    besides = "\nTypes besides those that skops trusts by default:\n\n" + types if trusted else ""
    output = "Output: numbers"
    if hasattr(ensemble, "classes_"):
        output = (
            'Output: labels; with `params={"probabilities": True}` the probability of each class'
        )
    return f"""# Ensemble of {len(members)} models

Serialisation: {form}. Nothing is pickled.

{_FORMS[form]}
{besides}
Subsets, columns, classes and the vote are in `ensemble.json`. The only code that runs is
`served_model.py` in this folder, which MLflow imports. Anyone who can write to this folder can
change that code: protect the artifact store like the program itself.

- Each model: `{_one_line(ensemble.estimator)}`
- Vote: {getattr(ensemble, "vote_", ensemble.vote)}
- {output}
- Columns needed ({len(used)}): {", ".join(f"`{name}`" for name in used)}
- Packages: {", ".join(packages)}
"""


def _one_line(estimator: Any) -> str:
    """Return the parameters of an estimator that differ from its defaults, as it shows them."""
    return " ".join(repr(estimator).split())

"""The text on top of a run's page in MLflow: the answer, before any tab is opened."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tasks.tracking.client import Tracking

__all__ = ["answer_note", "note", "run_title"]

_MOST_FEATURES = 40


def run_title(dataset: str, strategy: str, seed: int) -> str:
    """Name of the run of a search: data, strategy, seed."""
    return f"{dataset}-{strategy}-{seed}"


def answer_note(
    tracking: Tracking,
    run_id: str,
    features: Sequence[str],
    n_available: int,
    cost: float,
    verdict: str,
    description: str | None = None,
) -> dict[str, str]:
    """Return the tag that shows what a search found.

    MLflow folds away all but the first lines: the links stand before the features.

    Parameters
    ----------
    features : sequence of str
        Of the best subset; the first forty are listed.
    n_available : int
        Columns to choose from.
    cost : float
        Of the best subset, in cross-validation.
    verdict : str
        What the test rows say.
    description : str, optional
        What the user wrote about the run; it comes last.
    """
    listed = ", ".join(f"`{name}`" for name in features[:_MOST_FEATURES])
    if len(features) > _MOST_FEATURES:
        listed += f" and {len(features) - _MOST_FEATURES} more"
    told = f"**{len(features)} of {n_available} features**, cost {cost:.5f} in cross-validation."
    links = {"report": "report.html", "features": "features.json", "subsets": "subsets.csv"}
    more = [listed, *([description] if description else [])]
    return note(tracking, run_id, f"{told} {verdict}", links, more)


def note(
    tracking: Tracking,
    run_id: str,
    answer: str,
    links: Mapping[str, str],
    more: Sequence[str],
) -> dict[str, str]:
    """Return the tag for an answer, links to artifacts (path by word) and more paragraphs."""
    # A link within the page: right wherever the UI is served, and whatever leads to it.
    page = f"#/experiments/{tracking.experiment_id}/runs/{run_id}/artifacts"
    joined = " · ".join(f"[{word}]({page}/{path})" for word, path in links.items())
    return {"mlflow.note.content": "\n\n".join([answer, f"Open: {joined}", *more])}

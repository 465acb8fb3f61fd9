"""The description at the top of a run's page in MLflow, which shows the result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tasks.tracking.client import Tracking

__all__ = ["answer_note", "note", "run_title"]

_MOST_FEATURES = 40


def run_title(dataset: str, strategy: str, seed: int) -> str:
    """Return the name of the run of a search: data, strategy, seed."""
    return f"{dataset}-{strategy}-{seed}"


def answer_note(
    tracking: Tracking,
    run_id: str,
    features: Sequence[str],
    headline: str,
    verdict: str,
    description: str | None = None,
) -> dict[str, str]:
    """Return the description tag with the result of a search.

    MLflow collapses all but the first lines, so the links come before the features.

    Parameters
    ----------
    features : sequence of str
        Features of the best subset; the first forty are listed.
    headline : str
        The headline with its evidence, as Markdown.
    verdict : str
        Result on the test rows, in one sentence.
    description : str, optional
        Description by the user, which comes last.
    """
    listed = ", ".join(f"`{name}`" for name in features[:_MOST_FEATURES])
    if len(features) > _MOST_FEATURES:
        listed += f" and {len(features) - _MOST_FEATURES} more"
    links = {"report": "report.html", "features": "features.json", "subsets": "subsets.csv"}
    more = [listed, *([description] if description else [])]
    return note(tracking, run_id, f"{headline} {verdict}", links, more)


def note(
    tracking: Tracking,
    run_id: str,
    answer: str,
    links: Mapping[str, str],
    more: Sequence[str],
) -> dict[str, str]:
    """Return the description tag: a result, links to artifacts and further paragraphs."""
    # Links relative to the page work wherever the UI is served.
    page = f"#/experiments/{tracking.experiment_id}/runs/{run_id}/artifacts"
    joined = " · ".join(f"[{word}]({page}/{path})" for word, path in links.items())
    return {"mlflow.note.content": "\n\n".join([answer, f"Open: {joined}", *more])}

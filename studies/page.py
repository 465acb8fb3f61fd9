"""Pages of the studies: templates written by hand, with numbers filled in from the rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from studies.runner import facts_of
from swarm.statistics.resampled import corrected_t

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "PUBLISHED",
    "Page",
    "UnsupportedClaimError",
    "corrected_gains",
    "holm",
    "interval",
    "render",
    "signed",
    "unfinished",
    "write_page",
]

PUBLISHED = Path(__file__).with_name("published")
_STYLE = Path(__file__).with_name("figures.mplstyle")


class UnsupportedClaimError(AssertionError):
    """A sentence of a page is no longer true to the rows."""


@dataclass(frozen=True)
class Page:
    """What a template is filled in with, and the files beside the page.

    Attributes
    ----------
    values : mapping
        Numbers and tables by the names that the template has for them.
    figures : mapping of str to callable
        Draws the figure of that name.
    tables : mapping of str to DataFrame
        Written beside the rows as CSV.
    """

    values: Mapping[str, Any]
    figures: Mapping[str, Callable[[], Figure]]
    tables: Mapping[str, pd.DataFrame]


def render(study: str, page: Page, out: Path) -> str:
    """Fill the template of a study in.

    Beside a sentence that other rows could make wrong the template has a claim,
    ``claim("2D-UPSO is first", nb.rank.two_d == 1)``, which prints nothing.

    Raises
    ------
    UnsupportedClaimError
        If the rows do not support a claim.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    wrong = []

    def claim(name: str, holds: object) -> str:
        if not holds:
            wrong.append(name)
        return ""

    environment = Environment(
        loader=FileSystemLoader(Path(__file__).with_name("templates")),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
    )
    environment.filters |= {
        "signed": signed,
        "p": lambda p: "< 0.001" if p < 0.001 else f"{p:.3f}",
        "percent": lambda share: f"{100 * share:.0f} %",
        "duration": _duration,
        "table": _markdown,
    }
    environment.globals |= {"claim": claim, "interval": interval}
    values = {**page.values, "provenance": _provenance(facts_of(study, out))}
    text = environment.get_template(f"{study}.md.j2").render(values)
    if wrong:
        raise UnsupportedClaimError(
            f"the rows no longer support what {study}.md says: {'; '.join(wrong)}; correct the"
            f" sentences and their claims in studies/templates/{study}.md.j2"
        )
    return text


def write_page(study: str, page: Page, out: Path) -> None:
    """Write a page with its figures and tables."""
    import matplotlib.pyplot as plt

    (out / "figures").mkdir(parents=True, exist_ok=True)
    (out / f"{study}.md").write_text(render(study, page, out), encoding="utf-8")
    for name, table in page.tables.items():
        table.to_csv(out / "results" / f"{name}.csv", index=False, lineterminator="\n")
    for name, draw in page.figures.items():
        with plt.style.context(_STYLE):
            figure = draw()
            figure.savefig(out / "figures" / f"{name}.svg", metadata={"Date": None})
            plt.close(figure)


def corrected_gains(
    gains: pd.Series[float], sizes: Mapping[str, tuple[float, float]] | None = None
) -> pd.DataFrame:
    """Test the mean of paired differences by the corrected resampled t-test, group by group.

    Parameters
    ----------
    gains : Series
        Its index has the levels `dataset` and `resample`, and others.
    sizes : mapping of data set to (int, int), optional
        Rows trained on and tested on; default: 70 % and 30 %.

    Returns
    -------
    DataFrame
        mean, low, high, p and n of each group of resamples.
    """
    keys = [name for name in gains.index.names if name != "resample"]
    tested = {}
    # Costs are shares of rows: what differs by less is equal but for rounding.
    for key, own in gains.dropna().round(12).groupby(level=keys, sort=False):
        n_train, n_test = sizes[key[keys.index("dataset")]] if sizes else (0.7, 0.3)
        found = asdict(corrected_t(own.to_numpy(), n_train, n_test))
        tested[key] = {name: found[name] for name in ("mean", "low", "high", "p", "n")}
    table = pd.DataFrame.from_dict(tested, orient="index")
    table.index = pd.MultiIndex.from_tuples(table.index, names=keys)
    return table


def holm(p: pd.Series[float]) -> pd.Series[float]:
    """Adjust the p-values of one family by Holm's step-down procedure."""
    ordered = p.sort_values(kind="stable")
    steps = ordered * np.arange(len(p), 0, -1)
    return steps.cummax().clip(upper=1.0).reindex(p.index)


def unfinished(rows: pd.DataFrame, runs: Mapping[str, int]) -> dict[str, Any]:
    """Count the searches that a protocol has and the rows have not, and estimate their seconds.

    `runs` are those of each strategy on each data set, by part.
    """
    searched = rows[rows["strategy"] != "full"]
    missing, planned, seconds = 0, 0, 0.0
    for part, n in runs.items():
        own = searched[searched["part"] == part]
        spent = own["seconds_algorithm"] + own["seconds_evaluation"]
        counts = own.groupby(["dataset", "strategy"]).size().unstack(fill_value=0)
        short = (n - counts).clip(lower=0).sum(axis=1)
        missing += int(short.sum())
        planned += n * counts.size
        seconds += float((short * spent.groupby(own["dataset"]).mean()).sum())
    return {"missing": missing, "planned": planned, "seconds": seconds}


def signed(value: float, digits: int = 3) -> str:
    """Write a difference: ``+0.012``, ``−0.004``, ``0.000``."""
    text = f"{value:+.{digits}f}"
    return text[1:] if float(text) == 0 else text.replace("-", "−").replace("inf", "∞")


def interval(low: float, high: float, digits: int = 3) -> str:
    """Write the interval of a difference: ``[−0.004, +0.012]``."""
    return f"[{signed(low, digits)}, {signed(high, digits)}]"


def _duration(seconds: float) -> str:
    """Write a time: ``48 s``, ``12 min``, ``2 h 05 min``."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60:02d} min"


def _markdown(table: pd.DataFrame) -> str:
    """Write a table of strings in Markdown: the index left, the columns right."""
    rule = [":--", *["--:"] * table.shape[1]]
    rows = [[str(name), *cells] for name, cells in zip(table.index, table.to_numpy(), strict=True)]
    lines = [[str(table.index.name or ""), *map(str, table.columns)], rule, *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _provenance(facts: Mapping[str, Any]) -> str:
    versions = ", ".join(f"{name} {number}" for name, number in facts["versions"].items())
    machine = f"{facts['machine']['cores']} cores, {facts['machine']['memory_gib']} GiB"
    spent = _duration(sum(facts["seconds"].values()))
    return f"Run with {versions} on {machine}; {spent} of wall time."

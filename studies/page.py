"""Pages of the studies: templates written by hand, with numbers filled in from the rows.

:func:`command` is the command line of a study.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import typer
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from studies.runner import Part, facts_of, run_study
from swarm.errors import InputError
from swarm.statistics.resampled import corrected_t

PUBLISHED = Path(__file__).with_name("published")
_STYLE = Path(__file__).with_name("figures.mplstyle")


class UnsupportedClaimError(AssertionError):
    """A sentence of a page is no longer true to the rows."""


@dataclass(frozen=True)
class Page:
    """Values of the names in a template, and figures and CSV tables that are beside the page."""

    values: Mapping[str, Any]
    figures: Mapping[str, Callable[[], plt.Figure]] = field(default_factory=dict)
    tables: Mapping[str, pd.DataFrame] = field(default_factory=dict)


def render(study: str, page: Page, out: Path) -> str:
    """Fill the template of a study in.

    Beside a sentence that other rows could make wrong the template has a claim,
    ``claim("2D-UPSO is first", nb.rank.two_d == 1)``, which prints nothing. Raises
    :class:`UnsupportedClaimError` if the rows do not support one.
    """
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
        "short": lambda value: "–" if value != value else f"{value:g}",
        "percent": lambda share: f"{100 * share:.0f} %",
        "duration": _duration,
        "error": lambda value: "–" if value != value else f"{value:.4f}",
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


def command(
    study: str,
    page_of: Callable[[Path], Page],
    parts: Callable[..., list[Part]] | None = None,
    before: Callable[..., None] | None = None,
) -> None:
    """Parse the command line, run what has no row yet, and render the page.

    ``parts(data, work, only, **numbers)`` lays the searches out, ``page_of(out)`` fills the page in
    from what is stored, ``before(data, work, out, verbosity, **numbers)`` runs what is more than
    rows. Numbers have defaults, which the command line changes.
    """
    first, later = (dict(getattr(one, "__kwdefaults__", None) or {}) for one in (before, parts))
    listed = ", ".join(f"{name}={number}" for name, number in {**later, **first}.items()) or "none"

    def main(
        data: Annotated[Path | None, typer.Option(help="Folder of Parquet tables.")] = None,
        change: Annotated[
            list[str] | None,
            typer.Option("--set", metavar="NAME=NUMBER", help="Change a number of the protocol."),
        ] = None,
        only: Annotated[list[str] | None, typer.Option(help="A data set; may be repeated.")] = None,
        page: Annotated[bool, typer.Option("--page", help="Run nothing, render the page.")] = False,
        out: Annotated[Path, typer.Option(help="Folder of the page.")] = Path("docs/evidence"),
        work: Annotated[Path, typer.Option(help="Folder of archives.")] = Path("mlruns/evidence"),
        workers: Annotated[int, typer.Option(min=1, help="Searches at a time.")] = 2,
        verbosity: Annotated[int, typer.Option(help="0 silent, 2 a line per search.")] = 1,
    ) -> None:
        # Prefect logs every step.
        logging.disable(logging.INFO)
        for name, number in (text.split("=", 1) for text in change or ()):
            numbers = first if name in first else later
            if name not in numbers:
                raise typer.BadParameter(f"{name} is none of {listed}")
            numbers[name] = int(number)
        try:
            if before is not None and not page:
                before(data, work, out, verbosity, **first)
            if parts is not None and not page:
                run_study(study, parts(data, work, only, **later), out, work, workers, verbosity)
            write_page(study, page_of(out), out)
        except (InputError, UnsupportedClaimError) as error:
            typer.echo(f"error: {error}", err=True)
            raise typer.Exit(2) from None
        except KeyboardInterrupt:
            typer.echo("interrupted; the same command goes on with what is left", err=True)
            raise typer.Exit(130) from None

    main.__doc__ = f"Run what has no row yet, and render the page. Numbers: {listed}."
    typer.run(main)


def write_page(study: str, page: Page, out: Path) -> None:
    """Write a page with its figures and tables."""
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

    The index of `gains` has the levels `dataset` and `resample`, and others; `sizes` are the rows
    of each data set that are trained on and tested on, 70 % and 30 % by default. Returns mean, low,
    high, p and n of each group of resamples.
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


def in_order(table: pd.DataFrame, **order: Iterable[str]) -> pd.DataFrame:
    """Sort rows by columns whose values have an order of their own."""
    places = [table[key].map(list(names).index) for key, names in order.items()]
    return table.iloc[np.lexsort(places[::-1])].reset_index(drop=True)


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


def _provenance(facts: Mapping[str, Any]) -> str:
    versions = ", ".join(f"{name} {number}" for name, number in facts["versions"].items())
    machine = f"{facts['machine']['cores']} cores, {facts['machine']['memory_gib']} GiB"
    spent = _duration(sum(facts["seconds"].values()))
    return f"Run with {versions} on {machine}; {spent} of wall time."

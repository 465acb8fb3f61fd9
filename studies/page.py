"""Sections of docs/evidence/index.md: templates written by hand, with numbers from the rows.

:func:`command` is the command line of a study.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
import typer
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from studies.runner import Part, run_study
from swarm.errors import InputError
from swarm.statistics.resampled import corrected_t

_FOLDER = Path(__file__).parent
PUBLISHED = _FOLDER / "published"
PAGE = _FOLDER.parent / "docs" / "evidence" / "index.md"


class UnsupportedClaimError(AssertionError):
    """A sentence of a section is no longer true to the rows."""


@dataclass(frozen=True)
class Section:
    """Values of the names in a template, and CSV tables that are beside the rows."""

    values: Mapping[str, Any]
    tables: Mapping[str, pd.DataFrame] = field(default_factory=dict)


def render(study: str, section: Section) -> str:
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
        loader=FileSystemLoader(_FOLDER / "templates"),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
    )
    environment.filters |= {
        "signed": signed,
        "percent": lambda share: f"{100 * share:.0f} %",
    }
    environment.globals |= {"claim": claim}
    text = environment.get_template(f"{study}.md.j2").render(section.values)
    if wrong:
        raise UnsupportedClaimError(
            f"the rows no longer support what the page says: {'; '.join(wrong)}; correct the"
            f" sentences and their claims in studies/templates/{study}.md.j2"
        )
    return text


def command(
    study: str,
    section_of: Callable[[Path], Section],
    parts: Callable[..., list[Part]] | None = None,
    before: Callable[..., None] | None = None,
) -> None:
    """Parse the command line, run what has no row yet, and write the section.

    ``parts(data, work, only, **numbers)`` lays the searches out, ``section_of(out)`` fills the
    section in from what is stored, ``before(data, work, out, verbosity, **numbers)`` runs what is
    more than rows. Numbers have defaults, which the command line changes.
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
        page: Annotated[
            bool, typer.Option("--page", help="Run nothing, write the section.")
        ] = False,
        out: Annotated[Path, typer.Option(help="Folder of the rows.")] = Path("studies"),
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
            write_section(study, section_of(out), out)
        except (InputError, UnsupportedClaimError) as error:
            typer.echo(f"error: {error}", err=True)
            raise typer.Exit(2) from None
        except KeyboardInterrupt:
            typer.echo("interrupted; the same command goes on with what is left", err=True)
            raise typer.Exit(130) from None

    main.__doc__ = f"Run what has no row yet, and write the section. Numbers: {listed}."
    typer.run(main)


def write_section(study: str, section: Section, out: Path) -> None:
    """Write a section and its tables: into the page, or beside rows that are not those of the page.

    Raises :class:`UnsupportedClaimError` before anything is written.
    """
    text = render(study, section)
    for name, table in section.tables.items():
        table.to_csv(out / "results" / f"{name}.csv", index=False, lineterminator="\n")
    if out.resolve() == _FOLDER:
        before, _, after = split_page(study, PAGE.read_text(encoding="utf-8"))
        PAGE.write_text(before + text + after, encoding="utf-8")
    else:
        (out / f"{study}.md").write_text(text, encoding="utf-8")


def split_page(study: str, page: str) -> tuple[str, str, str]:
    """Split the text of a page into what is before, in and after the section of a study."""
    begin, end = f"<!-- begin {study} -->\n", f"<!-- end {study} -->\n"
    before, rest = page.split(begin)
    own, after = rest.split(end)
    return before + begin, own, end + after


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
        tested[key] = {name: found[name] for name in ("mean", "low", "high", "p")} | {"n": len(own)}
    table = pd.DataFrame.from_dict(tested, orient="index")
    table.index = pd.MultiIndex.from_tuples(table.index, names=keys)
    return table


def in_order(table: pd.DataFrame, **order: Iterable[str]) -> pd.DataFrame:
    """Sort rows by columns whose values have an order of their own."""
    places = [table[key].map(list(names).index) for key, names in order.items()]
    return table.iloc[np.lexsort(places[::-1])].reset_index(drop=True)


def unfinished(rows: pd.DataFrame, runs: Mapping[str, int]) -> dict[str, int]:
    """Count the searches that a protocol has, and those of them that the rows have not.

    `runs` are those of each strategy on each data set, by part.
    """
    searched = rows[rows["strategy"] != "full"]
    missing, planned = 0, 0
    for part, n in runs.items():
        own = searched[searched["part"] == part]
        counts = own.groupby(["dataset", "strategy"]).size().unstack(fill_value=0)
        missing += int((n - counts).clip(lower=0).to_numpy().sum())
        planned += n * counts.size
    return {"missing": missing, "planned": planned}


def signed(value: float, digits: int = 3) -> str:
    """Write a difference: ``+0.012``, ``−0.004``, ``0.000``."""
    text = f"{value:+.{digits}f}"
    return text[1:] if float(text) == 0 else text.replace("-", "−")

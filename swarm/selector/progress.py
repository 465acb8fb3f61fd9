"""Progress of a fit: a bar or lines."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from swarm.search.history import EpochRecord
from swarm.search.state import SearchState

OnEpoch = Callable[[EpochRecord, SearchState], None]


def print_line(line: str, verbose: int) -> None:
    """Print a line on standard error, above a progress bar, unless `verbose` is 0."""
    if verbose > 0:
        from tqdm import tqdm

        tqdm.write(line, file=sys.stderr)


@contextmanager
def progress(verbose: int, epochs: int | None) -> Iterator[OnEpoch]:
    """Show epochs as they finish: 0 nothing, 1 a progress bar of tqdm, 2 a line for each."""
    if verbose <= 0:
        yield lambda record, state: None
    elif verbose > 1:
        yield _print_epoch
    else:
        from tqdm.auto import tqdm

        with tqdm(total=epochs, unit="epoch") as bar:

            def advance(record: EpochRecord, state: SearchState) -> None:
                cost = record.metrics["best_cost"]
                size = record.metrics["best_size"]
                bar.set_postfix_str(f"cost {cost:.5f}, {size:.0f} features", refresh=False)
                bar.update(record.epoch - bar.n)

            yield advance


def _print_epoch(record: EpochRecord, state: SearchState) -> None:
    metrics = record.metrics
    line = (
        f"epoch {record.epoch}: best cost {metrics['best_cost']:.5f} with "
        f"{metrics['best_size']:.0f} features, {metrics['evaluations']:.0f} evaluations, "
        f"{metrics['fits']:.0f} fits"
    )
    print_line(line, verbose=1)

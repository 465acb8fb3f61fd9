"""Progress of a fit: scikit-learn callbacks and output on the terminal."""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from swarm.search.history import EpochRecord

if TYPE_CHECKING:
    from swarm.search.driver import SearchState

__all__ = ["CallbackSupport", "FitCallbacks", "Stop", "progress", "tell", "with_callbacks"]

try:
    from sklearn.callback import CallbackSupportMixin as CallbackSupport
    from sklearn.callback import with_callbacks
except ImportError:  # scikit-learn before 1.9

    class CallbackSupport:  # type: ignore[no-redef]
        """Replaces the mixin of scikit-learn 1.9."""

    def with_callbacks(method: Callable[..., Any]) -> Callable[..., Any]:
        """Return the method unchanged."""
        return method


Tell = Callable[[EpochRecord, "SearchState"], None]
Step = Callable[["SearchState"], "tuple[SearchState, EpochRecord]"]

_LINE_SECONDS = 60.0


class Stop(KeyboardInterrupt):
    """Raised when a scikit-learn callback requests a stop; ends the search like Ctrl-C."""


class FitCallbacks:
    """Calls the scikit-learn callbacks for the fit and for each epoch.

    Parameters
    ----------
    selector : estimator
    X, y
        Arguments of ``fit``.
    metadata : dict
        Further arguments of ``fit``.
    epochs : int or None
        Maximum number of epochs, None if unknown.

    Attributes
    ----------
    stop_requested : bool
        Whether a callback has requested a stop.
    """

    def __init__(
        self, selector: Any, X: Any, y: Any, metadata: dict[str, Any], epochs: int | None
    ) -> None:
        self._selector = selector
        self._data = {"X": X, "y": y, "metadata": metadata}
        begin = getattr(selector, "_init_callback_context", None)
        self._fit = None if begin is None else begin(max_subtasks=epochs)
        self.stop_requested = False
        if self._fit is not None:
            self._fit.call_on_fit_task_begin(estimator=selector, **self._data)

    def around(self, step: Step, fitted: Callable[[SearchState], dict[str, Any] | None]) -> Step:
        """Wrap a step of the search; `fitted` returns the selector's attributes at a state."""
        fit = self._fit
        if fit is None:
            return step

        def step_with_callbacks(state: SearchState) -> tuple[SearchState, EpochRecord]:
            task = fit.subcontext(task_name="epoch")
            task.call_on_fit_task_begin(estimator=self._selector, **self._data)
            after, record = step(state)
            self.stop_requested |= task.call_on_fit_task_end(
                estimator=self._selector,
                reconstruction_attributes=lambda: fitted(after),
                **self._data,
            )
            return after, record

        return step_with_callbacks

    def stop_if_requested(self, record: EpochRecord, state: SearchState) -> None:
        """Raise :class:`Stop` after an epoch in which a callback requested a stop."""
        if self.stop_requested:
            raise Stop

    def end(self, attributes: dict[str, Any]) -> None:
        """Call the callbacks at the end of the fit."""
        if self._fit is not None:
            self._fit.call_on_fit_task_end(
                estimator=self._selector,
                reconstruction_attributes=attributes,
                **self._data,
            )


def tell(line: str, verbose: int) -> None:
    """Print a line unless `verbose` is 0."""
    if verbose > 0:
        print(line, file=sys.stderr)


@contextmanager
def progress(verbose: int, epochs: int | None) -> Iterator[Tell]:
    """Show epochs as they finish.

    Parameters
    ----------
    verbose
        0: no output; 1: a progress bar on a terminal or in a notebook, and elsewhere a line for the
        first and the last epoch and one per minute between them; 2: a line per epoch elsewhere.
        Lines replace the bar without the package rich, in a notebook without tqdm.
    epochs : int or None
        Maximum number of epochs, None if unknown.
    """
    notebook = verbose > 0 and _in_notebook()
    terminal = verbose > 0 and not notebook and sys.stderr.isatty()
    if notebook and find_spec("tqdm") is not None:
        yield from _notebook_bar(epochs)
    elif terminal and find_spec("rich") is not None:
        yield from _bar(epochs)
    elif verbose > 0:
        every = 0.0 if notebook or terminal or verbose > 1 else _LINE_SECONDS
        yield from _lines(epochs, every)
    else:
        yield lambda record, _: None


def _lines(epochs: int | None, every: float) -> Iterator[Tell]:
    """Print the first and the last epoch, and between them one in `every` seconds."""
    described = _Described()
    unsaid, next_line = "", 0.0

    def told(record: EpochRecord, state: SearchState) -> None:
        nonlocal unsaid, next_line
        unsaid = f"epoch {record.epoch}: {described(record)}"
        if time.monotonic() >= next_line or record.epoch == epochs:
            tell(unsaid, verbose=1)
            unsaid, next_line = "", time.monotonic() + every

    yield told
    if unsaid:
        tell(unsaid, verbose=1)


def _bar(epochs: int | None) -> Iterator[Tell]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
    from rich.progress import TimeRemainingColumn as LeftColumn

    of = f"/{epochs}" if epochs else ""
    columns = (
        TextColumn("[bold]epoch {task.completed:.0f}" + of),
        BarColumn(bar_width=20),
        TextColumn("{task.description}"),
        TimeElapsedColumn(),
        LeftColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as shown:
        number, described = shown.add_task("first subsets", total=epochs), _Described()
        yield lambda record, _: shown.update(
            number, completed=record.epoch, description=described(record)
        )


def _in_notebook() -> bool:
    """Whether this is the kernel of a notebook, which has no terminal; does not import IPython."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return shell is not None and hasattr(shell, "kernel")


def _notebook_bar(epochs: int | None) -> Iterator[Tell]:
    # Its own warning, where ipywidgets are missing: the bar is text then.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from tqdm.auto import tqdm

    with tqdm(total=epochs, unit="epoch", desc="first subsets") as shown:

        def told(record: EpochRecord, state: SearchState) -> None:
            metrics = record.metrics
            shown.set_description(
                f"best cost {metrics['best_cost']:.5f} with {metrics['best_size']:.0f} features",
                refresh=False,
            )
            shown.update(record.epoch - shown.n)

        yield told


class _Described:
    """Describes one epoch after the other; all counts are those since the start."""

    def __init__(self) -> None:
        self._pruned = self._hits = 0

    def __call__(self, record: EpochRecord) -> str:
        metrics = record.metrics
        self._pruned += round(metrics["folds_pruned"])
        self._hits += record.work.hits
        return (
            f"best cost {metrics['best_cost']:.5f} with {metrics['best_size']:.0f} features, "
            f"{metrics['evaluations']:.0f} evaluations, {metrics['fits']:.0f} fits, "
            f"{self._pruned} folds pruned, {self._hits} from the archive"
        )

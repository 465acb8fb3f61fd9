"""Progress of a fit: scikit-learn callbacks, a bar or lines."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from swarm.search.driver import Driver, Step, StopSearch
from swarm.search.history import EpochRecord
from swarm.search.state import SearchState

__all__ = ["CallbackSupport", "FitCallbacks", "progress", "tell", "with_callbacks"]

try:
    from sklearn.callback import CallbackSupportMixin as CallbackSupport
    from sklearn.callback import with_callbacks
except ImportError:  # scikit-learn before 1.9

    class CallbackSupport:  # type: ignore[no-redef]
        """Replaces the mixin of scikit-learn 1.9."""

    def with_callbacks(method: Callable[..., Any]) -> Callable[..., Any]:
        """Return the method unchanged."""
        return method


Tell = Callable[[EpochRecord, SearchState], None]


class FitCallbacks:
    """Calls the scikit-learn callbacks for the fit and for each epoch.

    `metadata` are the arguments of ``fit`` besides `X` and `y`; `epochs` is None if unknown.
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

    def step(self, fitted: Callable[[SearchState], dict[str, Any] | None]) -> Step | None:
        """Return the step of a search; `fitted` returns the selector's attributes at a state."""
        fit = self._fit
        if fit is None:
            return None

        def step_with_callbacks(
            driver: Driver, state: SearchState
        ) -> tuple[SearchState, EpochRecord]:
            task = fit.subcontext(task_name="epoch")
            task.call_on_fit_task_begin(estimator=self._selector, **self._data)
            after, record = driver.step(state)
            self.stop_requested |= task.call_on_fit_task_end(
                estimator=self._selector,
                reconstruction_attributes=lambda: fitted(after),
                **self._data,
            )
            return after, record

        return step_with_callbacks

    def stop_if_requested(self, record: EpochRecord, state: SearchState) -> None:
        """End the search after an epoch in which a callback requested a stop."""
        if self.stop_requested:
            raise StopSearch

    def end(self, attributes: dict[str, Any]) -> None:
        """Call the callbacks at the end of the fit."""
        if self._fit is not None:
            self._fit.call_on_fit_task_end(
                estimator=self._selector,
                reconstruction_attributes=attributes,
                **self._data,
            )


def tell(line: str, verbose: int) -> None:
    """Print a line on standard error, above a progress bar, unless `verbose` is 0."""
    if verbose > 0:
        from tqdm import tqdm

        tqdm.write(line, file=sys.stderr)


@contextmanager
def progress(verbose: int, epochs: int | None) -> Iterator[Tell]:
    """Show epochs as they finish: 0 nothing, 1 a progress bar of tqdm, 2 a line for each."""
    if verbose <= 0:
        yield lambda record, state: None
    elif verbose > 1:
        yield _print_epoch
    else:
        from tqdm.auto import tqdm

        with tqdm(total=epochs, unit="epoch") as bar:

            def advance(record: EpochRecord, state: SearchState) -> None:
                cost, size = record.metrics["best_cost"], record.metrics["best_size"]
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
    tell(line, verbose=1)

"""Use of the machine while a run goes on, under the names of MLflow's system metrics."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Mapping
from typing import Any

from tasks.tracking.store import load_mlflow

Log = Callable[[Mapping[int, Mapping[str, float | None]]], None]

_PREFIX = "system/"
_JOIN_SECONDS = 5.0


def wants_system_metrics() -> bool:
    """Return whether MLflow's own variable asks every run for them."""
    asked = os.environ.get("MLFLOW_ENABLE_SYSTEM_METRICS_LOGGING", "")
    return asked.lower() in ("true", "1")


class SystemMetrics:
    """Samples processor, memory, disk, network and GPU in the background.

    MLflow's own monitor does too, but it writes to the store itself, and waits for it.

    Parameters
    ----------
    run_id, uri : str
        The run, and the address of its store.
    log : callable
        Called with values by name, by step; must not wait for the store.
    first_step : int
        Step of the first sample.
    """

    def __init__(self, run_id: str, uri: str, log: Log, first_step: int) -> None:
        self._run_id, self._uri, self._log = run_id, uri, log
        self._step = first_step
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._work, name="system-metrics", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Log a last sample, and end."""
        self._ended.set()
        self._thread.join(_JOIN_SECONDS)

    def _work(self) -> None:
        try:
            self._sample()
        except Exception as error:
            # A sandbox may hide the counters of the machine.
            logging.getLogger(__name__).warning("System metrics cannot be read (%s).", error)

    def _sample(self) -> None:
        load_mlflow()
        from mlflow.system_metrics.system_metrics_monitor import SystemMetricsMonitor

        # Only its sensors; it is never started.
        sensors: Any = SystemMetricsMonitor(  # type: ignore[no-untyped-call]
            self._run_id, tracking_uri=self._uri
        )
        # The first reading of the processor covers no time.
        sensors.collect_metrics()
        for monitor in sensors.monitors:
            monitor.clear_metrics()
        last = False
        while not last:
            last = self._ended.wait(sensors.sampling_interval)
            sensors.collect_metrics()
            values = {f"{_PREFIX}{key}": v for key, v in sensors.aggregate_metrics().items()}
            for monitor in sensors.monitors:
                monitor.clear_metrics()
            self._log({self._step: values})
            self._step += 1

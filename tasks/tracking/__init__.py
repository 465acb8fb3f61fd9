"""Tracking of runs in MLflow.

================  ============================================================================
`client`          connection to a tracking store; runs are written and read by id
`store`           addresses without secrets, connection timeout, errors in one sentence
`run_log`         the log of one run; every flow writes through it
`outbox`          the in-memory queue of messages, and the thread that sends them
`writes`          names and values that MLflow accepts, and idempotent calls of its client
`system_metrics`  use of the machine while a run goes on
`dataset`         a table as an MLflow dataset input
================  ============================================================================
"""

from __future__ import annotations

from tasks.tracking.client import RunRecord, Tracking, models_page, open_tracking, runs_page

__all__ = ["RunRecord", "Tracking", "models_page", "open_tracking", "runs_page"]

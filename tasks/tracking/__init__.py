"""MLflow: everything a run tells it.

==============  ============================================================================
`client`        a store opened; its runs written and read
`store`         addresses without secrets, a bounded first contact, errors in one sentence
`run_log`       the log of one run, open or ended; every flow writes through it
`comparison`    the runs of a comparison: one for each search, under their parent
`outbox`        the queue in memory, and the thread that sends it
`writes`        what is sent, in calls that can be repeated
`names`         names and values as MLflow takes them
`dataset`       a table as MLflow's data set input
`note`          the text on top of a run's page
==============  ============================================================================
"""

from __future__ import annotations

from tasks.tracking.client import RunRecord, Tracking, open_tracking, runs_page

__all__ = ["RunRecord", "Tracking", "open_tracking", "runs_page"]

"""Tracking of runs in MLflow.

========== =================================================================================
`client`   connection to a tracking store; runs are written and read by id
`store`    addresses without secrets, connection timeout, errors in one sentence
`run_log`  the log of one run; every flow writes through it
`curves`   the figures of an epoch, by the names under which MLflow draws them
`writes`   idempotent calls of MLflow's client, sent again if the store was away
`dataset`  a table as an MLflow dataset input
`overview` the description of an experiment, with the answers of its last runs
========== =================================================================================
"""

from tasks.tracking.client import Tracking, curves_page, models_page, open_tracking, runs_page

__all__ = ["Tracking", "curves_page", "models_page", "open_tracking", "runs_page"]

"""Evidence about columns from the archive: nothing is trained or stored, no server is started."""

from __future__ import annotations

from contextlib import closing

import numpy as np

from conf.schema import SelectConfig
from flows.configured import archive_url, fetched, prepare_as_configured
from swarm.errors import ConfigError, DataError
from swarm.storage.archive import Archive
from swarm.validation.archived import ArchivedEvidence, archived_evidence

__all__ = ["evidence_of"]


def evidence_of(config: SelectConfig) -> ArchivedEvidence:
    """Read the evaluations of the search of a configuration, whichever searches made them.

    Parameters
    ----------
    config : SelectConfig
        Checked.

    Raises
    ------
    ConfigError
        If the setting of the model is to be chosen.
    DataError
        If the archive has too few evaluations of this problem.
    """
    if config.model.search:
        raise ConfigError(
            "the archive keeps evaluations of each setting of the model apart; copy the setting "
            "of a run to model.params, and remove model.search"
        )
    data = prepare_as_configured(config, fetched(config), needs=())
    problem = data.problem
    with closing(Archive(archive_url(config.archive))) as archive:
        if not archive.has_evaluations(problem):
            raise DataError(
                "the archive has no evaluations of this problem; run `swarm select` with this "
                "configuration first"
            )
        known = list(archive.open_problem(problem).all())
    return archived_evidence(
        problem.space.names,
        np.array([mask for mask, _ in known]),
        np.array([record.fold_costs for _, record in known]),
        ~(problem.space.fixed | problem.space.forbidden),
        float(np.mean([len(train) for train, _ in problem.folds])),
        float(np.mean([len(test) for _, test in problem.folds])),
        config.test.confidence,
    )

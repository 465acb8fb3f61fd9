"""The order in which the masks of an asynchronous search were answered, kept in the archive.

Such a search depends on which masks were answered when it proposed the next ones, and that on the
speed of the workers. The answers of each epoch are stored before the strategy sees them, so that
the search can be run again, after a crash or on other workers, with the same result.
"""

from __future__ import annotations

import numpy as np
import sqlalchemy as sa

from swarm.arrays import Int
from swarm.storage.archive import Archive

__all__ = ["AnswerOrder"]

_META = sa.MetaData()
_ANSWERS = sa.Table(
    "archive_answers",
    _META,
    sa.Column("search", sa.String(64), primary_key=True),
    sa.Column("epoch", sa.Integer, primary_key=True),
    # Numbers of the masks in the order in which they were asked for, 4 bytes each, little-endian.
    sa.Column("answers", sa.LargeBinary, nullable=False),
)


class AnswerOrder:
    """The answers of each epoch of one search.

    Parameters
    ----------
    archive : Archive
        One in memory forgets them when it is closed.
    search : str
        Fingerprint of the search.
    """

    def __init__(self, archive: Archive, search: str) -> None:
        self._archive, self._search = archive, search
        archive.add_table(_ANSWERS)

    def recorded(self, epoch: int) -> Int | None:
        """Return the numbers of the masks that an epoch observed, in order; None if unknown."""
        query = sa.select(_ANSWERS.c.answers).where(
            _ANSWERS.c.search == self._search, _ANSWERS.c.epoch == epoch
        )
        found = self._archive.select(query)
        return np.frombuffer(found[0].answers, dtype="<u4").astype(np.int64) if found else None

    def record(self, epoch: int, answers: Int) -> Int:
        """Store what an epoch observes, and return it.

        If another process that runs the same search was faster, its answers are returned.
        """
        row = {"search": self._search, "epoch": epoch, "answers": answers.astype("<u4").tobytes()}
        self._archive.insert(_ANSWERS, row)
        stored = self.recorded(epoch)
        return answers if stored is None else stored

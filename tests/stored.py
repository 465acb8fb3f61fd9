"""An ensemble as its consumer loads it from files."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from swarm.ensemble import SubsetEnsemble
from swarm.reader import Reader
from tasks.models.files import write_ensemble
from tasks.models.served_model import ServedEnsemble


def served(
    ensemble: SubsetEnsemble, rows: Any, folder: Path, like: Any = None, **params: Any
) -> Any:
    """Write an ensemble, read it, and return what it predicts; `like` are rows of training."""
    like = rows if like is None else like
    reader = Reader.learn(like).restricted(
        {name for subset in ensemble.subsets_ for name in subset}
    )
    write_ensemble(ensemble, reader, like.head(5), folder)
    model = ServedEnsemble()
    model.load_context(SimpleNamespace(artifacts={"ensemble": str(folder)}))
    return model.predict(None, rows, params=params or None)

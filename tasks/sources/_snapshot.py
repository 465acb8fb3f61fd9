"""The newest of several files with a date in their names."""

from __future__ import annotations

import re
from datetime import datetime
from pathlib import Path, PurePosixPath

from swarm.errors import DataError

__all__ = ["newest"]

_PATTERN = re.compile(r"\{date(?::([^{}]*))?\}")
_USUAL = "%Y-%m-%d"


def newest(path: str) -> str:
    """Resolve ``{date}`` or ``{date:%Y%m%d}`` in a file name to the latest date.

    Parameters
    ----------
    path : str
        Path or fsspec URL. The format in braces is that of :meth:`datetime.strptime`, by default
        ``%Y-%m-%d``, and must be in the last part of the path. A path without a date is returned
        unchanged.

    Raises
    ------
    DataError
        If there is no such file, or the pattern is misplaced.
    """
    found = _PATTERN.search(path)
    if found is None:
        return path
    form = found[1] or _USUAL
    name = PurePosixPath(path).name
    if found[0] not in name or len(_PATTERN.findall(path)) > 1:
        raise DataError(
            f"cannot read {path!r}: one {{date}} belongs in the name of the file, as in"
            " sales_{date:%Y-%m-%d}.parquet"
        )
    before, after = name.split(found[0])
    folder = path[: len(path) - len(name)]
    dated = []
    for each in _names(folder):
        if not (each.startswith(before) and each.endswith(after)):
            continue
        middle = each[len(before) : len(each) - len(after)]
        try:
            dated.append((datetime.strptime(middle, form), each))
        except ValueError:
            continue
    if not dated:
        raise DataError(
            f"cannot read {path!r}: no file there has a date of the form {form!r} in its name;"
            " check the folder and the pattern"
        )
    return folder + max(dated)[1]


def _names(folder: str) -> list[str]:
    if "://" not in folder:
        place = Path(folder or ".").expanduser()
        return [each.name for each in place.iterdir()] if place.is_dir() else []
    import fsspec

    store, place = fsspec.core.url_to_fs(folder)
    return [PurePosixPath(str(each)).name for each in store.ls(place, detail=False)]

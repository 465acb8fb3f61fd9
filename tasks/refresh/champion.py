"""Champions: registered model versions with the alias ``champion``, and their features file.

The alias alone decides which version is the champion. Reason and time of a promotion, and the
version that it replaced, are tags of the version, which are written before the alias is moved. The
location of the published features is a tag of the registered model, as all versions share it.
"""

import contextlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from swarm.answers import Answers
from swarm.errors import DataError, InputError, StoreError
from swarm.redaction import cause_without_secrets, redact, secrets_of
from swarm.storage.features_file import FORMAT, read_published
from tasks.models.inference import load_model
from tasks.secrets import expand, reason
from tasks.tracking import Tracking
from tasks.tracking.store import store_errors
from tasks.tracking.writes import log_texts

ALIAS = "champion"
# A rollback restores this version.
PREVIOUS = "previous"
# This version waits for approval.
CHALLENGER = "challenger"
ROLLED_BACK = "rolled_back"
_TAG = "champion."
# Unlike the other tags, this one belongs to the registered model and not to its versions.
_LOCATION = f"{_TAG}published"


@dataclass(frozen=True)
class Champion:
    """A version of a registered model and its history.

    Attributes
    ----------
    name, version : str
        Name and version in the registry.
    run_id : str
        Run that created the version.
    since, why : str
        Time in UTC and reason of its promotion, empty if the alias was set by hand.
    over : str, optional
        Version of the previous champion.
    published : str, optional
        Location of the features of every champion of this name.
    restored : str, optional
        Time of the last rollback to it.
    instead_of : str, optional
        Version that the last rollback replaced.
    pending : str, optional
        Decision that made it the champion, until its features are published and the event is sent.
    """

    name: str
    version: str
    run_id: str
    since: str = ""
    why: str = ""
    over: str | None = None
    published: str | None = None
    restored: str | None = None
    instead_of: str | None = None
    pending: str | None = None

    @property
    def uri(self) -> str:
        """URI of the model."""
        return f"models:/{self.name}/{self.version}"


class Champions:
    """Champions of one tracking store."""

    def __init__(self, tracking: Tracking) -> None:
        self.tracking = tracking
        self._client = tracking.client

    def current(self, name: str, alias: str = ALIAS) -> Champion | None:
        """Return the champion of that name, or the version with another alias; None if missing."""
        with store_errors(self.tracking.uri, f"look up the {alias} {name!r}"):
            version = self._or_none(lambda: self._client.get_model_version_by_alias(name, alias))
        return None if version is None else self._champion(version)

    def require(self, name: str) -> Champion:
        """Return the champion of that name; InputError if there is none."""
        champion = self.current(name)
        if champion is None:
            raise InputError(
                f"there is no champion {name!r} in {self.tracking.label}; create one with"
                " `swarm refresh CONFIG`, or promote a version by `swarm rollback NAME --to`"
            )
        return champion

    def promote(
        self,
        name: str,
        version: str,
        *,
        expected: str | None,
        decision: str,
        why: str,
        when: str,
        published: str | None,
    ) -> Champion | None:
        """Make a version the champion, unless somebody has changed the champion meanwhile.

        Parameters
        ----------
        name, version : str
        expected : str or None
            Version with which it was compared; None if there was no champion.
        decision, why, when : str
            Decision, its reason and its time.
        published : str or None
            Location of the features; see :meth:`set_location`.

        Returns
        -------
        Champion or None
            Champion after the call: this version, the one that somebody else has chosen, or None if
            the alias was removed.
        """
        before = self.current(name)
        if (None if before is None else before.version) != expected:
            return before
        self.set_location(name, published)
        tags = {"since": when, "why": why, "over": expected or "", "pending": decision}
        with store_errors(self.tracking.uri, f"promote version {version} of {name!r}"):
            return self._move(name, version, tags)

    def set_location(self, name: str, location: str | None) -> None:
        """Set where the features of a champion are published, now and after a rollback.

        A path is stored as an absolute one, since a rollback may be started in another folder.
        """
        text = "" if location is None else _absolute(location)
        with store_errors(self.tracking.uri, f"set the location of the features of {name!r}"):
            self._client.set_registered_model_tag(name, _LOCATION, text)

    def point(self, name: str, alias: str, version: str | None) -> None:
        """Move an alias to a version; None removes it."""
        with store_errors(self.tracking.uri, f"move the alias {alias!r} of {name!r}"):
            if version is None:
                self._client.delete_registered_model_alias(name, alias)
            else:
                self._client.set_registered_model_alias(name, alias, version)

    def finish_run(self, champion: Champion) -> None:
        """End a run that was interrupted after its promotion; its artifacts are complete."""
        tags = {"decision": champion.pending or "", "why": champion.why}
        with store_errors(self.tracking.uri, f"finish the run {champion.run_id}"):
            log_texts(self._client, champion.run_id, {}, tags)
        self.tracking.finish(champion.run_id)

    def complete(self, champion: Champion) -> None:
        """Record that nothing of the change to this champion is pending."""
        with store_errors(self.tracking.uri, f"tag the champion {champion.uri}"):
            self._client.set_model_version_tag(
                champion.name, champion.version, f"{_TAG}pending", ""
            )

    def roll_back(
        self, name: str, *, to: str | None, when: str
    ) -> tuple[Champion | None, Champion]:
        """Move the alias to the previous or a given version; return the champions before and after.

        An interrupted rollback can be repeated. InputError if there is no such version, StoreError
        if its features cannot be published; the alias is not moved then.
        """
        now = self.current(name) if to else self.require(name)
        if now is not None and now.pending:
            is_moved = now.pending == ROLLED_BACK if to is None else to == now.version
            if is_moved:
                return now, now
        target = to or (now and now.over)
        if not target:
            assert now is not None
            raise InputError(
                f"version {now.version} of {name!r} is its first champion, there is no previous"
                " one; name a version with --to"
            )
        with store_errors(self.tracking.uri, f"look up version {target} of {name!r}"):
            version = self._or_none(lambda: self._client.get_model_version(name, target))
        if version is None:
            pages = f"`swarm up{self.tracking.option}`"
            raise InputError(f"{name!r} has no version {target!r}; {pages} shows them all")
        back = self._champion(version)
        if now is not None and back.version == now.version:
            raise InputError(
                f"version {back.version} of {name!r} is already the champion; name another one"
            )
        # Errors of both calls come before the alias is moved.
        self.features_json(back)
        require_publishable(back.published)
        replaced = "" if now is None else now.version
        tags = {"restored": when, "instead_of": replaced, "pending": ROLLED_BACK}
        if not back.since:
            # It was never promoted.
            why = f"rolled back from version {replaced}" if replaced else "promoted by hand"
            # If it came before the present champion, it has no previous one: the next rollback
            # would go forward again.
            is_before = now is not None and back.version in self._before(now)
            tags |= {"since": when, "why": why, "over": "" if is_before else replaced}
        if now is not None and now.pending not in (None, ROLLED_BACK):
            # Its refresh ended before it was published: the next one of the same rows has to find
            # it, or it would promote them again.
            self.finish_run(now)
            self.complete(now)
        with store_errors(self.tracking.uri, f"roll back {name!r}"):
            return now, self._move(name, back.version, tags)

    def _before(self, champion: Champion) -> list[str]:
        """Return the versions that were champions before this one, the latest first."""
        versions: list[str] = []
        name = champion.name
        with store_errors(self.tracking.uri, f"look up the versions of {name!r}"):
            while (over := champion.over) is not None and over not in versions:
                versions.append(over)
                version = self._or_none(partial(self._client.get_model_version, name, over))
                if version is None:
                    break
                champion = self._champion(version)
        return versions

    def features_json(self, champion: Champion) -> dict[str, Any]:
        """Return the ``features.json`` of the run that created a champion."""
        return self._read_json(champion, "features.json")

    def reference(self, champion: Champion) -> dict[str, Any]:
        """Return the summary of its training columns."""
        return self._read_json(champion, "reference.json")

    def trained_rows(self, champion: Champion) -> bytes | None:
        """Return the record of its training rows, None for a run that is not of a refresh."""
        if not self.tracking.find_artifact(champion.run_id, "trained_rows.npz"):
            return None
        return self.tracking.download(champion.run_id, "trained_rows.npz").read_bytes()

    def predict(self, champion: Champion, cells: pd.DataFrame, classes: Any = None) -> Answers:
        """Predict rows as in the source with the registered model, loaded as a consumer loads it.

        There are no probabilities if `classes` is None or differs from the classes of the model.
        StoreError if it cannot be loaded, DataError if it cannot predict these rows.
        """
        model = load_model(self.tracking, champion.uri)
        inputs = model.metadata.get_input_schema()
        if inputs is not None:
            # MLflow warns of columns that the model does not need.
            cells = cells[[name for name in inputs.input_names() if name in cells]]
        try:
            predicted = np.asarray(model.predict(cells))
            proba = None
            has_one_label = classes is not None and not isinstance(classes, list)
            names = _class_names(classes) if has_one_label else []
            if names and model.metadata.get_params_schema() is not None:
                served = model.predict(cells, params={"probabilities": True})
                served.columns = _class_names(served.columns)
                proba = served[names].to_numpy() if set(served.columns) == set(names) else None
            return Answers(predicted, proba, classes=classes)
        except Exception as error:
            # MLflow quotes the table before its reason.
            why = str(error).rpartition(". Error: ")[2]
            raise DataError(
                f"champion {champion.uri} cannot predict the test rows "
                f"({reason(ValueError(why))}); fetch rows with all of its columns"
            ) from error

    def runs_of(self, name: str, status: str) -> list[Any]:
        """Return the earlier refresh runs of a champion with this status, the latest first."""
        filter_string = f"tags.refresh = '{name}' and attributes.status = '{status}'"
        return list(self.tracking.runs(filter_string, f"look up earlier refreshes of {name!r}"))

    def _read_json(self, champion: Champion, name: str) -> dict[str, Any]:
        if not champion.run_id:
            raise InputError(
                f"version {champion.version} of {champion.name!r} is of no run of swarm; promote "
                "another one by `swarm rollback NAME --to`"
            )
        path = self.tracking.download(champion.run_id, name)
        return dict(json.loads(path.read_text(encoding="utf-8")))

    def _move(self, name: str, version: str, tags: Mapping[str, str]) -> Champion:
        """Write the history of a version, then make it the champion."""
        for key, value in tags.items():
            self._client.set_model_version_tag(name, version, _TAG + key, value)
        moved = self._champion(self._client.get_model_version(name, version))
        self.point(name, PREVIOUS, moved.over)
        self.point(name, ALIAS, version)
        return moved

    def _champion(self, version: Any) -> Champion:
        def tag(key: str) -> str:
            return str(version.tags.get(_TAG + key, ""))

        with store_errors(self.tracking.uri, f"look up the model {version.name!r}"):
            location = self._client.get_registered_model(version.name).tags.get(_LOCATION)
        run_id = version.run_id
        if not run_id:
            with store_errors(self.tracking.uri, f"look up the run of {version.name!r}"):
                version = self._client.get_model_version(version.name, version.version)
                logged = None if version.run_id else self._logged_model(version)
                run_id = version.run_id if logged is None else logged.source_run_id
        return Champion(
            name=version.name,
            version=str(version.version),
            run_id=run_id or "",
            since=tag("since"),
            why=tag("why"),
            over=tag("over") or None,
            published=location or None,
            **{key: tag(key) or None for key in ("restored", "instead_of", "pending")},
        )

    def _logged_model(self, version: Any) -> Any:
        """Return the logged model that a version was made of, None if it was registered by hand."""
        source = str(version.source)
        if not source.startswith("models:/"):
            return None
        return self._client.get_logged_model(source.removeprefix("models:/"))

    def _or_none(self, look_up: Callable[[], Any]) -> Any:
        from mlflow.exceptions import MlflowException

        try:
            return look_up()
        except MlflowException as error:
            if error.error_code in ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE"):
                return None
            raise


def _class_names(classes: Iterable[Any]) -> list[str]:
    """Name classes alike whatever type they have: truth values and whole floats as integers."""

    def name(text: str) -> str:
        if text in ("True", "False"):
            return str(int(text == "True"))
        with contextlib.suppress(ValueError):
            return str(int(float(text))) if float(text).is_integer() else text
        return text

    return [name(str(label)) for label in classes]


def publish_features(champions: Champions, champion: Champion) -> None:
    """Publish the features of a champion, unless they are already there."""
    if champion.published is None:
        return
    location = expand(champion.published, "address to publish to")
    content = {
        "name": champion.name,
        "version": champion.version,
        "model": champion.uri,
        "run": champion.run_id,
        "since": champion.since,
        "why": champion.why,
    }
    with contextlib.suppress(DataError):
        published = read_published(location)
        # A new store numbers its versions from 1 again.
        if all(published.get(key) == content[key] for key in ("name", "version", "run")):
            return
    publish(location, {**content, **champions.features_json(champion)})


def require_publishable(location: str | None) -> None:
    """Write a file beside the features and remove it; StoreError if that fails.

    A location that cannot be written is thus refused before the champion changes.
    """
    if location is None:
        return
    with _written_beside(expand(location, "address to publish to"), "") as (store, path):
        store.rm_file(f"{path}.new")


def _absolute(location: str) -> str:
    """Return a location that is the same from every folder; URLs and ``${VAR}`` are kept."""
    if "://" in location or "${" in location:
        return location
    return str(Path(location).expanduser().absolute())


def publish(location: str, content: Mapping[str, Any]) -> None:
    """Write a features file to a path or an fsspec URL; StoreError if that fails.

    Readers find the previous file or the new one.
    """
    text = json.dumps({"format": FORMAT, **content}, indent=2, ensure_ascii=False) + "\n"
    # Uploads of some stores are not atomic, but a move is.
    with _written_beside(location, text) as (store, path):
        store.mv(f"{path}.new", path)


@contextlib.contextmanager
def _written_beside(location: str, text: str) -> Iterator[tuple[Any, str]]:
    """Write ``LOCATION.new``, and yield the fsspec filesystem and the path of the location on it.

    Any error becomes a StoreError: every fsspec backend has its own exceptions.
    """
    import fsspec
    from fsspec.implementations.local import LocalFileSystem

    try:
        store, path = fsspec.core.url_to_fs(location)
        # Some stores have no folders.
        with contextlib.suppress(Exception):
            store.makedirs(store._parent(path), exist_ok=True)
        # Only a local move would go into the folder; remote stores may not allow listing.
        if isinstance(store, LocalFileSystem) and store.isdir(path):
            raise IsADirectoryError("it is a folder")
        store.pipe_file(f"{path}.new", text.encode())
        yield store, path
    except Exception as error:
        secrets = secrets_of(location)
        raise StoreError(
            f"cannot publish to {redact(location)!r} ({reason(error, secrets)}); check"
            " champion.publish"
        ) from cause_without_secrets(error, secrets)

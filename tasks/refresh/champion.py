"""Champions: registered model versions with the alias ``champion``, and their features file.

The alias alone decides which version is the champion. Reason and time of a promotion, and the
version that it replaced, are tags of the version, which are written before the alias is moved.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from swarm.errors import DataError, InputError, StoreError
from swarm.redaction import cause_without_secrets, redact, secrets_of
from swarm.storage.features_file import FORMAT, read_published
from swarm.validation.answers import Answers
from tasks.files import write_atomically
from tasks.secrets import expand, reason
from tasks.table import formerly_named
from tasks.tracking import Tracking
from tasks.tracking.store import load_mlflow, store_errors

ALIAS = "champion"
_TAG = "champion."


@dataclass(frozen=True)
class Champion:
    """A version of a registered model and its history.

    Attributes
    ----------
    name, version, run_id : str
        Name and version in the registry, and the run that created it.
    since, why : str
        Time of its promotion, in UTC, and the reason; empty if the alias was set by hand.
    over : str or None
        Version of the previous champion.
    published : str or None
        Location where its features were published.
    restored, instead_of : str or None
        Time of the last rollback to it, and the version that it then replaced.
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

    @property
    def uri(self) -> str:
        """URI of the model."""
        return f"models:/{self.name}/{self.version}"


class Champions:
    """Champions of one tracking store.

    Parameters
    ----------
    tracking : Tracking
    """

    def __init__(self, tracking: Tracking) -> None:
        self.tracking = tracking
        self._client = tracking.client

    def current(self, name: str) -> Champion | None:
        """Return the champion of that name, or None if there is none yet."""
        with store_errors(self.tracking.uri, f"look up the champion {name!r}"):
            found = self._or_none(lambda: self._client.get_model_version_by_alias(name, ALIAS))
        return None if found is None else self._champion(found)

    def required(self, name: str) -> Champion:
        """Return the champion of that name.

        Raises
        ------
        InputError
            If there is none.
        """
        found = self.current(name)
        if found is None:
            raise InputError(
                f"there is no champion {name!r} in {self.tracking.label}; create one with"
                " `swarm refresh`"
            )
        return found

    def promote(
        self,
        name: str,
        version: str,
        *,
        expected: str | None,
        why: str,
        when: str,
        published: str | None,
    ) -> Champion | None:
        """Make a version the champion, unless somebody has changed the champion meanwhile.

        Parameters
        ----------
        name, version : str
        expected : str or None
            Version that this one was compared with; None if there was no champion.
        why, when : str
            Reason and time.
        published : str or None
            Location of its features. A path is stored as an absolute one, since a rollback may be
            started in another folder.

        Returns
        -------
        Champion or None
            The champion after the call: this version, the one that somebody else has chosen, or
            None if the alias was removed.
        """
        before = self.current(name)
        if (None if before is None else before.version) != expected:
            return before
        published = None if published is None else _absolute(published)
        tags = {"since": when, "why": why, "over": expected or "", "published": published or ""}
        with store_errors(self.tracking.uri, f"promote version {version} of {name!r}"):
            return self._moved(name, version, tags)

    def roll_back(self, name: str, *, to: str | None, when: str) -> tuple[Champion, Champion]:
        """Move the alias back to the previous champion, or to a given version.

        A rollback whose features could not be published can be repeated: it then leaves the alias
        where it is.

        Returns
        -------
        Champion, Champion
            The champion before and after the call.

        Raises
        ------
        InputError
            If there is no champion, no previous one, or no such version.
        """
        now = self.required(name)
        if now.published and (to == now.version or (to is None and now.instead_of)):
            there = published_version(expand(now.published, "address to publish to"))
            # An earlier rollback failed to publish, and left the replaced version there.
            if there == now.instead_of if to is None else there != now.version:
                return now, now
        target = to or now.over
        if not target:
            raise InputError(
                f"version {now.version} of {name!r} is its first champion, there is no previous"
                " one; name a version with --to"
            )
        if target == now.version:
            raise InputError(f"version {target} of {name!r} is already the champion")
        with store_errors(self.tracking.uri, f"look up version {target} of {name!r}"):
            found = self._or_none(lambda: self._client.get_model_version(name, target))
        if found is None:
            raise InputError(f"{name!r} has no version {target!r}; `swarm ui` shows them all")
        back = self._champion(found)
        # Without it nothing can be published.
        self.answer(back)
        # Consumers read the location at which the replaced version was published.
        published = now.published or back.published
        tags = {"restored": when, "instead_of": now.version}
        tags |= {} if published is None else {"published": _absolute(published)}
        if not back.since:
            # It was never promoted.
            why = f"rolled back from version {now.version}"
            tags |= {"since": when, "why": why, "over": now.version}
        with store_errors(self.tracking.uri, f"roll back {name!r}"):
            self._client.set_model_version_tag(name, now.version, _TAG + "demoted", when)
            return now, self._moved(name, target, tags)

    def answer(self, champion: Champion) -> dict[str, Any]:
        """Return the ``features.json`` of the run that created a champion."""
        return self._json(champion, "features.json")

    def reference(self, champion: Champion) -> dict[str, Any] | None:
        """Return the summary of its training columns, None for a run of an older version."""
        known = self.tracking.find_artifact(champion.run_id, "reference.json")
        return self._json(champion, "reference.json") if known else None

    def trained_rows(self, champion: Champion) -> bytes | None:
        """Return the record of its training rows, None for a run of an older version."""
        if not self.tracking.find_artifact(champion.run_id, "trained_rows.npz"):
            return None
        return self.tracking.download(champion.run_id, "trained_rows.npz").read_bytes()

    def answers(self, champion: Champion, features: pd.DataFrame, classes: Any = None) -> Answers:
        """Predict with the registered model, loaded as a consumer would load it.

        Parameters
        ----------
        champion : Champion
        features : DataFrame (n_rows, n_features)
        classes : (n_classes,), optional
            Classes of the probabilities, which are left out without them, and if the model has
            others or none, as those of earlier versions.

        Raises
        ------
        StoreError
            If the model cannot be loaded.
        DataError
            If it cannot predict these rows.
        """
        mlflow = load_mlflow()
        with store_errors(self.tracking.uri, f"load the champion {champion.uri}"):
            version = self._client.get_model_version(champion.name, champion.version)
            logged = self._logged(version)
            source = str(version.source if logged is None else logged.artifact_location)
            folder = mlflow.artifacts.download_artifacts(
                artifact_uri=source, tracking_uri=self.tracking.uri
            )
            model = mlflow.pyfunc.load_model(str(folder))
        schema = model.metadata.get_input_schema()
        features = features if schema is None else formerly_named(features, schema.input_names())
        try:
            predicted, proba = np.asarray(model.predict(features)), None
            names = [] if classes is None or isinstance(classes, list) else list(map(str, classes))
            if names and model.metadata.get_params_schema() is not None:
                told = model.predict(features, params={"probabilities": True})
                proba = told[names].to_numpy() if set(told.columns) == set(names) else None
            return Answers(predicted, proba, classes=classes)
        except Exception as error:
            # MLflow quotes the table before its reason.
            why = str(error).rpartition(". Error: ")[2]
            raise DataError(
                f"champion {champion.uri} cannot predict the test rows ({reason(ValueError(why))})"
            ) from error

    def runs_of(self, name: str, status: str) -> list[Any]:
        """Return the earlier refresh runs of a champion with this status, the latest first."""
        wanted = f"tags.refresh = '{name}' and attributes.status = '{status}'"
        return list(self.tracking.runs(wanted, f"look up earlier refreshes of {name!r}"))

    def _json(self, champion: Champion, name: str) -> dict[str, Any]:
        path = self.tracking.download(champion.run_id, name)
        return dict(json.loads(path.read_text(encoding="utf-8")))

    def _moved(self, name: str, version: str, tags: Mapping[str, str]) -> Champion:
        """Write the history of a version, then make it the champion."""
        for key, value in tags.items():
            self._client.set_model_version_tag(name, version, _TAG + key, value)
        self._client.set_registered_model_alias(name, ALIAS, version)
        return self._champion(self._client.get_model_version(name, version))

    def _champion(self, version: Any) -> Champion:
        def tag(key: str) -> str:
            return str(version.tags.get(_TAG + key, ""))

        run_id = version.run_id
        if not run_id:
            with store_errors(self.tracking.uri, f"look up the run of {version.name!r}"):
                version = self._client.get_model_version(version.name, version.version)
                logged = None if version.run_id else self._logged(version)
                run_id = version.run_id if logged is None else logged.source_run_id
        return Champion(
            version.name,
            str(version.version),
            str(run_id),
            tag("since"),
            tag("why"),
            *(tag(key) or None for key in ("over", "published", "restored", "instead_of")),
        )

    def _logged(self, version: Any) -> Any:
        """Return the logged model that a version was made of, None for one of earlier versions."""
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


def publish_features(
    champions: Champions,
    champion: Champion,
    location: str | None,
    *,
    only_if_stale: bool = False,
) -> None:
    """Publish the features of a champion; with `only_if_stale` unless they are already there."""
    if location is None:
        return
    location = expand(location, "address to publish to")
    if only_if_stale and published_version(location) == champion.version:
        return
    answer = champions.answer(champion)
    publish(
        location,
        {
            "name": champion.name,
            "version": champion.version,
            "model": champion.uri,
            "run": champion.run_id,
            "since": champion.since,
            "why": champion.why,
            **answer,
        },
    )


def _absolute(location: str) -> str:
    """Return a location that is the same from every folder; URLs and ``${VAR}`` are kept."""
    if "://" in location or "${" in location:
        return location
    return str(Path(location).expanduser().absolute())


def publish(location: str, content: Mapping[str, Any]) -> None:
    """Write a features file atomically: readers find the previous file or the new one.

    Parameters
    ----------
    location : str
        Path or fsspec URL.
    content : mapping
        Content of the file, with the key ``features``.

    Raises
    ------
    StoreError
        If the file cannot be written; the previous one is kept.
    """
    text = json.dumps({"format": FORMAT, **content}, indent=2, ensure_ascii=False) + "\n"
    try:
        if "://" in location and not location.startswith("file://"):
            _publish_remotely(location, text)
        else:
            _publish_locally(Path(location.removeprefix("file://")).expanduser(), text)
    except Exception as error:  # every fsspec backend has its own exceptions
        secrets = secrets_of(location)
        raise StoreError(
            f"cannot publish to {redact(location)!r} ({reason(error, secrets)}); check"
            " champion.publish"
        ) from cause_without_secrets(error, secrets)


def published_version(location: str) -> str | None:
    """Return the version of the model whose features are published, None if there is none."""
    try:
        return str(read_published(location).get("version"))
    except DataError:
        return None


def _publish_locally(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, text, 0o644)


def _publish_remotely(location: str, text: str) -> None:
    """Write to a temporary object and move it: uploads of some stores are not atomic."""
    import fsspec
    from fsspec.implementations.local import LocalFileSystem

    store, path = fsspec.core.url_to_fs(location)
    if isinstance(store, LocalFileSystem):
        return _publish_locally(Path(path), text)
    with contextlib.suppress(Exception):
        store.makedirs(store._parent(path), exist_ok=True)
    aside = f"{path}.new"
    store.pipe_file(aside, text.encode())
    store.mv(aside, path)

"""Tests of secrets: a password planted in every address shows in no output, file or error."""

from __future__ import annotations

import logging
import os
import traceback
from pathlib import Path
from urllib.parse import quote, quote_plus

import fsspec
import pytest
import sqlalchemy as sa

from conf.load import from_yaml
from flows import cli
from flows.select import select
from swarm.errors import ConfigError
from swarm.redaction import holds_secret, redact, scrub, secrets_of
from tasks.secrets import reason
from tasks.tracking import open_tracking
from tests.leaky import address, register
from tests.small_run import BAYES, OTHERS, Bench, table

SECRET = "q7V:s3cr@t/Zk%9 hunter2"
# A memory address has its secret in the path, which allows fewer characters.
TOKEN = "tOk3nQ7vZk9hunter3"


def planted_in(data: bytes) -> list[str]:
    """Return the spellings of the secrets that show in the data."""
    spellings = {SECRET, TOKEN, quote(SECRET), quote(SECRET, safe=""), quote_plus(SECRET)}
    spellings |= {repr(SECRET)[1:-1], "hunter2", "hunter3", "q7V"}
    return [spelling for spelling in sorted(spellings) if spelling.encode() in data]


def leaks(folder: Path) -> dict[str, list[str]]:
    """Return the files below a folder that show a secret; SQLite stores text unchanged."""
    spellings_of = {}
    for file in folder.rglob("*"):
        if file.is_file() and (shown := planted_in(file.read_bytes())):
            spellings_of[str(file.relative_to(folder))] = shown
    return spellings_of


@pytest.fixture
def guarded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """Return a bench whose stores and tables all need a secret of the environment."""
    register()
    # The tables are created before the run, through the address without a secret.
    bench = Bench(tmp_path, address(tmp_path / "mlflow.db", "SWARM_TEST_SECRET"))
    open_tracking(f"sqlite:///{tmp_path}/mlflow.db", bench.experiment, tmp_path / "artifacts")
    monkeypatch.setenv("SWARM_TEST_SECRET", SECRET)
    monkeypatch.setenv("SWARM_TEST_TOKEN", TOKEN)
    engine = sa.create_engine(f"sqlite:///{tmp_path}/shop.db")
    table().to_sql("orders", engine, index=False)
    engine.dispose()
    with fsspec.open(f"memory://ann:{TOKEN}@h/{TOKEN}/table.csv", "w") as file:
        table().to_csv(file, index=False)
    return bench


def sections(bench: Bench, **more: object) -> dict[str, object]:
    """Return the sections of a run in which every address contains a secret."""
    sql = {
        "source": "sql",
        "url": address(bench.folder / "shop.db", "SWARM_TEST_SECRET"),
        "query": "select * from orders",
        "path": None,
        "target": "y",
        "drop": OTHERS,
    }
    archive = {"url": address(bench.folder / "archive.db", "SWARM_TEST_SECRET")}
    return {"model": BAYES, "data": sql, "archive": archive, "budget": {"epochs": 2}} | more


def remote_file(name: str) -> dict[str, object]:
    path = f"memory://ann:${{SWARM_TEST_TOKEN}}@h/${{SWARM_TEST_TOKEN}}/{name}"
    return {"source": "file", "path": path, "target": "y", "drop": OTHERS}


def failing(bench: Bench) -> dict[str, dict[str, object]]:
    """Return the sections of runs that fail right after an address was used."""
    folder = bench.folder
    variable = "SWARM_TEST_SECRET"
    sql = sections(bench)["data"]
    assert isinstance(sql, dict)
    return {
        "query": {"data": {**sql, "query": "select * from gone"}},
        "no driver": {"data": {**sql, "url": f"mysql+no://ann:${{{variable}}}@h/d"}},
        "no column": {"data": {**sql, "target": "nothing"}},
        "no protocol": {"data": {**remote_file("x.csv"), "path": f"zzz://${{{variable}}}@h/x.csv"}},
        "archive away": {"archive": {"url": address(folder / "down", variable)}},
        "archive elsewhere": {"archive": {"url": f"oracle://ann:${{{variable}}}@h/d"}},
        "store away": {"tracking": {"uri": address(folder / "down", variable)}},
        "store unknown": {"tracking": {"uri": f"ftp://ann:${{{variable}}}@h/d"}},
        "store refuses": {"tracking": {"uri": f"http://ann:${{{variable}}}@127.0.0.1:9"}},
    }


@pytest.mark.usefixtures("prefect_server")
@pytest.mark.slow
def test_a_planted_secret_shows_nowhere(
    guarded: Bench,
    plain: None,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    errors: list[Exception] = []
    complain = cli._complain
    monkeypatch.setattr(cli, "_complain", lambda error: (errors.append(error), complain(error)))
    for name, data in (("sql", sections(guarded)["data"]), ("file", remote_file("table.csv"))):
        outcome = select(guarded.config(**sections(guarded, data=data, name=name)))
        assert outcome.unsent == ""
        assert outcome.result.features
    for name, keys in failing(guarded).items():
        path = guarded.file(**sections(guarded, **{"name": "fails", **keys}))
        monkeypatch.setattr("sys.argv", ["swarm", "select", path])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        assert ended.value.code == 2, name
        shown = "".join(traceback.format_exception(errors[-1]))
        assert not planted_in(shown.encode()), (name, shown)
    out, err = capfd.readouterr()
    assert err.count("swarm: ") == len(errors) == len(failing(guarded))
    lines = [line for line in (out + err).splitlines() if planted_in(line.encode())]
    assert lines == []
    assert not planted_in(caplog.text.encode())
    assert leaks(guarded.folder) == {}
    assert leaks(Path(os.environ["PREFECT_HOME"])) == {}
    # The run left files in which a secret could be.
    files = {file.name for file in guarded.folder.rglob("*") if file.is_file()}
    assert {"mlflow.db", "archive.db", "features.json", "config.yaml"} <= files
    assert b"SWARM_TEST_SECRET" in (guarded.folder / "mlflow.db").read_bytes()


@pytest.mark.parametrize(
    ("address_", "shown"),
    [
        ("postgresql://ann:hunter2@h/d", "postgresql://ann:***@h/d"),
        ("postgresql://ann:hunter2${X}@h/d", "postgresql://ann:***@h/d"),
        ("https://h/t.csv?a=1&api_key=hunter2", "https://h/t.csv?a=1&api_key=***"),
        ("mssql://h/d?a=b;Pwd=hunter2", "mssql://h/d?a=b;Pwd=***"),
        ("s3://ann:hunter2@bucket/t.csv", "s3://ann:***@bucket/t.csv"),
    ],
)
def test_a_secret_written_into_an_address_is_refused_and_hidden(address_: str, shown: str) -> None:
    assert holds_secret(address_)
    assert redact(address_) == shown
    text = f"name: x\ndata: {{source: bundled, name: wine}}\narchive: {{url: '{address_}'}}\n"
    with pytest.raises(ConfigError, match=r"archive\.url.*\$\{NAME\}") as caught:
        from_yaml(text, env={})
    assert "hunter2" not in str(caught.value)
    assert secrets_of(address_)


def test_a_user_of_one_letter_does_not_garble_what_is_said() -> None:
    url = "https://u@h/t.csv"
    assert scrub(f"connection of u to {url} refused", secrets_of(url)) == (
        "connection of *** to https://***@h/t.csv refused"
    )
    assert scrub("xhunter2x", ["hunter2"]) == "x***x"


def test_an_address_without_a_secret_is_taken_and_a_user_alone_may_be_one() -> None:
    for plain in (
        "postgresql://ann:${PW}@h:5432/d?sslmode=require",
        "https://h/t.csv?sig=${SIG}",
        "sqlite:////data/a@b:c/archive.db",
        "s3://bucket/keys=1/t.csv",
    ):
        assert not holds_secret(plain)
    assert redact("https://token@host/a") == "https://***@host/a"
    assert redact("sqlite:///mlruns/mlflow.db") == "sqlite:///mlruns/mlflow.db"


def test_the_reason_of_a_database_is_what_happened_not_when() -> None:
    first = "(raised as a result of Query-invoked autoflush; consider using no_autoflush)"
    error = ValueError(
        f"{first}\n(sqlite3.OperationalError) attempt to write a readonly database\n"
    )
    assert reason(error).endswith("attempt to write a readonly database")

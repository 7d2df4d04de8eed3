import json
import sqlite3
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
import typer
from click.testing import Result
from typer.testing import CliRunner

from daemon.cli.backup import backup
from daemon.discovery import Installed
from daemon.peers import Peer, add_peer, load_peers
from daemon.site_directory import make_site
from daemon.store.backup import copy_store
from daemon.store.store import Store


@pytest.fixture
def site(tmp_path: Path) -> Path:
    make_site(tmp_path / "site", "alpha.example", 7720, Installed({}, {}))
    return tmp_path / "site"


@pytest.fixture
def store(site: Path):
    """The store as a running daemon has it."""
    store = Store(site / "state" / "smqpd.db")
    yield store
    store.close()


@pytest.fixture
def run(site: Path) -> Callable[..., Result]:
    app = typer.Typer()
    app.command()(backup)
    return lambda *arguments: CliRunner().invoke(app, ["--site", str(site), *map(str, arguments)])


def files(directory: Path) -> list[str]:
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file())


def test_the_copy_of_a_running_site_is_a_site(site: Path, store: Store, run, tmp_path: Path) -> None:
    result = run(tmp_path / "copy")
    assert result.exit_code == 0
    assert files(tmp_path / "copy") == ["accounts.toml", "smqpd.toml", "state/smqpd.db"]
    for name in ("accounts.toml", "smqpd.toml"):
        assert (tmp_path / "copy" / name).read_bytes() == (site / name).read_bytes()
    copy = Store(tmp_path / "copy/state/smqpd.db")
    assert copy.site.boot == store.site.boot + 1
    copy.close()


def test_the_copy_has_the_same_peers(site: Path, store: Store, run, tmp_path: Path) -> None:
    add_peer(site / "peers.toml", Peer(name="beta.example"))
    run(tmp_path / "copy")
    assert load_peers(tmp_path / "copy" / "peers.toml") == {"beta.example": Peer(name="beta.example")}


def test_nobody_else_can_read_it(store: Store, run, tmp_path: Path) -> None:
    run(tmp_path / "copy", "--keys")
    for path in (tmp_path / "copy", *(tmp_path / "copy").rglob("*")):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600)


def test_the_keys_come_along_only_when_asked_for(site: Path, store: Store, run, tmp_path: Path) -> None:
    run(tmp_path / "without")
    assert not (tmp_path / "without" / "keys").exists()
    run(tmp_path / "with", "--keys")
    assert files(tmp_path / "with" / "keys") == files(site / "keys")


def test_json_names_what_was_copied(store: Store, run, tmp_path: Path) -> None:
    done = json.loads(run(tmp_path / "copy", "--json").stdout)
    assert done["target"] == str(tmp_path / "copy")
    assert done["files"] == ["accounts.toml", "smqpd.toml", "state/smqpd.db"]
    assert (done["store"]["boot"], done["store"]["messages"]) == (1, 0)


def test_nothing_is_overwritten(store: Store, run, tmp_path: Path) -> None:
    (tmp_path / "copy").write_text("precious")
    result = run(tmp_path / "copy")
    assert "exists already" in str(result.exception)
    assert (tmp_path / "copy").read_text() == "precious"


def test_a_site_without_a_store_is_said_to_have_none(site: Path, run, tmp_path: Path) -> None:
    (site / "state" / "smqpd.db").unlink()
    result = run(tmp_path / "copy")
    assert "there is no store at" in str(result.exception)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["site"]


def test_a_damaged_store_makes_no_backup(site: Path, run, tmp_path: Path) -> None:
    path = site / "state" / "smqpd.db"
    store = Store(path)
    store.close()
    damaged = bytearray(path.read_bytes())
    for page in range(4_096, len(damaged), 4_096):
        damaged[page : page + 100] = b"\xff" * 100
    path.write_bytes(damaged)
    result = run(tmp_path / "copy")
    assert "no backup was made" in str(result.exception)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["site"]


def test_what_is_committed_while_it_copies_is_not_in_it_and_holds_nothing_up(tmp_path: Path) -> None:
    path = tmp_path / "smqpd.db"
    store = Store(path)
    writer = sqlite3.connect(path, isolation_level=None)
    writer.execute("BEGIN")
    writer.executemany(
        "INSERT INTO message VALUES (?,'t',0,0,0,0,0,0,'',0,'','',?,NULL)",
        ((number, b"x" * 40_000) for number in range(500)),
    )
    writer.execute("COMMIT")
    seen = []

    def commit_more(done: int, total: int) -> None:
        seen.append((done, total))
        writer.execute("DELETE FROM message WHERE id = ?", (len(seen),))
        writer.execute("UPDATE site SET boot = 99")

    copied = copy_store(path, tmp_path / "copy.db", commit_more)
    assert len(seen) > 1
    assert seen == sorted(seen)
    assert seen[-1][0] == seen[-1][1]
    assert (copied.boot, copied.messages) == (1, 500)
    assert not list(tmp_path.glob("copy.db-*"))
    writer.close()
    store.close()

import json
import os
import re
import shutil
import sqlite3
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import typer
from typer.testing import CliRunner, Result

from daemon.cli.backup import backup
from daemon.cli.restore import restore
from daemon.configuration.config import load
from daemon.configuration.discovery import Installed, installed_plugins
from daemon.link.peers_editor import add_peer
from daemon.link.peers_file import PeerEntry, load_peers
from daemon.site.lock import state_lock
from daemon.store.backup import DamagedError, check_store, copy_store
from daemon.store.quarantine import quarantined, read
from daemon.store.read_only import read_only
from daemon.store.store import Store
from daemon.system import private_files
from daemon.system.private_files import write_new
from tests.support.command_line import CommandLine
from tests.support.made_site import made_site
from tests.support.process import PRETENCES
from tests.support.terminal import terminal

SITE = ("accounts.toml", "smqpd.id", "smqpd.toml", "state/smqpd.db")
NOBODY = 65_534
BEGUN = "a daemon began to write to the store meanwhile"


@pytest.fixture
def site(tmp_path: Path) -> Path:
    made_site(tmp_path / "site", "alpha.example", 7720, is_bare=True)
    return tmp_path / "site"


@pytest.fixture
def store(site: Path) -> Iterator[Store]:
    """The store as a running daemon has it."""
    store = Store(site / "state" / "smqpd.db")
    yield store
    store.close()


@pytest.fixture
def run(site: Path) -> Callable[..., Result]:
    app = typer.Typer()
    app.command()(backup)
    return lambda *arguments: CliRunner().invoke(app, ["--site", str(site), *map(str, arguments)])


@pytest.fixture
def restore_to() -> Callable[..., Result]:
    app = typer.Typer()
    app.command()(restore)
    return lambda *arguments: CliRunner().invoke(app, [*map(str, arguments)])


def files(directory: Path) -> list[str]:
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file())


def test_the_copy_of_a_running_site_is_a_site(
    site: Path, store: Store, run: Callable[..., Result], tmp_path: Path
) -> None:
    result = run(tmp_path / "copy")
    assert result.exit_code == 0
    assert files(tmp_path / "copy") == sorted(
        [*SITE, "backup.json", "keys/admin.toml", "keys/tls.crt", "keys/tls.key"]
    )
    for name in ("accounts.toml", "smqpd.toml"):
        assert (tmp_path / "copy" / name).read_bytes() == (site / name).read_bytes()
    Store(tmp_path / "copy/state/smqpd.db").close()


@pytest.fixture
def unwritable(site: Path) -> Iterator[Path]:
    """A store that rests in a directory in which nothing can be made, as on a read-only file system."""
    with TemporaryDirectory() as directory:
        Store(site / "state/smqpd.db").close()
        store = Path(shutil.copy(site / "state/smqpd.db", directory))
        store.chmod(0o444)
        store.parent.chmod(0o555)
        user = os.geteuid()
        if user == 0:  # who may write anywhere
            os.seteuid(NOBODY)
        try:
            yield store
        finally:
            os.seteuid(user)
            store.parent.chmod(0o700)


def begin_to_write(store: Path) -> None:
    """What a daemon does first, which is another user, who may."""
    user = os.geteuid()
    os.seteuid(os.getuid())
    store.parent.chmod(0o755)
    Path(f"{store}-wal").touch()
    os.seteuid(user)


def test_of_a_site_that_is_stopped_nothing_is_left_beside_the_store(
    site: Path, run: Callable[..., Result], tmp_path: Path
) -> None:
    Store(site / "state/smqpd.db").close()
    before = files(site)
    assert run(tmp_path / "copy").exit_code == 0
    assert read(site / "state/smqpd.db", quarantined) == []
    assert files(site) == before


def test_a_site_that_starts_meanwhile_is_backed_up_as_it_was(site: Path, tmp_path: Path) -> None:
    path = site / "state/smqpd.db"
    Store(path).close()
    before = files(site)
    boot = check_store(path).boot

    def started(done: int, total: int) -> None:
        Store(path).close()

    assert copy_store(path, tmp_path / "copy.db", started).boot == boot
    assert check_store(path).boot > boot
    assert files(site) == before


def test_where_nothing_can_be_written_a_site_that_is_stopped_is_read(unwritable: Path) -> None:
    assert read(unwritable, quarantined) == []
    assert check_store(unwritable).messages == 0


def test_what_a_daemon_began_to_write_meanwhile_is_no_backup(unwritable: Path) -> None:
    def look() -> None:
        with read_only(unwritable) as connection:
            connection.execute("SELECT boot FROM site").fetchone()
            begin_to_write(unwritable)

    with pytest.raises(sqlite3.OperationalError, match=BEGUN):
        look()


def test_what_a_daemon_began_to_write_meanwhile_is_not_taken_for_damaged(unwritable: Path) -> None:
    def look() -> None:
        with read_only(unwritable):
            begin_to_write(unwritable)
            raise DamagedError("SQLite's integrity check says: a page is torn")

    with pytest.raises(sqlite3.OperationalError, match=BEGUN):
        look()


def test_what_is_damaged_and_rests_is_damaged(unwritable: Path) -> None:
    with pytest.raises(DamagedError), read_only(unwritable):
        raise DamagedError("SQLite's integrity check says: a page is torn")


async def test_a_terminal_shows_how_far_it_is(site: Path, store: Store, tmp_path: Path) -> None:
    smqpd = CommandLine(tmp_path)
    words = smqpd.arguments("backup", str(tmp_path / "copy"), "--site", str(site))
    async with terminal(words, smqpd.environment) as at:
        assert await at.exit_code() == 0
    assert "copying the store" in at.shown


@pytest.mark.parametrize("pretence", PRETENCES)
async def test_a_pipe_is_not_drawn_on_whatever_it_passes_for(
    site: Path, store: Store, tmp_path: Path, pretence: str
) -> None:
    done = await CommandLine(tmp_path, **{pretence: "1"})(
        "backup", str(tmp_path / "copy"), "--site", str(site)
    )
    assert (done.exit_code, done.error) == (0, "")


def test_the_copy_has_the_same_peers(
    site: Path, store: Store, run: Callable[..., Result], tmp_path: Path
) -> None:
    add_peer(site / "peers.toml", PeerEntry(name="beta.example"))
    run(tmp_path / "copy")
    assert load_peers(tmp_path / "copy" / "peers.toml") == {"beta.example": PeerEntry(name="beta.example")}


def test_nobody_else_can_read_it(store: Store, run: Callable[..., Result], tmp_path: Path) -> None:
    run(tmp_path / "copy")
    for path in (tmp_path / "copy", *(tmp_path / "copy").rglob("*")):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600)


def test_what_is_secret_is_left_out_where_that_is_asked_for(
    site: Path, store: Store, run: Callable[..., Result], tmp_path: Path
) -> None:
    (site / "keys" / "ca.pem").write_text("public")
    (site / "keys" / "site.key").write_text("secret")
    run(tmp_path / "without", "--no-keys")
    assert files(tmp_path / "without" / "keys") == ["ca.pem"]
    run(tmp_path / "with")
    assert files(tmp_path / "with" / "keys") == files(site / "keys")


def test_json_names_what_was_copied(store: Store, run: Callable[..., Result], tmp_path: Path) -> None:
    done = json.loads(run(tmp_path / "copy", "--json").stdout)
    assert done["target"] == str(tmp_path / "copy")
    assert done["files"] == files(tmp_path / "copy")
    assert (done["store"]["messages"], done["store"]["unreadable"]) == (0, 0)


def test_nothing_is_overwritten(store: Store, run: Callable[..., Result], tmp_path: Path) -> None:
    (tmp_path / "copy").write_text("precious")
    result = run(tmp_path / "copy")
    assert "exists already" in str(result.exception)
    assert (tmp_path / "copy").read_text() == "precious"


def test_a_site_without_a_store_is_said_to_have_none(
    site: Path, run: Callable[..., Result], tmp_path: Path
) -> None:
    (site / "state" / "smqpd.db").unlink()
    result = run(tmp_path / "copy")
    assert "there is no store at" in str(result.exception)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["site"]


def test_a_damaged_store_makes_no_backup(site: Path, run: Callable[..., Result], tmp_path: Path) -> None:
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


def test_the_copy_never_runs_on_files_of_the_site_that_it_was_made_of(
    site: Path, store: Store, run: Callable[..., Result], tmp_path: Path
) -> None:
    config = (site / "smqpd.toml").read_text()
    config = config.replace('# state_directory = "state"', f'state_directory = "{site}/state"')
    (site / "smqpd.toml").write_text(config.replace('"keys/tls.key"', f'"{site}/keys/tls.key"'))
    assert run(tmp_path / "copy").exit_code == 0
    settings = load(tmp_path / "copy" / "smqpd.toml", Installed({}, {}))
    assert settings.site.state_directory == tmp_path / "copy" / "state"
    assert settings.tls.key == tmp_path / "copy" / "keys" / "tls.key"


@pytest.fixture
def scattered(site: Path, tmp_path: Path) -> Path:
    """The site, with files of its own in other places, some by one name, one by that of something public."""
    (elsewhere := tmp_path / "elsewhere").mkdir()
    text = (site / "smqpd.toml").read_text()
    for key, own, name in (
        ("certificate", "tls.crt", "crt/alpha.pem"),
        ("key", "tls.key", "key/alpha.pem"),
    ):
        (elsewhere / name).parent.mkdir()
        (site / "keys" / own).rename(elsewhere / name)
        text = re.sub(rf"(?m)^{key} = .*$", f'{key} = "../elsewhere/{name}"', text)
    write_new(elsewhere / "ca.pem", b"hush\n")
    text += f'\n[plugins.xmpp]\ncomponent = "x.example"\nsecret_file = "{elsewhere}/ca.pem"\n'
    (site / "state").rename(elsewhere / "state")
    text = text.replace('# state_directory = "state"', 'state_directory = "../elsewhere/state"')
    (site / "smqpd.toml").write_text(text)
    return site


def test_what_a_site_has_in_other_places_is_in_the_backup_too(
    scattered: Path, run: Callable[..., Result], restore_to: Callable[..., Result], tmp_path: Path
) -> None:
    (scattered / "keys" / "ca.pem").write_text("public")
    assert run(tmp_path / "copy").exit_code == 0
    (tmp_path / "elsewhere").rename(tmp_path / "gone")
    done = json.loads(restore_to(tmp_path / "copy", tmp_path / "again", "--json").stdout)
    assert done["to_do"] == []
    settings = load(tmp_path / "again" / "smqpd.toml", installed_plugins())
    assert settings.tls.certificate is not None
    assert settings.tls.key is not None
    xmpp: Any = settings.plugins["xmpp"]
    assert settings.tls.certificate.read_bytes() == (tmp_path / "gone/crt/alpha.pem").read_bytes()
    assert settings.tls.key.read_bytes() == (tmp_path / "gone/key/alpha.pem").read_bytes()
    assert xmpp.secret_file.read_bytes() == b"hush\n"
    assert (tmp_path / "again" / "keys" / "ca.pem").read_text() == "public"


def test_a_secret_in_another_place_is_left_out_too_whatever_it_is_called(
    scattered: Path, run: Callable[..., Result], restore_to: Callable[..., Result], tmp_path: Path
) -> None:
    assert run(tmp_path / "copy", "--no-keys").exit_code == 0
    assert files(tmp_path / "copy" / "keys") == []
    add_peer(scattered / "peers.toml", PeerEntry(name="beta.example"))
    assert run(tmp_path / "linked", "--no-keys").exit_code == 0
    result = restore_to(tmp_path / "linked", tmp_path / "linked-again", "--json")
    linked = json.loads(result.stdout)
    assert (result.exit_code, linked["starts"]) == (1, False), "the site is there, and does not start"
    assert [one[:19] for one in linked["to_do"]] == [
        "The key of [tls] is",
        "The key for links i",
        "It does not start y",
        "The administrator's",
    ]
    done = json.loads(restore_to(tmp_path / "copy", tmp_path / "again", "--json").stdout)
    assert any("the component's secret cannot be read" in one for one in done["to_do"])


def test_a_store_that_this_version_cannot_run_makes_no_backup(
    site: Path, store: Store, run: Callable[..., Result], tmp_path: Path
) -> None:
    with sqlite3.connect(site / "state" / "smqpd.db") as writer:
        writer.execute("INSERT INTO _sqlite_migrations VALUES (99, 'smqpd', 'tomorrow', '')")
    result = run(tmp_path / "copy")
    assert "no backup was made: the store has the change 'tomorrow'" in str(result.exception)
    assert not (tmp_path / "copy").exists()


# -- restore --------------------------------------------------------------------------------------


def test_a_site_is_made_of_a_backup(
    site: Path, store: Store, run: Callable[..., Result], restore_to: Callable[..., Result], tmp_path: Path
) -> None:
    run(tmp_path / "copy")
    done = json.loads(restore_to(tmp_path / "copy", tmp_path / "a/b/again", "--json").stdout)
    assert (done["server_name"], done["replaced"], done["to_do"]) == ("alpha.example", "", [])
    again = tmp_path / "a/b/again"
    assert files(again) == sorted(file for file in files(tmp_path / "copy") if file != "backup.json")
    for path in (again, *again.rglob("*")):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600)
    copied, restored = Store(tmp_path / "copy/state/smqpd.db"), Store(again / "state/smqpd.db")
    assert restored.site.boot > copied.site.boot
    assert restored.site.last_record > copied.site.last_record
    copied.close()
    restored.close()


def test_what_a_backup_without_keys_lacks_is_made_anew_or_said(
    site: Path, store: Store, run: Callable[..., Result], restore_to: Callable[..., Result], tmp_path: Path
) -> None:
    add_peer(site / "peers.toml", PeerEntry(name="beta.example"))
    run(tmp_path / "copy", "--no-keys")
    done = json.loads(restore_to(tmp_path / "copy", tmp_path / "again", "--json").stdout)
    assert files(tmp_path / "again" / "keys") == ["tls.crt", "tls.key"]
    tls, links, login = done["to_do"]
    assert "new certificate, signed by itself" in tls
    assert "`smqpd cert issue alpha.example --replace`" in links
    assert "`smqpd account passwd admin`" in login


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda copy: (copy / "backup.json").unlink(), "is no whole backup: it has no backup.json"),
        (lambda copy: (copy / "accounts.toml").unlink(), "accounts.toml is missing"),
        (lambda copy: (copy / "accounts.toml").write_text(""), "its checksum differs"),
        (lambda copy: (copy / "backup.json").write_text("{"), "backup.json cannot be read"),
        (
            lambda copy: (copy / "backup.json").write_text(
                (copy / "backup.json").read_text().replace("accounts.toml", "../accounts.toml")
            ),
            "which is not in the backup",
        ),
        (
            lambda copy: (copy / "backup.json").write_text(
                (copy / "backup.json").read_text().replace('"format": 1', '"format": 2')
            ),
            "restore it with the smqpd that made it",
        ),
    ],
)
def test_a_backup_that_is_not_whole_is_no_site(
    store: Store,
    run: Callable[..., Result],
    restore_to: Callable[..., Result],
    tmp_path: Path,
    spoil: Callable[[Path], object],
    said: str,
) -> None:
    run(tmp_path / "copy")
    spoil(tmp_path / "copy")
    before = sorted(tmp_path.iterdir())
    result = restore_to(tmp_path / "copy", tmp_path / "again")
    assert "nothing was restored: " in str(result.exception)
    assert said in str(result.exception)
    assert sorted(tmp_path.iterdir()) == before


def test_a_site_that_is_there_is_replaced_only_when_asked_for_and_kept(
    site: Path, store: Store, run: Callable[..., Result], restore_to: Callable[..., Result], tmp_path: Path
) -> None:
    run(tmp_path / "copy")
    (site / "precious").write_text("x")
    refused = restore_to(tmp_path / "copy", site)
    assert "is there; choose another name, or --replace" in str(refused.exception)
    done = json.loads(restore_to(tmp_path / "copy", site, "--replace", "--json").stdout)
    assert (Path(done["replaced"]) / "precious").read_text() == "x"
    assert not (site / "precious").exists()
    kept = {
        json.loads(restore_to(tmp_path / "copy", site, "--replace", "--json").stdout)["replaced"]
        for _ in "123"
    }
    assert len(kept) == 3  # also within a second


@pytest.mark.parametrize("knows", [True, False], ids=["exchange", "two renames"])
def test_the_new_site_is_whole_in_its_place_and_the_old_one_in_another(
    site: Path,
    store: Store,
    run: Callable[..., Result],
    restore_to: Callable[..., Result],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    knows: bool,
) -> None:
    if not knows:
        monkeypatch.setattr(private_files, "_renameat2", None)  # a C library that has none
    run(tmp_path / "copy")
    (site / "precious").write_text("x")
    rename, renamed = os.rename, []

    def noted(source: Path, target: Path) -> None:
        renamed.append(Path(source))
        rename(source, target)

    monkeypatch.setattr(os, "rename", noted)
    result = restore_to(tmp_path / "copy", site, "--replace", "--json")
    assert result.exit_code == 0
    kept = Path(json.loads(result.stdout)["replaced"])
    assert (kept / "precious").exists()
    assert (site / "smqpd.toml").exists()
    assert (site in renamed) is not knows, "with an exchange the place of the site is never empty"
    assert [path.name for path in site.parent.iterdir() if path.name.startswith(f".{site.name}.")] == []


def test_a_backup_is_not_replaced_by_the_site_that_is_made_of_it(
    store: Store, run: Callable[..., Result], restore_to: Callable[..., Result], tmp_path: Path
) -> None:
    run(tmp_path / "copy")
    (tmp_path / "alias").symlink_to(tmp_path / "copy")
    before = sorted(tmp_path.rglob("*"))
    itself = restore_to(tmp_path / "copy", tmp_path / "copy", "--replace")
    assert f"{tmp_path / 'copy'} is the backup itself, which stays as it is" in str(itself.exception)
    inside = restore_to(tmp_path / "copy", tmp_path / "alias/state/again")
    assert f"is inside the backup {tmp_path / 'copy'}, which stays as it is" in str(inside.exception)
    assert sorted(tmp_path.rglob("*")) == before


def test_the_state_directory_is_no_place_for_a_backup(
    site: Path, store: Store, run: Callable[..., Result]
) -> None:
    before = files(site)
    refused = run(site / "state" / "new" / "copy")
    assert "is inside the state directory, which is the daemon's; choose another" in str(refused.exception)
    assert files(site) == before
    assert not (site / "state" / "new").exists()


def test_an_empty_directory_becomes_the_site(
    store: Store, run: Callable[..., Result], restore_to: Callable[..., Result], tmp_path: Path
) -> None:
    run(tmp_path / "copy")
    (tmp_path / "again").mkdir()
    done = json.loads(restore_to(tmp_path / "copy", tmp_path / "again", "--json").stdout)
    assert (done["replaced"], (tmp_path / "again" / "smqpd.toml").exists()) == ("", True)


def test_a_directory_that_cannot_be_another_is_said_to_be_none(
    store: Store,
    run: Callable[..., Result],
    restore_to: Callable[..., Result],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A mount point, and the directory that the shell of the operator would stay in."""
    run(tmp_path / "copy")
    mounted = restore_to(tmp_path / "copy", "/proc", "--replace")
    assert "/proc is a mount point, and stays one" in str(mounted.exception)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    for name in (".", tmp_path / "here"):
        here = restore_to(tmp_path / "copy", name)
        assert "is the directory that this runs in" in str(here.exception)
    assert [path.name for path in tmp_path.glob(".*")] == []


def test_a_site_that_runs_is_not_replaced(
    site: Path, store: Store, run: Callable[..., Result], restore_to: Callable[..., Result], tmp_path: Path
) -> None:
    run(tmp_path / "copy")
    with state_lock(site / "state"):
        refused = restore_to(tmp_path / "copy", site, "--replace")
    assert "runs, as process" in str(refused.exception)
    assert (site / "smqpd.toml").exists()

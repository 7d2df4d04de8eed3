import errno
import json
import os
import signal
import sqlite3
import stat
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from daemon.link.peers_editor import add_peer
from daemon.link.peers_file import PeerEntry
from daemon.site.lock import state_lock
from daemon.store.store import Store
from daemon.system import private_files
from tests.support.cli import Shell
from tests.support.made_site import files_below


def test_a_site_is_made_of_a_backup(
    site: Path, store: Store, run: Callable[..., Result], restore_to: Callable[..., Result], tmp_path: Path
) -> None:
    run(tmp_path / "copy")
    done = json.loads(restore_to(tmp_path / "copy", tmp_path / "a/b/again", "--json").stdout)
    assert (done["server_name"], done["replaced"], done["to_do"]) == ("alpha.example", "", [])
    again = tmp_path / "a/b/again"
    assert files_below(again) == sorted(
        file for file in files_below(tmp_path / "copy") if file != "backup.json"
    )
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
    assert files_below(tmp_path / "again" / "keys") == ["tls.crt", "tls.key"]
    tls, links, login = done["to_do"]
    assert "new certificate, signed by itself" in tls
    assert "`smqpd cert issue alpha.example --replace`" in links
    assert "`smqpd account passwd admin`" in login


def test_messages_that_cannot_be_read_are_not_said_to_be_in_order(
    site: Path, run: Callable[..., Result], restore_to: Callable[..., Result], tmp_path: Path
) -> None:
    with closing(sqlite3.connect(site / "state/smqpd.db", isolation_level=None)) as store:
        store.execute("INSERT INTO message VALUES (1, 'a', 1, 0, 1, 1, NULL, 0, 'NONE', 0, '', '', x'00', 7)")
    said = "messages held: 1; but 1 of them cannot be read: they were damaged before"
    assert said in run(tmp_path / "copy").stdout
    assert said in restore_to(tmp_path / "copy", tmp_path / "again").stdout


def test_a_store_with_which_no_site_can_go_on_makes_no_backup(
    site: Path, run: Callable[..., Result], tmp_path: Path
) -> None:
    with closing(sqlite3.connect(site / "state/smqpd.db", isolation_level=None)) as store:
        store.execute("UPDATE site SET site_time = 'noon'")
    failed = str(run(tmp_path / "copy").exception)
    assert failed == "no backup was made: its row about the site itself is damaged: site_time"
    assert not (tmp_path / "copy").exists()


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


def test_a_site_that_was_restored_a_moment_ago_and_is_restored_again_begins_beyond_it(
    store: Store, run: Callable[..., Result], restore_to: Callable[..., Result], tmp_path: Path
) -> None:
    run(tmp_path / "copy")
    boots = []
    for more in ([], ["--replace"], ["--replace"]):
        restore_to(tmp_path / "copy", tmp_path / "again", *more)
        with closing(Store(tmp_path / "again" / "state" / "smqpd.db")) as restored:
            boots.append(restored.site.boot)
    assert boots == sorted(set(boots))


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


@pytest.mark.parametrize("knows", [True, False], ids=["exchange", "two renames"])
def test_a_site_whose_place_the_new_one_cannot_take_stays_there_alone(
    site: Path,
    store: Store,
    run: Callable[..., Result],
    restore_to: Callable[..., Result],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    knows: bool,
) -> None:
    run(tmp_path / "copy")
    (site / "precious").write_text("x")
    before, rename = sorted(tmp_path.iterdir()), os.rename

    def ended(source: Path, target: Path) -> None:
        if Path(target) == site and Path(source).name.startswith(f".{site.name}."):
            raise OSError(errno.EIO, "Input/output error")
        rename(source, target)

    def ended_at_once(*_: object) -> int:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "rename", ended)
    monkeypatch.setattr(private_files, "_renameat2", ended_at_once if knows else None)
    result = restore_to(tmp_path / "copy", site, "--replace")
    assert "nothing was restored: Input/output error" in str(result.exception)
    assert (site / "precious").read_text() == "x"
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("knows", [True, False], ids=["exchange", "two renames"])
def test_a_signal_once_the_sites_change_places_does_not_keep_that_from_being_done_and_said(
    site: Path, smqpd: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, knows: bool, number: int
) -> None:
    assert smqpd("backup", tmp_path / "copy", "--site", site) == 0
    (site / "precious").write_text("x")
    rename, exchange = os.rename, private_files._renameat2

    def interrupted(change: Any, *what: Any) -> Any:
        result = change(*what)
        os.kill(os.getpid(), number)
        return result

    monkeypatch.setattr(os, "rename", partial(interrupted, rename))
    monkeypatch.setattr(private_files, "_renameat2", partial(interrupted, exchange) if knows else None)
    assert (smqpd("restore", tmp_path / "copy", site, "--replace"), smqpd.err) == (0, "")
    [kept] = tmp_path.glob("site.*")
    assert f"The site that was there is in {kept} now.\n" in smqpd.out
    assert (kept / "precious").read_text() == "x"
    assert not (site / "precious").exists()


def test_a_site_that_is_restored_is_not_said_not_to_be_where_the_disk_does_not_keep_its_name(
    site: Path,
    run: Callable[..., Result],
    restore_to: Callable[..., Result],
    tmp_path: Path,
    monkeypatch: Any,
) -> None:
    run(tmp_path / "copy")
    sync = private_files.sync_directory

    def fail_above(directory: Path) -> None:
        if directory == tmp_path:
            raise OSError(errno.EIO, "Input/output error")
        sync(directory)

    monkeypatch.setattr("daemon.cli.restore.sync_directory", fail_above)
    failed = str(restore_to(tmp_path / "copy", site, "--replace").exception)
    [kept] = tmp_path.glob("site.*")
    assert failed == (
        f"{site} is restored, and the site that was there is in {kept};"
        " but that may not outlast a power cut: Input/output error"
    )


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
    before = files_below(site)
    refused = run(site / "state" / "new" / "copy")
    assert "is inside the state directory, which is the daemon's; choose another" in str(refused.exception)
    assert files_below(site) == before
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

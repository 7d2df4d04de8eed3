import json
import re
import sqlite3
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from daemon.configuration.config import load
from daemon.configuration.discovery import Installed, installed_plugins
from daemon.link.peers_editor import add_peer
from daemon.link.peers_file import PeerEntry, load_peers
from daemon.store.backup import copy_store
from daemon.store.quarantine import quarantined, read
from daemon.store.store import Store
from daemon.system.private_files import write_new
from tests.support.command_line import CommandLine
from tests.support.made_site import files_below
from tests.support.process import PRETENCES
from tests.support.terminal import terminal

SITE = ("accounts.toml", "smqpd.id", "smqpd.toml", "state/smqpd.db")


def test_the_copy_of_a_running_site_is_a_site(
    site: Path, store: Store, run: Callable[..., Result], tmp_path: Path
) -> None:
    result = run(tmp_path / "copy")
    assert result.exit_code == 0
    assert files_below(tmp_path / "copy") == sorted(
        [*SITE, "backup.json", "keys/admin.toml", "keys/tls.crt", "keys/tls.key"]
    )
    for name in ("accounts.toml", "smqpd.toml"):
        assert (tmp_path / "copy" / name).read_bytes() == (site / name).read_bytes()
    Store(tmp_path / "copy/state/smqpd.db").close()


def test_of_a_site_that_is_stopped_nothing_is_left_beside_the_store(
    site: Path, run: Callable[..., Result], tmp_path: Path
) -> None:
    Store(site / "state/smqpd.db").close()
    before = files_below(site)
    assert run(tmp_path / "copy").exit_code == 0
    assert read(site / "state/smqpd.db", quarantined) == []
    assert files_below(site) == before


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
    assert files_below(tmp_path / "without" / "keys") == ["ca.pem"]
    run(tmp_path / "with")
    assert files_below(tmp_path / "with" / "keys") == files_below(site / "keys")


def test_json_names_what_was_copied(store: Store, run: Callable[..., Result], tmp_path: Path) -> None:
    done = json.loads(run(tmp_path / "copy", "--json").stdout)
    assert done["target"] == str(tmp_path / "copy")
    assert done["files"] == files_below(tmp_path / "copy")
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
    assert files_below(tmp_path / "copy" / "keys") == []
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

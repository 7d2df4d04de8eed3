"""A site and its state know each other: another's state, or one that is gone, is not begun with."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from daemon.settings import STORE, ConfigError, SiteSettings
from daemon.site.lock import state_lock
from daemon.site.state_mark import check_state, mark_path, own_state
from daemon.store import schema
from daemon.store.backup import copy_store
from daemon.store.store import Store
from tests.support.cli import Shell
from tests.support.made_site import made_site


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return made_site(tmp_path / "site", "alpha.example", 7720, is_bare=True).config


@pytest.fixture
def smqpd(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(monkeypatch, capsys)


def site(config: Path, name: str = "alpha.example") -> SiteSettings:
    return SiteSettings(server_name=name, state_directory=config.parent / "state")


def start(config: Path, name: str = "alpha.example") -> int:
    """As the daemon does; the number of the start."""
    check_state(config, site(config, name))
    (config.parent / "state").mkdir(exist_ok=True)
    with closing(Store(config.parent / "state" / STORE)) as store:
        own_state(config, site(config, name), store)
        return store.site.boot


def as_before(config: Path) -> None:
    """Make the site one of the version that knew of no names in stores."""
    mark_path(config).unlink()
    with closing(sqlite3.connect(config.parent / "state" / STORE, isolation_level=None)) as store:
        store.execute("ALTER TABLE site DROP COLUMN server_name")
        store.execute("ALTER TABLE site DROP COLUMN identity")
        store.execute("DELETE FROM _sqlite_migrations WHERE name = 'ownership'")


def test_a_new_site_starts_and_its_first_start_is_the_first(config: Path) -> None:
    assert [start(config), start(config)] == [1, 2]


def test_a_first_start_that_is_cut_short_has_not_begun(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a site that was made by hand: one that `smqpd init` makes has a store."""
    (config.parent / "state" / STORE).unlink()
    mark_path(config).unlink()

    def first(db: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as cut_short:
        cut_short.setattr(schema, "STEPS", [first])
        with pytest.raises(KeyboardInterrupt):
            start(config)
    assert start(config) == 1


def test_another_name_over_an_old_store_is_refused_and_changes_nothing(config: Path) -> None:
    start(config)
    said = r"is the store of alpha\.example, but server_name in \[site\] is beta\.example: set that back"
    with pytest.raises(ConfigError, match=said):
        start(config, "beta.example")
    assert start(config) == 2


def test_a_state_that_is_gone_is_refused_until_it_is_back(config: Path) -> None:
    start(config)
    (config.parent / "state").rename(config.parent / "elsewhere")
    for empty in (False, True):
        if empty:  # as where something was mounted
            (config.parent / "state").mkdir()
        with pytest.raises(ConfigError, match=r"is gone, but this site had a store .* restore a backup"):
            start(config)
    (config.parent / "state").rmdir()
    (config.parent / "elsewhere").rename(config.parent / "state")
    assert start(config) == 2


def test_an_emptied_store_is_a_store_that_is_gone(config: Path, smqpd: Shell) -> None:
    start(config)
    (config.parent / "state" / STORE).write_bytes(b"")
    with pytest.raises(ConfigError, match=r"smqpd\.db: is empty, but this site had a store"):
        start(config)
    assert smqpd("init", config, "--accept-state") == 0
    assert smqpd.out.startswith("From now on the state of alpha.example is a new, empty store, in ")
    assert start(config) == 1


@pytest.mark.parametrize("change", ["DROP TABLE site", "DELETE FROM site"])
@pytest.mark.parametrize("marked", [True, False])
def test_a_database_of_another_kind_is_not_begun_with(config: Path, change: str, marked: bool) -> None:
    with closing(sqlite3.connect(config.parent / "state" / STORE, isolation_level=None)) as store:
        store.execute(change)
    if not marked:
        mark_path(config).unlink()
    with pytest.raises(ConfigError, match="cannot be used: it is not a store of smqpd"):
        start(config)


def test_a_gone_state_is_begun_anew_where_the_operator_says_so(config: Path, smqpd: Shell) -> None:
    start(config)
    shutil.rmtree(config.parent / "state")
    assert smqpd("init", config.parent, "--accept-state") == 0
    assert smqpd.out.startswith("From now on the state of alpha.example is a new, empty store, in ")
    assert start(config) == 1
    assert smqpd("init", config, "--accept-state") == 0
    assert "the store that is there" in smqpd.out
    assert start(config) == 2


def test_another_store_of_the_same_name_is_refused_until_it_is_accepted(
    config: Path, tmp_path: Path, smqpd: Shell
) -> None:
    made_site(tmp_path / "other", "alpha.example", 7720, is_bare=True)
    (config.parent / "state" / STORE).write_bytes((tmp_path / "other/state" / STORE).read_bytes())
    with pytest.raises(ConfigError, match="is another store than this site had"):
        start(config)
    assert smqpd("init", config, "--accept-state") == 0
    start(config)


def test_the_store_of_another_name_is_never_accepted(config: Path, tmp_path: Path, smqpd: Shell) -> None:
    made_site(tmp_path / "other", "beta.example", 7720, is_bare=True)
    (config.parent / "state" / STORE).write_bytes((tmp_path / "other/state" / STORE).read_bytes())
    before = mark_path(config).read_text()
    assert smqpd("init", config, "--accept-state") == 1
    assert "is the store of beta.example" in smqpd.err
    assert mark_path(config).read_text() == before


def test_a_site_of_the_version_before_goes_on_without_a_word_and_knows_its_state_afterwards(
    config: Path,
) -> None:
    as_before(config)
    assert start(config) == 1
    assert start(config) == 2
    shutil.rmtree(config.parent / "state")
    with pytest.raises(ConfigError, match="is gone"):
        start(config)


def test_a_backup_of_the_version_before_takes_the_place_of_the_state(config: Path) -> None:
    mark = mark_path(config).read_text()
    as_before(config)
    mark_path(config).write_text(mark)
    assert [start(config), start(config)] == [1, 2]


def test_a_backup_starts_beside_its_site_and_in_its_place(config: Path, tmp_path: Path) -> None:
    start(config)
    (tmp_path / "copy" / "state").mkdir(parents=True)
    copy_store(config.parent / "state" / STORE, tmp_path / "copy" / "state" / STORE, lambda *_: None)
    shutil.copytree(tmp_path / "copy" / "state", config.parent / "state", dirs_exist_ok=True)
    # the numbers of a copy go on beyond those that its site has given since
    assert start(config) == start(tmp_path / "copy" / "smqpd.toml") > 2


def test_a_mark_that_cannot_be_read_is_no_leave_to_begin_anew(config: Path) -> None:
    as_before(config)
    mark_path(config).mkdir()
    (config.parent / "state").rename(config.parent / "elsewhere")
    with pytest.raises(ConfigError, match=r"smqpd\.id: cannot be read: Is a directory"):
        start(config)


def test_to_look_leaves_no_file_beside_the_store(config: Path) -> None:
    check_state(config, site(config))
    assert [path.name for path in (config.parent / "state").iterdir()] == [STORE]


def test_a_site_that_runs_accepts_nothing(config: Path, smqpd: Shell) -> None:
    with state_lock(config.parent / "state"):
        assert smqpd("init", config, "--accept-state") == 1
    assert "is in use by process" in smqpd.err
    assert "stop it first" in smqpd.err


def test_there_is_nothing_to_accept_where_there_is_no_site(tmp_path: Path, smqpd: Shell) -> None:
    assert smqpd("init", tmp_path, "--accept-state") == 1
    assert "there is no " in smqpd.err
    assert smqpd("init", tmp_path, "--accept-state", "--server-name", "x") == 2

"""Two who change an account at a time: neither undoes what the other has done."""

import fcntl
from collections.abc import Callable
from pathlib import Path

import pytest

from daemon.accounts.accounts_editor import AccountsEditor, edit
from daemon.accounts.accounts_file import Account, read_accounts
from routing.quotas import OwnQuotas
from routing.rights import Rights
from tests.support.cli import Shell
from tests.support.made_site import made_site
from tests.support.passwords import cheap_hash


@pytest.fixture
def accounts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of a site with the account eve, who may and may use much."""
    config = made_site(tmp_path / "site", "a.example", 7720, is_bare=True).config
    monkeypatch.setenv("SMQPD_SITE", str(config))
    eve = Account(
        password=cheap_hash("secret"),
        rights=Rights(publish=("#",), subscribe=("#",), operate="change"),
        quotas=OwnQuotas(sessions_max=100, held_messages_max=100),
    )
    with edit(config.parent / "accounts.toml") as editor:
        editor.add("eve", eve)
    return config.parent / "accounts.toml"


@pytest.fixture
def smqpd(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(monkeypatch, capsys)


def first(monkeypatch: pytest.MonkeyPatch, accounts: Path, change: Callable[[AccountsEditor], None]) -> None:
    """Have somebody be just before the next who changes the file, and who has read it by then."""
    lock = fcntl.flock

    def lock_later(descriptor: int, operation: int) -> None:
        monkeypatch.setattr(fcntl, "flock", lock)
        with edit(accounts) as editor:
            change(editor)
        lock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", lock_later)


def test_a_right_that_was_taken_meanwhile_is_not_given_back(
    accounts: Path, smqpd: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    first(monkeypatch, accounts, lambda editor: editor.set_rights("eve", Rights(publish=("#",))))
    assert smqpd("account", "rights", "eve", "--publish", "orders") == 0
    assert read_accounts(accounts)["eve"].rights == Rights(publish=("orders",))
    assert smqpd.out.splitlines()[:2] == ["publish    orders", "subscribe  -"]


def test_a_quota_that_was_set_meanwhile_stays(
    accounts: Path, smqpd: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    first(monkeypatch, accounts, lambda editor: editor.set_quotas("eve", OwnQuotas(sessions_max=1)))
    assert smqpd("account", "quotas", "eve", "--held-messages", "5") == 0
    assert read_accounts(accounts)["eve"].quotas == OwnQuotas(sessions_max=1, held_messages_max=5)


def test_who_was_removed_meanwhile_is_given_nothing(
    accounts: Path, smqpd: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    for change in (("rights", "eve", "--publish", "orders"), ("quotas", "eve", "--sessions", "5")):
        first(monkeypatch, accounts, lambda editor: editor.remove("eve"))
        assert smqpd("account", *change) == 1
        assert "there is no account eve" in smqpd.err
        with edit(accounts) as editor:
            editor.add("eve", Account(password=cheap_hash("secret")))

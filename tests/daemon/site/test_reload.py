"""A reload that an error of ours meets: the site goes on, all other parts are taken on, who asked is told."""

import errno
import re
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import NoReturn

import pytest
import trio

from daemon.accounts.accounts_editor import edit
from daemon.accounts.accounts_file import Account
from daemon.accounts.tokens import Token, token_hash
from daemon.certificates.authority import Authority
from daemon.certificates.self_signed import make_self_signed
from daemon.cli.status import reload
from daemon.cli.telling import tell
from daemon.configuration.config import load
from daemon.frontend import AccountSettings, Actor, Ending, Identity
from daemon.site.lock import state_lock
from daemon.site.site import RunningSite, serve_site
from daemon.system.systemd import Notifier
from daemon.terminal.failure import Failure
from routing.errors import Refusal
from routing.rights import EVERYTHING, Rights
from tests.support.installed import checkout_plugins
from tests.support.keys import write_keys, write_trust
from tests.support.made_site import made_site
from tests.support.passwords import cheap_hash
from tests.support.ports import free_port


@asynccontextmanager
async def running(directory: Path) -> AsyncIterator[RunningSite]:
    """A site with the account eve."""
    installed = checkout_plugins()
    config = made_site(directory, "alpha.example", free_port()).config
    with edit(directory / "accounts.toml") as editor:
        editor.add("eve", Account(password=cheap_hash("secret"), rights=EVERYTHING))
    async with trio.open_nursery() as nursery:
        site = await nursery.start(serve_site, config, load(config, installed), installed, Notifier({}), {})
        yield site
        nursery.cancel_scope.cancel()


def fail(*args: object) -> NoReturn:
    raise TypeError("a part that is broken")


async def test_what_one_part_of_a_reload_meets_keeps_no_other_and_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(tmp_path / "site") as site:
        session = site.open_session(Identity("eve"), "desk", protocol="test", remote="192.0.2.1:1")
        with edit(tmp_path / "site" / "accounts.toml") as editor:
            editor.remove("eve")
        with monkeypatch.context() as broken:
            broken.setattr(site.links, "take", fail)
            for _ in range(2):
                standing = site.reload("a test")
                [finding] = standing.not_taken_on
                assert (finding.part, finding.problem.partition(";")[0]) == (
                    "peers",
                    "an error of smqpd met it",
                )
        assert [type(event) for event in await session.events()] == [Ending], "its account is gone"
        assert not site.reload("a test").not_taken_on


async def test_a_reload_that_cannot_even_begin_leaves_the_site_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(tmp_path / "site") as site:
        with monkeypatch.context() as broken:
            broken.setattr("daemon.site.files.examine", fail)
            for _ in range(2):
                [finding] = site.reload("a test").not_taken_on
                assert "an error of smqpd ended the reload" in finding.problem
        assert site.open_session(Identity("eve"), "desk", protocol="test", remote="192.0.2.1:1").allows(
            "publish", "jobs"
        )
        assert not site.reload("a test").not_taken_on


@pytest.mark.parametrize("broken", ["daemon.site.files.examine", "daemon.broker.broker.Broker.reconfigure"])
async def test_who_disables_eve_is_not_told_that_she_is_out_where_the_reload_did_not_get_so_far(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    directory, by = tmp_path / "site", Actor(name="admin", via="web")
    async with running(directory) as site:
        session = site.open_session(Identity("eve"), "desk", protocol="test", remote="192.0.2.1:1")
        with edit(directory / "accounts.toml") as editor:
            editor.set_disabled("eve", True)
        with monkeypatch.context() as patch, state_lock(directory / "state"):
            patch.setattr(broken, fail)
            said = partial(tell, directory, directory / "state", "Disabled eve.", ["accounts"])
            with pytest.raises(
                Failure, match=r"^Disabled eve\. But the site has not taken it on, .* of smqpd"
            ):
                await trio.to_thread.run_sync(said)
            with pytest.raises(
                Failure, match=r"^not taken on, and as it was before: everything: .*not all .*n$"
            ):
                await trio.to_thread.run_sync(reload, directory)
            with pytest.raises(Refusal, match=r"^Changed the account eve\. But the site has not taken it on"):
                await site.operations.set_account("eve", AccountSettings(disabled=True), by)
        assert not site.reload("a test").not_taken_on
        assert [type(event) for event in await session.events()] == [Ending]


async def test_who_changes_accounts_on_the_page_hears_whether_that_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    by, settings = Actor(name="eve", via="web"), AccountSettings()
    async with running(tmp_path / "site") as site:
        with monkeypatch.context() as broken:
            broken.setattr("daemon.site.files.examine", fail)
            with pytest.raises(Refusal, match="But the site has not taken it on"):
                await site.operations.add_account("fay", "secret", settings, by)
        config = tmp_path / "site" / "smqpd.toml"
        config.write_text(
            config.read_text().replace("[site]\n", '[site]\naccounts_file = "of the next start.toml"\n')
        )
        await site.operations.add_account("gus", "secret", settings, by)
        for account in ("fay", "gus"):
            assert await site.authenticate(account, "secret", "192.0.2.1") == Identity(account)


async def test_the_login_of_the_machine_goes_with_a_password_that_is_changed_on_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    by, login = Actor(name="admin", via="web"), tmp_path / "site" / "keys" / "admin.toml"
    async with running(tmp_path / "site") as site:
        changed = await site.operations.set_password("admin", "another", by)
        said = "keys/admin.toml has it, for commands on its machine"
        assert (changed.made, changed.login) == ("", said)
        assert 'password = "another"\n' in login.read_text()
        assert (await site.operations.set_password("eve", "another", by)).login == ""
        eve = Actor(name="eve", via="web")
        await site.operations.set_account("eve", AccountSettings(rights=Rights(operate="change")), by)
        await site.operations.remove_account("admin", eve)
        await site.operations.add_account(
            "admin", "anew", AccountSettings(rights=Rights(operate="change")), eve
        )
        assert 'password = "anew"\n' in login.read_text()
        await site.operations.set_password("admin", "another", by)

        def refuse(*given: object) -> None:
            raise OSError(errno.EROFS, "Read-only file system")

        monkeypatch.setattr("daemon.site.site.keep_password", refuse)
        changed = await site.operations.set_password("admin", "", by)
        assert await site.authenticate("admin", changed.made, "192.0.2.1") == Identity("admin")
        assert "may lack the password, as the site cannot write it (Read-only file system)" in changed.login
        assert 'password = "another"\n' in login.read_text()


async def test_a_login_file_that_cannot_be_read_keeps_no_password_from_who_changes_it(tmp_path: Path) -> None:
    by, login = Actor(name="admin", via="web"), tmp_path / "site" / "keys" / "admin.toml"
    async with running(tmp_path / "site") as site:
        login.write_bytes(b'account = "\xff"\n')
        changed = await site.operations.set_password("admin", "", by)
        assert changed.made
        assert changed.login == ""
        assert login.read_bytes() == b'account = "\xff"\n'


async def test_the_log_says_that_a_token_is_another(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    accounts = tmp_path / "site" / "accounts.toml"
    async with running(tmp_path / "site") as site:
        for token in ("one", "other"):
            with edit(accounts) as editor:
                if token == "other":
                    editor.remove_token("eve", "grafana")
                kept = Token(hash=token_hash(token), created=datetime(2026, 1, 1, tzinfo=UTC))
                editor.set_token("eve", "grafana", kept)
            site.reload("a test")
    assert "the token grafana of eve: changed, before another: by a test" in capsys.readouterr().err


async def test_a_certificate_that_is_refused_has_not_changed_and_would_once_it_is_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config, keys = tmp_path / "site" / "smqpd.toml", tmp_path / "site" / "keys"
    async with running(tmp_path / "site") as site:
        config.write_text(config.read_text().replace('"keys/tls.crt"', '"keys/new.crt"'))
        [refused] = site.reload("a test").not_taken_on
        assert (refused.part, site.files.differences().refused) == ("tls", [refused])
        assert site.files.differences().differences == []
        assert "changed:" not in capsys.readouterr().err

        shutil.copy(keys / "tls.crt", keys / "new.crt")
        [change] = site.files.differences().differences
        assert str(change) == f"tls.certificate: {keys / 'new.crt'}, before {keys / 'tls.crt'}"
        assert not site.reload("a test").not_taken_on
        assert f"changed: {change}: by a test" in capsys.readouterr().err
        assert site.files.differences().differences == []


async def test_certificates_and_lists_are_told_before_a_reload_takes_them_on_and_then(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    keys, now = tmp_path / "site" / "keys", datetime.now(UTC)
    authority = Authority.create(tmp_path / "ca", "test", 365, now - timedelta(days=1))
    async with running(tmp_path / "site") as site:

        def told() -> list[str]:
            """What would change, and has changed once it was reloaded."""
            told = [str(each) for each in site.files.differences().differences]
            assert not site.reload("a test").not_taken_on
            log = capsys.readouterr().err
            assert [each for each in told if f"changed: {each}: by a test" not in log] == []
            assert site.files.differences().differences == []
            return told

        write_keys(authority, "alpha.example", keys, now)
        assert [re.sub("added: .*", "added", each) for each in told()] == [
            "the certificate for links is added",
            "the certificate of the authority CN=test is added",
            "the list of the authority CN=test is added",
        ]
        write_keys(authority, "beta.example", tmp_path / "beta", now)
        authority.revoke("beta.example", now)
        write_trust(authority, keys)
        [revocation] = told()
        assert re.fullmatch(
            r"the list of the authority CN=test: 1 revoked, of .*, before 0 revoked, of .*", revocation
        )
        certificate, key = make_self_signed("alpha.example")
        (keys / "tls.crt").write_bytes(certificate)
        (keys / "tls.key").write_bytes(key)
        [renewal] = told()
        assert re.fullmatch(r"the certificate in \[tls\]: serial (\w+), .*, before serial (?!\1).*", renewal)

"""What the log of a running site tells whoever has to account for it: who came, and who changed what."""

import json
import re
from pathlib import Path

import pytest
import trio

from daemon.terminal.failure import FAILED
from plugins.smqp.connecting import session
from routing.errors import Refusal
from tests.support.patience import PATIENCE_S
from tests.support.process import Daemon, daemon
from tests.support.running import SiteProcess, message


@pytest.fixture
def site(tmp_path: Path) -> SiteProcess:
    return SiteProcess(tmp_path / "site")


async def logged(running: Daemon, pattern: str) -> None:
    """Wait until a line of the log has this in it."""
    with trio.fail_after(PATIENCE_S):
        while not re.search(pattern, running.log):
            await trio.sleep(0.02)


async def test_the_log_says_where_a_site_listens_and_who_logs_in(site: SiteProcess) -> None:
    async with daemon(site.config) as running:
        assert f"listens: smqp 127.0.0.1:{site.port}\n" in running.log
        async with site.eve("phone"):
            await logged(running, r"eve/phone logged in \(smqp, 127\.0\.0\.1:\d+\): session 1\n")
        await logged(running, r"eve/phone logged out \(smqp, 127.*: session 1, after .* s, 0 published, ")
        for account, why in (("eve", "the password is wrong"), ("mallory", "there is no such account")):
            stream = await trio.open_tcp_stream("127.0.0.1", site.port)
            with pytest.raises(Refusal, match="account or password is wrong"):
                async with session(stream, account, "guess"):
                    pytest.fail("a guess logged in")
            await logged(running, rf"login of {account} refused \(smqp, 127\.0\.0\.1:\d+\): {why}\n")
        assert "guess" not in running.log


async def test_the_log_says_who_changed_what_with_a_reload(site: SiteProcess) -> None:
    async with daemon(site.config) as running:
        assert await site.asked("config", "diff") == {"differences": [], "refused": []}
        text = site.config.read_text()
        site.config.write_text(text.replace("[limits]", "[limits]\ncredit_max = 77", 1))
        accounts = site.config.parent / "accounts.toml"
        accounts.write_text(accounts.read_text().replace("disabled = false", "disabled = true"))
        shown = await site.printed("config", "diff")
        assert "limits.credit_max: 77, before 10000\n" in shown
        assert re.search(r"account eve: disabled, publish #.*, before enabled, publish #", shown)
        assert "changed:" not in running.log

        await site.printed("reload")
        assert await site.printed("config", "diff") == "Nothing would change.\n"
        assert re.search(r"changed: limits\.credit_max: 77, before 10000: by \w+ \(control\)\n", running.log)
        assert re.search(r"changed: account eve: disabled.*: by \w+ \(control\)\n", running.log)
        await site.printed("account", "passwd", "eve", "--generate")
        assert re.search(r"changed: the password of eve: .*: by \w+ \(control\)\n", running.log)
        assert "argon2" not in running.log

        site.config.write_text(text.replace("[limits]", "[limits]\ncredit_max = -1", 1))
        code, _, why = await site.command("config", "diff")
        assert (code, "would not be taken on: configuration: " in why) == (FAILED, True)


async def test_a_reload_takes_no_other_files_on_and_the_difference_says_so(site: SiteProcess) -> None:
    directory = site.config.parent
    async with daemon(site.config):
        text = site.config.read_text()
        for table, line in (
            ("[site]", 'accounts_file = "others.toml"'),
            ("[links]", 'peers_file = "p.toml"\nkeys_directory = "k"'),
        ):
            assert f"\n{table}\n" in text
            text = text.replace(f"\n{table}\n", f"\n{table}\n{line}\n", 1)
        site.config.write_text(text)
        (directory / "others.toml").write_text("")
        (directory / "others.toml").chmod(0o600)
        (directory / "p.toml").write_text('[[peers]]\nname = "beta.example"\naddress = "127.0.0.1:9"\n')
        code, shown, why = await site.command("config", "diff")
        assert code == FAILED
        assert "account eve" not in shown
        assert "beta.example" not in shown
        assert f"links.peers_file: {directory / 'p.toml'}, before" in shown
        for old, new in (("accounts.toml", "others.toml"), ("peers.toml", "p.toml"), ("keys", "k")):
            said = f"{directory / new}: is not read before the next start; until then {directory / old} is"
            assert said in why
        reloaded = await site.command("reload")
        assert (reloaded[0], said in reloaded[2]) == (FAILED, True)


async def test_dead_letters_are_in_the_log_with_the_reason(site: SiteProcess) -> None:
    async with daemon(site.config) as running, site.eve() as eve:
        await eve.subscribe("work")
        await eve.publish("work", message(b"x", delivery="ONE"))
        await eve.give_back([await anext(eve)], outcome="rejected", reason="no good")
        await logged(
            running, r"dead letter: alpha.example/\S+ of work, which eve:desk@alpha.example could not"
        )


async def test_the_log_says_why_a_session_ended_and_what_went_through_it(site: SiteProcess) -> None:
    async with daemon(site.config) as running:
        async with site.eve() as eve:
            await eve.subscribe("work")
            await eve.publish("work", message(b"x"))
            await eve.commit([await anext(eve)])
        await logged(running, r"session 1, after [\d.]+ s, 1 published, 1 delivered: its client left\n")
        async with site.eve():
            assert await site.asked("session", "close", "2") == {"closed": True}
            await logged(running, "session 2, .*: an operator has closed the session\n")
        async with site.eve():
            assert await site.printed("account", "disable", "eve")
            await logged(running, "session 3, .*: the account has been disabled\n")


async def test_a_line_of_the_log_may_be_an_object(site: SiteProcess) -> None:
    site.config.write_text(site.config.read_text().replace("[log]", '[log]\nformat = "json"', 1))
    async with daemon(site.config) as running:
        async with site.eve():
            await logged(running, '"event": "login", "account": "eve", "channel": "desk", "protocol": "smqp"')
        for line in running.log.splitlines():
            assert {"time", "level", "from", "text"} <= json.loads(line).keys()

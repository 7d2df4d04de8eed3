"""Commands that change a site which runs: they say what the site did, and their exit code says so, too."""

import json
import shlex
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import trio

from daemon.accounts.accounts_editor import edit
from daemon.accounts.accounts_file import Account
from daemon.certificates.authority import Authority
from daemon.cli import telling
from daemon.control.client import Question
from daemon.control.socket import Tell, serve_control
from daemon.site.lock import state_lock
from daemon.system.mishaps import Mishaps
from daemon.system.version import VERSION
from daemon.terminal.failure import FAILED, UNREACHABLE
from plugins.smqp.client import Client
from plugins.smqp.connecting import session
from plugins.smqp.connection import ConnectionLost
from routing.errors import Refusal
from routing.message import Message, Section
from routing.rights import EVERYTHING
from tests.support.installed import ROOT
from tests.support.keys import write_keys
from tests.support.made_site import made_site
from tests.support.operator import Operator
from tests.support.passwords import cheap_hash
from tests.support.patience import PATIENCE_S
from tests.support.ports import free_port
from tests.support.process import Daemon, daemon, environment


class Site(Operator):
    """A site with the accounts admin and eve, and its operator."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.directory = directory
        self.port = free_port()
        self.config = made_site(directory, "alpha.example", self.port).config
        with edit(directory / "accounts.toml") as editor:
            editor.add("eve", Account(password=cheap_hash("secret"), rights=EVERYTHING))

    def issue(self, authority: Authority, name: str = "alpha.example", days: int = 100) -> None:
        write_keys(authority, name, self.directory / "keys", datetime.now(UTC), days)

    @asynccontextmanager
    async def eve(self) -> AsyncIterator[Client]:
        stream = await trio.open_tcp_stream("127.0.0.1", self.port)
        async with session(stream, "eve", "secret", channel="test") as client:
            yield client

    async def status(self) -> Any:
        """What `smqpd status` knows, whatever its exit code."""
        _, out, _ = await self.command("status", "--json")
        return json.loads(out)

    def systemctl_reload(self) -> subprocess.CompletedProcess[str]:
        """The command of ExecReload= in the unit, as systemd runs it for this site."""
        unit = (ROOT / "etc/systemd/smqpd@.service").read_text().splitlines()
        [line] = [line.partition("=")[2] for line in unit if line.startswith("ExecReload=")]
        words = shlex.split(line.replace("/var/lib/smqpd/%i", str(self.directory)))
        assert words[:2] == ["/usr/bin/env", "smqpd"]
        smqpd = [sys.executable, "-c", "from daemon.cli.main import main; main()"]
        return subprocess.run(
            smqpd + words[2:], env=environment(self.directory), capture_output=True, text=True, check=False
        )


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path / "site")


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority.create(tmp_path / "ca", "test", 3650, datetime.now(UTC) - timedelta(days=1))


async def until_logged(running: Daemon, text: str) -> None:
    with trio.fail_after(PATIENCE_S):
        while text not in running.log:
            await trio.sleep(0.02)


async def test_eve_is_cut_off_although_the_links_cannot_be_as_the_files_say(site: Site) -> None:
    async with daemon(site.config) as running:
        (site.directory / "peers.toml").write_text('[[peers]]\nname = "beta.example"\n')
        async with site.eve() as client:
            assert await client.publish("weather", Message(sections=(Section("text/plain", b"rain"),)))
            code, out, said = await site.command("account", "disable", "eve")
            assert (code, out) == (0, "Disabled eve. The site has taken it on.\n")
            assert "smqpd: warning: not taken on: keys: " in said
            assert "site.key: No such file" in said
            with pytest.raises((ConnectionLost, Refusal)):
                await client.publish("weather", Message(sections=(Section("text/plain", b"more"),)))
        with pytest.raises((ConnectionLost, Refusal)):
            async with site.eve():
                pass
        await running.tells("RELOADING=1")
        assert "not taken on: keys: " in await running.tells("READY=1")


@pytest.mark.parametrize("peers", [f"x = {5_000 * '1'}", f"x = {3_000 * '['}"], ids=["digits", "depth"])
async def test_eve_is_cut_off_whatever_else_is_in_another_file(site: Site, peers: str) -> None:
    async with daemon(site.config), site.eve() as client:
        (site.directory / "peers.toml").write_text(peers)
        code, out, said = await site.command("account", "disable", "eve")
        assert (code, out) == (0, "Disabled eve. The site has taken it on.\n")
        assert "smqpd: warning: not taken on: peers: " in said
        with pytest.raises((ConnectionLost, Refusal)):
            await client.publish("weather", Message(sections=(Section("text/plain", b"more"),)))


async def test_a_peer_that_cannot_be_linked_with_is_a_failure_until_that_is_mended(
    site: Site, authority: Authority
) -> None:
    async with daemon(site.config) as running:
        code, out, said = await site.command("peer", "add", "beta.example", "127.0.0.1:9")
        assert (code, out) == (FAILED, "")
        assert said.startswith(
            "Added beta.example. But the site has not taken it on, and goes on as before: "
        )
        code, out, said = await site.command("reload")
        assert (code, out) == (FAILED, "")
        assert "not taken on, and as it was before: keys: " in said
        assert site.systemctl_reload().returncode == FAILED
        assert "site.key: No such file" in site.systemctl_reload().stderr
        assert (await site.command("status"))[0] == FAILED
        assert {finding["part"] for finding in (await site.status())["findings"]} == {"keys", "peers"}

        site.issue(authority)
        done = site.systemctl_reload()
        assert (done.returncode, done.stdout, done.stderr) == (0, "Reloaded.\n", "")
        assert await site.command("reload") == (0, "Reloaded.\n", "")
        known = {"server": "alpha.example", "version": VERSION, "connections": 0, "held": 0, "errors": 0}
        assert known | {"damaged": 0, "findings": []} == {
            name: value
            for name, value in (await site.asked("status")).items()
            if name in known or name in ("damaged", "findings")
        }
        assert (await site.command("peer", "add", "gamma.example", "127.0.0.1:9"))[1] == (
            "Added gamma.example. The site has taken it on.\n"
        )
        code, links, _ = await site.command("peers", "--json")
        assert (code, [link["peer"] for link in json.loads(links)]) == (
            FAILED,
            ["beta.example", "gamma.example"],
        )
        await until_logged(running, "beta.example cannot be dialled")


async def test_a_peer_goes_although_the_keys_cannot_be_read(site: Site, authority: Authority) -> None:
    site.issue(authority)
    assert (await site.command("peer", "add", "beta.example", "127.0.0.1:9"))[0] == 0
    async with daemon(site.config):
        (site.directory / "keys/crl.pem").unlink()
        code, out, said = await site.command("peer", "remove", "beta.example")
        assert (code, out) == (0, "Removed beta.example. The site has taken it on.\n")
        assert "crl.pem: No such file" in said
        assert await site.asked("peers") == []


async def test_peers_whose_file_has_gone_stay_until_it_is_back(site: Site, authority: Authority) -> None:
    site.issue(authority)
    assert (await site.command("peer", "add", "beta.example", "127.0.0.1:9"))[0] == 0
    async with daemon(site.config):
        peers = site.directory / "peers.toml"
        peers.rename(site.directory / "pers.toml")
        for words in (("config", "diff"), ("reload",)):
            code, _, said = await site.command(*words)
            assert (code, f"{peers}: there is no such file" in said) == (FAILED, True), words
        assert [link["peer"] for link in json.loads((await site.command("peers", "--json"))[1])] == [
            "beta.example"
        ]
        peers.write_text("")
        assert (await site.command("reload"))[0] == 0
        assert await site.asked("peers") == []


async def test_a_reload_with_a_bad_configuration_fails_and_takes_on_the_rest(site: Site) -> None:
    async with daemon(site.config):
        assert (await site.command("account", "enable", "eve"))[0] == 0
        with edit(site.directory / "accounts.toml") as editor:
            editor.set_disabled("eve", True)
        good = site.config.read_text()
        for bad in (good + "[limit]\n", "[site\n"):
            site.config.write_text(bad)
            done = site.systemctl_reload()
            assert done.returncode == FAILED
            assert f"configuration: {site.config}: " in done.stderr
        with pytest.raises((ConnectionLost, Refusal)):
            async with site.eve():
                pass
        site.config.write_text(good.replace("[plugins.smqp]", "[plugins.xmpp]\n[plugins.smqp]"))
        code, _, said = await site.command("reload")
        assert code == FAILED
        assert "plugins.xmpp: no such front end" in said  # this daemon has smqp and echo only
        site.config.write_text(good.replace('"alpha.example"', '"beta.example"'))
        code, _, said = await site.command("reload")
        assert code == 0
        assert "[site] has changed; that takes effect with the next start" in said
        assert "the next start would be refused: " in said
        assert "is the store of alpha.example" in said


async def test_a_change_in_a_file_that_the_site_does_not_read_yet_is_not_said_to_be_taken_on(
    site: Site,
) -> None:
    async with daemon(site.config):
        other = site.directory / "others.toml"
        other.write_bytes((site.directory / "accounts.toml").read_bytes())
        other.chmod(0o600)
        site.config.write_text(
            site.config.read_text().replace("[site]\n", f'[site]\naccounts_file = "{other}"\n')
        )
        code, _, said = await site.command("account", "disable", "eve")
        assert code == FAILED
        assert f"{other}: is not read before the next start; until then {site.directory}" in said
        async with site.eve():
            pass


async def test_a_site_whose_state_is_configured_elsewhere_is_not_said_not_to_run(site: Site) -> None:
    async with daemon(site.config):
        text = site.config.read_text()
        site.config.write_text(text.replace("[site]\n", '[site]\nstate_directory = "elsewhere"\n'))
        for change in (("account", "disable", "eve"), ("peer", "add", "beta.example")):
            code, out, said = await site.command(*change)
            assert (code, out) == (UNREACHABLE, "")
            assert "But whether the site runs, and has taken it on, is not known" in said
            assert "elsewhere/smqpd.db: is gone, but this site had a store" in said


async def test_the_status_is_told_also_where_the_configuration_is_bad(site: Site) -> None:
    async with daemon(site.config):
        site.config.write_text(site.config.read_text() + "[limit]\n")
        assert (await site.status())["findings"] == []
        await site.command("reload")
        code, out, _ = await site.command("status")
        assert code == FAILED
        assert f"not taken on: configuration: {site.config}: limit: unknown key" in out


async def test_what_does_not_run_cannot_reload(site: Site) -> None:
    for command in ("reload", "status"):
        code, _, said = await site.command(command)
        assert code == UNREACHABLE
        assert "no daemon answers" in said


async def test_a_site_that_starts_and_does_not_answer_is_not_said_to_have_done_it(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(telling, "PATIENCE_S", 0.0)
    told = []
    monkeypatch.setattr(telling, "signal_running", lambda directory, number: told.append(number))
    with state_lock(site.directory / "state"):
        code, _, said = await site.command("account", "disable", "eve")
    assert code == UNREACHABLE
    assert said.startswith("Disabled eve. But whether the site has taken it on is not known: ")
    assert len(told) == 1


async def test_a_site_of_another_version_is_not_said_to_have_done_it_nor_the_change_to_be_undone(
    site: Site,
) -> None:
    async def answers(question: Question, tell: Tell) -> None:
        await tell({"findings": "in other words"})

    state = site.directory / "state"
    with state_lock(state):
        async with trio.open_nursery() as nursery:
            await nursery.start(serve_control, state, answers, Mishaps().note)
            code, _, said = await site.command("account", "disable", "eve")
            nursery.cancel_scope.cancel()
    assert code == FAILED
    assert said.startswith(
        "Disabled eve. But whether the site has taken it on is not known: the site runs ano"
    )


@pytest.mark.parametrize("state", ["state", "elsewhere"])
async def test_a_configuration_that_is_no_toml_hides_only_a_state_directory_of_its_own(
    site: Site, state: str
) -> None:
    text = site.config.read_text()
    site.config.write_text(text.replace("[site]\n", f'[site]\nstate_directory = "{state}"\n'))
    (site.directory / "state").rename(site.directory / state)
    async with daemon(site.config):
        with site.config.open("a") as file:
            file.write("x = = 3\n")
        if state == "state":
            assert (await site.status())["server"] == "alpha.example"
            return
        for words in (("status",), ("reload",), ("topics",)):
            code, out, why = await site.command(*words)
            assert (code, out) == (FAILED, "")
            assert f"{site.config}: is not TOML: " in why
            assert why.endswith("; its state directory is therefore not known")
        _, out, _ = await site.command("check", "site")
        assert out.startswith(f"SMQPD UNKNOWN - {site.config}: is not TOML: ")


async def test_a_stop_says_how_many_messages_without_a_guarantee_went_with_it(site: Site) -> None:
    async with daemon(site.config) as running:
        async with site.eve() as eve:
            for guarantee in (False, False, True):
                sections = (Section("text/plain", b"x"),)
                await eve.publish("work", Message(sections=sections, delivery="ONE", guarantee=guarantee))
        running.signal(signal.SIGTERM)
        assert await running.exit_code() == 0
        assert "dropped with the stop, as they had no guarantee: 2 messages" in running.log

"""The daemon as a process: start, reload, stop, and what it tells its service manager."""

import shutil
import signal
import socket
import ssl
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import pytest
import trio

from daemon.accounts.accounts_editor import edit
from daemon.accounts.accounts_file import Account
from daemon.certificates.authority import Authority
from daemon.certificates.self_signed import make_self_signed
from daemon.connections.listen import shown
from daemon.link.peers_editor import add_peer
from daemon.link.peers_file import PeerEntry
from daemon.site.lock import running_pid
from routing.rights import EVERYTHING
from tests.support.keys import write_keys
from tests.support.made_site import made_site
from tests.support.passwords import cheap_hash
from tests.support.ports import free_port
from tests.support.process import BECOMES, SMQPD_RUN, daemon

NO_FRONT_END: Final = '[site]\nserver_name = "a"\n[plugins.smqp]\nenabled = false\n'


class Site:
    """A site directory with the front end `echo` on a port."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.port = free_port()
        self.config = made_site(directory, "a.example", 7720, is_bare=True).config
        self.tls_port = free_port()
        self._text = self.config.read_text()
        self.configure("")
        with edit(directory / "accounts.toml") as editor:
            editor.add("ann", Account(password=cheap_hash("right"), rights=EVERYTHING))

    def configure(self, more: str) -> None:
        front_ends = f'[plugins.smqp]\nenabled = false\n[plugins.echo]\nlisten = ["127.0.0.1:{self.port}"]\n'
        front_ends += f'listen_tls = ["127.0.0.1:{self.tls_port}"]\n'
        self.config.write_text(self._text.replace("[site]\n", f"[site]\n{more}\n") + front_ends)

    def listen_for_peers(self, address: str) -> None:
        now = datetime.now(UTC)
        authority = Authority.create(self.directory / "ca", "test", 10, now)
        write_keys(authority, "a.example", self.directory / "keys", now)
        links = f"[links]\nlisten = ['{address}']\n"
        self.config.write_text(self.config.read_text().replace("[links]\n", links))

    async def connect(self) -> trio.SocketStream:
        return await trio.open_tcp_stream("127.0.0.1", self.port)

    async def connect_tls(self) -> trio.SSLStream[trio.SocketStream]:
        """Trusts nothing but the certificate that is in the site's directory now."""
        context = ssl.create_default_context(cafile=str(self.directory / "keys" / "tls.crt"))
        stream = await trio.open_tcp_stream("127.0.0.1", self.tls_port)
        return trio.SSLStream(stream, context, server_hostname="a.example")


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path / "site")


async def says(stream: trio.abc.Stream, line: str) -> str:
    await stream.send_all(line.encode() + b"\n")
    return await hears(stream)


async def hears(stream: trio.abc.Stream) -> str:
    return bytes(await stream.receive_some(4096)).decode().strip()


async def stays(stream: trio.abc.Stream) -> None:
    """Log in, on a connection that says no goodbye to the site."""
    assert await says(stream, "login ann right") == "welcome"
    assert await says(stream, "stay") == "stay"


@pytest.mark.parametrize("start", [SMQPD_RUN, BECOMES])
async def test_a_site_starts_serves_and_stops_clean(site: Site, start: tuple[str, ...]) -> None:
    async with daemon(site.config, start=start, forked=False) as running:
        assert running_pid(site.directory / "state") == running.process.pid
        async with await site.connect() as stream:
            assert await says(stream, "login ann wrong") == "bad-login"
            assert await says(stream, "login ann right") == "welcome"
            running.signal(signal.SIGTERM)
            assert await hears(stream) == "ending: draining"
            assert "STATUS=draining; 1 connection," in await running.tells("STOPPING=1")
            assert await hears(stream) == ""
        assert await running.exit_code() == 0
        assert "Traceback" not in running.log
    assert running_pid(site.directory / "state") is None
    assert [file.name.partition("-")[0] for file in (site.directory / "state" / "hops").iterdir()] == ["hops"]


async def test_a_second_signal_does_not_wait_for_connections(site: Site) -> None:
    site.configure("drain_s = 3600")
    async with daemon(site.config) as running, await site.connect() as stream:
        await stays(stream)
        running.signal(signal.SIGTERM)
        assert (await hears(stream)).startswith("not ending: draining")
        running.signal(signal.SIGINT)
        assert await running.exit_code() == 0


async def test_the_drain_time_bounds_the_stop(site: Site) -> None:
    site.configure("drain_s = 0.1")
    async with daemon(site.config) as running, await site.connect() as stream:
        await stays(stream)
        running.signal(signal.SIGTERM)
        assert await running.exit_code() == 0


async def test_a_reload_ends_what_was_disabled_and_drops_no_connection(site: Site) -> None:
    async with daemon(site.config) as running, await site.connect() as ann, await site.connect() as other:
        assert await says(ann, "login ann right") == "welcome"
        assert await says(other, "hello") == "hello"
        with edit(site.directory / "accounts.toml") as editor:
            editor.set_disabled("ann", True)
        running.signal(signal.SIGHUP)
        assert "MONOTONIC_USEC=" in await running.tells("RELOADING=1")
        await running.tells("READY=1")
        assert await hears(ann) == "ending: disabled"
        assert await says(other, "still here") == "still here"
        assert await says(other, "login ann right") == "bad-login"


@pytest.mark.parametrize(
    ("name", "part", "login"),
    [
        ("smqpd.toml", "configuration", "bad-login"),
        ("accounts.toml", "accounts", "welcome"),
        ("keys/tls.key", "tls", "bad-login"),
        ("peers.toml", "peers", "bad-login"),
    ],
)
async def test_a_bad_file_keeps_its_part_as_it_was_and_the_rest_is_taken_on(
    site: Site, name: str, part: str, login: str
) -> None:
    async with daemon(site.config) as running, await site.connect() as stream:
        before = {file: (site.directory / file).read_text() for file in ("smqpd.toml", "keys/tls.key")}
        with edit(site.directory / "accounts.toml") as editor:
            editor.set_disabled("ann", True)
        (site.directory / name).write_text("[limit]\n")
        running.signal(signal.SIGHUP)
        await running.tells("RELOADING=1")
        told = await running.tells("READY=1")
        for said in (told, running.log):
            assert f"not taken on: {part}: " in said
            assert str(site.directory / name) in said
        assert await says(stream, "login ann right") == login

        for file, text in before.items():
            (site.directory / file).write_text(text)
        (site.directory / "peers.toml").unlink(missing_ok=True)
        if part != "accounts":
            running.signal(signal.SIGHUP)
            await running.tells("RELOADING=1")
            assert "not taken on" not in await running.tells("READY=1")


async def test_a_reload_takes_on_limits_and_names_what_waits_for_a_start(site: Site) -> None:
    async with daemon(site.config) as running, await site.connect() as first:
        assert await says(first, "hello") == "hello"
        site.configure("drain_s = 1")
        with site.config.open("a") as file:
            file.write("[limits]\nconnections_max = 1\n")
        text = site.config.read_text().replace("\n[limits]\n", "\n", 1)
        site.config.write_text(text)
        running.signal(signal.SIGHUP)
        await running.tells("RELOADING=1")
        await running.tells("READY=1")
        async with await site.connect() as second:
            assert await hears(second) == ""
        assert await says(first, "still here") == "still here"
        assert "[site] has changed; that takes effect with the next start" in running.log


async def test_a_reload_gives_new_connections_the_new_certificate(site: Site) -> None:
    keys = site.directory / "keys"
    async with daemon(site.config) as running, await site.connect_tls() as first:
        assert await says(first, "hello") == "hello"
        certificate, key = make_self_signed("a.example")
        (keys / "tls.crt").write_bytes(certificate)
        (keys / "tls.key").write_bytes(key)
        running.signal(signal.SIGHUP)
        await running.tells("RELOADING=1")
        await running.tells("READY=1")
        async with await site.connect_tls() as second:
            assert await says(second, "hello") == "hello"
        assert await says(first, "still here") == "still here"


async def test_who_needs_tls_is_never_served_without_it(site: Site) -> None:
    text = site.config.read_text()
    gone = (
        'certificate = "keys/tls.crt"',
        'key = "keys/tls.key"',
        f'listen_tls = ["127.0.0.1:{site.tls_port}"]',
    )
    async with daemon(site.config) as running:
        for line in gone:
            text = text.replace(line, "")
        site.config.write_text(text)
        running.signal(signal.SIGHUP)
        await running.tells("RELOADING=1")
        assert "not taken on: tls: [tls] names no certificate" in await running.tells("READY=1")
        async with await site.connect_tls() as stream:
            assert await says(stream, "hello") == "hello"


async def test_a_second_daemon_on_the_same_state_is_refused(site: Site) -> None:
    async with daemon(site.config) as running, daemon(site.config, ready=False) as second:
        assert await second.exit_code() == 1
        assert f"is in use by process {running.process.pid}" in second.log
        async with await site.connect() as stream:
            assert await says(stream, "hello") == "hello"


async def test_after_sigkill_it_starts_again(site: Site) -> None:
    async with daemon(site.config) as running:
        running.signal(signal.SIGKILL)
        assert await running.exit_code() == -signal.SIGKILL
    async with daemon(site.config) as running:
        running.signal(signal.SIGTERM)
        assert await running.exit_code() == 0


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda site: site.config.write_text("[site]\n"), "site.server_name: is required"),
        (lambda site: (site.directory / "accounts.toml").unlink(), "accounts.toml: cannot be read"),
        (lambda site: (site.directory / "keys" / "tls.key").chmod(0o644), "tls.key: is open to others"),
        (
            lambda site: (site.directory / "state" / "smqpd.db").write_text("x" * 4096),
            "file is not a database",
        ),
        (
            lambda site: (site.directory / "state").rename(site.directory / "elsewhere"),
            "state/smqpd.db: is gone, but this site had a store",
        ),
        (
            lambda site: site.config.write_text(
                site.config.read_text().replace('"a.example"', '"b.example"')
            ),
            "is the store of a.example, but server_name in [site] is b.example",
        ),
        (lambda site: (site.directory / "state" / "hops").write_text(""), "hops: is not a directory"),
        (lambda site: site.config.write_text(site.config.read_text().replace(f"{site.port}", "1x")), "1x"),
        (lambda site: site.config.write_text(NO_FRONT_END), "no front end is enabled"),
        (
            lambda site: site.listen_for_peers("192.0.2.1:721"),
            "cannot listen for peers on 192.0.2.1:721: Cannot assign",
        ),
    ],
)
async def test_what_keeps_it_from_starting_is_told_in_one_line(site: Site, spoil: object, says: str) -> None:
    assert callable(spoil)
    spoil(site)
    async with daemon(site.config, ready=False) as running:
        assert await running.exit_code() == 1
        [told] = [line for line in running.log.splitlines() if " warning " not in line]
        assert told.startswith("smqpd: ")
        assert says in told


def without_accounts(site: Site) -> None:
    (site.directory / "accounts.toml").unlink()


def with_a_lost_state(site: Site) -> None:
    (site.directory / "smqpd.id").write_text(f'identity = "{"0" * 32}"\n')


def without_tls(site: Site) -> None:
    (site.directory / "keys" / "tls.key").unlink()


@pytest.mark.parametrize("spoil", [without_accounts, without_tls, with_a_lost_state])
async def test_a_start_that_is_refused_makes_no_state(site: Site, spoil: Callable[[Site], None]) -> None:
    shutil.rmtree(site.directory / "state")
    (site.directory / "smqpd.id").unlink()
    spoil(site)
    async with daemon(site.config, ready=False) as running:
        assert await running.exit_code() == 1
    assert not (site.directory / "state").exists()


async def test_a_start_that_finds_its_port_taken_makes_no_state(site: Site) -> None:
    shutil.rmtree(site.directory / "state")
    (site.directory / "smqpd.id").unlink()
    with socket.create_server(("127.0.0.1", site.port)):
        async with daemon(site.config, ready=False) as running:
            assert await running.exit_code() == 1
            said = f"cannot listen on 127.0.0.1:{site.port}, as [plugins.echo] listen says: Address already"
            assert said in running.log
    assert not (site.directory / "state").exists()
    async with daemon(site.config), await site.connect() as stream:
        assert await says(stream, "hello") == "hello"


async def test_a_start_that_finds_its_port_taken_has_dialled_nobody(site: Site) -> None:
    with socket.create_server(("127.0.0.1", site.port)), socket.create_server(("127.0.0.1", 0)) as peer:
        site.listen_for_peers("127.0.0.1:0")
        add_peer(
            site.directory / "peers.toml", PeerEntry(name="b.example", address=shown(peer.getsockname()))
        )
        async with daemon(site.config, ready=False) as running:
            assert await running.exit_code() == 1
            assert "Address already in use" in running.log
        peer.setblocking(False)
        with pytest.raises(BlockingIOError):
            peer.accept()


async def test_the_watchdog_hears_from_the_loop(site: Site) -> None:
    async with daemon(site.config, WATCHDOG_USEC="200000") as running:
        for _ in range(3):
            await running.tells("WATCHDOG=1")
            running.told.clear()

"""Accepting connections: limits, errors, TLS and draining, over real sockets on loopback."""

import logging
import os
import resource
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from daemon.certificates.self_signed import make_self_signed
from daemon.certificates.tls import client_context
from daemon.connections.listen import ListenError, Listeners, split_address
from daemon.settings import Limits, TlsSettings
from daemon.system.mishaps import Mishaps
from tests.support.patience import PATIENCE_S
from tests.support.virtual_time import virtual_clock

DRAIN_S = 10.0


class Rig:
    """Listeners that a test can turn the limits of."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self.limits = Limits()
        self.context: ssl.SSLContext | None = None
        self.draining = trio.Event()
        self.passed: dict[str, list[socket.socket]] = {}
        self.ended = trio.Event()
        self.mishaps = Mishaps()
        self.listeners = Listeners(
            limits=lambda: self.limits,
            tls_context=lambda: self.context,
            draining=self.draining,
            drain_s=DRAIN_S,
            passed=self.passed,
            mishap=self.mishaps.note,
        )
        self._nursery = nursery

    async def serve(self, handler: Any, *listen: str, tls: bool = False) -> list[str]:
        async def serve(task_status: trio.TaskStatus[list[str]]) -> None:
            await self.listeners.serve(
                listen, handler, socket_name="echo", tls=tls, refusal=b"full", task_status=task_status
            )
            self.ended.set()

        addresses: list[str] = await self._nursery.start(serve)
        return addresses


@pytest.fixture
def clock() -> MockClock:
    """Jumps only when the sockets have been quiet for a moment."""
    return virtual_clock(autojump_threshold=0.05)


@pytest.fixture
def rig(nursery: trio.Nursery) -> Rig:
    return Rig(nursery)


async def echo(stream: trio.abc.Stream, remote: str, login_by: float) -> None:
    async for data in stream:
        await stream.send_all(data)


async def connect(address: str) -> trio.SocketStream:
    host, port = split_address(address)
    assert host is not None
    return await trio.open_tcp_stream(host, port)


async def answers(stream: trio.abc.Stream) -> bool:
    """Whether the other end echoes; False where it has closed."""
    try:
        await stream.send_all(b"hello")
        return await stream.receive_some() == b"hello"
    except trio.BrokenResourceError:
        return False


async def test_each_connection_is_handled_with_its_remote_address(rig: Rig) -> None:
    remotes = []

    async def handler(stream: trio.abc.Stream, remote: str, login_by: float) -> None:
        remotes.append(remote)
        await echo(stream, remote, login_by)

    (address,) = await rig.serve(handler, "127.0.0.1:0")
    async with await connect(address) as stream:
        assert await answers(stream)
        assert remotes == [f"127.0.0.1:{stream.socket.getsockname()[1]}"]
        assert rig.listeners.connections == 1


async def test_connections_above_the_limits_are_closed(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    (address,) = await rig.serve(echo, "127.0.0.1:0")
    rig.limits = Limits(connections_per_address_max=1)
    async with await connect(address) as first:
        assert await answers(first)
        async with await connect(address) as second:
            assert bytes(await second.receive_some()) == b"full"
            assert await second.receive_some() == b""
        rig.limits = Limits(connections_max=1)
        async with await connect(address) as third:
            assert not await answers(third)
        rig.limits = Limits()
        async with await connect(address) as fourth:
            assert await answers(fourth)
        assert await answers(first)
    assert "refused by connections_per_address_max = 1" in caplog.text


@pytest.mark.parametrize("tls", [False, True])
async def test_a_handler_that_fails_ends_its_connection_only(
    rig: Rig, caplog: pytest.LogCaptureFixture, tls: bool
) -> None:
    async def fails_in_a_task(stream: trio.abc.Stream) -> None:
        await stream.receive_some()
        raise KeyError("our mistake")

    async def handler(stream: trio.abc.Stream, remote: str, login_by: float) -> None:
        async with trio.open_nursery() as tasks:
            tasks.start_soon(fails_in_a_task, stream)
            tasks.start_soon(trio.sleep_forever)

    (address,) = await rig.serve(handler, "127.0.0.1:0")
    for _ in range(2):
        async with await connect(address) as stream:
            assert not await answers(stream)
    assert rig.mishaps.count == 2
    assert "KeyError: 'our mistake'" in caplog.text
    assert "connection of 127.0.0.1" in caplog.text


async def test_a_lost_connection_is_no_error(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    handled = trio.Event()

    async def handler(stream: trio.abc.Stream, remote: str, login_by: float) -> None:
        try:
            await stream.receive_some()
        finally:
            handled.set()

    (address,) = await rig.serve(handler, "127.0.0.1:0")
    stream = await connect(address)
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    stream.socket.close()
    await handled.wait()
    await trio.testing.wait_all_tasks_blocked()
    assert [record for record in caplog.records if record.levelno >= logging.INFO] == []


@contextmanager
def all_below_taken(descriptor: int) -> Iterator[None]:
    """No descriptor below this one is free."""
    with ExitStack() as taken:
        while (copy := os.dup(descriptor)) < descriptor:
            taken.callback(os.close, copy)
        os.close(copy)
        yield


async def test_running_out_of_descriptors_is_survived_and_told_sparingly(
    rig: Rig, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    [sparing] = logging.getLogger("trio.serve_listeners").filters
    monkeypatch.setattr(sparing, "_last_at", 0.0)  # another test may have had it told just before
    (address,) = await rig.serve(echo, "127.0.0.1:0")
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    async with trio.open_nursery() as nursery:
        host, port = split_address(address)
        with trio.socket.socket() as client, all_below_taken(client.fileno()):
            resource.setrlimit(resource.RLIMIT_NOFILE, (client.fileno() + 1, limits[1]))
            try:
                nursery.start_soon(client.connect, (host, port))
                with trio.fail_after(PATIENCE_S):
                    while "EMFILE" not in caplog.text:
                        await trio.testing.wait_all_tasks_blocked()
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, limits)
            assert await answers(trio.SocketStream(client))
    assert "Traceback" not in caplog.text
    assert caplog.text.count("EMFILE") == 1


async def test_draining_stops_listening_first_and_connections_after_their_time(
    rig: Rig, clock: MockClock
) -> None:
    (address,) = await rig.serve(echo, "127.0.0.1:0")
    async with await connect(address) as stream:
        assert await answers(stream)
        began = trio.current_time()
        rig.draining.set()
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(OSError, match="connect"):
            await connect(address)
        assert await answers(stream)
        await rig.ended.wait()
        assert trio.current_time() - began == pytest.approx(DRAIN_S, abs=1)
        assert not await answers(stream)


async def test_draining_ends_early_when_the_connections_do(rig: Rig, clock: MockClock) -> None:
    (address,) = await rig.serve(echo, "127.0.0.1:0")
    async with await connect(address) as stream:
        assert await answers(stream)
        rig.draining.set()
    await rig.ended.wait()
    assert trio.current_time() < 1


async def test_a_passed_socket_takes_the_place_of_addresses(rig: Rig) -> None:
    rig.passed["echo"] = [socket.create_server(("127.0.0.1", 0))]
    (address,) = await rig.serve(echo, "192.0.2.1:1")
    async with await connect(address) as stream:
        assert await answers(stream)
    assert rig.passed == {}


async def test_a_passed_unix_socket_serves_too(rig: Rig, tmp_path: Path) -> None:
    path = str(tmp_path / "s")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen()
    rig.passed["echo"] = [listener]
    assert await rig.serve(echo) == ["unix"]
    async with await trio.open_unix_socket(path) as stream:
        assert await answers(stream)


async def test_nothing_to_listen_on_starts_and_waits_for_the_end(rig: Rig) -> None:
    assert await rig.serve(echo) == []
    rig.draining.set()
    await rig.ended.wait()


async def refused(listeners: Listeners, *listen: str, tls: bool = False) -> str:
    with pytest.raises(ListenError) as caught:
        await listeners.serve(listen, echo, socket_name="echo", tls=tls)
    return str(caught.value)


async def test_what_cannot_be_listened_on_is_told(rig: Rig) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        text = await refused(rig.listeners, "127.0.0.1:0", address)
        assert text.startswith(f"cannot listen for echo on {address}: ")
        assert "in use" in text
    assert "expected host:port" in await refused(rig.listeners, "localhost")
    assert "TLS needs [tls]" in await refused(rig.listeners, "127.0.0.1:0", tls=True)


@pytest.mark.parametrize(
    ("address", "split"),
    [
        ("127.0.0.1:720", ("127.0.0.1", 720)),
        ("a.example:0", ("a.example", 0)),
        ("[::1]:720", ("::1", 720)),
        ("*:720", (None, 720)),
    ],
)
def test_addresses(address: str, split: tuple[str | None, int]) -> None:
    assert split_address(address) == split


@pytest.mark.parametrize(
    "address", ["", ":720", "a", "a:", "a:x", "a:65536", "::1:720", "[x]:720", "a:-1", "a:²"]
)
def test_what_is_no_address(address: str) -> None:
    with pytest.raises(ValueError, match=r"expected|IPv6|address"):
        split_address(address)


# -- TLS ------------------------------------------------------------------------------------------


@pytest.fixture
def make_tls(tmp_path: Path) -> Callable[[str], TlsSettings]:
    def make(host: str) -> TlsSettings:
        certificate, key = make_self_signed(host)
        settings = TlsSettings(certificate=tmp_path / f"{host}.crt", key=tmp_path / f"{host}.key")
        assert settings.certificate is not None
        assert settings.key is not None
        settings.certificate.write_bytes(certificate)
        settings.key.write_bytes(key)
        settings.key.chmod(0o600)
        return settings

    return make


async def over_tls(address: str, trusted: TlsSettings, host: str) -> bool:
    context = ssl.create_default_context(cafile=str(trusted.certificate))
    stream = trio.SSLStream(await connect(address), context, server_hostname=host)
    async with stream:
        return await answers(stream)


async def test_tls_serves_the_certificate_that_is_current(rig: Rig, make_tls: Any) -> None:
    old, new = make_tls("old.example"), make_tls("new.example")
    rig.context = client_context(old)
    (address,) = await rig.serve(echo, "127.0.0.1:0", tls=True)
    assert await over_tls(address, old, "old.example")
    rig.context = client_context(new)
    assert await over_tls(address, new, "new.example")


async def test_tls_ends_with_its_goodbye(rig: Rig, make_tls: Any) -> None:
    async def leave(stream: trio.abc.Stream, remote: str, login_by: float) -> None:
        await stream.send_all(b"bye")

    tls = make_tls("a.example")
    rig.context = client_context(tls)
    (address,) = await rig.serve(leave, "127.0.0.1:0", tls=True)
    context = ssl.create_default_context(cafile=str(tls.certificate))
    context.options &= ~ssl.OP_IGNORE_UNEXPECTED_EOF
    async with trio.SSLStream(await connect(address), context, server_hostname="a.example") as stream:
        assert await stream.receive_some() == b"bye"
        assert await stream.receive_some() == b""  # without the goodbye it is broken


@pytest.mark.parametrize("over_tls", [False, True])
async def test_the_handshake_takes_its_part_of_the_time_to_log_in(
    rig: Rig, make_tls: Any, clock: MockClock, over_tls: bool
) -> None:
    given: list[float] = []

    async def note(stream: trio.abc.Stream, remote: str, login_by: float) -> None:
        given.append(login_by)
        await echo(stream, remote, login_by)

    tls = make_tls("a.example")
    rig.context = client_context(tls)
    (address,) = await rig.serve(note, "127.0.0.1:0", tls=over_tls)
    async with await connect(address) as tcp:
        connected_at = trio.current_time()
        await trio.sleep(rig.limits.login_timeout_s - 2)
        context = ssl.create_default_context(cafile=str(tls.certificate))
        stream = trio.SSLStream(tcp, context, server_hostname="a.example") if over_tls else tcp
        assert await answers(stream)
    assert given == [pytest.approx(connected_at + rig.limits.login_timeout_s, abs=1)]


async def test_a_handshake_that_fails_or_takes_too_long_ends_its_connection_only(
    rig: Rig, make_tls: Any, clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    tls = make_tls("a.example")
    rig.context = client_context(tls)
    (address,) = await rig.serve(echo, "127.0.0.1:0", tls=True)
    async with await connect(address) as plain:
        assert not await answers(plain)
    async with await connect(address) as silent:
        assert await silent.receive_some() == b""
        assert trio.current_time() == pytest.approx(rig.limits.login_timeout_s, abs=1)
    assert await over_tls(address, tls, "a.example")
    assert "TLS handshake failed" in caplog.text
    assert "TLS handshake took too long" in caplog.text

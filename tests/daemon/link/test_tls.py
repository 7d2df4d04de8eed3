"""Sites that link over real TLS on loopback: who is let in, who is not, and that both sides log why."""

import contextlib
import datetime
import logging
import socket
import ssl
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from daemon.certificates.authority import Authority
from daemon.certificates.errors import CertificateError
from daemon.certificates.files import write_private
from daemon.link import tls
from daemon.link.keys import LinkKeys
from daemon.link.peers_file import PeerEntry
from daemon.link.tls import TlsTransport
from daemon.settings import LinkSettings
from daemon.system.mishaps import Mishaps
from tests.support.keys import write_keys, write_trust
from tests.support.links import MemoryNetwork, TestSite, site
from tests.support.patience import PATIENCE_S

NOW = datetime.datetime.now(datetime.UTC)
DAY = datetime.timedelta(days=1)
SOON = LinkSettings(back_off_first_s=0.02, back_off_max_s=0.05)


class Federation:
    """An authority in a directory, and sites with keys from it."""

    def __init__(self, directory: Path, name: str = "ca") -> None:
        self.directory = directory
        self.authority = Authority.create(directory / name, "test", 3650, NOW - 2000 * DAY)

    def issue(self, server: str, since: datetime.datetime = NOW, days: int = 100, into: str = "") -> Path:
        """Keys of a site; returns their directory."""
        keys = self.directory / (into or server)
        write_keys(self.authority, server, keys, since, days)
        return keys

    def trust(self, keys: Path) -> None:
        """Give a site the authority's certificate and its present list."""
        write_trust(self.authority, keys)


@pytest.fixture
def federation(tmp_path: Path) -> Federation:
    return Federation(tmp_path)


def wall_us() -> int:
    return time.time_ns() // 1_000


class TlsSite:
    """A site and its transport."""

    def __init__(self, base: TestSite, transport: TlsTransport, keys: Path) -> None:
        self.base = base
        self.transport = transport
        self.keys = keys

    @property
    def log(self) -> list[str]:
        return self.base.log

    @property
    def address(self) -> str:
        return self.transport.addresses[0]

    def reload(self) -> None:
        self.transport.take(LinkKeys.load(self.keys, self.base.name))
        self.base.links.trust_changed()


@asynccontextmanager
async def tls_site(
    name: str, keys: Path, *peers: PeerEntry, clock: Callable[[], int] = wall_us
) -> AsyncIterator[TlsSite]:
    transport = TlsTransport(LinkKeys.load(keys, name), ("127.0.0.1:0",), clock, Mishaps().note)
    async with site(MemoryNetwork(), name, peers, transport=transport, settings=SOON) as base:
        yield TlsSite(base, transport, keys)


async def logged(caplog: pytest.LogCaptureFixture, *texts: str) -> None:
    """Wait until every text is in the log."""
    with trio.fail_after(PATIENCE_S):
        while not all(text in caplog.text for text in texts):
            await trio.sleep(0.01)


async def test_two_sites_of_one_federation_link_and_exchange_messages(federation: Federation) -> None:
    async with tls_site("alpha:720", federation.issue("alpha:720"), PeerEntry(name="beta")) as alpha:
        peer = PeerEntry(name="alpha:720", address=alpha.address)
        async with tls_site("beta", federation.issue("beta"), peer) as beta:
            for number in range(200):
                beta.base.send("alpha:720", "weather", body=b"x" * number * 100)
            await beta.base.broker.until(lambda: len(beta.base.broker.settled) == 200)
            assert [len(one.message.sections[0].body) for one in alpha.base.broker.copies] == [
                number * 100 for number in range(200)
            ]
            await alpha.base.links.drain()
            await beta.base.broker.until(lambda: "down alpha:720: draining" in beta.log)


async def test_a_socket_that_the_service_manager_opened_takes_the_place_of_addresses(
    federation: Federation,
) -> None:
    opened = socket.create_server(("127.0.0.1", 0))
    keys = federation.issue("alpha")
    transport = TlsTransport(
        LinkKeys.load(keys, "alpha"), ("192.0.2.1:1",), wall_us, Mishaps().note, [opened]
    )
    peer = PeerEntry(name="alpha", address=f"127.0.0.1:{opened.getsockname()[1]}")
    async with (
        site(MemoryNetwork(), "alpha", [PeerEntry(name="beta")], transport=transport, settings=SOON) as alpha,
        tls_site("beta", federation.issue("beta"), peer) as beta,
    ):
        await beta.base.linked(alpha)
        assert transport.addresses == [peer.address]


async def refused(federation: Federation, keys: Path, caplog: pytest.LogCaptureFixture, *texts: str) -> None:
    """With these keys beta gets no link to alpha, and the log has every text."""
    async with (
        tls_site("alpha", federation.issue("alpha"), PeerEntry(name="beta")) as alpha,
        tls_site("beta", keys, PeerEntry(name="alpha", address=alpha.address)),
    ):
        await logged(caplog, *texts)
    assert alpha.log == []


async def test_an_unknown_authority_is_refused(
    federation: Federation, caplog: pytest.LogCaptureFixture
) -> None:
    stranger = Federation(federation.directory, "other-ca")
    keys = stranger.issue("beta")
    federation.trust(keys)  # it knows alpha's authority, but its own certificate is from another
    await refused(
        federation,
        keys,
        caplog,
        "its certificate is from an unknown authority",
        "alpha the certificate of this site is from an unknown authority, it says",
    )


async def test_an_expired_certificate_is_refused(
    federation: Federation, caplog: pytest.LogCaptureFixture
) -> None:
    await refused(
        federation,
        federation.issue("beta", since=NOW - 20 * DAY, days=10),
        caplog,
        "its certificate has expired",
        "alpha the certificate of this site has expired, it says",
    )


async def test_a_revoked_certificate_is_refused(
    federation: Federation, caplog: pytest.LogCaptureFixture
) -> None:
    keys = federation.issue("beta")
    federation.authority.revoke("beta", NOW)
    await refused(
        federation,
        keys,
        caplog,
        "its certificate is revoked",
        "alpha the certificate of this site is revoked, it says",
    )


async def test_a_dialled_site_that_is_revoked_is_refused_and_told(
    federation: Federation, caplog: pytest.LogCaptureFixture
) -> None:
    keys = federation.issue("alpha")
    federation.authority.revoke("alpha", NOW)
    async with (
        tls_site("alpha", keys, PeerEntry(name="beta")) as alpha,
        tls_site("beta", federation.issue("beta"), PeerEntry(name="alpha", address=alpha.address)),
    ):
        await logged(
            caplog,
            f"alpha cannot be dialled at {alpha.address}: its certificate is revoked",
            "the certificate of this site is revoked, it says",
        )


async def test_a_site_that_is_no_peer_is_refused_and_told(
    federation: Federation, caplog: pytest.LogCaptureFixture
) -> None:
    async with (
        tls_site("alpha", federation.issue("alpha")) as alpha,
        tls_site("beta", federation.issue("beta"), PeerEntry(name="alpha", address=alpha.address)),
    ):
        await logged(
            caplog,
            "beta is not a peer of alpha",
            "alpha closed the connection and says: refused: beta is not a peer of alpha",
        )


async def test_a_site_with_the_wrong_name_is_refused_and_told(
    federation: Federation, caplog: pytest.LogCaptureFixture
) -> None:
    async with tls_site("gamma", federation.issue("gamma"), PeerEntry(name="alpha")) as gamma:
        peer = PeerEntry(name="beta", address=gamma.address)
        async with tls_site("alpha", federation.issue("alpha"), peer):
            await logged(
                caplog,
                "beta was dialled, but the certificate there is for gamma",
                "alpha closed the connection and says: refused: beta was dialled, but its certificate is for "
                "gamma",
            )


async def test_a_reload_of_the_list_ends_the_link_of_who_was_revoked_and_no_other(
    federation: Federation, caplog: pytest.LogCaptureFixture
) -> None:
    peers = (PeerEntry(name="beta"), PeerEntry(name="gamma"))
    async with tls_site("alpha", federation.issue("alpha"), *peers) as alpha:
        peer = PeerEntry(name="alpha", address=alpha.address)
        async with (
            tls_site("beta", federation.issue("beta"), peer) as beta,
            tls_site("gamma", federation.issue("gamma"), peer) as gamma,
        ):
            await alpha.base.linked(beta.base, gamma.base)
            await beta.base.linked(alpha.base)
            await gamma.base.linked(alpha.base)
            federation.authority.revoke("beta", NOW)
            federation.trust(alpha.keys)
            alpha.reload()
            await beta.base.broker.until(
                lambda: "down alpha: it says: refused: the certificate of beta is revoked" in beta.log
            )
            await logged(caplog, "alpha the certificate of this site is revoked, it says")
            assert gamma.log == ["up alpha restarted"]
            federation.issue("beta")
            beta.reload()
            await beta.base.linked(alpha.base)


async def test_a_certificate_that_expires_while_the_link_is_up_ends_it_and_a_renewed_one_links_again(
    federation: Federation,
) -> None:
    ahead_us = 0

    def clock() -> int:
        return wall_us() + ahead_us

    async with tls_site("alpha", federation.issue("alpha"), PeerEntry(name="beta"), clock=clock) as alpha:
        keys = federation.issue("beta", days=10)
        async with tls_site("beta", keys, PeerEntry(name="alpha", address=alpha.address)) as beta:
            await beta.base.linked(alpha.base)
            ahead_us = 11 * 86_400 * 1_000_000
            alpha.base.links.trust_changed()
            await beta.base.broker.until(
                lambda: any("the certificate of beta expired on" in line for line in beta.log)
            )
            federation.issue("beta", days=50)
            beta.reload()
            await beta.base.linked(alpha.base)


async def test_why_an_address_cannot_be_dialled_is_said(
    federation: Federation, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
    async with tls_site("alpha", federation.issue("alpha"), PeerEntry(name="beta", address=address)):
        await logged(caplog, f"beta cannot be dialled at {address}: Connection refused")


def test_a_key_that_others_can_read_is_refused(federation: Federation) -> None:
    keys = federation.issue("alpha")
    (keys / "site.key").chmod(0o644)
    with pytest.raises(CertificateError, match="is open to others"):
        LinkKeys.load(keys, "alpha")


def test_a_certificate_for_another_site_is_refused(federation: Federation) -> None:
    with pytest.raises(CertificateError, match="is for beta, but this site is alpha"):
        LinkKeys.load(federation.issue("beta"), "alpha")


def test_a_key_that_does_not_belong_to_the_certificate_is_refused(federation: Federation) -> None:
    keys, other = federation.issue("alpha"), federation.issue("beta")
    write_private(keys / "site.key", (other / "site.key").read_bytes())
    with pytest.raises(CertificateError, match="do not work together"):
        LinkKeys.load(keys, "alpha")


def test_keys_without_a_list_of_what_is_revoked_are_refused(federation: Federation) -> None:
    keys = federation.issue("alpha")
    (keys / "crl.pem").write_bytes(b"")
    with pytest.raises(CertificateError, match="not a revocation list"):
        LinkKeys.load(keys, "alpha")
    (keys / "crl.pem").unlink()
    with pytest.raises(CertificateError, match=r"crl\.pem: No such file"):
        LinkKeys.load(keys, "alpha")


def test_keys_that_peers_refuse_are_said_to_be_so(federation: Federation, tmp_path: Path) -> None:
    keys = federation.issue("alpha")
    assert LinkKeys.load(keys, "alpha").flaw(NOW) is None
    federation.authority.revoke("alpha", NOW)
    federation.trust(keys)
    assert "is revoked" in (LinkKeys.load(keys, "alpha").flaw(NOW) or "")
    other = Federation(tmp_path, "other")
    other.trust(keys)
    assert "unknown authority" in (LinkKeys.load(keys, "alpha").flaw(NOW) or "")


def plain_context() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def old_context() -> ssl.SSLContext:
    context = plain_context()
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    return context


@pytest.mark.parametrize(
    ("context", "reason"),
    [(plain_context, "it shows no certificate"), (old_context, "it does not speak TLS 1.3")],
)
async def test_a_stranger_without_a_certificate_or_with_old_tls_is_refused(
    federation: Federation,
    caplog: pytest.LogCaptureFixture,
    context: Callable[[], ssl.SSLContext],
    reason: str,
) -> None:
    caplog.set_level(logging.WARNING)
    async with tls_site("alpha", federation.issue("alpha")) as alpha:
        host, _, port = alpha.address.rpartition(":")
        tcp = await trio.open_tcp_stream(host, int(port))
        stream = trio.SSLStream(tcp, context(), https_compatible=True)
        with contextlib.suppress(trio.BrokenResourceError):
            await stream.send_all(b"PRI * HTTP/2.0\r\n\r\n")
            while await stream.receive_some():
                pass
        await logged(caplog, reason)
        await trio.aclose_forcefully(tcp)


async def test_strangers_who_were_refused_and_stay_take_places_from_nobody_but_their_own_address(
    federation: Federation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tls, "LINGER_S", 10 * PATIENCE_S)
    monkeypatch.setattr(tls, "HANDSHAKES_MAX", 4)
    async with tls_site("alpha", federation.issue("alpha"), PeerEntry(name="beta")) as alpha:
        host, _, port = alpha.address.rpartition(":")
        strangers = []
        with trio.fail_after(PATIENCE_S):
            for number in range(20):
                stranger = await trio.open_tcp_stream(host, int(port), local_address="127.0.0.2")
                await stranger.send_all(b"\x16\x03\x01\x00\x04\x02\x00\x00\x00")  # no ClientHello
                if number < 4:
                    assert await stranger.receive_some()  # an alert: it was refused
                else:
                    with contextlib.suppress(trio.BrokenResourceError):
                        assert not await stranger.receive_some()
                strangers.append(stranger)
        async with tls_site(
            "beta", federation.issue("beta"), PeerEntry(name="alpha", address=alpha.address)
        ) as beta:
            await beta.base.linked(alpha.base)
        for stranger in strangers:
            await trio.aclose_forcefully(stranger)


async def test_a_stranger_who_says_nothing_in_the_handshake_holds_up_nobody(federation: Federation) -> None:
    async with tls_site("alpha", federation.issue("alpha"), PeerEntry(name="beta")) as alpha:
        host, _, port = alpha.address.rpartition(":")
        silent = [await trio.open_tcp_stream(host, int(port)) for _ in range(20)]
        async with tls_site(
            "beta", federation.issue("beta"), PeerEntry(name="alpha", address=alpha.address)
        ) as beta:
            await beta.base.linked(alpha.base)
        for stream in silent:
            await trio.aclose_forcefully(stream)

"""Who greets wrongly, or not at all, gets no link, and both sides know why."""

import pytest
import trio
from trio.testing import MockClock

from routing.link.codec import encode
from routing.link.units import Hello, Lane, Probe, Welcome
from tests.support.links import TestSite, puppet
from tests.support.played_peer import ended


@pytest.mark.parametrize(
    ("hello", "reason"),
    [
        (Hello(server="other", boot=1), "who says that it is other has the certificate of zeta"),
        (Hello(server="alpha", boot=1), "who says that it is alpha has the certificate of zeta"),
        (Hello(server="zeta", boot=1, version=(2, 0)), "zeta speaks smqp-link/2.0, alpha smqp-link/1.0"),
    ],
)
async def test_a_wrong_greeting_is_refused_and_both_sides_know_why(
    autojump_clock: MockClock, alpha: TestSite, caplog: pytest.LogCaptureFixture, hello: Hello, reason: str
) -> None:
    async with puppet(alpha.network, "zeta", "alpha") as player:  # type: ignore[attr-defined] # of the fixture
        await player.say(Lane.CONTROL, encode(hello))
        await ended(player, f"refused: {reason}")
    assert f"refused zeta (zeta:9): {reason}" in caplog.text


async def test_an_old_peer_that_says_little_is_understood(autojump_clock: MockClock, alpha: TestSite) -> None:
    async with puppet(alpha.network, "zeta", "alpha") as player:  # type: ignore[attr-defined] # of the fixture
        await player.say(Lane.CONTROL, b"HELLO smqp-link/1.0\r\nServer: zeta\r\nBoot: 3\r\n\r\n")
        await player.hear(Welcome)
        assert alpha.broker.agreements[-1].features == ()


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (b"", "no HELLO within 15 s"),
        (b"HELLO smqp-link/1.0\r\nServer: zeta\r\n\r\n", "HELLO: Boot is missing"),
        (encode(Probe(1, 2)), "PROBE is out of place"),
        (encode(Welcome()), "WELCOME is out of place"),
        (b"GET / HTTP/1.1\r\nHost: alpha\r\n\r\n", "no HELLO within 15 s"),
    ],
)
async def test_who_does_not_greet_is_no_link(
    autojump_clock: MockClock, alpha: TestSite, said: bytes, reason: str
) -> None:
    async with puppet(alpha.network, "zeta", "alpha") as player:  # type: ignore[attr-defined] # of the fixture
        await player.say(Lane.CONTROL, said)
        await player.flush()
        await ended(player, reason)


async def test_many_connections_that_never_greet_are_bounded(
    autojump_clock: MockClock, alpha: TestSite
) -> None:
    async with trio.open_nursery() as nursery:
        reasons: list[str | None] = []

        async def connect() -> None:
            async with puppet(alpha.network, "zeta", "alpha") as player:  # type: ignore[attr-defined] # set above
                await player.flush()
                await player.until(lambda: player.closed is not None)
                reasons.append(player.closed)

        for _ in range(20):
            nursery.start_soon(connect)
    assert sum("connections that are no link yet" in str(reason) for reason in reasons) == 12


async def test_who_speaks_no_http2_is_closed(
    autojump_clock: MockClock, alpha: TestSite, caplog: pytest.LogCaptureFixture
) -> None:
    stream, _ = await alpha.network.connect("zeta", "alpha", "zeta")  # type: ignore[attr-defined] # of the fixture
    await stream.send_all(b"GET / HTTP/1.1\r\nHost: alpha\r\n\r\n" * 10)
    while await stream.receive_some():
        pass
    assert "it does not speak HTTP/2" in caplog.text

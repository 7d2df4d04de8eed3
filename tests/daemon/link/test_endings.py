"""What the end of a connection is does not hang on a peer's words."""

import logging
from collections.abc import AsyncIterator

import pytest
import trio
from hyperframe.frame import SettingsFrame
from trio.testing import MockClock

from daemon.link.connection import LEAVING_S
from daemon.link.lanes import ClosingKind
from daemon.link.peers_file import PeerEntry
from daemon.settings import LinkSettings
from routing.link.codec import encode
from routing.link.units import Acknowledge, Goodbye, Hello, Lane, Transfer
from tests.support.links import MemoryNetwork, TestSite, copy, dialled, puppet, site

GONE = "it has said goodbye, and not come back"


@pytest.fixture
async def mike(network: MemoryNetwork) -> AsyncIterator[TestSite]:
    """A site whose peers the tests play: `alpha` decides which connection is the link, `zeta` does not."""
    peers = [PeerEntry(name="alpha"), PeerEntry(name="zeta")]
    async with site(network, "mike", peers) as mike:
        yield mike


def why_down(one: TestSite, peer: str) -> str:
    return next(status.why_down for status in one.links.status() if status.peer == peer)


def levels(caplog: pytest.LogCaptureFixture, text: str) -> list[int]:
    return [record.levelno for record in caplog.records if text in record.getMessage()]


@pytest.mark.parametrize(
    ("says_goodbye", "words", "kind", "why", "level"),
    [
        (True, "Feierabend", "", GONE, logging.INFO),
        (True, "the framing is lost", "error", "it says: the framing is lost", logging.WARNING),
        (False, "draining", "", "it says: draining", logging.WARNING),
        (False, "already linked", "", "it says: already linked", logging.WARNING),
    ],
)
async def test_a_peer_has_left_where_it_has_said_goodbye_whatever_its_last_words_are(
    autojump_clock: MockClock,
    network: MemoryNetwork,
    mike: TestSite,
    caplog: pytest.LogCaptureFixture,
    says_goodbye: bool,
    words: str,
    kind: ClosingKind,
    why: str,
    level: int,
) -> None:
    caplog.set_level(logging.INFO)
    async with puppet(network, "zeta", "mike") as zeta:
        await zeta.greet()
        if says_goodbye:
            await zeta.say(Lane.CONTROL, encode(Goodbye("back-in-a-minute")))
        await zeta.close(words, kind)
        await mike.broker.until(lambda: mike.log[-1].startswith("down zeta"))
    assert why_down(mike, "zeta") == why
    assert levels(caplog, "link with zeta is down") == [level]


@pytest.mark.parametrize(
    ("words", "kind", "why"),
    [
        ("es gibt schon eine", "linked", ""),
        ("already linked", "", "closed the connection and says: already linked"),
        ("draining", "", "closed the connection and says: draining"),
    ],
)
async def test_a_connection_beside_a_link_has_not_failed_in_whatever_words_the_peer_says_so(
    autojump_clock: MockClock, network: MemoryNetwork, mike: TestSite, words: str, kind: ClosingKind, why: str
) -> None:
    async with puppet(network, "alpha", "mike") as alpha:
        await alpha.say(Lane.CONTROL, encode(Hello(server="alpha", boot=1, site="puppet")))
        await alpha.hear(Hello)
        await alpha.close(words, kind)
        await trio.sleep(1)
    assert why_down(mike, "alpha") == why


async def test_a_site_says_of_a_connection_beside_a_link_that_it_is_one(
    autojump_clock: MockClock, network: MemoryNetwork
) -> None:
    async with (
        site(network, "alpha", [PeerEntry(name="beta")]) as alpha,
        site(network, "beta", [dialled("alpha")], installation="puppet") as beta,
    ):
        await alpha.linked(beta)
        async with puppet(network, "beta", "alpha") as second:
            await second.say(Lane.CONTROL, encode(Hello(server="beta", boot=1, site="puppet")))
            await second.until(lambda: second.closed is not None)
            assert (second.closed, second.closed_kind) == ("already linked", "linked")
        assert alpha.is_up("beta")


@pytest.mark.parametrize("closes", ["before the goodbye", "after it"])
async def test_a_site_that_stops_has_said_goodbye_and_what_it_has_taken_before_it_ends_a_link(
    autojump_clock: MockClock, network: MemoryNetwork, mike: TestSite, closes: str
) -> None:
    def window(bytes_max: int) -> bytes:
        return SettingsFrame(0, settings={SettingsFrame.INITIAL_WINDOW_SIZE: bytes_max}).serialize()

    mike.broker.answers = False
    async with puppet(network, "zeta", "mike") as zeta, trio.open_nursery() as nursery:
        await zeta.greet()
        if closes == "before the goodbye":
            await zeta.say_raw(window(0))
        await zeta.say_unit(copy("zeta", "weather", number=1))
        await mike.broker.until(lambda: mike.broker.copies)
        nursery.start_soon(mike.links.drain)
        if closes == "after it":
            await zeta.hear(Goodbye)
            await zeta.say_raw(window(0))
        await trio.sleep(1)
        mike.links.acknowledge("zeta", mike.broker.copies[0].connection, [1], "accepted")
        await trio.sleep(5)
        assert zeta.closed is None
        await zeta.say_raw(window(100_000))
        await zeta.until(lambda: zeta.closed is not None)
        assert zeta.closed == "draining"
        assert {Goodbye, Acknowledge} <= {type(unit) for unit in zeta.heard}


async def test_a_peer_that_says_goodbye_and_stays_has_its_link_ended(
    autojump_clock: MockClock, network: MemoryNetwork, mike: TestSite
) -> None:
    async with puppet(network, "zeta", "mike") as zeta:
        await zeta.greet()
        said_at = trio.current_time()
        await zeta.say(Lane.CONTROL, encode(Goodbye("draining")))
        await trio.sleep(LEAVING_S / 2)
        mike.send("zeta", "weather")
        await zeta.say(Lane.CONTROL, encode(Goodbye("draining")))
        await trio.sleep(LEAVING_S / 2 - 1)
        [of_zeta] = [status for status in mike.links.status() if status.peer == "zeta"]
        assert (of_zeta.state, of_zeta.why_down) == ("leaving", "it has said goodbye")
        assert of_zeta.since_s == pytest.approx(LEAVING_S - 1, abs=0.1)
        await zeta.until(lambda: zeta.closed is not None)
        assert trio.current_time() < said_at + LEAVING_S + 2 * LinkSettings().probe_interval_s
        assert zeta.closed == "no end within 60 s of the goodbye"
        assert not any(isinstance(unit, Transfer) for unit in zeta.heard)
    assert why_down(mike, "zeta") == zeta.closed
    async with puppet(network, "zeta", "mike") as again:
        await again.greet(boot=2)
        await trio.sleep(2 * LEAVING_S)
        assert mike.is_up("zeta")

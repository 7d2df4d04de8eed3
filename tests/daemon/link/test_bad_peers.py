"""What a peer may do wrong: bad units end nothing, misuse of HTTP/2 ends its own link, and says why."""

import logging
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec
import pytest
import trio
from hpack import Encoder
from hyperframe.frame import (
    ContinuationFrame,
    DataFrame,
    Frame,
    GoAwayFrame,
    HeadersFrame,
    PingFrame,
    PriorityFrame,
    PushPromiseFrame,
    RstStreamFrame,
    SettingsFrame,
    WindowUpdateFrame,
)
from trio.testing import MockClock

from daemon.link.guard import PREFACE, FloodError, FrameGuard
from daemon.link.peers_file import PeerEntry
from daemon.settings import LinkSettings
from routing.frames import decode_message, encode_message
from routing.link import sender
from routing.link.codec import REASON_CHARACTERS_MAX, encode, encode_control, encode_transfer
from routing.link.sender import CONTROL_ANSWER_S
from routing.link.units import Acknowledge, Control, Hello, Lane, Probe, Transfer, Welcome
from tests.support.links import MemoryNetwork, Puppet, TestSite, copy, puppet, site

CONTROL_STREAM = 1


@pytest.fixture
async def alpha(autojump_clock: MockClock) -> AsyncIterator[TestSite]:
    """A site with two peers, of which the tests play `zeta`, and `good` behaves."""
    network = MemoryNetwork()
    async with (
        site(network, "alpha", [PeerEntry(name="good"), PeerEntry(name="zeta")]) as alpha,
        site(network, "good", [PeerEntry(name="alpha", address="alpha:1")]) as good,
    ):
        await good.linked(alpha)
        alpha.network = network  # type: ignore[attr-defined] # for `zeta`
        yield alpha
        # Whatever was done to alpha, its link with the peer that behaves has never been down.
        assert [line for line in alpha.log if "good" in line] == ["up good restarted"]
        good.send("alpha", "still.there")
        await good.broker.until(lambda: good.broker.settled)


@pytest.fixture
async def zeta(alpha: TestSite) -> AsyncIterator[Puppet]:
    async with puppet(alpha.network, "zeta", "alpha") as player:  # type: ignore[attr-defined] # set above
        await player.greet()
        yield player


def sealed(number: int, **fields: Any) -> Transfer:
    return copy("zeta", "weather", number=number, **fields)


def published_by(account: str) -> Transfer:
    """A message of zeta's own that says so of its publisher."""
    message = msgspec.structs.replace(decode_message(sealed(1).wire), account=account)
    return sealed(1, wire=encode_message(message))


async def answers(player: Puppet, count: int) -> list[tuple[str, int, str]]:
    """The first so many acknowledgements, each of one number: outcome, number, reason."""
    found = await player.hear(Acknowledge, count)
    return [(one.outcome, one.ranges[0][0], one.reason) for one in found if isinstance(one, Acknowledge)]


async def ended(player: Puppet, reason: str) -> None:
    await player.until(lambda: player.closed is not None)
    assert player.closed is not None
    assert reason in player.closed


# -- units ------------------------------------------------------------------------------------------


async def test_a_message_that_cannot_be_read_is_denied_and_the_next_one_taken(
    autojump_clock: MockClock, alpha: TestSite, zeta: Puppet
) -> None:
    bad = Transfer(topic="weather", wire=b"Priority: high\r\n\r\n", number=1, hops=("zeta",))
    await zeta.say_unit(bad)
    await zeta.say_unit(sealed(2))
    denied, accepted = await answers(zeta, 2)
    assert denied[:2] == ("denied", 1)
    assert "Priority" in denied[2]
    assert accepted == ("accepted", 2, "")
    assert [one.transfer.number for one in alpha.broker.copies if one.peer == "zeta"] == [2]
    assert [reason for _, reason in alpha.broker.refused] == [denied[2]]


@pytest.mark.parametrize(
    ("unit", "reason"),
    [
        (sealed(1, hops=("other",)), "Hops does not end with zeta"),
        (sealed(1, hops=("zeta", "other", "zeta")), "Hops names a server twice"),
        (sealed(1, hops=("other", "zeta")), "Smuid is of zeta, but Hops begins with other"),
        (sealed(1, hops=()), "Hops does not end with zeta"),
        (Transfer(topic="weather", wire=b"\r\n", number=1, hops=("zeta",)), "Smuid is missing"),
        (published_by("boss:desk@alpha"), "Account is boss:desk@alpha, but Smuid is of zeta"),
        (published_by(""), "Account is missing, but Smuid is of zeta"),
    ],
)
async def test_forged_hops_smuids_and_accounts_are_denied(
    autojump_clock: MockClock,
    alpha: TestSite,
    zeta: Puppet,
    caplog: pytest.LogCaptureFixture,
    unit: Transfer,
    reason: str,
) -> None:
    await zeta.say_unit(unit)
    [(outcome, number, said)] = await answers(zeta, 1)
    assert (outcome, number) == ("denied", 1)
    assert reason in said
    assert reason in caplog.text


async def test_what_a_peer_denies_is_logged_with_its_reason(
    autojump_clock: MockClock, alpha: TestSite, zeta: Puppet, caplog: pytest.LogCaptureFixture
) -> None:
    alpha.send("zeta", "weather")
    [transfer] = await zeta.hear(Transfer)
    assert isinstance(transfer, Transfer)
    ranges = ((transfer.number, transfer.number),)
    denied = Acknowledge(outcome="denied", ranges=ranges, received_us=1, sent_us=2, reason="not that topic")
    await zeta.say(Lane.CONTROL, encode(denied))
    await alpha.broker.until(lambda: alpha.broker.settled)
    assert "zeta denied (1 so far): not that topic" in caplog.text


async def test_a_unit_that_cannot_be_read_is_denied_by_its_number(
    autojump_clock: MockClock, alpha: TestSite, zeta: Puppet
) -> None:
    await zeta.say(Lane.BULK, b"TRANSFER 1 topic\r\n\r\nTRANSFER 2\r\n\r\n")
    await zeta.say_unit(sealed(3))
    assert [(outcome, number) for outcome, number, _ in await answers(zeta, 3)] == [
        ("denied", 1),
        ("denied", 2),
        ("accepted", 3),
    ]


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        (b"Caf\xe9 au lait", r"Caf\udce9 au lait: '' is not a header line"),
        (b"Be\x07ll: rings", r"Be\x07ll: ' rings' is not a header line"),
    ],
)
async def test_what_a_peer_cannot_have_meant_is_quoted_so_that_it_can_be_sent_logged_and_recorded(
    autojump_clock: MockClock, alpha: TestSite, zeta: Puppet, line: bytes, shown: str
) -> None:
    await zeta.say(Lane.BULK, b"TRANSFER 1 topic\r\n" + line + b"\r\n\r\n")
    await zeta.say_unit(sealed(2, wire=line + b"\r\n\r\n"))
    await zeta.say_unit(sealed(3))
    first, second, accepted = await answers(zeta, 3)
    assert (first[:2], second[:2], accepted[:2]) == (("denied", 1), ("denied", 2), ("accepted", 3))
    assert first[2].startswith(shown)
    assert second[2].startswith(shown)
    [recorded] = [reason for _, reason in alpha.broker.refused]
    assert recorded.startswith(shown)
    for _ in range(101):
        await zeta.say(Lane.CONTROL, b"SHINY\r\n" + line + b"\r\n\r\n")
    await ended(zeta, f"more than 100 units that make no sense; the last: {shown}")


async def test_of_what_is_refused_no_more_is_kept_than_the_peer_can_be_told(
    autojump_clock: MockClock, alpha: TestSite, zeta: Puppet, caplog: pytest.LogCaptureFixture
) -> None:
    line = b"\xff" * 60_000
    await zeta.say(Lane.BULK, b"TRANSFER 1 topic\r\n" + line + b"\r\n\r\n")
    await zeta.say_unit(sealed(2, wire=line + b"\r\n\r\n"))
    told = [reason for _, _, reason in await answers(zeta, 2)]
    for _ in range(101):
        await zeta.say(Lane.CONTROL, b"SHINY\r\n" + line + b"\r\n\r\n")
    await ended(zeta, "more than 100 units that make no sense; the last: ")
    kept = [reason for _, reason in alpha.broker.refused]
    assert kept == told[1:]
    assert {len(reason) for reason in told} == {REASON_CHARACTERS_MAX}
    assert max(map(len, [*caplog.messages, *alpha.log])) < 2 * REASON_CHARACTERS_MAX


async def test_an_oversized_message_is_denied_without_being_held(
    autojump_clock: MockClock, alpha: TestSite, zeta: Puppet
) -> None:
    await zeta.say_unit(sealed(1, wire=b"x" * 3_000_000))
    await zeta.say_unit(sealed(2))
    denied, accepted = await answers(zeta, 2)
    assert denied[:2] == ("denied", 1)
    assert "more than 1000000 bytes" in denied[2]
    assert accepted[:2] == ("accepted", 2)


async def test_what_a_newer_peer_says_is_passed_over(
    autojump_clock: MockClock, alpha: TestSite, zeta: Puppet
) -> None:
    await zeta.say(Lane.CONTROL, b"SHINY 1\r\nNew: thing\r\n\r\n")
    await zeta.say_unit(Control(kind="shiny", payload=b"?", number=1), Lane.CONTROL)
    assert await answers(zeta, 1) == [("accepted", 1, "")]


async def test_a_stream_of_units_that_make_no_sense_ends_in_time(
    autojump_clock: MockClock, alpha: TestSite, zeta: Puppet
) -> None:
    ack = encode(Acknowledge(outcome="accepted", ranges=((1, 10**15),), received_us=0, sent_us=0))
    for _ in range(101):
        await zeta.say(Lane.CONTROL, ack)
    await ended(zeta, "more than 100 units that make no sense; the last: ACK: names")


async def test_a_peer_that_has_said_more_when_it_is_refused_is_told_why_all_the_same(
    autojump_clock: MockClock, alpha: TestSite
) -> None:
    said = encode(Probe(1, 2)) + b"ACK\r\n\r\n" * 9 + b"\r\n" * 1_000
    for _ in range(20):  # which task comes first, of those that can go on, is chance
        async with puppet(alpha.network, "zeta", "alpha") as zeta:  # type: ignore[attr-defined] # of the fixture
            await zeta.greet()
            await zeta.say_raw(wire(DataFrame(CONTROL_STREAM, said), 30))
            await ended(zeta, "more than 100 units that make no sense")


async def test_a_head_without_end_ends_the_link(
    autojump_clock: MockClock, alpha: TestSite, zeta: Puppet
) -> None:
    await zeta.say(Lane.BULK, b"TRANSFER 1 a\r\n" + b"X: y\r\n" * 20_000)
    await ended(zeta, "the framing is lost: the header lines are longer than 65536 bytes")


async def test_silence_in_the_middle_of_a_message_ends_the_link(
    autojump_clock: MockClock, alpha: TestSite, zeta: Puppet
) -> None:
    await zeta.say(Lane.BULK, encode_transfer(sealed(1), None)[:-1])
    await ended(zeta, "in the middle of a unit (bulk lane)")


async def test_a_peer_that_answers_no_probe_is_given_up(
    autojump_clock: MockClock, alpha: TestSite, zeta: Puppet
) -> None:
    zeta.answers_probes = False
    await ended(zeta, "no answer to a probe within 20 s")


async def test_a_peer_that_answers_probes_and_no_control_is_given_up_and_both_sides_know_why(
    autojump_clock: MockClock, alpha: TestSite, zeta: Puppet, caplog: pytest.LogCaptureFixture
) -> None:
    alpha.links.send("zeta", Control(kind="news", payload=b""), Lane.CONTROL)
    for _ in range(100):
        await trio.sleep(CONTROL_ANSWER_S / 100)
        alpha.links.send("zeta", Control(kind="news", payload=b""), Lane.CONTROL)
    assert alpha.is_up("zeta")
    await ended(zeta, "no answer to a control within 600 s")
    assert "link with zeta is down: no answer to a control within 600 s" in caplog.text
    assert [one.why_down for one in alpha.links.status()] == ["", "no answer to a control within 600 s"]
    assert [one.waiting + one.in_flight for one in alpha.links.status()] == [0, 0]


async def test_a_peer_that_answers_each_control_but_late_is_given_up_when_too_many_wait(
    autojump_clock: MockClock, alpha: TestSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sender, "CONTROL_BYTES_MAX", 100_000)
    async with puppet(alpha.network, "zeta", "alpha") as zeta:  # type: ignore[attr-defined] # of the fixture
        await zeta.greet(window_units=1)
        for number in range(1, 4):
            for _ in range(40):
                alpha.links.send("zeta", Control(kind="news", payload=bytes(900)), Lane.CONTROL)
            await zeta.hear(Control, number)
            await trio.sleep(CONTROL_ANSWER_S / 2)
            assert alpha.is_up("zeta") == (number < 3)
            ranges = ((number, number),)
            accepted = Acknowledge(outcome="accepted", ranges=ranges, received_us=1, sent_us=2)
            await zeta.say(Lane.CONTROL, encode(accepted))
        await ended(zeta, "more than 100000 bytes of controls wait for it")


async def test_a_peer_that_opens_no_window_is_given_up_and_costs_no_memory_beyond_it(
    autojump_clock: MockClock, alpha: TestSite
) -> None:
    async with puppet(alpha.network, "zeta", "alpha") as zeta:  # type: ignore[attr-defined] # of the fixture
        await zeta.greet(window_units=100_000, window_bytes=100_000_000)
        await _give_no_window(alpha, zeta)


async def _give_no_window(alpha: TestSite, zeta: Puppet) -> None:
    zeta.gives_window = False
    for number in range(200):
        alpha.send("zeta", f"bulk.{number}", body=b"x" * 50_000)
    await trio.sleep(60)
    assert sum(isinstance(unit, Transfer) for unit in zeta.heard) < 90
    assert alpha.is_up("zeta")
    for _ in range(11_000):
        alpha.links.send("zeta", Control(kind="interest", payload=b"x" * 100), Lane.CONTROL)
    await ended(zeta, "no answer to a probe within 20 s")


@pytest.mark.parametrize(
    "unit",
    [
        lambda number: b"PROBE 1 2\r\nX: " + b"x" * 1_000 + b"\r\n\r\n",
        lambda number: b"TRANSFER 1\r\nX: " + b"x" * 1_000 + b"\r\n\r\n",
        lambda number: encode_control(Control(kind="shiny", payload=b"x" * 1_000, number=number)),
    ],
    ids=["probes", "what cannot be read", "what is taken"],
)
async def test_a_peer_that_takes_no_answers_is_read_no_further_until_it_does(
    autojump_clock: MockClock, unit: Callable[[int], bytes]
) -> None:
    network = MemoryNetwork()
    settings = LinkSettings(window_units_max=10)
    async with (
        site(network, "alpha", [PeerEntry(name="zeta")], settings=settings) as alpha,
        puppet(network, "zeta", "alpha") as zeta,
    ):
        await zeta.greet()
        await zeta.say_raw(wire(SettingsFrame(0, settings={4: 0})))
        has_said = trio.Event()

        async def say() -> None:
            for first in range(1, 3_000, 50):
                await zeta.say(Lane.CONTROL, b"".join(map(unit, range(first, first + 50))))
            has_said.set()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(say)
            await trio.sleep(5)
            assert not has_said.is_set()
            await zeta.say_raw(wire(SettingsFrame(0, settings={4: 1_048_576})))
            with trio.fail_after(5):
                await has_said.wait()
        assert alpha.is_up("zeta")


async def test_more_units_than_the_window_are_refused(autojump_clock: MockClock) -> None:
    network = MemoryNetwork()
    settings = LinkSettings(window_units_max=10)
    async with site(network, "alpha", [PeerEntry(name="zeta")], settings=settings) as alpha:
        alpha.broker.answers = False
        async with puppet(network, "zeta", "alpha") as zeta:
            await zeta.greet()
            for number in range(1, 200):
                await zeta.say_unit(sealed(number))
            await ended(zeta, "more units than the window allows")
        assert len(alpha.broker.copies) == 20


async def test_more_bytes_than_the_window_are_refused(autojump_clock: MockClock) -> None:
    network = MemoryNetwork()
    settings = LinkSettings(window_bytes_max=100_000)
    async with site(network, "alpha", [PeerEntry(name="zeta")], settings=settings) as alpha:
        alpha.broker.answers = False
        async with puppet(network, "zeta", "alpha") as zeta:
            await zeta.greet()
            for number in range(1, 200):
                await zeta.say_unit(sealed(number, body=b"x" * 30_000))
            await ended(zeta, "more bytes than the window allows are not acknowledged")
        assert len(alpha.broker.copies) == 6


async def test_a_copy_that_is_larger_than_the_window_is_taken_where_all_others_are_answered(
    autojump_clock: MockClock,
) -> None:
    network = MemoryNetwork()
    settings = LinkSettings(window_bytes_max=100_000)
    async with site(network, "alpha", [PeerEntry(name="zeta")], settings=settings) as alpha:
        for connection in range(2):
            alpha.broker.answers = True
            async with puppet(network, "zeta", "alpha") as zeta:
                await zeta.greet()
                for number in range(1, 4):
                    await zeta.say_unit(sealed(number, body=b"x" * 900_000))
                    await zeta.hear(Acknowledge, number)
                alpha.broker.answers = False
                await zeta.say_unit(sealed(4, body=b"x" * 900_000))  # not answered when the link goes down
                await alpha.broker.until(lambda: len(alpha.broker.copies) == 4 * (connection + 1))  # noqa: B023 # awaited here
            await alpha.broker.until(lambda: "down zeta" in alpha.log[-1])


async def test_a_number_that_comes_again_before_it_is_acknowledged_is_refused(
    autojump_clock: MockClock, alpha: TestSite, zeta: Puppet
) -> None:
    alpha.broker.answers = False
    await zeta.say_unit(Control(kind="interest", payload=b"", number=7), Lane.CONTROL)
    for _ in range(101):
        await zeta.say_unit(sealed(7))
    await ended(zeta, "the number 7 comes again before it is acknowledged")
    alpha.broker.answers = True
    assert len(alpha.broker.controls) + len(alpha.broker.copies) == 1


async def test_numbers_that_a_peer_says_again_on_its_next_connection_are_handed_over_again(
    autojump_clock: MockClock, alpha: TestSite
) -> None:
    control = Control(kind="interest", payload=b"", number=2)
    for answers_now in (False, True):
        alpha.broker.answers = answers_now
        async with puppet(alpha.network, "zeta", "alpha") as zeta:  # type: ignore[attr-defined] # of the fixture
            await zeta.greet()
            await zeta.say_unit(sealed(1))
            await alpha.broker.until(lambda: len(alpha.broker.copies) == 1 + alpha.broker.answers)
            await zeta.say_unit(control, Lane.CONTROL)
            await alpha.broker.until(lambda: len(alpha.broker.controls) == 1 + alpha.broker.answers)
            if answers_now:
                assert sorted(await answers(zeta, 2)) == [("accepted", 1, ""), ("accepted", 2, "")]
        await alpha.broker.until(lambda: "down zeta" in alpha.log[-1])


async def test_an_answer_that_is_late_is_none_to_a_peer_that_was_removed_and_added_meanwhile(
    autojump_clock: MockClock, alpha: TestSite
) -> None:
    good, zeta = PeerEntry(name="good"), PeerEntry(name="zeta")
    alpha.broker.answers = False
    connections = []
    for count in (1, 2):
        alpha.links.set_peers({"good": good})
        alpha.links.set_peers({"good": good, "zeta": zeta})
        async with puppet(alpha.network, "zeta", "alpha") as player:  # type: ignore[attr-defined] # set above
            await player.greet()
            await player.say_unit(sealed(1))
            await alpha.broker.until(lambda: len(alpha.broker.copies) == count)  # noqa: B023 # awaited here
            connections.append(alpha.broker.copies[-1].connection)
            if count == 2:
                alpha.links.acknowledge("zeta", connections[0], [1], "accepted")
                alpha.links.acknowledge("zeta", connections[1], [1], "duplicate")
                assert await answers(player, 1) == [("duplicate", 1, "")]
    alpha.broker.answers = True


# -- greeting ---------------------------------------------------------------------------------------


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


# -- HTTP/2 -----------------------------------------------------------------------------------------


def wire(frame: Frame, times: int = 1) -> bytes:
    return frame.serialize() * times


FLOODS = {
    "settings": (wire(SettingsFrame(0, settings={4: 1_048_576}), 300), "a flood of SETTINGS frames"),
    "pings": (wire(PingFrame(0, b"12345678"), 300), "a flood of PING frames"),
    "priorities": (wire(PriorityFrame(CONTROL_STREAM, depends_on=3), 300), "a flood of PRIORITY frames"),
    "resets of streams that are idle or gone": (
        wire(RstStreamFrame(9), 300),
        "flood of RST_STREAM|not HTTP/2",
    ),
    "tiny data": (wire(DataFrame(CONTROL_STREAM, b"\r\n"), 4_000), "a flood of tiny DATA frames"),
    "empty data": (wire(DataFrame(CONTROL_STREAM, b""), 4_000), "a flood of tiny DATA frames"),
    "windows a byte at a time": (
        wire(WindowUpdateFrame(CONTROL_STREAM, window_increment=1), 6_000),
        "a flood of WINDOW_UPDATE frames",
    ),
    "continuations": (
        wire(HeadersFrame(7, b"\x00")) + wire(ContinuationFrame(7, b"\x00" * 10), 300),
        "a flood of CONTINUATION frames",
    ),
    "unknown frames": (b"\x00\x00\x00\xfa\x00\x00\x00\x00\x00" * 300, "a flood of unknown frames"),
    "an oversized frame": (b"\xff\xff\xff\x00\x00\x00\x00\x00\x01", "a frame of 16777215 bytes"),
    "a window beyond its bound": (
        wire(WindowUpdateFrame(CONTROL_STREAM, window_increment=2**31 - 1)),
        "not HTTP/2",
    ),
    "a window of nothing": (wire(WindowUpdateFrame(CONTROL_STREAM, window_increment=0)), "not HTTP/2"),
    "a setting out of bounds": (wire(SettingsFrame(0, settings={5: 1})), "not HTTP/2"),
    "a push": (wire(PushPromiseFrame(CONTROL_STREAM, 2, b"\x82", flags=["END_HEADERS"])), "not HTTP/2"),
    "a reset of a lane": (wire(RstStreamFrame(CONTROL_STREAM)), "the peer reset a stream"),
    "the end of a lane": (
        wire(DataFrame(CONTROL_STREAM, b"", flags=["END_STREAM"])),
        "the peer ended a lane",
    ),
    "a fourth stream": (
        wire(HeadersFrame(7, bytes.fromhex("8387418b00"), flags=["END_HEADERS"])),
        "not HTTP/2",
    ),
    "headers that grow when they are unpacked": (
        wire(HeadersFrame(7, Encoder().encode([("x", "y" * 3_900)] * 500), flags=["END_HEADERS"])),
        "not HTTP/2",
    ),
    "data on no stream": (wire(DataFrame(99, b"x")), "not HTTP/2"),
    "a ping of four bytes": (b"\x00\x00\x04\x06\x00\x00\x00\x00\x00ping", "not HTTP/2"),
}


@pytest.mark.parametrize("attack", FLOODS)
async def test_misuse_of_http2_ends_the_link_of_who_does_it(
    autojump_clock: MockClock, alpha: TestSite, zeta: Puppet, attack: str
) -> None:
    data, reason = FLOODS[attack]
    await zeta.say_raw(data)
    await alpha.broker.until(lambda: any(line.startswith("down zeta") for line in alpha.log))
    [line] = [line for line in alpha.log if line.startswith("down zeta")]
    assert any(one in line for one in reason.split("|")), line
    await zeta.until(lambda: zeta.closed is not None)
    assert line.removeprefix("down zeta: ") in str(zeta.closed)


async def test_rapid_reset_is_a_flood(
    autojump_clock: MockClock, alpha: TestSite, zeta: Puppet, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    header = bytes.fromhex("8387418b00")
    await zeta.say_raw(
        b"".join(
            wire(HeadersFrame(number, header, flags=["END_HEADERS"])) + wire(RstStreamFrame(number))
            for number in range(7, 207, 2)
        )
    )
    await alpha.broker.until(lambda: any(line.startswith("down zeta") for line in alpha.log))
    assert "link with zeta is down: a flood of RST_STREAM frames" in caplog.text


async def test_a_peer_that_goes_away_says_why(
    autojump_clock: MockClock, alpha: TestSite, zeta: Puppet
) -> None:
    await zeta.say_raw(wire(GoAwayFrame(0, additional_data=b"moving house")))
    await alpha.broker.until(lambda: "down zeta: it says: moving house" in alpha.log)


def test_an_honest_rate_is_never_taken_for_a_flood() -> None:
    guard = FrameGuard(65_536, preface=False, now=0.0)
    acknowledgement = wire(DataFrame(CONTROL_STREAM, b"x" * 90))
    message = wire(DataFrame(5, b"x" * 1_200))
    for second in range(60):
        guard.check(acknowledgement * 5_000 + message * 5_000, float(second))
        guard.check(wire(WindowUpdateFrame(5, window_increment=1), 100), float(second))
        guard.check(wire(PingFrame(0, b"12345678"), 2), float(second))


def test_the_guard_sees_the_same_frames_however_the_bytes_are_split() -> None:
    ping = wire(PingFrame(0, b"12345678"))
    data = PREFACE + ping * 200
    whole = FrameGuard(65_536, preface=True, now=0.0)
    whole.check(data, 0.0)
    split = FrameGuard(65_536, preface=True, now=0.0)
    for position in range(0, len(data), 5):
        split.check(data[position : position + 5], 0.0)
    for guard in (whole, split):
        with pytest.raises(FloodError, match="PING"):
            guard.check(ping, 0.0)

"""A peer that is silent, answers nothing, takes nothing, or sends more than it may."""

from collections.abc import Callable

import pytest
import trio
from hyperframe.frame import (
    SettingsFrame,
)
from trio.testing import MockClock

from daemon.link.peers_file import PeerEntry
from daemon.settings import LinkSettings
from routing.link import sender
from routing.link.codec import encode, encode_control, encode_transfer
from routing.link.sender import CONTROL_ANSWER_S
from routing.link.units import Acknowledge, Control, Lane, Transfer
from tests.support.links import MemoryNetwork, Puppet, TestSite, puppet, site
from tests.support.played_peer import answers, ended, sealed, wire


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

"""What crosses links over a network in memory: copies and controls, their order, and what an end leaves."""

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from daemon.link.peers_file import PeerEntry
from daemon.settings import LinkSettings
from routing.link.units import Control, Lane, Transfer
from tests.support.links import MemoryNetwork, copy, dialled, site


async def test_a_copy_arrives_as_it_was_sent_and_its_sender_learns_what_became_of_it(
    autojump_clock: MockClock,
    network: MemoryNetwork,
) -> None:
    async with (
        site(network, "alpha", [dialled("beta")]) as alpha,
        site(network, "beta", [PeerEntry(name="alpha")]) as beta,
    ):
        unit = copy(
            "alpha", "weather.oslo", b"rain", depth=3, timeout_left_s=60.0, mode="ONE", flags=("custody",)
        )
        unit.reference = "the broker's own"
        alpha.links.send("beta", unit, Lane.URGENT)
        await alpha.broker.until(lambda: alpha.broker.settled)
        [arrived] = beta.broker.copies
        assert arrived.peer == "alpha"
        assert arrived.message.sections[0].body == b"rain"
        copied = arrived.transfer
        assert (copied.topic, copied.depth, copied.hops, copied.mode) == (
            "weather.oslo",
            3,
            ("alpha",),
            "ONE",
        )
        assert copied.flags == ("custody",)
        assert copied.wire == unit.wire
        [settled] = alpha.broker.settled
        assert settled.unit is unit
        assert settled.outcome == "accepted"
        assert settled.sent_us <= settled.peer_received_us <= settled.peer_sent_us <= settled.acknowledged_us


async def test_what_is_sent_before_there_is_a_link_goes_when_there_is_one(
    autojump_clock: MockClock, network: MemoryNetwork
) -> None:
    async with site(network, "alpha", [dialled("beta")]) as alpha:
        alpha.send("beta", "weather", timeout_left_s=100.0)
        await trio.sleep(40)
        async with site(network, "beta", [PeerEntry(name="alpha")]) as beta:
            await beta.broker.until(lambda: beta.broker.copies)
            left = beta.broker.copies[0].transfer.timeout_left_s
            assert left is not None
            assert 0 < left < 60


async def test_after_a_cut_the_links_repeat_nothing_and_late_answers_reach_nobody(
    autojump_clock: MockClock, network: MemoryNetwork
) -> None:
    async with (
        site(network, "alpha", [dialled("beta")]) as alpha,
        site(network, "beta", [PeerEntry(name="alpha")]) as beta,
    ):
        beta.broker.answers = False
        alpha.send("beta", "first")
        alpha.send("beta", "second")
        await beta.broker.until(lambda: len(beta.broker.copies) == 2)
        connection = beta.broker.copies[0].connection
        network.cut()
        await beta.broker.until(lambda: beta.log.count("up alpha") == 1)
        await wait_all_tasks_blocked()
        [status] = alpha.links.status()
        assert (status.waiting, status.in_flight) == (0, 0)
        again = alpha.send("beta", "first", attempt=2)
        await beta.broker.until(lambda: len(beta.broker.copies) == 3)
        beta.links.acknowledge("alpha", connection, [1, 2, again], "accepted")
        await trio.sleep(100)
        assert alpha.broker.settled == []
        beta.links.acknowledge("alpha", beta.broker.copies[2].connection, [again], "accepted")
        await alpha.broker.until(lambda: alpha.broker.settled)
        [copied] = alpha.broker.settled
        assert isinstance(copied.unit, Transfer)
        assert (copied.unit.topic, copied.unit.attempt) == ("first", 2)
        assert len(beta.broker.copies) == 3
        assert alpha.log == ["up beta restarted", "down beta: the peer closed the connection", "up beta"]


async def test_controls_come_in_order_and_once(autojump_clock: MockClock, network: MemoryNetwork) -> None:
    async with (
        site(network, "alpha", [dialled("beta")]) as alpha,
        site(network, "beta", [PeerEntry(name="alpha")]) as beta,
    ):
        expected = []
        for round_number in range(3):
            await alpha.linked(beta)
            payloads = [f"{round_number}.{number}".encode() for number in range(50)]
            for payload in payloads:
                alpha.links.send("beta", Control(kind="interest", payload=payload), Lane.CONTROL)
            expected += payloads
            count = 50 * (round_number + 1)
            await alpha.broker.until(lambda: len(alpha.broker.settled) == count)  # noqa: B023 # waited for here
            network.cut()
            await alpha.broker.until(lambda: "down beta" in alpha.log[-1])
            await beta.broker.until(lambda: "down alpha" in beta.log[-1])
        assert [one.control.payload for one in beta.broker.controls] == expected


async def test_control_and_urgent_do_not_wait_behind_bulk(
    autojump_clock: MockClock, network: MemoryNetwork
) -> None:
    async with (
        site(network, "alpha", [dialled("beta")]) as alpha,
        site(network, "beta", [PeerEntry(name="alpha")]) as beta,
    ):
        await alpha.linked(beta)
        for _ in range(1_000):
            alpha.send("beta", "bulk", body=b"x" * 2_000)
        await beta.broker.until(lambda: beta.broker.copies)
        already = len(beta.broker.order)
        alpha.send("beta", "urgent", Lane.URGENT)
        alpha.links.send("beta", Control(kind="control", payload=b""), Lane.CONTROL)
        await alpha.broker.until(lambda: len(alpha.broker.settled) == 1_002)
        # Only what was already on its way comes before them, of a thousand.
        assert beta.broker.order.index("control") < already + 500
        assert beta.broker.order.index("urgent") < already + 500


async def test_a_broker_that_takes_nothing_holds_the_sender_back_and_loses_nothing(
    autojump_clock: MockClock, network: MemoryNetwork
) -> None:
    settings = LinkSettings(window_units_max=10_000, window_bytes_max=100_000_000)
    async with (
        site(network, "alpha", [dialled("beta")], settings=settings) as alpha,
        site(network, "beta", [PeerEntry(name="alpha")], settings=settings) as beta,
    ):
        await alpha.linked(beta)
        beta.broker.open = trio.Event()
        for _ in range(200):
            alpha.send("beta", "bulk", body=b"x" * 100_000)
        await trio.sleep(5)
        [status] = alpha.links.status()
        assert status.in_flight < 100
        assert status.lag_s == 5
        beta.broker.open.set()
        await alpha.broker.until(lambda: len(alpha.broker.settled) == 200)
        assert len(beta.broker.copies) == 200


async def test_two_sites_that_owe_each_other_all_answers_there_may_be_go_on(
    autojump_clock: MockClock, network: MemoryNetwork
) -> None:
    """Each fills the control lane of the other, and hears no answer before it has read what is in its own."""
    async with (
        site(network, "alpha", [dialled("beta")]) as alpha,
        site(network, "beta", [PeerEntry(name="alpha")]) as beta,
    ):
        await alpha.linked(beta)
        for one, peer in ((alpha, "beta"), (beta, "alpha")):
            for _ in range(800):
                one.links.send(peer, Control(kind="interest", payload=b"x" * 4_000), Lane.CONTROL)
                one.send(peer, "weather")
        with trio.fail_after(LinkSettings().probe_timeout_s / 2):
            for one in (alpha, beta):
                await one.broker.until(lambda one=one: len(one.broker.settled) == 1_600)  # type: ignore[misc] # bound now


async def test_a_full_queue_has_no_room_until_something_is_settled(
    autojump_clock: MockClock, network: MemoryNetwork
) -> None:
    settings = LinkSettings(window_units_max=3)
    async with (
        site(network, "alpha", [dialled("beta")], settings=settings) as alpha,
        site(network, "beta", [PeerEntry(name="alpha")]) as beta,
    ):
        for _ in range(3):
            assert alpha.links.has_room("beta")
            alpha.send("beta", "weather")
        assert not alpha.links.has_room("beta")
        await alpha.broker.until(lambda: "room beta" in alpha.log)
        assert alpha.links.has_room("beta")
        assert not alpha.links.has_room("nobody")
        await beta.broker.until(lambda: len(beta.broker.copies) == 3)


async def test_unguaranteed_copies_that_were_not_written_are_given_back_when_the_link_ends(
    autojump_clock: MockClock,
    network: MemoryNetwork,
) -> None:
    async with (
        site(network, "alpha", [dialled("beta")]) as alpha,
        site(network, "beta", [PeerEntry(name="alpha")]) as beta,
    ):
        await alpha.linked(beta)
        assert alpha.send("beta", "joystick", guarantee=False) == 0
        await beta.broker.until(lambda: beta.broker.copies)
        await trio.sleep(1)  # until nothing else is on its way
        network.stall()
        alpha.send("beta", "stuck", guarantee=False)
        await wait_all_tasks_blocked()
        alpha.send("beta", "dropped", guarantee=False)
        await alpha.broker.until(lambda: alpha.broker.lost)
        assert [one.topic for one in alpha.broker.lost] == ["dropped"]


async def test_a_large_message_and_small_ones_all_arrive(
    autojump_clock: MockClock, network: MemoryNetwork
) -> None:
    async with (
        site(network, "alpha", [dialled("beta")]) as alpha,
        site(network, "beta", [PeerEntry(name="alpha")]) as beta,
    ):
        alpha.send("beta", "large", body=b"y" * 900_000)
        for _ in range(10):
            alpha.send("beta", "small", body=b"")
        await alpha.broker.until(lambda: len(alpha.broker.settled) == 11)
        assert len(beta.broker.copies[0].message.sections[0].body) == 900_000


async def test_a_site_sends_to_several_peers(autojump_clock: MockClock, network: MemoryNetwork) -> None:
    async with (
        site(network, "alpha", [dialled("beta"), dialled("gamma")]) as alpha,
        site(network, "beta", [PeerEntry(name="alpha")]),
        site(network, "gamma", [PeerEntry(name="alpha")]),
    ):
        units: list[Transfer] = [copy("alpha", "weather"), copy("alpha", "weather")]
        for unit, peer in zip(units, ("beta", "gamma"), strict=True):
            alpha.links.send(peer, unit, Lane.BULK)
        await alpha.broker.until(lambda: len(alpha.broker.settled) == 2)

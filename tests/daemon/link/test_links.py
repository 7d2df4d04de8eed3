"""Sites that link over a network in memory: who gets the link, what ends it, and how it is made again."""

import itertools
import logging

import pytest
import trio
from trio.testing import MockClock

from daemon.link.peers_file import PeerEntry
from daemon.settings import LinkSettings
from routing.link.units import Control, Lane
from tests.support.links import MemoryNetwork, RecordingBroker, dialled, site


async def test_one_site_dials_and_both_are_linked(autojump_clock: MockClock, network: MemoryNetwork) -> None:
    async with (
        site(network, "alpha", [dialled("beta")]) as alpha,
        site(network, "beta", [PeerEntry(name="alpha")]) as beta,
    ):
        await alpha.linked(beta)
        assert alpha.log == ["up beta restarted"]
        assert beta.log == ["up alpha restarted"]


@pytest.mark.parametrize("names", [("alpha", "beta"), ("beta", "alpha")])
async def test_sites_that_dial_each_other_at_once_end_with_one_link(
    autojump_clock: MockClock, network: MemoryNetwork, names: tuple[str, str]
) -> None:
    first, second = names
    async with (
        site(network, first, [dialled(second)]) as one,
        site(network, second, [dialled(first)]) as other,
    ):
        await one.linked(other)
        await trio.sleep(300)
        assert one.log == [f"up {second} restarted"]
        assert other.log == [f"up {first} restarted"]
        one.send(second, "there")
        other.send(first, "back")
        await one.broker.until(lambda: one.broker.settled and one.broker.copies)
        await other.broker.until(lambda: other.broker.settled and other.broker.copies)


async def test_a_peer_that_restarts_is_known_to_have(
    autojump_clock: MockClock, network: MemoryNetwork
) -> None:
    async with site(network, "alpha", [dialled("beta")]) as alpha:
        for boot in (1, 2):
            async with site(network, "beta", [PeerEntry(name="alpha")], boot=boot) as beta:
                await alpha.linked(beta)
        assert [line for line in alpha.log if line.startswith("up")] == ["up beta restarted"] * 2


async def test_a_restart_that_the_other_side_has_not_noticed_replaces_the_old_link(
    autojump_clock: MockClock, network: MemoryNetwork
) -> None:
    async with site(network, "alpha", [PeerEntry(name="beta")]) as alpha:
        async with site(network, "beta", [dialled("alpha")]) as beta:
            await beta.linked(alpha)
            network.silence()
        async with site(network, "beta", [dialled("alpha")], boot=2) as beta:
            await beta.linked(alpha)
            assert alpha.log == [
                "up beta restarted",
                "down beta: replaced by a newer connection",
                "up beta restarted",
            ]


async def test_a_silent_link_is_ended_by_its_probe_and_made_again(
    autojump_clock: MockClock, network: MemoryNetwork
) -> None:
    async with (
        site(network, "alpha", [dialled("beta")]) as alpha,
        site(network, "beta", [PeerEntry(name="alpha")]) as beta,
    ):
        await alpha.linked(beta)
        network.silence()
        await alpha.broker.until(lambda: alpha.log.count("up beta") == 1)
        assert alpha.log[1] == "down beta: no answer to a probe within 20 s"


async def test_the_round_trip_is_measured_through_the_broker(
    autojump_clock: MockClock, network: MemoryNetwork
) -> None:
    async with (
        site(network, "alpha", [dialled("beta")]) as alpha,
        site(network, "beta", [PeerEntry(name="alpha")]) as beta,
    ):
        await alpha.linked(beta)
        await trio.sleep(1)
        [status] = alpha.links.status()
        assert status.state == "up"
        assert status.round_trip_s is not None
        assert status.since_s >= 0.9


async def test_draining_says_goodbye_after_everything_is_acknowledged(
    autojump_clock: MockClock, network: MemoryNetwork
) -> None:
    async with (
        site(network, "alpha", [dialled("beta")]) as alpha,
        site(network, "beta", [PeerEntry(name="alpha")]) as beta,
    ):
        await alpha.linked(beta)
        for _ in range(100):
            beta.send("alpha", "to.alpha")
            alpha.send("beta", "to.beta")
        await alpha.broker.until(lambda: alpha.broker.copies)
        await alpha.links.drain()
        assert alpha.log[-1] == "down beta: draining"
        await beta.broker.until(lambda: len(beta.log) == 2)
        assert beta.log[-1] == "down alpha: draining"
        [status] = beta.links.status()
        assert status.in_flight == 0
        received = len(alpha.broker.copies)
        assert len(beta.broker.settled) == received
        assert len(alpha.broker.settled) == len(beta.broker.copies)


async def test_a_drained_site_takes_no_new_link(autojump_clock: MockClock, network: MemoryNetwork) -> None:
    async with site(network, "alpha", [PeerEntry(name="beta")]) as alpha:
        await alpha.links.drain()
        async with site(network, "beta", [dialled("alpha")]) as beta:
            await trio.sleep(100)
            assert beta.log == []
            [status] = beta.links.status()
            assert status.why_down == "closed the connection and says: draining"


async def test_a_peer_that_is_removed_loses_its_link_and_others_keep_theirs(
    autojump_clock: MockClock, network: MemoryNetwork
) -> None:
    async with (
        site(network, "alpha", [PeerEntry(name="beta"), PeerEntry(name="gamma")]) as alpha,
        site(network, "beta", [dialled("alpha")]) as beta,
        site(network, "gamma", [dialled("alpha")]) as gamma,
    ):
        await alpha.linked(beta, gamma)
        alpha.links.set_peers({"gamma": PeerEntry(name="gamma")})
        await beta.broker.until(lambda: len(beta.log) == 2)
        assert beta.log[1] == "down alpha: it says: beta is no longer a peer of alpha"
        await trio.sleep(100)
        [status] = beta.links.status()
        assert status.why_down == "closed the connection and says: refused: beta is not a peer of alpha"
        assert gamma.log == ["up alpha restarted"]
        assert not alpha.links.has_room("beta")
        alpha.links.set_peers({"beta": PeerEntry(name="beta"), "gamma": PeerEntry(name="gamma")})
        await alpha.linked(beta)


async def test_a_new_address_is_dialled_without_a_restart(
    autojump_clock: MockClock, network: MemoryNetwork
) -> None:
    nowhere = PeerEntry(name="beta", address="nowhere:1")
    async with site(network, "alpha", [nowhere]) as alpha, site(network, "beta", [PeerEntry(name="alpha")]):
        await trio.sleep(100)
        assert alpha.log == []
        alpha.links.set_peers({"beta": dialled("beta")})
        await alpha.broker.until(lambda: alpha.log == ["up beta restarted"])


async def test_a_link_whose_certificate_is_no_longer_trusted_ends(
    autojump_clock: MockClock, network: MemoryNetwork
) -> None:
    async with (
        site(network, "alpha", [PeerEntry(name="beta")]) as alpha,
        site(network, "beta", [dialled("alpha")]) as beta,
    ):
        await alpha.linked(beta)
        network.distrusted.add("beta")
        await beta.broker.until(lambda: len(beta.log) == 2)
        assert beta.log[1] == "down alpha: it says: refused: the certificate of beta is revoked"


@pytest.mark.parametrize("dials", ["alpha", "beta"])
async def test_who_comes_to_be_revoked_in_its_handshake_gets_no_link(
    autojump_clock: MockClock, network: MemoryNetwork, dials: str
) -> None:
    network.distrusted.add("beta")  # which the handshakes here do not know
    async with (
        site(network, "alpha", [dialled("beta") if dials == "alpha" else PeerEntry(name="beta")]) as alpha,
        site(network, "beta", [dialled("alpha") if dials == "beta" else PeerEntry(name="alpha")]) as beta,
    ):
        await trio.sleep(10)
        refused = "the certificate of beta is revoked"
        assert (alpha.log, beta.log) == ([], [])
        assert alpha.links.status()[0].why_down == f"refused by this site: {refused}"
        assert beta.links.status()[0].why_down == f"closed the connection and says: refused: {refused}"


async def test_dials_come_ever_later_and_never_later_than_the_bound(
    autojump_clock: MockClock, network: MemoryNetwork
) -> None:
    async with site(network, "alpha", [dialled("beta")]):
        await trio.sleep(1_000)
    times = [at for at, _, _ in network.dials]
    pauses = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert pauses[0] <= 0.6
    assert max(pauses[:3]) < 5
    assert all(29 <= pause <= 61 for pause in pauses[10:])
    assert len(set(pauses[10:])) > 1


async def test_features_that_both_have_hold_on_the_link(
    autojump_clock: MockClock, network: MemoryNetwork
) -> None:
    async with (
        site(network, "alpha", [dialled("beta")], features=("custody", "new")) as alpha,
        site(network, "beta", [PeerEntry(name="alpha")], features=("old", "custody")) as beta,
    ):
        await alpha.linked(beta)
        assert alpha.broker.agreements[0].features == beta.broker.agreements[0].features == ("custody",)


async def test_two_sites_with_one_name_are_noticed_and_the_first_keeps_its_link(
    autojump_clock: MockClock, network: MemoryNetwork, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    async with (
        site(network, "alpha", [PeerEntry(name="beta")]) as alpha,
        site(network, "beta", [dialled("alpha")]) as beta,
    ):
        await beta.linked(alpha)
        async with site(
            network, "beta", [dialled("alpha")], listens_as="other", installation="second"
        ) as impostor:
            await trio.sleep(60)
            assert impostor.log == []
            [status] = impostor.links.status()
            assert "two sites claim the name beta; the other one is at beta:9" in status.why_down
        assert alpha.log == ["up beta restarted"]
        refusals = [one for one in caplog.messages if one.startswith("refused beta (other:9): two sites")]
        assert len(refusals) == 1  # however often it tries in this minute
        told = {(one.control.kind, one.control.payload) for one in beta.broker.controls}
        assert told == {("claimed", b'{"remote":"other:9"}')}


async def test_a_site_that_dials_itself_or_its_own_name_is_refused(
    autojump_clock: MockClock, network: MemoryNetwork, caplog: pytest.LogCaptureFixture
) -> None:
    async with (
        site(network, "alpha", []),
        site(network, "alpha", [dialled("alpha")], listens_as="other") as other,
    ):
        await trio.sleep(10)
        assert other.log == []
    assert "there is another certificate for the name alpha" in caplog.text


async def test_a_site_with_another_name_than_was_dialled_is_refused_and_told(
    autojump_clock: MockClock, network: MemoryNetwork, caplog: pytest.LogCaptureFixture
) -> None:
    async with (
        site(network, "alpha", [PeerEntry(name="beta", address="gamma:1")]) as alpha,
        site(network, "gamma", [PeerEntry(name="alpha")]) as gamma,
    ):
        await trio.sleep(10)
        assert alpha.log == gamma.log == []
        [status] = gamma.links.status()
        assert "beta was dialled, but its certificate is for gamma" in status.why_down
    assert "beta was dialled, but the certificate there is for gamma" in caplog.text


async def test_an_unknown_peer_is_refused_and_both_sides_log_why(
    autojump_clock: MockClock, network: MemoryNetwork, caplog: pytest.LogCaptureFixture
) -> None:
    async with site(network, "alpha", []), site(network, "beta", [dialled("alpha")]):
        await trio.sleep(100)
    lines = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert "refused beta (beta:9): beta is not a peer of alpha" in lines
    assert lines.count("alpha closed the connection and says: refused: beta is not a peer of alpha") == 1


class FailingBroker(RecordingBroker):
    """Fails once where it is told one thing."""

    def __init__(self, told: str) -> None:
        super().__init__()
        works = getattr(self, told)

        def fails(*what: object) -> object:
            setattr(self, told, works)
            self.log.append("failed")
            raise TypeError("a broker that is broken")

        setattr(self, told, fails)


@pytest.mark.parametrize("dials", ["alpha", "beta", "both"])
@pytest.mark.parametrize(
    "told",
    [
        "link_up",
        "link_down",
        "transfer_arrived",
        "control_arrived",
        "acknowledged",
        "room",
        "probe_arrived",
        "input_room",
    ],
)
async def test_what_the_broker_cannot_be_told_ends_the_link_and_it_begins_anew(
    autojump_clock: MockClock, network: MemoryNetwork, told: str, dials: str
) -> None:
    to_beta = dialled("beta") if dials != "beta" else PeerEntry(name="beta")
    to_alpha = dialled("alpha") if dials != "alpha" else PeerEntry(name="alpha")
    broker = FailingBroker(told)
    settings = LinkSettings(window_units_max=2)
    async with (
        site(network, "alpha", [to_beta], broker=broker, settings=settings) as alpha,
        site(network, "beta", [to_alpha], settings=settings) as beta,
    ):
        await alpha.linked(beta)
        control = Control(kind="interest", payload=b"{}")
        beta.links.send("alpha", control, Lane.CONTROL)
        for _ in range(4):
            beta.send("alpha", "there")
            alpha.send("beta", "back")
        await trio.sleep(300)
        if told == "link_down":
            network.cut()
            await trio.sleep(300)
        assert "failed" in broker.log
        await alpha.linked(beta)
        settled = len(beta.broker.settled)
        beta.send("alpha", "again")
        await beta.broker.until(lambda: len(beta.broker.settled) > settled)


async def test_how_much_a_message_may_be_holds_on_links_that_are_up_as_it_is_changed(
    autojump_clock: MockClock, network: MemoryNetwork
) -> None:
    bounds = [1_000]

    async with (
        site(network, "alpha", [dialled("beta")]) as alpha,
        site(network, "beta", [PeerEntry(name="alpha")], message_bytes_max=lambda: bounds[-1]) as beta,
    ):
        await alpha.linked(beta)
        settled = alpha.broker.settled
        for bound in (1_000, 3_000, 1_000):
            bounds.append(bound)
            alpha.send("beta", "to.beta", body=b"x" * 2_000)
            await alpha.broker.until(lambda: len(settled) == len(bounds) - 1)
        assert [one.outcome for one in settled] == ["denied", "accepted", "denied"]
        assert len(beta.log) == 1

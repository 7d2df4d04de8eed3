"""What became of a message, asked of all sites over links between real brokers."""

from pathlib import Path
from typing import Final

import pytest
import trio

from daemon.control.journey import journey
from daemon.hops.examine import Awaited, moment
from daemon.operating.journeys import Journey
from routing.federation.enquiry import Why
from routing.message import DeliveryMode, Message, Section
from routing.peering.copies import Arrival
from tests.support.enquiring import CHAIN, AskedSites, again_reached, asked_sites, link_down, reports_of
from tests.support.federated import PAIR, FederatedClient, FederatedSite, federated_site
from tests.support.hop_log_writer import read_only
from tests.support.journeys import shape
from tests.support.links import MemoryNetwork
from tests.support.patience import PATIENCE_S


async def awaited_once_sent(site: FederatedSite, smuid: str) -> Awaited:
    """The one peer whose answer is awaited, once it was sent the message."""
    with trio.fail_after(PATIENCE_S):
        while True:
            [awaited] = site.broker.federating.awaited(smuid)
            if awaited.sent_us:
                return awaited
            await trio.sleep(0.01)


async def silenced_once_wanted(running: AskedSites, mode: DeliveryMode) -> FederatedClient:
    """Nothing passes between alpha and beta any more, though a reader at beta wants the topic `weather`.

    Returns a client of alpha that may publish.
    """
    alpha = running["alpha"]
    await (await running["beta"].client("reader")).subscribe("weather")
    await alpha.wanted(mode, "weather")
    if mode == "ONE":
        await alpha.would_hand_over("weather")
    writer = await alpha.client("writer")
    running.network.silence()
    return writer


def comes_home(site: FederatedSite, smuid: str, topic: str, text: str, *, way: tuple[str, ...]) -> None:
    """A message of mode ONE comes to a site that had it before, from the last of those on its way."""
    message = Message(
        sections=(Section("text/plain", text.encode()),), smuid=smuid, account=f"test:ada@{site.name}"
    )
    site.broker.door.arrive(
        Arrival(
            peer=way[-1],
            unit=None,
            topic=topic,
            message=message,
            mode="ONE",
            depth=-1,
            hops=way,
            timeout_left_s=None,
            query=0,
        )
    )


UNKNOWN: Final = "alpha/000000000000-1-1"


class TestWhy:
    async def test_the_way_of_a_message_is_told_by_all_who_had_it(self, tmp_path: Path) -> None:
        async with asked_sites(
            tmp_path, {**CHAIN, "beta": ["alpha", "gamma", "delta"], "delta": ["beta"]}
        ) as running:
            await (await running["delta"].client("writer")).publish("news", "so that its log has begun")
            smuid = await sent_over_two_links(running)
            way = await why(running["delta"], smuid)
            assert shape(way.began) == ("alpha", [("beta", [("gamma", [])])])
            assert way.topic == "weather"
            assert way.never == ["delta"]
            assert (way.apart, way.gaps) == ([], [])

    @pytest.mark.parametrize("mode", ["ALL", "ONE"])
    async def test_a_peer_whose_answer_is_awaited_is_named_with_the_time_and_the_attempt(
        self, tmp_path: Path, mode: DeliveryMode
    ) -> None:
        async with asked_sites(tmp_path, PAIR) as running:
            alpha = running["alpha"]
            writer = await silenced_once_wanted(running, mode)
            before_us = alpha.broker.clock.wall_us()
            smuid = await writer.publish("weather", "rain", depth=1, delivery=mode)
            awaited = await awaited_once_sent(alpha, smuid)
            assert (awaited.peer, awaited.is_up, awaited.attempt) == ("beta", True, 1)
            assert before_us <= awaited.sent_us <= alpha.broker.clock.wall_us()
            [report], _ = await reports_of(alpha, Why(smuid), 1.0)
            assert report.findings is not None
            assert report.findings.verdict.endswith(
                "Still held: nobody is known to have it yet."
                f" Sent to beta at {moment(awaited.sent_us)}, attempt 1: its answer is awaited."
            )

    async def test_a_peer_that_has_still_to_answer_for_a_message_that_has_come_home_is_named(
        self, tmp_path: Path
    ) -> None:
        async with asked_sites(tmp_path, PAIR) as running:
            alpha = running["alpha"]
            await (await running["beta"].client("worker")).subscribe("jobs")
            await alpha.would_hand_over("jobs")
            writer = await alpha.client("writer")
            running.network.silence()
            smuid = await writer.publish("jobs", "dig", depth=-1, delivery="ONE")
            sent = await awaited_once_sent(alpha, smuid)
            comes_home(alpha, smuid, "jobs", "dig", way=("alpha", "beta"))
            worker = await alpha.client("worker")
            await worker.subscribe("jobs")
            assert await worker.take() == "dig"
            assert alpha.broker.federating.awaited(smuid) == [sent]
            [report], _ = await reports_of(alpha, Why(smuid), 1.0)
            assert report.findings is not None
            assert report.findings.verdict.endswith(
                f" Sent to beta at {moment(sent.sent_us)}, attempt 1: its answer is awaited."
            )

    async def test_a_copy_that_waits_for_a_link_is_said_to_and_nothing_once_it_was_answered(
        self, tmp_path: Path
    ) -> None:
        async with asked_sites(tmp_path, PAIR) as running:
            alpha, reader = running["alpha"], await running["beta"].client("reader")
            await reader.subscribe("weather")
            await alpha.wanted("ALL", "weather")
            running.network.unreachable.add("beta")
            running.network.cut()
            await link_down(alpha, "beta")
            writer = await alpha.client("writer")
            smuid = await writer.publish("weather", "rain", depth=1)
            [awaited] = alpha.broker.federating.awaited(smuid)
            assert awaited == Awaited("beta", is_up=False)
            [report], _ = await reports_of(alpha, Why(smuid), 1.0)
            assert report.findings is not None
            assert report.findings.verdict.endswith("To be sent to beta when there is a link with it.")
            running.network.unreachable.clear()
            assert await reader.take() == "rain"
            with trio.fail_after(PATIENCE_S):
                while alpha.broker.federating.awaited(smuid):
                    await trio.sleep(0.01)
            [report, _], _ = await reports_of(alpha, Why(smuid))
            assert report.findings is not None
            assert report.findings.awaited == []

    @pytest.mark.parametrize("mode", ["ALL", "ONE"])
    async def test_a_peer_that_may_have_what_was_sent_before_the_link_was_lost_is_said_to(
        self, tmp_path: Path, mode: DeliveryMode
    ) -> None:
        async with asked_sites(tmp_path, PAIR) as running:
            alpha = running["alpha"]
            writer = await silenced_once_wanted(running, mode)
            smuid = await writer.publish("weather", "rain", depth=1, delivery=mode)
            await awaited_once_sent(alpha, smuid)
            running.network.unreachable.add("beta")
            running.network.cut()
            await link_down(alpha, "beta")
            [awaited] = alpha.broker.federating.awaited(smuid)
            assert awaited == Awaited("beta", is_up=False, may_have=True, attempt=1)
            [report], _ = await reports_of(alpha, Why(smuid), 1.0)
            assert report.findings is not None
            assert "Perhaps beta has it, from attempt 1" in report.findings.verdict

    async def test_after_a_restart_it_is_not_known_whether_what_waited_for_a_link_was_sent(
        self, tmp_path: Path
    ) -> None:
        network, rules = MemoryNetwork(), {"beta": {"flood": True}}
        async with federated_site(network, tmp_path, "alpha", ["beta"], rules=rules) as alpha:
            writer = await alpha.client("writer")
            smuid = await writer.publish("weather", "rain", depth=1)
            assert alpha.broker.federating.awaited(smuid) == [Awaited("beta", is_up=False)]
        async with federated_site(network, tmp_path, "alpha", ["beta"], rules=rules) as alpha:
            assert alpha.broker.federating.awaited(smuid) == [Awaited("beta", is_up=False, may_have=True)]

    async def test_a_site_that_cannot_be_reached_is_a_gap(self, tmp_path: Path) -> None:
        async with asked_sites(tmp_path, CHAIN) as running:
            smuid = await sent_over_two_links(running)
            running.network.unreachable.add("gamma")
            running.network.cut()
            await link_down(running["beta"], "gamma")
            await again_reached(running["alpha"], "beta")
            way = await why(running["alpha"], smuid)
            [gap] = way.gaps
            assert gap.server == "gamma"
            assert gap.why.startswith("beta could not ask it: the link is down (")
            assert shape(way.began) == ("alpha", [("beta", [("gamma", [])])])

    async def test_a_log_that_is_gone_is_a_gap(self, tmp_path: Path) -> None:
        async with asked_sites(tmp_path, CHAIN) as running:
            smuid = await sent_over_two_links(running)
            for file in (tmp_path / "gamma" / "hops").iterdir():
                file.write_bytes(b"")
            [gap] = (await why(running["alpha"], smuid)).gaps
            assert (gap.server, gap.why) == (
                "gamma",
                "its log has no record of it, though beta handed the message to it",
            )

    async def test_a_site_that_cannot_write_its_log_does_not_say_that_it_never_had_a_message(
        self, tmp_path: Path
    ) -> None:
        async with asked_sites(tmp_path, PAIR) as running:
            other = await running["beta"].client("writer")
            await other.publish("news", "so that its log has begun")
            smuid = await (await running["alpha"].client("writer")).publish("news", "for nobody else")
            way = await why(running["alpha"], smuid)  # at once: the last records are hardly written
            assert (shape(way.began), way.never, way.gaps) == (("alpha", []), ["beta"], [])
            with read_only(running["beta"].hops):
                await other.publish("news", "not in the log")
                way = await why(running["alpha"], smuid)
            assert way.never == []
            [gap] = way.gaps
            assert (gap.server, "nothing was written to its log after" in gap.why) == ("beta", True)

    async def test_a_message_that_was_never_anywhere_is_unknown_to_all(self, tmp_path: Path) -> None:
        async with asked_sites(tmp_path, CHAIN) as running:
            way = await why(running["alpha"], UNKNOWN)
            assert way.began is None
            assert [gap.server for gap in way.gaps] == ["alpha", "beta", "gamma"]

    async def test_a_log_is_not_shown_to_a_peer_that_the_topic_may_not_cross_to(self, tmp_path: Path) -> None:
        rules = {"alpha": {"allow_in": ("news.#",), "allow_out": ("news.#",)}}
        async with asked_sites(tmp_path, CHAIN, beta={"rules": rules}) as running:
            reader = await running["gamma"].client("reader")
            await reader.subscribe("secret")
            await running["beta"].wanted("ALL", "secret")
            smuid = await (await running["beta"].client("writer")).publish("secret", "hush", depth=1)
            await reader.take()
            way = await why(running["alpha"], smuid)
            assert way.began is None
            assert way.topic == ""
            forbidden = "the rules of the link between beta and alpha forbid it"
            assert {gap.server: gap.why for gap in way.gaps if gap.server != "alpha"} == {
                "beta": forbidden,
                "gamma": forbidden,
            }
            assert shape((await why(running["gamma"], smuid)).began) == ("beta", [("gamma", [])])


async def sent_over_two_links(running: AskedSites) -> str:
    """The Smuid of a message from alpha that gamma's reader has finished, and that is held nowhere."""
    reader = await running["gamma"].client("reader")
    await reader.subscribe("weather")
    await running["alpha"].wanted("ALL", "weather", within=1)
    smuid = await (await running["alpha"].client("writer")).publish("weather", "rain", depth=2)
    assert await reader.take() == "rain"
    for name in ("alpha", "beta", "gamma"):
        await running[name].idle()
    return smuid


async def why(site: FederatedSite, smuid: str) -> Journey:
    reports, end = await reports_of(site, Why(smuid))
    return journey(smuid, reports, end.unanswered)

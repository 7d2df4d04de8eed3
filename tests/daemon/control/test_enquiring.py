"""Questions over links between real brokers, over a network in memory."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
import trio

from daemon.control.journey import journey
from daemon.control.reports import End, Heard, Report, ReportTold, Told
from daemon.hops.examine import Awaited, moment
from daemon.link.joining import OFFERED
from daemon.operating.journeys import Journey
from daemon.settings import QueueSettings
from routing.federation import enquiry
from routing.federation.assignments import Assignment
from routing.federation.enquiry import About, Ask, Ping, Trace, Why
from routing.link.units import Control, Lane
from routing.message import Message, Section
from routing.peering.copies import Arrival
from routing.peering.news import ATTACHED, DESTINATIONS, NEWS
from routing.peering.wants import PATTERNS
from tests.support.federated import FederatedSite, federated_site
from tests.support.hop_log_writer import read_only
from tests.support.journeys import shape
from tests.support.links import MemoryNetwork
from tests.support.patience import PATIENCE_S

PAIR: Final = {"alpha": ["beta"], "beta": ["alpha"]}
CHAIN: Final = {"alpha": ["beta"], "beta": ["alpha", "gamma"], "gamma": ["beta"]}
RING: Final = {"alpha": ["beta", "gamma"], "beta": ["alpha", "gamma"], "gamma": ["alpha", "beta"]}

KNOWS_DESTINATIONS: Final[dict[str, Any]] = {"features": (*enquiry.FEATURES, NEWS, DESTINATIONS)}
KNOWS_NONE: Final[dict[str, Any]] = {"features": (*enquiry.FEATURES, PATTERNS, NEWS)}
"""As long as news is not known everywhere, it depends on the moment whether destinations are named."""

TELLS_ATTACHED: Final[dict[str, Any]] = {"features": (*OFFERED, ATTACHED)}

UNKNOWN: Final = "alpha/000000000000-1-1"


class Running(dict[str, FederatedSite]):
    """Sites by name, and what links them."""

    def __init__(self) -> None:
        super().__init__()
        self.network = MemoryNetwork()


@asynccontextmanager
async def sites(
    directory: Path, links: dict[str, list[str]], **more: dict[str, Any]
) -> AsyncIterator[Running]:
    """Linked sites; `more` is what a site is started with besides."""
    running = Running()
    async with AsyncExitStack() as stack:
        for name, peers in links.items():
            site = federated_site(running.network, directory, name, peers, **KNOWS_NONE | more.get(name, {}))
            running[name] = await stack.enter_async_context(site)
        for name, peers in links.items():
            await running[name].linked(*peers)
        yield running


async def asked(site: FederatedSite, about: About, timeout_s: float = 5.0) -> tuple[list[Report], End]:
    """All reports to a question, and the end."""
    told: list[Told] = []

    async def tell(one: Told) -> None:
        told.append(one)

    await site.broker.federating.enquiring.ask(about, timeout_s, tell)
    end = told.pop()
    assert isinstance(end, End)
    return [heard.report for heard in told if isinstance(heard, Heard)], end


async def pinged(site: FederatedSite, server: str, timeout_s: float = 5.0) -> Report:
    [report], _ = await asked(site, Ping(server), timeout_s)
    return report


def found(reports: list[Report]) -> dict[tuple[str, str], str]:
    """What came of the question, by who asked and who was asked."""
    return {(report.source, report.at): report.outcome for report in reports}


def passed_over(reports: list[Report], at: str) -> dict[str, str]:
    return {one.peer: one.why for report in reports if report.at == at for one in report.passed_over}


class TestPing:
    async def test_it_goes_to_a_server_that_is_no_neighbour_and_back(self, tmp_path: Path) -> None:
        async with sites(tmp_path, CHAIN) as running:
            await running["alpha"].wanted("SERVER", "gamma", within=1)
            report = await pinged(running["alpha"], "gamma")
            assert (report.at, report.outcome, report.hops) == ("gamma", "reached", ("alpha", "beta"))

    async def test_a_site_reaches_itself(self, tmp_path: Path) -> None:
        async with sites(tmp_path, {"alpha": []}) as running:
            report = await pinged(running["alpha"], "alpha")
            assert (report.at, report.outcome) == ("alpha", "reached")

    async def test_a_server_that_nobody_knows_is_said_to_be_so(self, tmp_path: Path) -> None:
        async with sites(tmp_path, CHAIN) as running:
            report = await pinged(running["alpha"], "omega")
            assert (report.at, report.outcome) == ("alpha", "stopped")
            assert report.reason == "no way to omega is known here"

    async def test_a_link_that_is_down_on_the_way_is_named_with_the_reason(self, tmp_path: Path) -> None:
        async with sites(tmp_path, CHAIN) as running:
            await running["alpha"].wanted("SERVER", "gamma", within=1)
            running.network.unreachable.add("gamma")
            running.network.cut()
            await down(running["beta"], "gamma")
            await again_reached(running["alpha"], "beta")
            report = await pinged(running["alpha"], "gamma")
            assert (report.at, report.outcome) == ("beta", "stopped")
            assert report.reason.startswith("gamma: the link is down (")

    async def test_a_peer_that_does_not_know_the_question_is_named(self, tmp_path: Path) -> None:
        async with sites(tmp_path, CHAIN, gamma={"features": ()}) as running:
            await running["alpha"].wanted("SERVER", "gamma", within=1)
            report = await pinged(running["alpha"], "gamma")
            assert (report.at, report.outcome) == ("beta", "stopped")
            assert report.reason == "gamma: it does not know `ping`: its smqpd is too old"

    async def test_an_answer_that_does_not_come_is_waited_for_no_longer_than_asked(
        self, tmp_path: Path
    ) -> None:
        async with sites(tmp_path, PAIR) as running:
            running.network.silence()
            reports, end = await asked(running["alpha"], Ping("beta"), 0.2)
            assert reports == []
            assert end.unanswered


async def assigned(site: FederatedSite, topic: str, *destinations: Assignment) -> None:
    """Wait until a message of mode ALL would have these."""
    with trio.fail_after(PATIENCE_S):
        while site.broker.door.outlook.assignments.find(topic, -1) != [*destinations]:
            await trio.sleep(0.01)


class TestTrace:
    async def test_each_site_on_the_way_reports_and_nobody_gets_anything(self, tmp_path: Path) -> None:
        async with sites(tmp_path, CHAIN) as running:
            reader = await running["gamma"].client("reader")
            await reader.subscribe("weather")
            await running["alpha"].wanted("ALL", "weather", within=1)
            reports, end = await asked(running["alpha"], Trace("weather"))
            assert found(reports) == {
                ("", "alpha"): "reached",
                ("alpha", "beta"): "reached",
                ("beta", "gamma"): "reached",
            }
            assert [report.subscriptions for report in reports] == [0, 0, 1]
            assert end.unanswered == ()
            await reader.publish("weather", "the first")
            assert await reader.take() == "the first"

    async def test_a_peer_whose_link_is_down_and_the_one_that_asks_are_told_apart_by_more_than_words(
        self, tmp_path: Path
    ) -> None:
        async with sites(tmp_path, CHAIN) as running:
            await (await running["gamma"].client("reader")).subscribe("weather")
            await (await running["beta"].client("reader")).subscribe("weather")
            await running["alpha"].wanted("ALL", "weather", within=1)
            running.network.unreachable.add("gamma")
            running.network.cut()
            await down(running["beta"], "gamma")
            await again_reached(running["alpha"], "beta")
            await running["alpha"].wanted("ALL", "weather")
            reports, _ = await asked(running["alpha"], Trace("weather"))
            [at_beta] = [report.passed_over for report in reports if report.at == "beta"]
            assert {one.peer: (one.is_down, one.is_source) for one in at_beta} == {
                "alpha": (False, True),
                "gamma": (True, False),
            }
            assert passed_over(reports, "beta")["gamma"].startswith("the link is down (")

    async def test_told_to_deliver_it_gives_each_subscription_one_message(self, tmp_path: Path) -> None:
        async with sites(tmp_path, RING) as running:
            readers = {name: await running[name].client("reader") for name in ("beta", "gamma")}
            for reader in readers.values():
                await reader.subscribe("weather")
            for peer in ("beta", "gamma"):
                await told_interest(running["alpha"], "weather", peer)
            reports, _ = await asked(running["alpha"], Trace("weather", deliver=True))
            for name, reader in readers.items():
                assert await reader.take() == "A probe of alpha: smqpd trace weather --deliver\n"
                [smuid] = [report.smuid for report in reports if report.at == name and report.smuid]
                assert reader.last.stored.message.smuid == smuid
                await reader.publish("weather", "the end")
                assert await reader.take() == "the end"

    async def test_a_site_that_is_full_does_not_deliver_it_and_says_so(self, tmp_path: Path) -> None:
        async with sites(tmp_path, PAIR) as running:
            await (await running["beta"].client("reader")).subscribe("weather", credit=1)
            await running["alpha"].wanted("ALL", "weather")
            broker = running["beta"].broker
            one = QueueSettings(queue_messages_max=1)
            broker.reconfigure(msgspec.structs.replace(broker.settings, queues=one))
            await (await running["beta"].client("writer")).publish("weather", "rain")
            reports, _ = await asked(running["alpha"], Trace("weather", deliver=True))
            [report] = [report for report in reports if report.at == "beta"]
            assert (report.smuid, report.reason) == ("", "not delivered: there is no room")
            assert broker.held == 1

    async def test_a_site_that_it_comes_to_twice_says_so(self, tmp_path: Path) -> None:
        async with sites(tmp_path, RING) as running:
            for name in ("beta", "gamma"):
                await (await running[name].client("reader")).subscribe("weather")
            for site, peer in (("alpha", "beta"), ("alpha", "gamma"), ("beta", "gamma"), ("gamma", "beta")):
                await told_interest(running[site], "weather", peer)
            reports, end = await asked(running["alpha"], Trace("weather"))
            assert sorted(found(reports).values()) == ["duplicate", "duplicate", *["reached"] * 3]
            assert end.unanswered == ()

    async def test_it_goes_to_the_destinations_of_a_message_and_to_nobody_else(self, tmp_path: Path) -> None:
        square = {"alpha": ["beta", "delta"], "gamma": ["beta", "delta"]}
        square |= {name: ["alpha", "gamma"] for name in ("beta", "delta")}
        async with sites(tmp_path, square, **dict.fromkeys(square, KNOWS_DESTINATIONS)) as running:
            await (await running["gamma"].client("reader")).subscribe("weather")
            by_either = Assignment("gamma", "beta", 2, as_short=("delta",))
            await assigned(running["alpha"], "weather", by_either)
            reports, end = await asked(running["alpha"], Trace("weather"))
            assert list(found(reports)) == [("", "alpha"), ("alpha", "beta"), ("beta", "gamma")]
            assert passed_over(reports, "alpha") == {"delta": "beta is as near"}
            assert passed_over(reports, "gamma")["delta"] == "nobody there wants it"
            assert end.unanswered == ()

    async def test_it_goes_no_further_than_its_depth(self, tmp_path: Path) -> None:
        async with sites(tmp_path, CHAIN) as running:
            for name in ("beta", "gamma"):
                await (await running[name].client("reader")).subscribe("weather")
            await running["alpha"].wanted("ALL", "weather")
            await running["beta"].wanted("ALL", "weather")
            reports, _ = await asked(running["alpha"], Trace("weather", depth=1))
            assert [report.at for report in reports] == ["alpha", "beta"]
            assert passed_over(reports, "beta")["gamma"] == "its Depth ends here"

    async def test_the_rules_of_a_link_hold_for_it(self, tmp_path: Path) -> None:
        rules = {"alpha": {"allow_in": ("news.#",), "depth_max": 1}}
        async with sites(tmp_path, CHAIN, beta={"rules": rules}) as running:
            for topic in ("weather", "news.oslo"):
                await (await running["gamma"].client(topic)).subscribe(topic)
                await running["beta"].wanted("ALL", topic)
            await running["alpha"].wanted("ALL", "news.oslo", within=1)
            reports, _ = await asked(running["alpha"], Trace("weather"))
            assert [report.at for report in reports] == ["alpha"]
            reports, _ = await asked(running["alpha"], Trace("news.oslo"))
            assert [report.depth for report in reports] == [-1, 1, 0]

    async def test_it_goes_nowhere_if_a_link_ends_its_way_before_who_wants_it(self, tmp_path: Path) -> None:
        async with sites(tmp_path, CHAIN, beta={"rules": {"alpha": {"depth_max": 0}}}) as running:
            await (await running["gamma"].client("reader")).subscribe("weather")
            await running["beta"].wanted("ALL", "weather")
            await running["alpha"].knows("gamma", "weather")
            reports, _ = await asked(running["alpha"], Trace("weather"))
            assert [report.at for report in reports] == ["alpha"]
            barred = "topic rules or depth_max of a link keep it from who wants it there"
            assert passed_over(reports, "alpha") == {"beta": barred}

    async def test_a_message_of_mode_one_stays_where_it_is_taken(self, tmp_path: Path) -> None:
        async with sites(tmp_path, CHAIN) as running:
            for name in ("beta", "gamma"):
                await (await running[name].client("worker")).subscribe("jobs")
            await running["alpha"].wanted("ONE", "jobs")
            reports, _ = await asked(running["alpha"], Trace("jobs", mode="ONE"))
            assert [(report.at, report.subscriptions) for report in reports] == [("alpha", 0), ("beta", 1)]

    async def test_a_message_of_mode_one_goes_past_a_subscription_that_nobody_is_attached_to(
        self, tmp_path: Path
    ) -> None:
        unattended = "nobody who wants it there is known to be attached"
        async with sites(tmp_path, CHAIN, **dict.fromkeys(CHAIN, TELLS_ATTACHED)) as running:
            for name in ("alpha", "gamma"):
                client = await running[name].client("worker")
                await client.subscribe("jobs")
                client.session.close()
            await running["alpha"].would_hand_over("jobs", why_not=unattended)
            reports, _ = await asked(running["alpha"], Trace("jobs", mode="ONE"))
            assert [(report.at, report.subscriptions) for report in reports] == [("alpha", 1)]
            assert passed_over(reports, "alpha") == {"beta": unattended}
            await (await running["gamma"].client("worker")).subscribe("jobs")
            await running["alpha"].would_hand_over("jobs")
            reports, _ = await asked(running["alpha"], Trace("jobs", mode="ONE"))
            assert [(report.at, report.subscriptions) for report in reports] == [
                ("alpha", 1),
                ("beta", 0),
                ("gamma", 1),
            ]

    async def test_a_peer_that_does_not_know_the_question_is_passed_over(self, tmp_path: Path) -> None:
        async with sites(tmp_path, PAIR, beta={"features": ("ping",)}) as running:
            await (await running["beta"].client("reader")).subscribe("weather")
            await running["alpha"].wanted("ALL", "weather")
            reports, _ = await asked(running["alpha"], Trace("weather"))
            assert passed_over(reports, "alpha") == {"beta": "it does not know `trace`: its smqpd is too old"}


async def awaited_once_sent(site: FederatedSite, smuid: str) -> Awaited:
    """The one peer whose answer is awaited, once it was sent the message."""
    with trio.fail_after(PATIENCE_S):
        while True:
            [awaited] = site.broker.federating.awaited(smuid)
            if awaited.sent_us:
                return awaited
            await trio.sleep(0.01)


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


class TestWhy:
    async def test_the_way_of_a_message_is_told_by_all_who_had_it(self, tmp_path: Path) -> None:
        async with sites(
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
        self, tmp_path: Path, mode: Any
    ) -> None:
        async with sites(tmp_path, PAIR) as running:
            alpha = running["alpha"]
            await (await running["beta"].client("reader")).subscribe("weather")
            await alpha.wanted(mode, "weather")
            if mode == "ONE":
                await alpha.would_hand_over("weather")
            writer = await alpha.client("writer")
            running.network.silence()
            before_us = alpha.broker.clock.wall_us()
            smuid = await writer.publish("weather", "rain", depth=1, delivery=mode)
            awaited = await awaited_once_sent(alpha, smuid)
            assert (awaited.peer, awaited.is_up, awaited.attempt) == ("beta", True, 1)
            assert before_us <= awaited.sent_us <= alpha.broker.clock.wall_us()
            [report], _ = await asked(alpha, Why(smuid), 1.0)
            assert report.findings is not None
            assert report.findings.verdict.endswith(
                "Still held: nobody is known to have it yet."
                f" Sent to beta at {moment(awaited.sent_us)}, attempt 1: its answer is awaited."
            )

    async def test_a_peer_that_has_still_to_answer_for_a_message_that_has_come_home_is_named(
        self, tmp_path: Path
    ) -> None:
        async with sites(tmp_path, PAIR) as running:
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
            [report], _ = await asked(alpha, Why(smuid), 1.0)
            assert report.findings is not None
            assert report.findings.verdict.endswith(
                f" Sent to beta at {moment(sent.sent_us)}, attempt 1: its answer is awaited."
            )

    async def test_a_copy_that_waits_for_a_link_is_said_to_and_nothing_once_it_was_answered(
        self, tmp_path: Path
    ) -> None:
        async with sites(tmp_path, PAIR) as running:
            alpha, reader = running["alpha"], await running["beta"].client("reader")
            await reader.subscribe("weather")
            await alpha.wanted("ALL", "weather")
            running.network.unreachable.add("beta")
            running.network.cut()
            await down(alpha, "beta")
            writer = await alpha.client("writer")
            smuid = await writer.publish("weather", "rain", depth=1)
            [awaited] = alpha.broker.federating.awaited(smuid)
            assert awaited == Awaited("beta", is_up=False)
            [report], _ = await asked(alpha, Why(smuid), 1.0)
            assert report.findings is not None
            assert report.findings.verdict.endswith("To be sent to beta when there is a link with it.")
            running.network.unreachable.clear()
            assert await reader.take() == "rain"
            with trio.fail_after(PATIENCE_S):
                while alpha.broker.federating.awaited(smuid):
                    await trio.sleep(0.01)
            [report, _], _ = await asked(alpha, Why(smuid))
            assert report.findings is not None
            assert report.findings.awaited == []

    @pytest.mark.parametrize("mode", ["ALL", "ONE"])
    async def test_a_peer_that_may_have_what_was_sent_before_the_link_was_lost_is_said_to(
        self, tmp_path: Path, mode: Any
    ) -> None:
        async with sites(tmp_path, PAIR) as running:
            alpha = running["alpha"]
            await (await running["beta"].client("reader")).subscribe("weather")
            await alpha.wanted(mode, "weather")
            if mode == "ONE":
                await alpha.would_hand_over("weather")
            writer = await alpha.client("writer")
            running.network.silence()
            smuid = await writer.publish("weather", "rain", depth=1, delivery=mode)
            await awaited_once_sent(alpha, smuid)
            running.network.unreachable.add("beta")
            running.network.cut()
            await down(alpha, "beta")
            [awaited] = alpha.broker.federating.awaited(smuid)
            assert awaited == Awaited("beta", is_up=False, may_have=True, attempt=1)
            [report], _ = await asked(alpha, Why(smuid), 1.0)
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
        async with sites(tmp_path, CHAIN) as running:
            smuid = await sent_over_two_links(running)
            running.network.unreachable.add("gamma")
            running.network.cut()
            await down(running["beta"], "gamma")
            await again_reached(running["alpha"], "beta")
            way = await why(running["alpha"], smuid)
            [gap] = way.gaps
            assert gap.server == "gamma"
            assert gap.why.startswith("beta could not ask it: the link is down (")
            assert shape(way.began) == ("alpha", [("beta", [("gamma", [])])])

    async def test_a_log_that_is_gone_is_a_gap(self, tmp_path: Path) -> None:
        async with sites(tmp_path, CHAIN) as running:
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
        async with sites(tmp_path, PAIR) as running:
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
        async with sites(tmp_path, CHAIN) as running:
            way = await why(running["alpha"], UNKNOWN)
            assert way.began is None
            assert [gap.server for gap in way.gaps] == ["alpha", "beta", "gamma"]

    async def test_a_log_is_not_shown_to_a_peer_that_the_topic_may_not_cross_to(self, tmp_path: Path) -> None:
        rules = {"alpha": {"allow_in": ("news.#",), "allow_out": ("news.#",)}}
        async with sites(tmp_path, CHAIN, beta={"rules": rules}) as running:
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


class TestHostilePeers:
    @pytest.mark.parametrize(
        ("word", "payload"),
        [
            ("ask", b"rubbish"),
            ("ask", b'{"key":"\xff"}'),
            ("answer", b'{"more":' + b"[" * 100_000),
            ("interest", b'{"changes":[],"more than that":' + b"[" * 100_000),
            ("ask", b'{"key":"x","about":{"type":"everything"},"hops":["beta"],"left_s":1}'),
            ("ask", msgspec.json.encode(Ask("beta/1-1", Ping("alpha"), ("somebody",), 1.0))),
            ("answer", b"{}"),
            (
                "answer",
                msgspec.json.encode(ReportTold("alpha/1-1", Report(at="x", source="", outcome="reached"))),
            ),
        ],
    )
    async def test_nonsense_is_passed_over_and_the_link_lives(
        self, tmp_path: Path, word: str, payload: bytes
    ) -> None:
        async with sites(tmp_path, PAIR) as running:
            running["beta"].links.send("alpha", Control(kind=word, payload=payload), Lane.CONTROL)
            assert (await pinged(running["beta"], "alpha")).outcome == "reached"

    async def test_who_asks_too_much_is_told_so(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(enquiry, "ASKS_PER_S", 1e-6)
        async with sites(tmp_path, PAIR) as running:
            for number in range(int(enquiry.ASKS_AT_ONCE)):
                ask = Ask(f"beta/9-{number:x}", Ping("nowhere"), ("beta",), 5.0)
                payload = msgspec.json.encode(ask)
                running["beta"].links.send("alpha", Control(kind="ask", payload=payload), Lane.CONTROL)
            report = await pinged(running["beta"], "alpha")
            assert (report.at, report.outcome) == ("alpha", "busy")


async def down(site: FederatedSite, peer: str) -> None:
    """Wait until the link is down, and the site knows why."""
    with trio.fail_after(PATIENCE_S):
        while not any(one.peer == peer and one.state != "up" and one.why_down for one in site.links.status()):
            await trio.sleep(0.01)


async def again_reached(site: FederatedSite, server: str) -> None:
    """Wait until a link that was cut is there again, on both sides."""
    with trio.fail_after(PATIENCE_S):
        while not any(one.outcome == "reached" for one in (await asked(site, Ping(server), 0.2))[0]):
            await trio.sleep(0.01)


async def told_interest(site: FederatedSite, topic: str, peer: str) -> None:
    """Wait until a site knows that a peer itself wants a topic."""
    interest = site.broker._router.federation.interest
    with trio.fail_after(PATIENCE_S):
        while interest.distance(peer, ("ALL", topic)) != 0:
            await trio.sleep(0.01)


async def sent_over_two_links(running: Running) -> str:
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
    reports, end = await asked(site, Why(smuid))
    return journey(smuid, reports, end.unanswered)

"""Questions over links between real brokers, over a network in memory."""

from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
import trio

from daemon.control.reports import Report, ReportTold
from daemon.link.joining import OFFERED
from daemon.settings import QueueSettings
from routing.federation import enquiry
from routing.federation.assignments import Assignment
from routing.federation.enquiry import Ask, Ping, Trace
from routing.link.units import Control, Lane
from routing.peering.news import ATTACHED
from tests.support.enquiring import (
    CHAIN,
    KNOWS_DESTINATIONS,
    RING,
    again_reached,
    asked_sites,
    link_down,
    outcomes,
    reports_of,
    told_interest,
)
from tests.support.federated import PAIR, FederatedSite
from tests.support.patience import PATIENCE_S

TELLS_ATTACHED: Final[dict[str, Any]] = {"features": (*OFFERED, ATTACHED)}


async def pinged(site: FederatedSite, server: str, timeout_s: float = 5.0) -> Report:
    [report], _ = await reports_of(site, Ping(server), timeout_s)
    return report


def passed_over(reports: list[Report], at: str) -> dict[str, str]:
    return {one.peer: one.why for report in reports if report.at == at for one in report.passed_over}


class TestPing:
    async def test_it_goes_to_a_server_that_is_no_neighbour_and_back(self, tmp_path: Path) -> None:
        async with asked_sites(tmp_path, CHAIN) as running:
            await running["alpha"].wanted("SERVER", "gamma", within=1)
            report = await pinged(running["alpha"], "gamma")
            assert (report.at, report.outcome, report.hops) == ("gamma", "reached", ("alpha", "beta"))

    async def test_a_site_reaches_itself(self, tmp_path: Path) -> None:
        async with asked_sites(tmp_path, {"alpha": []}) as running:
            report = await pinged(running["alpha"], "alpha")
            assert (report.at, report.outcome) == ("alpha", "reached")

    async def test_a_server_that_nobody_knows_is_said_to_be_so(self, tmp_path: Path) -> None:
        async with asked_sites(tmp_path, CHAIN) as running:
            report = await pinged(running["alpha"], "omega")
            assert (report.at, report.outcome) == ("alpha", "stopped")
            assert report.reason == "no way to omega is known here"

    async def test_a_link_that_is_down_on_the_way_is_named_with_the_reason(self, tmp_path: Path) -> None:
        async with asked_sites(tmp_path, CHAIN) as running:
            await running["alpha"].wanted("SERVER", "gamma", within=1)
            running.network.unreachable.add("gamma")
            running.network.cut()
            await link_down(running["beta"], "gamma")
            await again_reached(running["alpha"], "beta")
            report = await pinged(running["alpha"], "gamma")
            assert (report.at, report.outcome) == ("beta", "stopped")
            assert report.reason.startswith("gamma: the link is down (")

    async def test_a_peer_that_does_not_know_the_question_is_named(self, tmp_path: Path) -> None:
        async with asked_sites(tmp_path, CHAIN, gamma={"features": ()}) as running:
            await running["alpha"].wanted("SERVER", "gamma", within=1)
            report = await pinged(running["alpha"], "gamma")
            assert (report.at, report.outcome) == ("beta", "stopped")
            assert report.reason == "gamma: it does not know `ping`: its smqpd is too old"

    async def test_an_answer_that_does_not_come_is_waited_for_no_longer_than_asked(
        self, tmp_path: Path
    ) -> None:
        async with asked_sites(tmp_path, PAIR) as running:
            running.network.silence()
            reports, end = await reports_of(running["alpha"], Ping("beta"), 0.2)
            assert reports == []
            assert end.unanswered


async def assigned(site: FederatedSite, topic: str, *destinations: Assignment) -> None:
    """Wait until a message of mode ALL would have these."""
    with trio.fail_after(PATIENCE_S):
        while site.broker.door.outlook.assignments.find(topic, -1) != [*destinations]:
            await trio.sleep(0.01)


class TestTrace:
    async def test_each_site_on_the_way_reports_and_nobody_gets_anything(self, tmp_path: Path) -> None:
        async with asked_sites(tmp_path, CHAIN) as running:
            reader = await running["gamma"].client("reader")
            await reader.subscribe("weather")
            await running["alpha"].wanted("ALL", "weather", within=1)
            reports, end = await reports_of(running["alpha"], Trace("weather"))
            assert outcomes(reports) == {
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
        async with asked_sites(tmp_path, CHAIN) as running:
            await (await running["gamma"].client("reader")).subscribe("weather")
            await (await running["beta"].client("reader")).subscribe("weather")
            await running["alpha"].wanted("ALL", "weather", within=1)
            running.network.unreachable.add("gamma")
            running.network.cut()
            await link_down(running["beta"], "gamma")
            await again_reached(running["alpha"], "beta")
            await running["alpha"].wanted("ALL", "weather")
            reports, _ = await reports_of(running["alpha"], Trace("weather"))
            [at_beta] = [report.passed_over for report in reports if report.at == "beta"]
            assert {one.peer: (one.is_down, one.is_source) for one in at_beta} == {
                "alpha": (False, True),
                "gamma": (True, False),
            }
            assert passed_over(reports, "beta")["gamma"].startswith("the link is down (")

    async def test_told_to_deliver_it_gives_each_subscription_one_message(self, tmp_path: Path) -> None:
        async with asked_sites(tmp_path, RING) as running:
            readers = {name: await running[name].client("reader") for name in ("beta", "gamma")}
            for reader in readers.values():
                await reader.subscribe("weather")
            for peer in ("beta", "gamma"):
                await told_interest(running["alpha"], "weather", peer)
            reports, _ = await reports_of(running["alpha"], Trace("weather", deliver=True))
            for name, reader in readers.items():
                assert await reader.take() == "A probe of alpha: smqpd trace weather --deliver\n"
                [smuid] = [report.smuid for report in reports if report.at == name and report.smuid]
                assert reader.last.stored.message.smuid == smuid
                await reader.publish("weather", "the end")
                assert await reader.take() == "the end"

    async def test_a_site_that_is_full_does_not_deliver_it_and_says_so(self, tmp_path: Path) -> None:
        async with asked_sites(tmp_path, PAIR) as running:
            await (await running["beta"].client("reader")).subscribe("weather", credit=1)
            await running["alpha"].wanted("ALL", "weather")
            broker = running["beta"].broker
            one = QueueSettings(queue_messages_max=1)
            broker.reconfigure(msgspec.structs.replace(broker.settings, queues=one))
            await (await running["beta"].client("writer")).publish("weather", "rain")
            reports, _ = await reports_of(running["alpha"], Trace("weather", deliver=True))
            [report] = [report for report in reports if report.at == "beta"]
            assert (report.smuid, report.reason) == ("", "not delivered: there is no room")
            assert broker.held == 1

    async def test_a_site_that_it_comes_to_twice_says_so(self, tmp_path: Path) -> None:
        async with asked_sites(tmp_path, RING) as running:
            for name in ("beta", "gamma"):
                await (await running[name].client("reader")).subscribe("weather")
            for site, peer in (("alpha", "beta"), ("alpha", "gamma"), ("beta", "gamma"), ("gamma", "beta")):
                await told_interest(running[site], "weather", peer)
            reports, end = await reports_of(running["alpha"], Trace("weather"))
            assert sorted(outcomes(reports).values()) == ["duplicate", "duplicate", *["reached"] * 3]
            assert end.unanswered == ()

    async def test_it_goes_to_the_destinations_of_a_message_and_to_nobody_else(self, tmp_path: Path) -> None:
        square = {"alpha": ["beta", "delta"], "gamma": ["beta", "delta"]}
        square |= {name: ["alpha", "gamma"] for name in ("beta", "delta")}
        async with asked_sites(tmp_path, square, **dict.fromkeys(square, KNOWS_DESTINATIONS)) as running:
            await (await running["gamma"].client("reader")).subscribe("weather")
            by_either = Assignment("gamma", "beta", 2, as_short=("delta",))
            await assigned(running["alpha"], "weather", by_either)
            reports, end = await reports_of(running["alpha"], Trace("weather"))
            assert list(outcomes(reports)) == [("", "alpha"), ("alpha", "beta"), ("beta", "gamma")]
            assert passed_over(reports, "alpha") == {"delta": "beta is as near"}
            assert passed_over(reports, "gamma")["delta"] == "nobody there wants it"
            assert end.unanswered == ()

    async def test_it_goes_no_further_than_its_depth(self, tmp_path: Path) -> None:
        async with asked_sites(tmp_path, CHAIN) as running:
            for name in ("beta", "gamma"):
                await (await running[name].client("reader")).subscribe("weather")
            await running["alpha"].wanted("ALL", "weather")
            await running["beta"].wanted("ALL", "weather")
            reports, _ = await reports_of(running["alpha"], Trace("weather", depth=1))
            assert [report.at for report in reports] == ["alpha", "beta"]
            assert passed_over(reports, "beta")["gamma"] == "its Depth ends here"

    async def test_the_rules_of_a_link_hold_for_it(self, tmp_path: Path) -> None:
        rules = {"alpha": {"allow_in": ("news.#",), "depth_max": 1}}
        async with asked_sites(tmp_path, CHAIN, beta={"rules": rules}) as running:
            for topic in ("weather", "news.oslo"):
                await (await running["gamma"].client(topic)).subscribe(topic)
                await running["beta"].wanted("ALL", topic)
            await running["alpha"].wanted("ALL", "news.oslo", within=1)
            reports, _ = await reports_of(running["alpha"], Trace("weather"))
            assert [report.at for report in reports] == ["alpha"]
            reports, _ = await reports_of(running["alpha"], Trace("news.oslo"))
            assert [report.depth for report in reports] == [-1, 1, 0]

    async def test_it_goes_nowhere_if_a_link_ends_its_way_before_who_wants_it(self, tmp_path: Path) -> None:
        async with asked_sites(tmp_path, CHAIN, beta={"rules": {"alpha": {"depth_max": 0}}}) as running:
            await (await running["gamma"].client("reader")).subscribe("weather")
            await running["beta"].wanted("ALL", "weather")
            await running["alpha"].knows("gamma", "weather")
            reports, _ = await reports_of(running["alpha"], Trace("weather"))
            assert [report.at for report in reports] == ["alpha"]
            barred = "topic rules or depth_max of a link keep it from who wants it there"
            assert passed_over(reports, "alpha") == {"beta": barred}

    async def test_a_message_of_mode_one_stays_where_it_is_taken(self, tmp_path: Path) -> None:
        async with asked_sites(tmp_path, CHAIN) as running:
            for name in ("beta", "gamma"):
                await (await running[name].client("worker")).subscribe("jobs")
            await running["alpha"].wanted("ONE", "jobs")
            reports, _ = await reports_of(running["alpha"], Trace("jobs", mode="ONE"))
            assert [(report.at, report.subscriptions) for report in reports] == [("alpha", 0), ("beta", 1)]

    async def test_a_message_of_mode_one_goes_past_a_subscription_that_nobody_is_attached_to(
        self, tmp_path: Path
    ) -> None:
        unattended = "nobody who wants it there is known to be attached"
        async with asked_sites(tmp_path, CHAIN, **dict.fromkeys(CHAIN, TELLS_ATTACHED)) as running:
            for name in ("alpha", "gamma"):
                client = await running[name].client("worker")
                await client.subscribe("jobs")
                client.session.close()
            await running["alpha"].would_hand_over("jobs", why_not=unattended)
            reports, _ = await reports_of(running["alpha"], Trace("jobs", mode="ONE"))
            assert [(report.at, report.subscriptions) for report in reports] == [("alpha", 1)]
            assert passed_over(reports, "alpha") == {"beta": unattended}
            await (await running["gamma"].client("worker")).subscribe("jobs")
            await running["alpha"].would_hand_over("jobs")
            reports, _ = await reports_of(running["alpha"], Trace("jobs", mode="ONE"))
            assert [(report.at, report.subscriptions) for report in reports] == [
                ("alpha", 1),
                ("beta", 0),
                ("gamma", 1),
            ]

    async def test_a_peer_that_does_not_know_the_question_is_passed_over(self, tmp_path: Path) -> None:
        async with asked_sites(tmp_path, PAIR, beta={"features": ("ping",)}) as running:
            await (await running["beta"].client("reader")).subscribe("weather")
            await running["alpha"].wanted("ALL", "weather")
            reports, _ = await reports_of(running["alpha"], Trace("weather"))
            assert passed_over(reports, "alpha") == {"beta": "it does not know `trace`: its smqpd is too old"}


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
        async with asked_sites(tmp_path, PAIR) as running:
            running["beta"].links.send("alpha", Control(kind=word, payload=payload), Lane.CONTROL)
            assert (await pinged(running["beta"], "alpha")).outcome == "reached"

    async def test_who_asks_too_much_is_told_so(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(enquiry, "ASKS_PER_S", 1e-6)
        async with asked_sites(tmp_path, PAIR) as running:
            for number in range(int(enquiry.ASKS_AT_ONCE)):
                ask = Ask(f"beta/9-{number:x}", Ping("nowhere"), ("beta",), 5.0)
                payload = msgspec.json.encode(ask)
                running["beta"].links.send("alpha", Control(kind="ask", payload=payload), Lane.CONTROL)
            report = await pinged(running["beta"], "alpha")
            assert (report.at, report.outcome) == ("alpha", "busy")

"""Several sites as one: real brokers and stores, linked over a network in memory."""

import math
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Final

import pytest
import trio
import trio.testing

from daemon.hops.reader import HopLogReader
from routing.errors import Refusal
from routing.message import Message, Section
from routing.peering.copies import Arrival
from routing.peering.news import DESTINATIONS
from tests.support.federated import OFFERED, FederatedSite, federated_site
from tests.support.links import Network
from tests.support.patience import PATIENCE_S

PAIR: Final = {"alpha": ["beta"], "beta": ["alpha"]}
CHAIN: Final = {"alpha": ["beta"], "beta": ["alpha", "gamma"], "gamma": ["beta", "delta"], "delta": ["gamma"]}
STAR: Final = {"alpha": ["beta"], "beta": ["alpha", "gamma", "delta"], "gamma": ["beta"], "delta": ["beta"]}


class Sites:
    """Sites by name, each in a task of its own, so that it can be stopped and started again."""

    def __init__(
        self, directory: Path, links: dict[str, list[str]], nursery: trio.Nursery, features: tuple[str, ...]
    ) -> None:
        self.network = Network()
        self._directory = directory
        self._links = links
        self._features = features
        self._nursery = nursery
        self._stops: dict[str, tuple[trio.Event, trio.Event]] = {}

    async def start(self, *names: str) -> list[FederatedSite]:
        """Start sites, and wait for the links between all that run."""
        sites = [await self._nursery.start(self._run, name) for name in names]
        for site in sites:
            await site.linked(*(peer for peer in self._links[site.name] if peer in self._stops))
        return sites

    async def stop(self, name: str) -> None:
        stop, stopped = self._stops.pop(name)
        stop.set()
        await stopped.wait()

    async def _run(self, name: str, task_status: trio.TaskStatus[FederatedSite]) -> None:
        stop, stopped = self._stops[name] = trio.Event(), trio.Event()
        peers = self._links[name]
        async with federated_site(
            self.network, self._directory, name, peers, features=self._features
        ) as site:
            task_status.started(site)
            await stop.wait()
        stopped.set()


@asynccontextmanager
async def sites(
    directory: Path, links: dict[str, list[str]], *, features: tuple[str, ...] = OFFERED
) -> AsyncIterator[Sites]:
    async with trio.open_nursery() as nursery:
        yield Sites(directory, links, nursery, features)
        nursery.cancel_scope.cancel()


async def test_a_message_crosses_a_link_and_its_copies_end(tmp_path: Path) -> None:
    async with sites(tmp_path, PAIR) as federation:
        alpha, beta = await federation.start("alpha", "beta")
        reader = await beta.client("reader")
        await reader.subscribe("weather")
        await alpha.wanted("ALL", "weather")
        publisher = await alpha.client("publisher")
        smuid = await publisher.publish("weather", "rain", depth=1)
        assert await reader.get() == "rain"
        assert reader.last.stored.message.smuid == smuid
        assert reader.last.stored.message.hops == ("alpha",)
        await reader.commit()
        await alpha.idle()
        await beta.idle()
    log = HopLogReader(tmp_path / "alpha" / "hops")
    [forwarded] = [record for record in log.records() if record.event == "forwarded"]
    assert 0 < forwarded.sent_us <= forwarded.peer_received_us <= forwarded.peer_sent_us <= forwarded.time_us


async def test_a_message_goes_only_where_it_is_wanted_and_not_back_to_where_it_came_from(
    tmp_path: Path,
) -> None:
    async with sites(tmp_path, CHAIN) as federation:
        alpha, beta, _, _ = await federation.start(*CHAIN)
        readers = [await site.client("reader") for site in (alpha, beta)]
        for reader in readers:
            await reader.subscribe("weather")
        await alpha.wanted("ALL", "weather")
        await beta.wanted("ALL", "weather")
        publisher = await alpha.client("publisher")
        await publisher.publish("weather", "rain", depth=-1)
        assert [await reader.take() for reader in readers] == ["rain", "rain"]
        await alpha.idle()
        await beta.idle()
    events = {
        (name, record.event)
        for name in CHAIN
        for record in HopLogReader(tmp_path / name / "hops").records()
        if record.topic == "weather" and record.event in ("published", "received", "loop", "duplicate")
    }
    assert events == {("alpha", "published"), ("beta", "received")}


async def test_a_copy_is_acknowledged_once_it_is_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with sites(tmp_path, PAIR) as federation:
        alpha, beta = await federation.start("alpha", "beta")
        reader = await beta.client("reader")
        await reader.subscribe("weather")
        await alpha.wanted("ALL", "weather")
        disk, commit = trio.Event(), beta.broker.commits.commit

        async def commit_late(decisions: int) -> None:
            await disk.wait()
            await commit(decisions)

        monkeypatch.setattr(beta.broker.commits, "commit", commit_late)
        publisher = await alpha.client("publisher")
        await publisher.publish("weather", "rain", depth=1)
        while not beta.broker._router._state.entries:
            await trio.sleep(0.001)
        await trio.testing.wait_all_tasks_blocked(0.05)
        [copy] = alpha.broker.door.outlook.copies.values()
        unacknowledged = copy.forwards["beta"].unacknowledged
        disk.set()
        assert unacknowledged
        assert await reader.take() == "rain"
        await alpha.idle()


async def test_a_timeout_is_counted_down_over_the_hops(tmp_path: Path) -> None:
    async with sites(tmp_path, CHAIN) as federation:
        alpha, _, gamma, _ = await federation.start(*CHAIN)
        publisher = await alpha.client("publisher")
        await publisher.publish("weather", "rain", depth=2, timeout_s=1_000.0)
        alpha.ages(300.0)
        reader = await gamma.client("reader")
        await reader.subscribe("weather")
        assert await reader.get() == "rain"
        assert reader.last.expires_in_s is not None
        assert 0.0 < reader.last.expires_in_s <= 700.0


@pytest.mark.parametrize("mode", ["ALL", "ONE"])
async def test_a_link_that_is_cut_again_and_again_loses_nothing_and_brings_nothing_twice(
    tmp_path: Path, mode: str
) -> None:
    async with sites(tmp_path, PAIR) as federation:
        alpha, beta = await federation.start("alpha", "beta")
        reader = await beta.client("reader")
        await reader.subscribe("weather", credit=1_000)
        await alpha.wanted(mode, "weather")
        publisher = await alpha.client("publisher")
        texts = [f"{number:03}" for number in range(100)]
        for number, text in enumerate(texts):
            await publisher.publish("weather", text, depth=1, delivery=mode)
            if number % 10 == 5:
                federation.network.cut()
        assert [await reader.take() for _ in texts] == texts
        await publisher.publish("weather", "the end", depth=1, delivery=mode)
        assert await reader.gets_nothing_before("the end")
        await alpha.idle()
        await beta.idle()


async def test_what_a_peer_does_not_answer_before_the_link_is_cut_comes_again_with_a_higher_attempt(
    tmp_path: Path,
) -> None:
    async with sites(tmp_path, PAIR) as federation:
        alpha, beta = await federation.start("alpha", "beta")
        reader = await beta.client("reader")
        await reader.subscribe("weather")
        await alpha.wanted("ALL", "weather")
        publisher = await alpha.client("publisher")
        federation.network.silence()
        await publisher.publish("weather", "rain", depth=1)
        federation.network.cut()
        assert await reader.take() == "rain"
        await alpha.idle()
    log = HopLogReader(tmp_path / "beta" / "hops")
    assert [one.attempt for one in log.records() if one.event == "received"] == [2]


async def test_interest_that_changes_while_a_link_is_cut_is_known_as_it_is_in_the_end(tmp_path: Path) -> None:
    async with sites(tmp_path, PAIR) as federation:
        alpha, beta = await federation.start("alpha", "beta")
        reader = await beta.client("reader")
        for number in range(60):
            await reader.subscribe(f"topic.{number}")
            if number % 3:
                await reader.unsubscribe(f"topic.{number}")
            if number % 20 == 10:
                federation.network.cut()
        await reader.subscribe("the.end")
        await alpha.wanted("ALL", "the.end")
        interest = alpha.broker._router.federation.interest
        wanted = {n for n in range(60) if interest.distances(("ALL", f"topic.{n}"))}
        assert wanted == set(range(0, 60, 3))


async def test_depth_says_how_far_a_message_goes(tmp_path: Path) -> None:
    async with sites(tmp_path, CHAIN) as federation:
        alpha, beta, gamma, delta = await federation.start(*CHAIN)
        readers = {}
        for site in (alpha, beta, gamma, delta):
            readers[site.name] = await site.client("reader")
            await readers[site.name].subscribe("weather")
        await alpha.wanted("ALL", "weather")
        publisher = await alpha.client("publisher")
        for depth in range(4):
            await publisher.publish("weather", f"depth {depth}", depth=depth)
        for distance, name in enumerate(CHAIN):
            for depth in range(distance, 4):
                assert await readers[name].take() == f"depth {depth}"
        for site in (alpha, beta, gamma, delta):
            await site.idle()


async def test_a_receipt_counts_the_subscriptions_of_all_sites(tmp_path: Path) -> None:
    async with sites(tmp_path, CHAIN) as federation:
        alpha, _, gamma, delta = await federation.start(*CHAIN)
        near, far = await gamma.client("near"), await delta.client("far")
        await far.subscribe("weather")
        await alpha.wanted("ALL", "weather", within=2)
        await near.subscribe("weather")
        await alpha.wanted("ALL", "weather", within=1)
        publisher = await alpha.client("publisher")
        await publisher.subscribe(publisher.session.system_topic)
        await publisher.publish("weather", "rain", depth=-1, receipt="ALL")
        assert await near.take() == "rain"
        assert await far.take() == "rain"
        assert await publisher.take() == "2/2"


async def test_a_message_for_one_goes_to_one_of_all_sites(tmp_path: Path) -> None:
    async with sites(tmp_path, CHAIN) as federation:
        alpha, beta, gamma, delta = await federation.start(*CHAIN)
        worker = await delta.client("worker")
        await worker.subscribe("jobs")
        await alpha.wanted("ONE", "jobs", within=2)
        publisher = await alpha.client("publisher")
        await publisher.subscribe(publisher.session.system_topic)
        await publisher.publish("jobs", "paint", depth=-1, delivery="ONE", receipt="ALL")
        assert await worker.take() == "paint"
        assert await publisher.take() == "1/1"
        for site in (alpha, beta, gamma, delta):
            await site.idle()


async def test_a_reply_finds_its_way_to_a_publisher_at_another_site(tmp_path: Path) -> None:
    async with sites(tmp_path, CHAIN) as federation:
        alpha, _, _, delta = await federation.start(*CHAIN)
        asker, answerer = await alpha.client("asker"), await delta.client("answerer")
        await asker.subscribe(asker.session.system_topic)
        await delta.wanted("SERVER", "alpha", within=2)
        await answerer.publish("ada:asker@alpha", "an answer")
        assert await asker.take() == "an answer"


async def test_a_removal_reaches_a_site_that_was_cut_off(tmp_path: Path) -> None:
    async with sites(tmp_path, PAIR) as federation:
        alpha, beta = await federation.start("alpha", "beta")
        first = await beta.client("first")
        await first.subscribe("state")
        await alpha.wanted("ALL", "state")
        publisher = await alpha.client("publisher")
        gone = await publisher.publish("state", "old", depth=1, timeout_s=math.inf)
        assert await first.take() == "old"
        await publisher.publish("state", "new", depth=1, timeout_s=math.inf)
        assert await first.take() == "new"
        await federation.stop("beta")
        await publisher.remove("state", gone)
        [beta] = await federation.start("beta")
        second = await beta.client("second")
        while gone not in beta.broker._router._state.removed:
            await trio.sleep(0.01)
        await second.subscribe("state")
        assert await second.gets_nothing_before("new")


async def test_a_message_is_due_to_a_peer_that_is_not_there_yet_after_a_restart(tmp_path: Path) -> None:
    async with sites(tmp_path, PAIR) as federation:
        alpha, beta = await federation.start("alpha", "beta")
        reader = await beta.client("reader")
        await reader.subscribe("weather")
        await alpha.wanted("ALL", "weather")
        await federation.stop("alpha")
        await federation.stop("beta")
        [alpha] = await federation.start("alpha")
        publisher = await alpha.client("publisher")
        await publisher.publish("weather", "rain", depth=1)
        [beta] = await federation.start("beta")
        reader = await beta.client("reader")
        await reader.subscribe("weather")
        assert await reader.take() == "rain"
        await alpha.idle()


@pytest.mark.parametrize("mode", ["ALL", "ONE"])
async def test_what_was_delayed_is_due_to_a_peer_that_is_not_there_after_a_restart(
    tmp_path: Path, mode: str
) -> None:
    async with sites(tmp_path, PAIR) as federation:
        [alpha] = await federation.start("alpha")
        publisher = await alpha.client("publisher")
        headers = {"depth": 1, "delivery": mode, "timeout_s": 600.0, "delay_s": 0.05}
        await publisher.publish("weather", "rain", **headers)
        await alpha.has_routed_all()
        await federation.stop("alpha")
        _, beta = await federation.start("alpha", "beta")
        reader = await beta.client("reader")
        await reader.subscribe("weather")
        assert await reader.take() == "rain"


@pytest.mark.parametrize("mode", ["ALL", "ONE"])
async def test_a_site_in_the_middle_that_restarts_forwards_what_it_had_not(tmp_path: Path, mode: str) -> None:
    async with sites(tmp_path, CHAIN) as federation:
        alpha, _, gamma = await federation.start("alpha", "beta", "gamma")
        reader = await gamma.client("reader")
        await reader.subscribe("weather")
        await alpha.wanted(mode, "weather", within=1)
        publisher = await alpha.client("publisher")
        await publisher.subscribe(publisher.session.system_topic)
        federation.network.unreachable.add("gamma")
        await federation.stop("gamma")
        await publisher.publish("weather", "rain", depth=-1, receipt="ALL", delivery=mode, timeout_s=60.0)
        if mode == "ALL":
            await alpha.linked("beta")
        await federation.stop("beta")
        federation.network.unreachable.clear()
        _, gamma = await federation.start("beta", "gamma")
        reader = await gamma.client("reader")
        await reader.subscribe("weather")
        assert await reader.take() == "rain"
        assert await publisher.take() == "1/1"
        await federation.stop("gamma")


async def test_who_had_it_before_a_start_which_was_not_written_is_asked_for_again_and_has_it_once(
    tmp_path: Path,
) -> None:
    async with sites(tmp_path, STAR, features=(*OFFERED, DESTINATIONS)) as federation:
        alpha, beta, gamma, delta = await federation.start(*STAR)
        near, far = await gamma.client("reader"), await delta.client("reader")
        for reader in (near, far):
            await reader.subscribe("weather")
        await alpha.would_go("weather", {"gamma", "delta"})
        await federation.stop("delta")
        publisher = await alpha.client("publisher")
        await publisher.subscribe(publisher.session.system_topic)
        await publisher.publish("weather", "rain", depth=2, receipt="ALL")
        assert await near.take() == "rain"
        await alpha.waits_for({"delta"})
        assert [copy.is_stale for copy in alpha.broker.door.outlook.copies.values()] == [True]
        await federation.stop("alpha")
        alpha, delta = await federation.start("alpha", "delta")
        far = await delta.client("reader")
        await far.subscribe("weather")
        assert await far.take() == "rain"
        publisher = await alpha.client("publisher")
        await publisher.subscribe(publisher.session.system_topic)
        assert await publisher.take() == "2/2"
        await publisher.publish("weather", "sun", depth=2)
        assert await near.gets_nothing_before("sun")
        assert await far.gets_nothing_before("sun")
        for site in (alpha, beta, gamma, delta):
            await site.idle()


async def test_what_waits_for_a_site_is_kept_over_a_start_though_no_news_of_the_site_is(
    tmp_path: Path,
) -> None:
    """The news was not attested by a clock that was wrong, and is not in the store any more."""
    async with sites(tmp_path, CHAIN, features=(*OFFERED, DESTINATIONS)) as federation:
        alpha, _, gamma = await federation.start("alpha", "beta", "gamma")
        reader = await gamma.client("reader")
        await reader.subscribe("weather")
        await alpha.would_go("weather", {"gamma"})
        await federation.stop("beta")
        publisher = await alpha.client("publisher")
        await publisher.publish("weather", "rain", depth=-1)
        await federation.stop("alpha")
        with closing(sqlite3.connect(alpha.store.path)) as db, db:
            db.execute("DELETE FROM news")
        [alpha] = await federation.start("alpha")
        router = alpha.broker._router.federation
        router.rerouting.minute()
        router.see_to_destinations()
        await federation.start("beta")
        assert await reader.take() == "rain"


async def test_unguaranteed_copies_that_a_link_cannot_hold_are_dropped_and_counted(tmp_path: Path) -> None:
    async with sites(tmp_path, PAIR) as federation:
        alpha, beta = await federation.start("alpha", "beta")
        reader = await beta.client("reader")
        await reader.subscribe("video")
        await alpha.wanted("ALL", "video")
        publisher = await alpha.client("publisher")
        federation.network.silence()
        for _ in range(60):
            body = Section("video/raw", b"x" * 500_000)
            publisher.session.publish("video", Message(depth=1, guarantee=False, sections=(body,)))
        for _ in range(2):  # the log is written with what goes to disk
            await publisher.publish("other", "a guaranteed one", timeout_s=60.0)
        log = HopLogReader(tmp_path / "alpha" / "hops")
        dropped = [one for one in log.records() if one.event == "dropped"]
        assert 0 < len(dropped) < 60
        assert dropped[0].reason == "more waits for the link with beta than fits"
        assert dropped[0].peer == ""


async def test_a_receipt_survives_a_restart_of_every_site(tmp_path: Path) -> None:
    async with sites(tmp_path, CHAIN) as federation:
        alpha, beta, gamma = await federation.start("alpha", "beta", "gamma")
        reader = await gamma.client("reader")
        await reader.subscribe("weather")
        await alpha.wanted("ALL", "weather", within=1)
        publisher = await alpha.client("publisher")
        await publisher.subscribe(publisher.session.system_topic)
        await publisher.publish("weather", "rain", depth=-1, receipt="ALL")
        assert await reader.get() == "rain"
        await alpha.idle()
        await beta.idle()
        for name in ("alpha", "beta", "gamma"):
            await federation.stop(name)
        alpha, beta, gamma = await federation.start("alpha", "beta", "gamma")
        reader, publisher = await gamma.client("reader"), await alpha.client("publisher")
        await reader.subscribe("weather")
        await publisher.subscribe(publisher.session.system_topic)
        assert await reader.take() == "rain"
        assert await publisher.take() == "1/1"


async def test_who_had_a_message_without_a_question_is_counted_though_that_comes_after_a_restart(
    tmp_path: Path,
) -> None:
    message = Message(
        sections=(Section("text/plain", b"rain"),),
        smuid="beta/01a1ee569747-1-1",
        account="ada:publisher@beta",
        receipt="ALL",
    )
    sent = {"peer": "beta", "topic": "weather", "message": message, "mode": "ALL", "hops": ("beta",)}
    async with sites(tmp_path, PAIR, features=(*OFFERED, DESTINATIONS)) as federation:
        await federation.start("beta")
        for query in (0, 7):
            [alpha] = await federation.start("alpha")
            reader, router = await alpha.client("reader"), alpha.broker._router
            await reader.subscribe("weather")
            with trio.fail_after(PATIENCE_S):
                while not router.federation.destinations.is_on:
                    await trio.sleep(0.01)
            alpha.broker.door.arrive(
                Arrival(
                    **sent,  # type: ignore[arg-type] # as Arrival has them
                    unit=None,
                    depth=0,
                    timeout_left_s=None,
                    query=query,
                    destinations=("alpha",),
                )
            )
            if query:
                assert router._receipts.answers == {"beta": {query: (1, 1)}}
            else:
                assert await reader.take() == "rain"
                await alpha.idle()
            await federation.stop("alpha")


async def test_after_a_restart_only_the_peer_that_was_asked_answers_for_its_part_of_a_receipt(
    tmp_path: Path,
) -> None:
    peers, rules = ["beta", "gamma"], {"beta": {"flood": True}}
    async with federated_site(Network(), tmp_path, "alpha", peers, rules=rules) as alpha:
        publisher = await alpha.client("publisher")
        await publisher.publish("weather", "rain", depth=1, receipt="ALL")
    async with federated_site(Network(), tmp_path, "alpha", peers, rules=rules) as alpha:
        router = alpha.broker._router
        [(question, asked)] = router._state.asked_of.items()
        assert asked == "beta"
        router.federation.hear_receipt(0.0, "gamma", question, 9, 9, closed=True)
        assert router._state.asked_of == {question: "beta"}
        router.federation.hear_receipt(0.0, "beta", question, 1, 1, closed=True)
        assert router._state.asked_of == {}


async def test_a_message_that_is_refused_leaves_no_receipt_that_peers_have_a_part_in(tmp_path: Path) -> None:
    async with sites(tmp_path, PAIR) as federation:
        alpha, beta = await federation.start("alpha", "beta")
        reader, publisher = await beta.client("reader"), await alpha.client("publisher")
        await reader.subscribe("weather")
        await alpha.wanted("ALL", "weather")
        fails = "BEFORE INSERT ON message BEGIN SELECT RAISE(FAIL, 'the disk is full'); END"
        alpha.store._writer.execute(f"CREATE TEMP TRIGGER full {fails}")
        refused = await publisher.is_refused("weather", "rain", depth=1, receipt="ALL")
        assert refused == Refusal.STORE_FAILED
        alpha.store._writer.execute("DROP TRIGGER full")
        await publisher.subscribe("weather")
        with closing(sqlite3.connect(alpha.store.path)) as store:
            assert store.execute("SELECT count(*) FROM receipt").fetchone() == (0,)

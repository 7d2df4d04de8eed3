"""What sites that are linked have promised each other holds when they are stopped and started again."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
import trio
import trio.testing

from daemon.link.joining import OFFERED
from routing.message import Message, Section
from routing.peering.copies import Arrival
from routing.peering.news import DESTINATIONS
from tests.support.federated import CHAIN, PAIR, STAR, federated_site, sites
from tests.support.links import MemoryNetwork
from tests.support.patience import PATIENCE_S


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
                assert router.receipts.answers == {"beta": {query: (1, 1)}}
            else:
                assert await reader.take() == "rain"
                await alpha.idle()
            await federation.stop("alpha")


async def test_after_a_restart_only_the_peer_that_was_asked_answers_for_its_part_of_a_receipt(
    tmp_path: Path,
) -> None:
    peers, rules = ["beta", "gamma"], {"beta": {"flood": True}}
    async with federated_site(MemoryNetwork(), tmp_path, "alpha", peers, rules=rules) as alpha:
        publisher = await alpha.client("publisher")
        await publisher.publish("weather", "rain", depth=1, receipt="ALL")
    async with federated_site(MemoryNetwork(), tmp_path, "alpha", peers, rules=rules) as alpha:
        router = alpha.broker._router
        [(question, asked)] = router._state.asked_of.items()
        assert asked == "beta"
        router.receipts.heard(0.0, "gamma", question, 9, 9, closed=True)
        assert router._state.asked_of == {question: "beta"}
        router.receipts.heard(0.0, "beta", question, 1, 1, closed=True)
        assert router._state.asked_of == {}

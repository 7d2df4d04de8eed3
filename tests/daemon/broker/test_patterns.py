"""Subscriptions to patterns, at a site with its store and its hop log."""

from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from daemon.frontend import Detached, Retracted
from routing.errors import Refusal
from routing.federation.enquiry import FEATURES
from tests.support.broker import virtual_site
from tests.support.federated import federated_site
from tests.support.links import MemoryNetwork


async def test_a_subscription_to_a_pattern_and_what_waits_for_it_survive_a_kill(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    (tmp_path / "site").mkdir()
    async with virtual_site(tmp_path / "site") as site:
        ada = await site.login("ada").subscribe("weather.#", credit=1)
        await ada.publish("weather.oslo", b"1")
        await ada.publish("weather.bergen.rain", b"2", delivery="ONE")
        await ada.publish("weather", b"3")
        image = site.image(tmp_path / "after-a-kill")
    async with virtual_site(image) as site:
        ada = await site.login("ada").subscribe("weather.#", credit=1)
        came = []
        for _ in range(3):
            [got] = await ada.delivered()
            came.append((got.topic, got.pattern, got.stored.message.sections[0].body))
            await ada.commit(got.number)
        assert came == [
            ("weather.oslo", "weather.#", b"1"),
            ("weather.bergen.rain", "weather.#", b"2"),
            ("weather", "weather.#", b"3"),
        ]


async def test_the_hop_log_names_the_pattern_by_which_a_message_was_delivered(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async with virtual_site(tmp_path) as site:
        ada = await site.login("ada").subscribe("weather.*")
        bob = await site.login("bob").subscribe("weather.oslo")
        await ada.publish("weather.oslo", b"rain")
        for client in (ada, bob):
            [got] = await client.delivered()
            await client.commit(got.number)
        by = [(r.event, r.account or r.subscription.partition(":")[0], r.pattern) for r in site.records()]
    assert [each for each in by if each[0] in ("delivered", "committed")] == [
        ("delivered", "bob", ""),
        ("delivered", "ada", "weather.*"),
        ("committed", "ada", "weather.*"),
        ("committed", "bob", ""),
    ]


async def test_since_when_an_account_has_had_a_right_is_known_after_a_restart(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    (tmp_path / "site").mkdir()
    async with virtual_site(tmp_path / "site") as site:
        accounts, file = site.broker.accounts, tmp_path / "site" / "accounts.toml"
        text = file.read_text()
        file.write_text(text.replace('subscribe = ["#"]', 'subscribe = ["b"]', 1))
        accounts.replace(accounts.read())
        ada = await site.login("ada").subscribe("#", credit=0)
        bob = await site.login("bob").subscribe("#", credit=0)
        for topic in ("a", "b"):
            await bob.publish(topic, b"before")
        file.write_text(text)
        accounts.replace(accounts.read())
        site.broker.reconfigure(site.broker.settings)
        await bob.publish("a", b"since")
        image = site.image(tmp_path / "after-a-kill")
    async with virtual_site(image) as site:
        ada = await site.login("ada").subscribe("#")
        got = await ada.delivered(2)
        assert [(each.topic, each.stored.message.sections[0].body) for each in got] == [
            ("b", b"before"),
            ("a", b"since"),
        ]


async def test_a_pattern_without_any_topic_that_the_account_may_have_is_refused(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async with virtual_site(tmp_path) as site:
        accounts = site.broker.accounts
        text = (tmp_path / "accounts.toml").read_text()
        (tmp_path / "accounts.toml").write_text(
            text.replace('subscribe = ["#"]', 'subscribe = ["weather.#", "news"]')
        )
        accounts.replace(accounts.read())
        ada = site.login("ada")
        for pattern in ("stocks.#", "news.*"):
            with pytest.raises(Refusal) as refusal:
                await ada.subscribe(pattern)
            assert (refusal.value.code, pattern in refusal.value.text) == ("forbidden", True)
        for pattern in ("weather.*", "*", "#"):
            await ada.subscribe(pattern)
        (tmp_path / "accounts.toml").write_text(text.replace('subscribe = ["#"]', 'subscribe = ["news"]'))
        accounts.replace(accounts.read())
        site.broker.reconfigure(site.broker.settings)
        events = await ada.session.events()
        assert events == [Detached("weather.*", "", "forbidden")]


async def test_a_peer_of_an_earlier_version_is_told_the_topics_that_there_are(tmp_path: Path) -> None:
    network = MemoryNetwork()
    async with (
        federated_site(network, tmp_path, "alpha", ["beta"], features=FEATURES) as old,
        federated_site(network, tmp_path, "beta", ["alpha"]) as new,
    ):
        await old.linked("beta")
        await new.linked("alpha")
        reader = await new.client("reader")
        await reader.subscribe("weather.#")
        named = await new.client("named")
        await named.subscribe("weather.oslo")
        await old.wanted("ALL", "weather.oslo")
        publisher = await old.client("publisher")
        await publisher.publish("weather.oslo", "rain", depth=1)
        assert [await each.take() for each in (reader, named)] == ["rain", "rain"]
        await old.idle()
        assert "patterns" not in old.links.status()[0].features


async def test_what_was_kept_before_a_subscription_comes_late_and_says_so(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async with virtual_site(tmp_path) as site:
        publisher = site.login("ada", "publisher")
        await publisher.set_timeout("weather.oslo", float("inf"))
        await publisher.publish("weather.oslo", b"before", delivery="ALL")
        reader = await site.login("ada").subscribe("weather.#", tells_removals=True)
        await publisher.publish("weather.oslo", b"after", delivery="ALL")
        came = await reader.delivered(2)
        assert [(each.stored.message.sections[0].body, each.late) for each in came] == [
            (b"before", True),
            (b"after", False),
        ]
        await reader.commit(*(each.number for each in came))
        publisher.session.remove("weather.oslo", came[0].stored.message.smuid)
        [removed] = await reader.session.events()
        assert removed == Retracted("weather.oslo", "", came[0].message_id, "weather.#")


async def test_the_topics_of_a_pattern_are_listed_to_who_may_see_them(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async with virtual_site(tmp_path) as site:
        ada = site.login("ada")
        for topic in ("news", "weather", "weather.open", "weather.oslo", "dead.weather"):
            await ada.set_timeout(topic, 60.0)

        async def listed(*page: Any) -> list[str]:
            return [each.name for each in await ada.session.topics(*page)]

        assert await listed("", 9, "weather.#") == ["weather", "weather.open", "weather.oslo"]
        assert await listed("weather.open", 9, "weather.#") == ["weather.oslo"]
        assert await listed("", 2, "#") == ["news", "weather"]
        accounts = site.broker.accounts
        text = (tmp_path / "accounts.toml").read_text()
        (tmp_path / "accounts.toml").write_text(text.replace('["#"]', '["*.open"]'))
        accounts.replace(accounts.read())
        assert await listed("", 9, "weather.#") == ["weather.open"]
        assert [ada.session.may_follow(each) for each in ("weather.#", "weather.oslo.#")] == [True, False]


async def test_very_many_topics_are_listed_while_others_run(tmp_path: Path) -> None:
    async with virtual_site(tmp_path) as site, trio.open_nursery() as nursery:
        ada = site.login("ada")
        for number in range(5_000):
            ada.session.set_timeout(f"t.{number:04}.{'zz' if number == 4_711 else 'a'}", 60.0)
        others_ran = 0

        async def count_turns() -> None:
            nonlocal others_ran
            while True:
                await trio.lowlevel.checkpoint()
                others_ran += 1

        nursery.start_soon(count_turns)
        await trio.lowlevel.checkpoint()
        before = others_ran
        assert [each.name for each in await ada.session.topics(pattern="*.*.zz")] == ["t.4711.zz"]
        assert others_ran > before + 2
        assert [each.name for each in await ada.session.topics("t.4998.a")] == ["t.4999.a"]
        assert len(await ada.session.topics()) == 100
        nursery.cancel_scope.cancel()

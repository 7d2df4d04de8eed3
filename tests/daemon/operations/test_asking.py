"""What operators are shown of a running site: asked of one on which clients publish and subscribe."""

import math
import sqlite3
from pathlib import Path

import msgspec
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from daemon.operating.operations import Actor
from daemon.operating.topics import TopicOrder, TopicStatus
from daemon.operations.census import SAMPLE_S
from daemon.operations.site import SLOW_S, SiteOperations
from daemon.operations.topics import KEPT_S, MANY
from daemon.system.stepping import in_steps
from routing.errors import Refusal
from tests.support.broker import VirtualClock, virtual_site
from tests.support.patience import pass_time


async def topic(operations: SiteOperations, name: str) -> TopicStatus:
    found = await operations.topic(name)
    assert found is not None
    return found


async def names(operations: SiteOperations, search: str = "", order: TopicOrder = "name") -> list[str]:
    return [each.name for each in (await operations.topics(search, order=order, count=50)).topics]


async def test_a_topic_shows_what_waits_for_whom(tmp_path: Path, mock_clock: MockClock) -> None:
    async with virtual_site(tmp_path) as site:
        operations = SiteOperations(site.broker)
        ada, bob = site.login("ada"), site.login("bob")
        await bob.subscribe("weather", credit=2, accepts="ALL")
        for _ in range(5):
            await ada.publish("weather", b"rain")
        await ada.publish("weather", b"work", delivery="ONE")
        await bob.received((await bob.delivered(2))[0].number)
        await pass_time(mock_clock, 30)

        shown = await topic(operations, "weather")
        assert shown.summary.held == 6
        assert shown.summary.bytes == 24
        assert shown.summary.oldest_s == pytest.approx(30, abs=1)
        assert (shown.summary.came, shown.summary.delivered) == (6, 2)
        assert (shown.waiting, shown.kept) == (1, 0)
        [subscription] = shown.subscriptions
        assert (subscription.account, subscription.channel, subscription.credit) == ("bob", "desk", 2)
        assert (subscription.waiting, subscription.locked, subscription.received) == (3, 1, 1)
        assert subscription.sessions == (bob.session.id,)
        assert subscription.unused_s is None
        assert subscription.locked_s == pytest.approx(30, abs=1)

        bob.session.close()
        await pass_time(mock_clock, 10)
        [left] = (await topic(operations, "weather")).subscriptions
        assert (left.sessions, left.waiting, left.locked, left.received) == ((), 4, 0, 1)
        assert left.unused_s == pytest.approx(10, abs=1)


async def test_what_is_locked_is_so_since_it_was_handed_out_whatever_a_reload_says(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async with virtual_site(tmp_path) as site:
        operations, broker = SiteOperations(site.broker), site.broker
        bob = await site.login("bob").subscribe("weather")
        await site.login("ada").publish("weather", b"rain")
        await bob.delivered()
        await pass_time(mock_clock, 10)
        queues = msgspec.structs.replace(broker.settings.queues, lock_s=5.0)
        broker.reconfigure(msgspec.structs.replace(broker.settings, queues=queues))
        [subscription] = (await topic(operations, "weather")).subscriptions
        assert subscription.locked_s == pytest.approx(10, abs=1)


async def test_a_site_is_up_also_while_its_machine_is_suspended(tmp_path: Path) -> None:
    async with virtual_site(tmp_path) as site:
        operations, clock = SiteOperations(site.broker), site.broker.clock
        assert isinstance(clock, VirtualClock)
        clock.suspend_machine(3_600)
        shown = await operations.overview()
        assert shown.up_s == pytest.approx(3_600, abs=1)
        assert shown.started_at + shown.up_s == pytest.approx(clock.wall_ms() / 1_000, abs=1)


async def test_of_a_topic_that_nothing_is_known_of_there_is_nothing(tmp_path: Path) -> None:
    async with virtual_site(tmp_path) as site:
        assert await SiteOperations(site.broker).topic("weather") is None


async def test_finished_messages_are_not_among_those_that_wait(tmp_path: Path, mock_clock: MockClock) -> None:
    async with virtual_site(tmp_path) as site:
        operations = SiteOperations(site.broker)
        ada = site.login("ada")
        await ada.subscribe("weather", credit=0)
        await ada.publish("weather", timeout_s=5.0)
        await ada.publish("weather", timeout_s=500.0)
        await pass_time(mock_clock, 10)
        shown = await topic(operations, "weather")
        assert (shown.summary.held, shown.kept, shown.subscriptions[0].waiting) == (1, 1, 1)
        assert shown.summary.expired == 1


async def test_what_waits_in_groups_is_counted_with_the_others(tmp_path: Path, mock_clock: MockClock) -> None:
    async with virtual_site(tmp_path) as site:
        operations = SiteOperations(site.broker)
        ada = site.login("ada")
        for group, timeout_s in ((None, 5.0), (None, None), ("a", None), ("a", 5.0), ("b", None)):
            await ada.publish("work", delivery="ONE", group=group, timeout_s=timeout_s)
        assert (await topic(operations, "work")).waiting == 5
        await pass_time(mock_clock, 10)
        assert (await topic(operations, "work")).waiting == 3


async def test_topics_are_searched_sorted_and_paged(tmp_path: Path, mock_clock: MockClock) -> None:
    async with virtual_site(tmp_path) as site:
        operations = SiteOperations(site.broker)
        ada = site.login("ada")
        for name, count in (("weather.oslo", 1), ("Weather.bergen", 3), ("news", 2)):
            for _ in range(count):
                await ada.publish(name, delivery="ONE")
            await pass_time(mock_clock, 1)
        assert await names(operations) == ["Weather.bergen", "news", "weather.oslo"]
        assert await names(operations, order="held") == ["Weather.bergen", "news", "weather.oslo"]
        assert await names(operations, order="oldest") == ["weather.oslo", "Weather.bergen", "news"]
        assert await names(operations, "WEATHER") == ["Weather.bergen", "weather.oslo"]
        assert await names(operations, "weather.#") == ["weather.oslo"]
        page = await operations.topics(offset=1, count=1)
        assert ([each.name for each in page.topics], page.matching, page.total) == (["news"], 3, 3)
        assert (await operations.topics("oslo", count=50)).matching == 1
        assert (await operations.topics(offset=7, count=50)).topics == ()
        with pytest.raises(Refusal, match="is not a topic pattern"):
            await operations.topics("weather.#.oslo", count=50)


async def test_topics_sort_by_the_dead_letters_that_are_held_now(tmp_path: Path) -> None:
    async with virtual_site(tmp_path) as site:
        operations = SiteOperations(site.broker)
        ada, bob = site.login("ada"), site.login("bob")
        for name, count in (("all", 3), ("some", 2)):
            await bob.subscribe(name)
            for _ in range(count):
                await ada.publish(name, delivery="ONE")
            numbers = [each.number for each in await bob.delivered(count)]
            bob.session.give_back(numbers, "no good", outcome="rejected")
        await wait_all_tasks_blocked()
        assert (await names(operations, order="dead"))[:2] == ["all", "some"]
        await operations.purge("dead.all", Actor(name="root", via="control"))
        found = {each.name: each for each in (await operations.topics(order="dead", count=50)).topics}
        assert next(iter(found)) == "some"
        assert (found["all"].dead, found["all"].dead_letters) == (3, 0)


async def test_system_topics_are_not_among_topics_but_can_be_asked_for(tmp_path: Path) -> None:
    async with virtual_site(tmp_path) as site:
        operations = SiteOperations(site.broker)
        ada, bob = site.login("ada"), site.login("bob")
        await ada.publish(bob.session.system_topic)
        assert await names(operations) == []
        assert (await operations.overview()).topics == 0
        assert (await topic(operations, bob.session.system_topic)).waiting == 1


async def test_thousands_of_topics_are_looked_at_in_steps(tmp_path: Path) -> None:
    async with virtual_site(tmp_path, queue_messages_max=10) as site:
        operations = SiteOperations(site.broker)
        ada = site.login("ada")
        for number in range(5_000):
            ada.session.set_timeout(f"t{number:04}", 5.0)
        others_ran = 0

        async def count_turns() -> None:
            nonlocal others_ran
            while True:
                await trio.lowlevel.checkpoint()
                others_ran += 1

        async with trio.open_nursery() as nursery:
            nursery.start_soon(count_turns)
            page = await operations.topics(order="held", offset=4_990, count=5)
            nursery.cancel_scope.cancel()
        assert [each.name for each in page.topics] == [f"t{number}" for number in range(4990, 4995)]
        assert others_ran > 1


async def test_of_very_many_topics_an_order_that_was_found_lasts_for_a_while(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async with virtual_site(tmp_path) as site:
        operations = SiteOperations(site.broker)
        ada = site.login("ada")
        for number in range(MANY):
            ada.session.set_timeout(f"t{number:05}", 5.0)
        await ada.publish("t04711", delivery="ONE")
        assert (await operations.topics(order="held", count=1)).topics[0].name == "t04711"
        await ada.publish("t04712", delivery="ONE")
        ada.session.delete_topic("t00001", request := ada.request())
        await ada.answer(request)
        page = await operations.topics(order="held", count=4)  # by the order of before, and as they are now
        assert [(each.name, each.held) for each in page.topics] == [
            ("t04711", 1),
            ("t00000", 0),
            ("t00002", 0),
        ]
        mock_clock.jump(KEPT_S * MANY + 0.1)
        page = await operations.topics(order="held", count=4)
        assert [each.name for each in page.topics] == ["t04711", "t04712", "t00000", "t00002"]
        page = await operations.topics(order="held", offset=MANY - 2, count=4)
        assert [each.name for each in page.topics] == ["t09999"]


async def test_the_first_of_very_many_are_found_wherever_they_stand(tmp_path: Path) -> None:
    async with virtual_site(tmp_path) as site:
        operations = SiteOperations(site.broker)
        ada = site.login("ada")
        for number in range(6_000):
            ada.session.set_timeout(f"t{number * 4_999 % 6_000:04}", 5.0)  # in no order
        await ada.publish("t4711", delivery="ONE")
        page = await operations.topics(order="held", count=3)
        assert [each.name for each in page.topics] == ["t4711", "t0000", "t0001"]
        assert (page.matching, page.total) == (6_000, 6_000)
        page = await operations.topics("t59", offset=40, count=2)
        assert [each.name for each in page.topics] == ["t5940", "t5941"]
        assert (page.matching, page.total) == (100, 6_000)


async def test_steps_leave_nothing_out() -> None:
    found = []
    async for some in in_steps(range(1_000)):
        found += some
    assert found == list(range(1_000))


async def test_rates_are_those_of_the_last_seconds(tmp_path: Path, mock_clock: MockClock) -> None:
    async with virtual_site(tmp_path) as site, trio.open_nursery() as nursery:
        operations = SiteOperations(site.broker)
        nursery.start_soon(operations.run)
        ada, bob = site.login("ada"), site.login("bob")
        await bob.subscribe("weather")
        for _ in range(50):
            await ada.publish("weather")
        await pass_time(mock_clock, SAMPLE_S)
        overview, weather = await operations.overview(), (await topic(operations, "weather")).summary
        assert (overview.in_per_s, overview.out_per_s) == (10.0, 10.0)
        assert (weather.in_per_s, weather.out_per_s) == (10.0, 10.0)
        await pass_time(mock_clock, SAMPLE_S)
        overview, weather = await operations.overview(), (await topic(operations, "weather")).summary
        assert (overview.in_per_s, weather.in_per_s, weather.came) == (0.0, 0.0, 50)
        nursery.cancel_scope.cancel()


async def test_the_rates_of_a_topic_that_was_forgotten_begin_anew(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async with virtual_site(tmp_path) as site, trio.open_nursery() as nursery:
        operations = SiteOperations(site.broker)
        nursery.start_soon(operations.run)
        ada, bob = site.login("ada"), site.login("bob")
        for expected, count in ((10.0, 50), (2.0, 10)):
            await bob.subscribe("weather")
            for _ in range(count):
                await ada.publish("weather")
            await pass_time(mock_clock, SAMPLE_S)
            weather = (await topic(operations, "weather")).summary
            assert (weather.in_per_s, weather.came) == (expected, count)
            bob.session.unsubscribe("weather")
            await wait_all_tasks_blocked()
            assert await operations.topic("weather") is None
        nursery.cancel_scope.cancel()


async def test_the_overview_adds_up_and_warns(tmp_path: Path, mock_clock: MockClock) -> None:
    async with virtual_site(tmp_path, queue_messages_max=4) as site:
        operations = SiteOperations(site.broker)
        assert (await operations.overview()).warnings == ()
        ada, bob = site.login("ada"), site.login("bob")
        await bob.subscribe("work")
        for _ in range(4):
            await ada.publish("work", b"12345", delivery="ONE")
        [first, *_] = await bob.delivered(4)
        bob.session.give_back([first.number], "no good", outcome="rejected")
        await pass_time(mock_clock, 1)
        await ada.publish("work", delivery="ONE")

        shown = await operations.overview()
        assert (shown.server, shown.sessions, shown.subscriptions) == ("a.example", 2, 1)
        assert (shown.topics, shown.held, shown.held_bytes) == (2, 5, 20)
        assert (shown.dead_letters, shown.totals.dead, shown.totals.came) == (1, 1, 6)
        assert shown.memory_bytes > 0
        assert shown.disk_free_bytes > 0
        assert shown.store_bytes > 0
        assert {(warned.about, warned.text) for warned in shown.warnings} == {
            ("topics", "work is 100% full"),
            ("dead letters", "dead letters: 1"),
        }
        [dead, work] = (await operations.topics(count=50)).topics
        assert (work.name, work.dead, work.dead_letters) == ("work", 1, 1)
        assert (dead.name, dead.held, dead.dead_letters) == ("dead.work", 1, 0)


async def test_an_error_of_ours_and_a_damaged_row_are_warned_of_with_how_many_there_are(
    tmp_path: Path,
) -> None:
    async with virtual_site(tmp_path) as site:
        await site.login("ada").publish("work", delivery="ONE")
    with sqlite3.connect(tmp_path / "smqpd.db") as store:
        store.execute("UPDATE message SET priority = 'x'")
    async with virtual_site(tmp_path) as site:
        for _ in range(2):
            site.broker.mishaps.note("a test", ValueError())
        warned = (await SiteOperations(site.broker).overview()).warnings
        assert [each.text for each in warned if each.about in ("errors", "store")] == [
            "2 errors of smqpd itself: see the log",
            "1 damaged row in the store: see the log",
        ]


async def test_what_is_held_is_counted_with_a_guarantee_or_without(tmp_path: Path) -> None:
    async with virtual_site(tmp_path) as site:
        operations = SiteOperations(site.broker)
        ada = site.login("ada")
        for _ in range(2):
            ada.send("work", delivery="ONE", guarantee=False)  # which is not answered
        ada.send("kept", guarantee=False, timeout_s=60.0)
        await ada.publish("work", delivery="ONE")

        shown = await operations.overview()
        assert (shown.held, shown.held_guaranteed) == (4, 1)
        found = (await operations.topics(count=50)).topics
        assert {each.name: (each.held, each.held_guaranteed) for each in found} == {
            "work": (3, 1),
            "kept": (1, 0),
        }
        await operations.purge("work", Actor(name="cal", via="web"))
        shown = await operations.overview()
        assert (shown.held, shown.held_guaranteed) == (1, 0)


async def test_what_nobody_wanted_has_not_expired(tmp_path: Path, mock_clock: MockClock) -> None:
    async with virtual_site(tmp_path) as site:
        operations = SiteOperations(site.broker)
        ada, bob = site.login("ada"), site.login("bob")
        await bob.subscribe("left", accepts="ALL", credit=0)
        await ada.subscribe("left", accepts="ONE")
        await ada.publish("nowhere")
        await ada.publish("left")
        bob.session.unsubscribe("left")
        await ada.publish("left")
        await ada.publish("late", timeout_s=5.0)
        await pass_time(mock_clock, 10)
        totals = (await operations.overview()).totals
        assert (totals.came, totals.unwanted, totals.expired) == (4, 3, 1)
        left = (await topic(operations, "left")).summary
        assert (left.unwanted, left.expired) == (2, 0)


async def test_what_ends_of_what_a_start_has_restored_is_among_the_totals(tmp_path: Path) -> None:
    async with virtual_site(tmp_path) as site:
        ada = site.login("ada")
        await ada.subscribe("work", durable=True)
        await ada.publish("work", delivery="ONE")
    async with virtual_site(tmp_path) as site:
        operations = SiteOperations(site.broker)
        await operations.purge("work", Actor(name="cal", via="web"))
        totals = (await operations.overview()).totals
        assert (totals.came, totals.removed) == (0, 1)


async def test_sessions_show_who_does_not_read(tmp_path: Path, mock_clock: MockClock) -> None:
    async with virtual_site(tmp_path) as site:
        operations = SiteOperations(site.broker)
        ada, bob = site.login("ada", "phone"), site.login("bob")
        await bob.subscribe("weather", credit=50)
        for _ in range(4):
            await ada.publish("weather", bytes(500_000))
        [first, second] = await operations.sessions()
        assert (first.account, first.channel, first.protocol) == ("ada", "phone", "test")
        assert (first.remote, first.published, first.paused_s) == ("192.0.2.1:1", 4, None)
        assert (second.subscriptions, second.in_flight, second.in_flight_max) == (1, 3, 50)
        assert second.unsent_bytes > 1_000_000
        assert second.paused_s is not None
        await pass_time(mock_clock, SLOW_S)
        [warned] = (await operations.overview()).warnings
        assert warned.text == "bob/desk from 192.0.2.1:1 reads nothing, and has got nothing for 10 s"
        while (await operations.sessions())[1].paused_s is not None:
            await bob.delivered()
        assert (await operations.overview()).warnings == ()


async def test_accounts_show_their_rights_and_sessions(tmp_path: Path) -> None:
    async with virtual_site(tmp_path) as site:
        site.login("ada")
        shown = {each.name: each for each in await SiteOperations(site.broker).accounts()}
        assert list(shown) == ["ada", "bob", "eva"]
        assert (shown["ada"].sessions, shown["bob"].sessions) == (1, 0)
        assert shown["ada"].rights.publish == ("#",)
        assert not shown["ada"].disabled


async def test_a_topic_for_state_says_so_in_json(tmp_path: Path) -> None:
    async with virtual_site(tmp_path) as site:
        await site.login("ada").set_timeout("state", math.inf)
        shown = msgspec.json.decode(msgspec.json.encode(await SiteOperations(site.broker).topic("state")))
        assert shown["summary"]["timeout_s"] == "INFINITE"


async def test_who_does_not_read_is_said_once(
    tmp_path: Path, mock_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with virtual_site(tmp_path) as site, trio.open_nursery() as nursery:
        nursery.start_soon(SiteOperations(site.broker).run)
        ada, bob = site.login("ada"), site.login("bob")
        await bob.subscribe("weather", credit=50)
        for _ in range(4):
            await ada.publish("weather", bytes(500_000))
        for _ in range(5):
            await pass_time(mock_clock, SLOW_S)
        said = f"slow consumer: session {bob.session.id} of bob/desk (test, 192.0.2.1:1) reads nothing"
        assert caplog.messages.count(said) == 1
        nursery.cancel_scope.cancel()

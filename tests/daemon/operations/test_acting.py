"""What operators do to a running site; its clients see what comes of it, and its log says who did it."""

from pathlib import Path
from typing import Any

import pytest
import trio

from daemon.accounts.accounts_file import Account
from daemon.broker import browsing
from daemon.frontend import Ending, Withdrawn
from daemon.operating.accounts import CONFLICT
from daemon.operating.messages import REFUSED_MAX, Replayed
from daemon.operating.operations import Actor
from daemon.operations import acting
from daemon.operations.rights import verdict
from daemon.operations.site import SiteOperations
from daemon.system import stepping
from routing.errors import Refusal
from routing.message import Message, Section
from routing.quotas import Quotas
from routing.rights import Rights, RightsTable
from tests.support.broker import SessionClient, VirtualSite, virtual_site
from tests.support.federated import PAIR, sites

CAL = Actor(name="cal", via="web", remote="192.0.2.9:1")


async def bury(site: VirtualSite, topic: str, *bodies: bytes, mode: str = "ONE", **headers: Any) -> None:
    """Have somebody reject messages, so that they become dead letters."""
    ada, bob = site.login("ada", "publisher"), site.login("bob", "gravedigger")
    await bob.subscribe(topic, durable=False)
    for body in bodies:
        await ada.publish(topic, body, delivery=mode, name="of ada", cmuid=body.decode(), **headers)
    delivered = await bob.delivered(len(bodies))
    request = bob.request()
    bob.session.give_back([each.number for each in delivered], "no good", 0.0, request, outcome="rejected")
    await bob.answer(request)
    bob.session.close()
    ada.session.close()


async def bodies(client: SessionClient, count: int) -> list[bytes]:
    got = await client.delivered(count)
    await client.commit(*(each.number for each in got))
    return [each.stored.message.sections[0].body for each in got]


async def test_a_topic_is_purged_also_from_who_has_its_messages(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with virtual_site(tmp_path) as site:
        operations = SiteOperations(site.broker)
        ada, bob = site.login("ada"), site.login("bob")
        await bob.subscribe("weather", credit=1)
        for _ in range(3):
            await ada.publish("weather")
        await bob.delivered()
        with caplog.at_level("INFO"):
            assert await operations.purge("weather", CAL) == 3
        assert site.broker.held == 0
        assert isinstance((await bob.session.events())[0], Withdrawn)
        assert "purged weather, which held 3 messages: by cal (web, 192.0.2.9:1)" in caplog.messages
        assert await operations.purge("weather", CAL) == 0
        assert {record.event for record in site.records() if record.final} == {"removed"}


async def test_a_topic_is_deleted_with_its_subscriptions_and_settings(tmp_path: Path) -> None:
    async with virtual_site(tmp_path) as site:
        operations = SiteOperations(site.broker)
        ada = site.login("ada")
        await ada.subscribe("weather", credit=0)
        await operations.set_delivery("weather", "ONE", CAL)
        await operations.set_timeout("weather", 60.0, CAL)
        await ada.publish("weather")
        shown = await operations.topic("weather")
        assert shown is not None
        assert (shown.summary.delivery, shown.summary.timeout_s, shown.waiting) == ("ONE", 60.0, 1)
        assert await operations.delete_topic("weather", CAL) == 1
        assert await operations.topic("weather") is None


async def test_a_subscription_ends_unless_somebody_consumes_from_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with virtual_site(tmp_path) as site:
        operations = SiteOperations(site.broker)
        ada, bob = site.login("ada"), site.login("bob")
        await bob.subscribe("weather", credit=0)
        await ada.publish("weather")
        with pytest.raises(Refusal, match=f"end that first: sessions {bob.session.id}") as refused:
            await operations.end_subscription("weather", "bob", "desk", CAL)
        assert refused.value.code == CONFLICT
        bob.session.close()
        await ada.publish("weather")
        with caplog.at_level("INFO"):
            assert await operations.end_subscription("weather", "bob", "desk", CAL) == 2
        text = "ended the subscription of bob:desk to weather, with 2 messages: by cal (web, 192.0.2.9:1)"
        assert text in caplog.messages
        with pytest.raises(Refusal) as refused:
            await operations.end_subscription("weather", "bob", "desk", CAL)
        assert refused.value.code == Refusal.NOT_SUBSCRIBED
        assert (await operations.topics(count=1)).total == 0


async def test_who_consumes_again_while_what_waits_is_counted_keeps_the_subscription(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stepping, "STEP_S", 0.0)  # as if each part took long
    async with virtual_site(tmp_path) as site:
        operations = SiteOperations(site.broker)
        ada, bob = site.login("ada"), site.login("bob")
        await bob.subscribe("weather", credit=0)
        bob.session.close()
        smuids = [await ada.publish("weather", priority=priority) for priority in (1, 2, 3, 4)]
        await operations.remove_message("weather", smuids[0], CAL)  # so that they are counted one by one
        again = site.login("bob")
        async with trio.open_nursery() as consuming:
            consuming.start_soon(again.subscribe, "weather")
            with pytest.raises(Refusal, match=f"end that first: sessions {again.session.id}") as refused:
                await operations.end_subscription("weather", "bob", "desk", CAL)
        assert refused.value.code == CONFLICT
        assert len(await again.delivered(3)) == 3


async def test_everything_that_a_topic_holds_is_browsed_and_nothing_taken(tmp_path: Path) -> None:
    async with virtual_site(tmp_path) as site:
        operations = SiteOperations(site.broker)
        ada, bob = site.login("ada"), site.login("bob")
        await bob.subscribe("weather", credit=1, accepts="ALL")
        for _ in range(60):
            await ada.publish("weather", b"rain" * 2_000, name="n", others=(("X-Who", "me"),))
        await ada.publish("weather", b"work", delivery="ONE")

        found = await operations.browse("weather", count=1_000)
        assert len(found) == 61
        assert [message.id for message in found] == sorted(message.id for message in found)
        first = found[0]
        assert (first.account, first.size) == ("ada:desk@a.example", 8_000)
        assert (first.sections[0].body, first.sections[0].size) == (b"rain" * 1_024, 8_000)
        assert {("Name", "n"), ("X-Who", "me"), ("Smuid", first.smuid)} <= set(first.headers)
        assert first.expires_in_s == pytest.approx(86_400, abs=10)
        assert found[-1].expires_in_s is None
        assert [one.id for one in await operations.browse("weather", after=found[58].id, count=1)] == [
            found[59].id
        ]
        assert site.broker.held == 61
        assert await operations.browse("nowhere", count=20) == []


async def test_a_page_of_messages_with_large_headers_ends_early(tmp_path: Path) -> None:
    async with virtual_site(tmp_path) as site:
        operations = SiteOperations(site.broker)
        ada, large = site.login("ada"), "x" * 60_000
        for number in range(150):
            others = () if number % 2 else (("X-Large", large),)
            section = Section(f"text/plain;x={large}" if number % 2 else "text/plain", b"rain")
            message, request = Message(delivery="ONE", others=others, sections=(section,)), ada.request()
            ada.session.publish("weather", message, request)
            await ada.answer(request)
        pages: list[list[int]] = [[0]]
        while pages[-1]:
            found = await operations.browse("weather", after=pages[-1][-1], count=1_000)
            pages.append([message.id for message in found])
        assert [len(page) for page in pages] == [1, 70, 70, 10, 0]
        assert len({id for page in pages for id in page}) == 151


async def test_dead_letters_say_why_and_go_back(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with virtual_site(tmp_path) as site:
        operations = SiteOperations(site.broker)
        await bury(site, "work", b"1", b"2", b"3")
        letters = await operations.dead_letters("work", count=20)
        assert [letter.message.sections[0].body for letter in letters] == [b"1", b"2", b"3"]
        assert {(one.topic, one.reason, one.deliveries, one.account) for one in letters} == {
            ("work", "no good", "1", "ada:publisher@a.example")
        }
        assert letters[0].subscription == "bob:gravedigger@a.example"

        eva = await site.login("eva").subscribe("work")
        with caplog.at_level("INFO"):
            done = await operations.replay("work", CAL, smuid=letters[1].message.smuid)
        assert (done.done, done.refused) == (1, {})
        [back] = await eva.delivered()
        message = back.stored.message
        assert (message.sections[0].body, message.account) == (b"2", "ada:publisher@a.example")
        assert (message.name, message.others, back.attempt) == ("of ada", (), 1)
        assert "replayed 1 dead letters of work: by cal (web, 192.0.2.9:1)" in caplog.messages

        assert (await operations.replay("work", CAL)).done == 2
        assert await bodies(eva, 2) == [b"1", b"3"]
        assert await operations.dead_letters("work", count=20) == []
        assert await operations.replay("work", CAL) == Replayed(done=0, stayed=0, refused={}, last_id=None)


async def test_a_dead_letter_of_mode_all_goes_to_all(tmp_path: Path) -> None:
    async with virtual_site(tmp_path) as site:
        operations = SiteOperations(site.broker)
        await bury(site, "news", b"1", mode="ALL")
        readers = [await site.login(name).subscribe("news") for name in ("ada", "bob", "eva")]
        await operations.replay("news", CAL)
        assert [await bodies(reader, 1) for reader in readers] == [[b"1"]] * 3


async def test_a_dead_letter_goes_back_to_this_site_with_the_topics_timeout(tmp_path: Path) -> None:
    async with virtual_site(tmp_path) as site:
        operations = SiteOperations(site.broker)
        await bury(site, "work", b"1", depth=3, timeout_s=60.0, receipt="ALL")
        eva = await site.login("eva").subscribe("work")
        await operations.set_timeout("work", 600.0, CAL)
        await operations.replay("work", CAL)
        [back] = await eva.delivered()
        message = back.stored.message
        assert (message.depth, message.receipt, message.timeout_s) == (0, "NONE", None)
        [waiting] = await operations.browse("work", count=20)
        assert waiting.expires_in_s == pytest.approx(600, abs=10)


async def test_dead_letters_go_back_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acting, "REPLAYED_MAX", 3)
    async with virtual_site(tmp_path) as site:
        operations = SiteOperations(site.broker)
        await bury(site, "work", *(b"%d" % number for number in range(5)))
        first = await operations.replay("work", CAL)
        assert first.done == 3
        assert first.last_id is not None
        rest = await operations.replay("work", CAL, after=first.last_id)
        assert (rest.done, rest.last_id) == (2, None)


async def test_dead_letters_go_back_though_each_is_read_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(browsing, "PAGE_BYTES_MAX", 1)
    async with virtual_site(tmp_path) as site:
        operations = SiteOperations(site.broker)
        await bury(site, "work", *(b"%d" % number for number in range(3)))
        assert len(await operations.dead_letters("work", count=20)) == 3
        assert await operations.replay("work", CAL) == Replayed(done=3, stayed=0, refused={}, last_id=None)


async def test_what_does_not_fit_stays_a_dead_letter(tmp_path: Path) -> None:
    async with virtual_site(tmp_path, queue_messages_max=2) as site:
        operations = SiteOperations(site.broker)
        await bury(site, "work", b"1", b"2")
        await site.login("ada").publish("work", delivery="ONE")
        done = await operations.replay("work", CAL)
        assert done.done == 1
        assert [*done.refused.values()] == [
            "work holds as much as it may; try again once messages have been taken from it"
        ]
        [left] = await operations.dead_letters("work", count=20)
        assert [left.message.smuid] == [*done.refused]


async def test_of_many_that_stay_the_first_are_named(tmp_path: Path) -> None:
    many = REFUSED_MAX + 20
    async with virtual_site(tmp_path) as site:
        forger = site.login("ada")
        forged = [await forger.publish("dead.work", b"x", delivery="ONE") for _ in range(many)]
        replayed = await SiteOperations(site.broker).replay("work", CAL)
        assert (replayed.done, replayed.stayed) == (0, many)
        assert [*replayed.refused] == forged[:REFUSED_MAX]


async def test_a_dead_letter_that_a_client_made_up_is_not_believed(tmp_path: Path) -> None:
    async with virtual_site(tmp_path) as site:
        operations = SiteOperations(site.broker)
        forged = (("Dead-Topic", "secret"), ("Dead-Account", "eva:desk@a.example"), ("Dead-Reason", "ha"))
        smuid = await site.login("ada").publish("dead.work", b"x", delivery="ONE", others=forged)
        [letter] = await operations.dead_letters("work", count=20)
        assert (letter.topic, letter.account, letter.reason) == ("", "", "")
        done = await operations.replay("work", CAL)
        assert done.refused == {smuid: "it was published there by a client, and came from nowhere"}
        assert await operations.topic("secret") is None


async def test_a_dead_letter_whose_way_back_a_kill_cut_short_comes_back_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "site").mkdir()
    async with virtual_site(tmp_path / "site") as site:
        await bury(site, "work", b"1")
        remove = site.broker.door.remove

        def killed_before(*arguments: Any) -> None:
            site.image(tmp_path / "image")
            remove(*arguments)

        monkeypatch.setattr(site.broker.door, "remove", killed_before)
        await SiteOperations(site.broker).replay("work", CAL)
    async with virtual_site(tmp_path / "image") as site:
        assert site.broker.held == 2
        assert (await SiteOperations(site.broker).replay("work", CAL)).done == 1
        assert site.broker.held == 1


async def test_a_dead_letter_of_a_site_with_a_long_name_comes_back_readable(tmp_path: Path) -> None:
    server = ".".join(letter * count for letter, count in (("a", 60), ("b", 60), ("c", 60), ("d", 51)))
    async with virtual_site(tmp_path, server=server) as site:
        await bury(site, "work", b"1")
        await SiteOperations(site.broker).replay("work", CAL)
    async with virtual_site(tmp_path, server=server) as site:
        bob = site.login("bob")
        await bob.subscribe("work")
        assert await bodies(bob, 1) == [b"1"]


async def test_one_dead_letter_is_dropped(tmp_path: Path) -> None:
    async with virtual_site(tmp_path) as site:
        operations = SiteOperations(site.broker)
        await bury(site, "work", b"1", b"2")
        first, second = await operations.dead_letters("work", count=20)
        await operations.remove_message("dead.work", first.message.smuid, CAL)
        [left] = await operations.dead_letters("work", count=20)
        assert left.message.smuid == second.message.smuid
        with pytest.raises(Refusal, match="is not among the dead letters of work"):
            await operations.replay("work", CAL, smuid=first.message.smuid)
        with pytest.raises(Refusal, match="is not among the dead letters of work"):
            await operations.remove_message("dead.work", first.message.smuid, CAL)


@pytest.mark.parametrize("mode", ["ONE", "ALL"])
async def test_what_a_client_of_another_site_published_among_dead_letters_is_told_apart_and_dropped(
    tmp_path: Path, mode: str
) -> None:
    async with sites(tmp_path, PAIR) as federation:
        alpha, beta = await federation.start("alpha", "beta")
        reader = await beta.client("reader")
        await reader.subscribe("dead.work", durable=True)
        await reader.publish("work", "so that the ids are others there", delivery="ONE")
        await alpha.wanted(mode, "dead.work")
        publisher = await alpha.client("publisher")
        smuids = [await publisher.publish("dead.work", text, delivery=mode, depth=1) for text in ("1", "2")]
        assert [await reader.get() for _ in range(2)] == ["1", "2"]
        reader.session.close()

        operations = SiteOperations(beta.broker)
        letters = await operations.dead_letters("work", count=20)
        assert [letter.message.smuid for letter in letters] == smuids
        replayed = await operations.replay("work", CAL, smuid=smuids[1])
        assert replayed.refused == {smuids[1]: "it was published there by a client, and came from nowhere"}
        await operations.remove_message("dead.work", smuids[1], CAL)
        [left] = await operations.dead_letters("work", count=20)
        assert left.message.smuid == smuids[0]
        for smuid in (smuids[1], smuids[0].replace("alpha", "gamma")):
            with pytest.raises(Refusal, match=f"{smuid} is not among the dead letters of work"):
                await operations.remove_message("dead.work", smuid, CAL)


async def test_what_a_client_published_among_dead_letters_for_all_who_were_there_is_dropped(
    tmp_path: Path,
) -> None:
    async with virtual_site(tmp_path) as site:
        operations = SiteOperations(site.broker)
        await site.login("bob").subscribe("dead.work", credit=0)
        smuid = await site.login("ada").publish("dead.work", delivery="ALL")
        [letter] = await operations.dead_letters("work", count=20)
        assert letter.message.smuid == smuid
        await operations.remove_message("dead.work", smuid, CAL)
        assert await operations.dead_letters("work", count=20) == []


async def test_a_session_is_closed_and_its_client_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with virtual_site(tmp_path) as site:
        operations = SiteOperations(site.broker)
        bob = site.login("bob")
        with caplog.at_level("INFO"):
            assert await operations.close_session(bob.session.id, CAL)
        assert await bob.session.events() == [Ending("closed", "an operator has closed the session")]
        assert await bob.session.events() == []
        assert not await operations.close_session(99, CAL)
        assert caplog.messages == [
            f"closed session {bob.session.id} of bob/desk (test, 192.0.2.1:1): by cal (web, 192.0.2.9:1)"
        ]


async def test_whether_an_account_may_and_why(tmp_path: Path) -> None:
    async with virtual_site(tmp_path) as site:
        may = SiteOperations(site.broker).may
        assert may("ada", "publish", "weather").why == "its publish rights have the pattern #"
        assert not may("nobody", "publish", "weather").allowed
        assert may("ada", "subscribe", "bob:desk@a.example").why == "it is a system topic of another account"
        assert may("bob", "subscribe", "bob:desk@a.example").why == "it is a system topic of its own"
        assert may("ada", "publish", "bob:desk@a.example").allowed
        assert not may("ada", "publish", "nobody:desk@a.example").allowed
        for topic in ("a b", "a.#"):
            with pytest.raises(Refusal):
                may("ada", "publish", topic)
        with pytest.raises(Refusal):
            may("ada", "subscribe", "a.#.b")


@pytest.mark.parametrize(
    ("rights", "allowed", "why"),
    [
        (("#",), True, "its subscribe rights have the pattern #"),
        (("news", "weather.*.rain"), True, "it gets what comes to weather.*.rain of it"),
        (("news",), False, "none of its subscribe patterns overlaps it: news"),
        ((), False, "it has no subscribe rights"),
    ],
)
def test_whether_an_account_may_subscribe_to_a_pattern_and_why(
    rights: tuple[str, ...], allowed: bool, why: str
) -> None:
    account = Account(password="", rights=Rights(subscribe=rights))
    table = RightsTable("a.example", {"ada": account.rights})
    found = verdict(table, "ada", account, "subscribe", "weather.#")
    assert (found.allowed, found.why) == (allowed, why)


async def test_what_clients_change_is_in_the_log_too(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with virtual_site(tmp_path) as site:
        ada = site.login("ada")
        with caplog.at_level("INFO"):
            await ada.set_timeout("weather", 60.0)
            ada.session.purge("weather")
        who = "by ada/desk (test, 192.0.2.1:1)"
        assert caplog.messages == [
            f"set the timeout of weather to 60.0: {who}",
            f"purged weather: {who}",
        ]


async def test_an_account_may_be_logged_in_only_so_often(tmp_path: Path) -> None:
    async with virtual_site(tmp_path, quotas=Quotas(sessions_max=2)) as site:
        first, _ = site.login("ada"), site.login("ada", "phone")
        with pytest.raises(Refusal, match=r"ada is logged in 2 times, as often as it may \(sessions_max\)"):
            site.login("ada")
        site.login("bob").session.close()
        first.session.close()
        site.login("ada").session.close()
        site.login("ada")

"""What people do on the page, by its forms, without a script."""

import msgspec
import pytest

from daemon.frontend import Identity
from daemon.settings import Limits
from plugins.web.pages import MESSAGES_ON_A_PAGE, SUBSCRIPTIONS_ON_A_PAGE
from routing.message import Message, Section
from routing.quotas import Quotas
from tests.support.broker import SessionClient
from tests.support.site import BrokerSite
from tests.support.web import WebAnswer, WebBrowser


def client(site: BrokerSite, account: str = "ada") -> SessionClient:
    return SessionClient(site.broker, account, "desk")


async def after(browser: WebBrowser, answer: WebAnswer) -> str:
    """The page that one is led to."""
    assert answer.status == 303, answer.text
    return (await browser.get(answer.headers["location"])).text


async def dead_letter(site: BrokerSite, topic: str) -> None:
    worker = await client(site, "bob").subscribe(topic)
    await client(site).publish(topic, b"what nobody can do", delivery="ONE")
    (delivered,) = await worker.delivered()
    worker.session.give_back([delivered.number], "cannot parse it", outcome="rejected", request=99)
    await worker.answer(99)
    worker.session.close()


class TestTopics:
    async def test_topics_are_found_by_name_and_by_pattern(self, site: BrokerSite, ada: WebBrowser) -> None:
        for topic in ("orders.new", "orders.old", "news"):
            await client(site).publish(topic, delivery="ONE")
        assert "3 of 3 topics" in (await ada.get("/topics")).text
        found = (await ada.get("/topics?search=orders.%23")).text
        assert "2 of 3 topics" in found
        assert "news" not in found
        assert "No topics that match." in (await ada.get("/topics?search=absent")).text
        assert 'role="alert"' in (await ada.get("/topics?search=a%23b")).text

    async def test_many_topics_are_paged(self, site: BrokerSite, ada: WebBrowser) -> None:
        publisher = client(site)
        for number_ in range(60):
            await publisher.publish(f"topic{number_:02}", delivery="ONE")
        first = (await ada.get("/topics")).text
        assert "topic49" in first
        assert "topic50" not in first
        assert 'href="/topics?order=name&amp;offset=50"' in first
        assert "51 to 60 of 60" in (await ada.get("/topics?order=name&offset=50")).text

    async def test_a_topic_shows_who_has_subscribed_and_what_waits(
        self, site: BrokerSite, ada: WebBrowser
    ) -> None:
        await client(site, "bob").subscribe("jobs", name="night")
        await client(site).publish("jobs", delivery="ALL", timeout_s=60.0)
        page = (await ada.get("/topic?name=jobs")).text
        assert "bob/desk (night)" in page

    async def test_of_many_subscriptions_some_are_shown(self, site: BrokerSite, ada: WebBrowser) -> None:
        bob = client(site, "bob")
        for number_ in range(SUBSCRIPTIONS_ON_A_PAGE + 3):
            await bob.subscribe("jobs", name=f"night{number_}")
        page = (await ada.get("/topic?name=jobs")).text
        assert page.count("bob/desk (night") == SUBSCRIPTIONS_ON_A_PAGE
        assert "3 more: <code>smqpd topic show</code> shows them." in page
        bob.session.close()

    async def test_a_topic_of_which_nothing_is_known_is_published_to(self, ada: WebBrowser) -> None:
        page = (await ada.get("/topic?name=new")).text
        assert "Nothing is known of this topic" in page
        assert 'action="/topic/publish"' in page
        assert (await ada.get("/topic?name=no%20topic")).status == 400

    async def test_of_such_a_topic_who_subscribes_to_a_pattern_is_shown(
        self, site: BrokerSite, ada: WebBrowser
    ) -> None:
        assert "nobody subscribes, and" in (await ada.get("/topic?name=jobs.new")).text
        await client(site, "bob").subscribe("jobs.#")
        page = (await ada.get("/topic?name=jobs.new")).text
        assert "nobody subscribes but by patterns, and" in page
        assert "bob/desk" in page
        assert "jobs.#" in page

    async def test_a_message_is_published_looked_at_and_removed(
        self, site: BrokerSite, ada: WebBrowser
    ) -> None:
        fields = {"name": "jobs", "body": '{"a": 1}', "content_type": "application/json", "delivery": "ONE"}
        page = await after(ada, await ada.do("/topic/publish", **fields))
        assert "Published smqp.example/" in page
        shown = (await ada.get("/topic/messages?name=jobs")).text
        assert "{\n  &#34;a&#34;: 1\n}" in shown
        smuid = shown.partition("<h2><a")[2].partition("<code>")[2].partition("<")[0]
        page = await after(ada, await ada.do("/topic/remove", name="jobs", smuid=smuid, list="messages"))
        assert f"Removed {smuid}" in page
        assert "It holds none" in page

    @pytest.mark.parametrize("are_dead", [False, True])
    async def test_what_follows_a_page_is_offered_whether_or_not_it_is_full(
        self, site: BrokerSite, ada: WebBrowser, are_dead: bool
    ) -> None:
        async def listed(count: int, sections: int) -> str:
            """The page of a topic that holds so many messages, with so many large headers each."""
            worker, topic = client(site, "bob"), f"jobs.{count}"
            section, publisher = Section(f"text/plain;x={'x' * 60_000}", b""), client(site)
            for _ in range(count):
                request = publisher.request()
                message = Message(delivery="ONE", sections=(section,) * sections)
                publisher.session.publish(topic, message, request)
                await publisher.answer(request)
            if are_dead:
                await worker.subscribe(topic, credit=count)
                numbers = [each.number for each in await worker.delivered(count)]
                worker.session.give_back(numbers, "cannot parse it", outcome="rejected", request=99)
                await worker.answer(99)
            path = "dead-letters" if are_dead else "messages"
            return (await ada.get(f"/topic/{path}?name={topic}")).text

        assert "Later ones" in await listed(3, 40)
        assert "Later ones" not in await listed(1, 40)
        assert "Later ones" in await listed(MESSAGES_ON_A_PAGE + 1, 0)
        assert "Later ones" not in await listed(MESSAGES_ON_A_PAGE, 0)

    @pytest.mark.parametrize(
        ("fields", "said"),
        [
            ({"name": "no topic"}, "topic"),
            ({"name": "jobs", "content_type": "nothing"}, "Content-Type"),
            ({"name": "jobs", "timeout": "soon"}, "a timeout is above 0 and at most 1,000,000,000 seconds"),
            ({"name": "jobs", "timeout": "nan"}, "a timeout is above 0 and at most 1,000,000,000 seconds"),
            ({"name": "jobs", "timeout": "-1"}, "a timeout is above 0 and at most 1,000,000,000 seconds"),
        ],
    )
    async def test_what_cannot_be_published_is_refused_with_the_reason(
        self, site: BrokerSite, ada: WebBrowser, fields: dict[str, str], said: str
    ) -> None:
        answer = await ada.do("/topic/publish", body="x", **fields)
        assert answer.status == 400
        assert said in answer.text
        assert site.broker.held == 0

    async def test_a_message_that_nobody_gets_is_said_to_be_gone(self, ada: WebBrowser) -> None:
        answer = await ada.do("/topic/publish", name="jobs", body="x", delivery="ALL")
        assert answer.headers["location"] == "/topic?name=jobs"
        assert "nobody has subscribed, so it is gone" in (await ada.get("/")).text

    async def test_settings_are_changed(self, site: BrokerSite, ada: WebBrowser) -> None:
        page = await after(ada, await ada.do("/topic/set", name="jobs", delivery="ONE", timeout="90"))
        assert "Set jobs." in page
        assert "1.5 min" in page
        await ada.do("/topic/set", name="jobs", delivery="ALL", timeout="INFINITE")
        assert "none: state messages" in (await ada.get("/topic?name=jobs")).text

    async def test_settings_of_which_one_is_refused_are_not_changed(
        self, site: BrokerSite, ada: WebBrowser
    ) -> None:
        answer = await ada.do("/topic/set", name="jobs", delivery="ONE", timeout="nan")
        assert answer.status == 400
        assert await site.operations.topic("jobs") is None

    async def test_a_topic_is_purged_and_deleted(self, site: BrokerSite, ada: WebBrowser) -> None:
        await client(site, "bob").subscribe("jobs")
        await client(site).publish("jobs", delivery="ALL", timeout_s=60.0)
        assert "Removed 1 message of jobs" in await after(ada, await ada.do("/topic/purge", name="jobs"))
        assert "Deleted jobs" in await after(ada, await ada.do("/topic/delete", name="jobs"))
        assert "Nothing is known of this topic" in (await ada.get("/topic?name=jobs")).text

    async def test_what_was_done_is_said_once(self, site: BrokerSite, ada: WebBrowser) -> None:
        assert "Set jobs." in await after(ada, await ada.do("/topic/set", name="jobs", delivery="ONE"))
        assert "Set jobs." not in (await ada.get("/topics")).text

    async def test_dead_letters_say_why_and_go_back(self, site: BrokerSite, ada: WebBrowser) -> None:
        await dead_letter(site, "jobs")
        page = (await ada.get("/topic/dead-letters?name=jobs")).text
        assert "cannot parse it" in page
        assert "what nobody can do" in page
        page = await after(ada, await ada.do("/topic/replay", name="jobs", list="dead"))
        assert "Replayed 1 to jobs." in page
        assert "There are none." in page

    async def test_a_dead_letter_is_dropped(self, site: BrokerSite, ada: WebBrowser) -> None:
        await dead_letter(site, "jobs")
        page = (await ada.get("/topic/dead-letters?name=jobs")).text
        smuid = page.partition("<h2><a")[2].partition("<code>")[2].partition("<")[0]
        fields = {"name": "dead.jobs", "back": "jobs", "smuid": smuid, "list": "dead"}
        assert f'value="{fields["name"]}"' in page
        assert "There are none." in await after(ada, await ada.do("/topic/remove", **fields))


class TestLimits:
    @pytest.fixture
    def limits(self) -> Limits:
        return Limits(message_bytes_max=100)

    async def test_a_message_may_be_as_large_as_the_site_takes_them_by_now(
        self, site: BrokerSite, ada: WebBrowser
    ) -> None:
        fields = {"name": "jobs", "body": "x" * 1_000, "delivery": "ONE"}
        assert (await ada.do("/topic/publish", **fields)).status == 413
        limits = Limits(message_bytes_max=1_000)
        site.broker.reconfigure(msgspec.structs.replace(site.broker.settings, limits=limits))
        assert (await ada.do("/topic/publish", **fields)).status == 303


class TestSessions:
    async def test_sessions_are_found_and_closed(self, site: BrokerSite, ada: WebBrowser) -> None:
        bob = client(site, "bob")
        await bob.subscribe("jobs")
        page = (await ada.get("/sessions?search=bob")).text
        assert "1 of 1 sessions" in page
        number_ = page.partition('name="id" value="')[2].partition('"')[0]
        assert "Closed the session." in await after(ada, await ada.do("/session/close", id=number_))
        assert [type(event).__name__ for event in await bob.session.events()] == ["Ending"]
        bob.session.close()
        assert "ended already" in await after(ada, await ada.do("/session/close", id=number_))
        for none in ("x", "²", "٣", "9" * 40, ""):
            assert "ended already" in await after(ada, await ada.do("/session/close", id=none))


class TestMessage:
    async def test_the_fate_of_a_message_is_told(self, site: BrokerSite, ada: WebBrowser) -> None:
        smuid = await client(site).publish("jobs", delivery="ONE")
        page = (await ada.get(f"/message?smuid={smuid}")).text
        assert 'href="/topic?name=jobs"' in page
        assert "smqp.example</strong>" in page
        assert "nothing of it is unknown" in page
        told = (await ada.get(f"/api/message?smuid={smuid}")).json
        assert told["began"]["server"] == "smqp.example"
        assert told["gaps"] == []

    async def test_what_is_no_smuid_is_said_to_be_none(self, ada: WebBrowser) -> None:
        assert 'role="alert"' in (await ada.get("/message?smuid=%3Cb%3E")).text
        assert (await ada.get("/api/message?smuid=x")).status == 400

    async def test_a_message_that_nobody_knows(self, ada: WebBrowser) -> None:
        page = (await ada.get("/message?smuid=smqp.example/019aa5d72900-1-1")).text
        assert "No record of it" in page


async def test_accounts_are_shown_with_their_rights(ada: WebBrowser) -> None:
    page = (await ada.get("/accounts")).text
    assert "*.open" in page
    assert "argon2" not in page


async def test_accounts_are_shown_with_what_they_use_of_their_quotas(
    ada: WebBrowser, site: BrokerSite
) -> None:
    quotas = Quotas(sessions_max=7, publish_rate_per_s_max=0.25, held_messages_max=3, held_bytes_max=2_048)
    site.broker.reconfigure(msgspec.structs.replace(site.broker.settings, quotas=quotas))
    session = site.open_session(Identity("bob"), "desk", protocol="test", remote="test")
    session.publish("jobs", Message(delivery="ONE", sections=(Section("text/plain", b"x" * 100),)))
    page = (await ada.get("/accounts")).text
    assert "1</a> of 7</td>\n<td>0.25/s at most</td>\n<td>1 of 3, 100 B of 2 KiB</td>" in page
    session.close()


async def test_a_site_without_peers_says_so(ada: WebBrowser) -> None:
    assert "This site has no peers." in (await ada.get("/links")).text

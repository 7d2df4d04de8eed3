from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio
import trio.testing

from daemon.frontend import Limits
from routing.quotas import Quotas
from tests.support.site import PASSWORD, SERVER, BrokerSite, running_site
from tests.support.smqp_peer import connected, frame, publish


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[BrokerSite]:
    async with running_site(tmp_path) as site:
        yield site


async def test_the_server_greets_and_tells_who_logged_in_what_it_needs_to_know(site: BrokerSite) -> None:
    async with connected(site, None) as peer:
        assert await peer.line() == ("SMQP 1.0 Ready smqpd/test", {})
        await peer.send(frame(f"PASS ada/desk {PASSWORD}", "Request: 1"))
        start, attributes = await peer.line()
        assert start == "OK PASS"
        assert attributes.pop("Time").endswith("Z")
        assert attributes == {
            "Topic": f"ada:desk@{SERVER}",
            "Timeout": "86400",
            "Suid": f"{SERVER}/1",
            "Idle": "300",
            "Request": "1",
        }


async def test_a_draining_server_says_where_to_go(site: BrokerSite) -> None:
    site.draining.set()
    async with connected(site, None) as peer:
        assert await peer.line() == (
            "SMQP 1.0 Not Available smqpd/test",
            {"Text": "the site is stopping", "Redirect": "other.example:720"},
        )
        assert await peer.line() is None


async def test_who_has_not_logged_in_when_the_site_begins_to_drain_is_told_so_at_once(
    site: BrokerSite,
) -> None:
    async with connected(site, None) as peer:
        assert (await peer.line())[0] == "SMQP 1.0 Ready smqpd/test"
        site.draining.set()
        assert await peer.line() == (
            "BYE draining",
            {"Text": "the site is stopping", "Redirect": "other.example:720"},
        )
        assert await peer.line() is None


async def test_nothing_is_done_before_the_login(site: BrokerSite) -> None:
    async with connected(site, None) as peer:
        await peer.line()
        await peer.send(frame("SUBSCRIBE t", "Request: 9"), frame("PING"))
        start, attributes = await peer.line()
        assert start == "ERROR not-logged-in"
        assert (attributes["Command"], attributes["Request"]) == ("SUBSCRIBE", "9")
        assert await peer.line() == ("PONG", {})


async def test_before_the_login_no_content_is_kept(site: BrokerSite) -> None:
    async with connected(site, None) as peer:
        await peer.line()
        await peer.send(publish("t", 1, body=b"x" * 100_000))
        start, attributes = await peer.line()
        assert (start, attributes["Cmuid"]) == ("ERROR too-many", "1")


async def test_a_wrong_password_is_refused_and_the_third_ends_the_connection(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with running_site(tmp_path, Limits(login_timeout_s=60)) as site, connected(site, None) as peer:
        await peer.line()
        await peer.send(frame("PASS ada wrong") * 3)
        for _ in range(3):
            start, attributes = await peer.line()
            assert (start, attributes["Command"]) == ("ERROR bad-login", "PASS")
        assert await peer.line() == ("BYE bad-login", {})
        assert await peer.line() is None


@pytest.mark.parametrize("line", ["secret", "Password: secret", "Request: se cret", "X: secret\x01"])
async def test_an_error_of_a_login_holds_no_password(site: BrokerSite, line: str) -> None:
    async with connected(site, None) as peer:
        await peer.line()
        await peer.send(frame("PASS ada secret", line))
        start, attributes = await peer.line()
        assert (start, attributes.pop("Command")) == ("ERROR bad-header", "PASS")
        assert attributes.keys() <= {"Text", "Request"}
        assert "secret" not in attributes["Text"]


async def test_commands_may_follow_the_login_without_waiting(site: BrokerSite) -> None:
    async with connected(site, None) as peer:
        await peer.send(frame(f"PASS ada/desk {PASSWORD}"), publish("t", 1), frame("QUIT"))
        found = [(await peer.line())[0] for _ in range(4)]
        assert found == ["SMQP 1.0 Ready smqpd/test", "OK PASS", "OK PUBLISH", "BYE quit"]


async def test_a_message_goes_from_publisher_to_subscriber_in_two_phases(site: BrokerSite) -> None:
    async with connected(site, "bob/desk") as bob, connected(site, "ada/desk") as ada:
        await bob.send(frame("SUBSCRIBE weather.oslo", "Request: 1"))
        assert await bob.line() == ("OK SUBSCRIBE", {"Request": "1"})

        await ada.send(publish("weather.oslo", "a1", "Priority: 3", "X-Station: 18700", body=b"rain\r\n\r\n"))
        start, published = await ada.line()
        assert (start, published["Cmuid"]) == ("OK PUBLISH", "a1")

        message = await bob.frame()
        assert (message.command, message.arguments) == ("MESSAGE", "weather.oslo")
        delivery = dict(message.headers[: message.headers.index(("Smuid", published["Smuid"]))])
        assert (delivery["Id"], delivery["Attempt"]) == ("1", "1")
        assert 0 < float(delivery["Lock"]) <= 60
        assert message.headers[len(delivery) :] == [
            ("Smuid", published["Smuid"]),
            ("Cmuid", "a1"),
            ("Account", f"ada:desk@{SERVER}"),
            ("Priority", "3"),
            ("Created", "2026-11-21T10:00:00Z"),
            ("X-Station", "18700"),
        ]
        assert [section.body for section in message.sections] == [b"rain\r\n\r\n"]

        await bob.send(frame("RECEIVED 1", "Request: 2"))
        assert await bob.line() == ("OK RECEIVED", {"Request": "2"})
        await bob.send(frame("COMMIT 1"))
        assert await bob.line() == ("OK COMMIT", {})
        await bob.send(frame("COMMIT 1", "Request: 3"))
        start, attributes = await bob.line()
        assert (start, attributes["Command"], attributes["Request"]) == ("ERROR lock-lost", "COMMIT", "3")


async def test_a_message_that_came_by_a_pattern_names_its_topic_and_the_pattern(site: BrokerSite) -> None:
    async with connected(site, "ada/desk") as ada:
        await ada.send(
            frame("SUBSCRIBE weather.#", "Subscription: all", "Request: 1"), publish("weather.oslo", "a1")
        )
        assert await ada.line() == ("OK SUBSCRIBE", {"Request": "1"})
        assert (await ada.line())[0] == "OK PUBLISH"
        message = await ada.frame()
        assert (message.command, message.arguments) == ("MESSAGE", "weather.oslo")
        assert message.headers[:3] == [("Subscription", "all"), ("Pattern", "weather.#"), ("Id", "1")]
        await ada.send(frame("UNSUBSCRIBE weather.#", "Subscription: all"))
        assert (await ada.line())[0] == "OK UNSUBSCRIBE"
        await ada.send(frame("SUBSCRIBE a.#.b"))
        assert (await ada.line())[0] == "ERROR bad-topic"


async def test_what_was_received_and_not_committed_comes_again_marked_as_received(site: BrokerSite) -> None:
    async with connected(site, "bob/desk") as bob:
        await bob.send(frame("SUBSCRIBE t"), publish("t", 1))
        assert [(await bob.line())[0] for _ in range(3)] == ["OK SUBSCRIBE", "OK PUBLISH", "MESSAGE t"]
        await bob.send(frame("RECEIVED 1"))
        assert await bob.line() == ("OK RECEIVED", {})
    async with connected(site, "bob/desk") as bob:
        await bob.send(frame("SUBSCRIBE t"))
        lines = dict([await bob.line(), await bob.line()])
        assert lines["MESSAGE t"]["Received"] == "YES"
        assert "Lock" not in lines["MESSAGE t"]


async def test_one_frame_acknowledges_a_whole_batch(site: BrokerSite) -> None:
    async with connected(site) as ada:
        await ada.send(frame("SUBSCRIBE t"), *(publish("t", number) for number in range(50)))
        found = [(await ada.line())[0] for _ in range(101)]
        assert found.count("MESSAGE t") == 50
        await ada.send(frame("RECEIVED 1-50"), frame("COMMIT 1-20 22-50"), frame("RETURN 21"))
        assert [(await ada.line())[0] for _ in range(2)] == ["OK RECEIVED", "OK COMMIT"]
        lines = dict([await ada.line(), await ada.line()])
        assert lines["OK RETURN"] == {}
        assert lines["MESSAGE t"]["Attempt"] == "2"


async def test_a_repeated_publish_is_answered_with_the_first_smuid(site: BrokerSite) -> None:
    async with connected(site) as ada:
        await ada.send(publish("t", "x"))
        _, first = await ada.line()
    assert first.pop("Due") == "0"
    async with connected(site) as ada:
        await ada.send(publish("t", "x"))
        assert await ada.line() == ("OK PUBLISH", {**first, "Repeated": "YES"})


async def test_an_unguaranteed_message_is_answered_by_nothing_and_has_no_id(site: BrokerSite) -> None:
    async with connected(site, "eve/desk") as eve, connected(site, "ada/desk") as ada:
        await ada.send(frame("SUBSCRIBE eve.mouse"))
        assert await ada.line() == ("OK SUBSCRIBE", {})
        await eve.send(
            publish("eve.mouse", 1, "Guarantee: NO"), publish("forbidden", 2, "Guarantee: NO"), frame("PING")
        )
        assert await eve.line() == ("PONG", {})
        start, attributes = await ada.line()
        assert start == "MESSAGE eve.mouse"
        assert not {"Id", "Attempt", "Lock"} & attributes.keys()


async def test_a_subscription_may_acknowledge_unguaranteed_messages_too(site: BrokerSite) -> None:
    async with connected(site, "eve/desk") as eve, connected(site, "ada/desk") as ada:
        await ada.send(frame("SUBSCRIBE eve.mouse", "Acknowledge: ALL"))
        assert await ada.line() == ("OK SUBSCRIBE", {})
        await eve.send(publish("eve.mouse", 1, "Guarantee: NO"))
        _, attributes = await ada.line()
        assert (attributes["Id"], attributes["Attempt"]) == ("1", "1")
        await ada.send(frame("RETURN 1"))
        assert await ada.line() == ("OK RETURN", {})
        _, attributes = await ada.line()
        assert (attributes["Id"], attributes["Attempt"]) == ("2", "2")
        await ada.send(frame("COMMIT 2"))
        assert await ada.line() == ("OK COMMIT", {})
        await ada.send(frame("SUBSCRIBE eve.mouse", "Acknowledge: NONE"))
        start, attributes = await ada.line()
        assert (start, attributes["Header"]) == ("ERROR bad-header", "Acknowledge")


@pytest.mark.parametrize("name", ["Smuid", "Hops", "Account"])
async def test_what_only_a_server_writes_is_refused_by_name(site: BrokerSite, name: str) -> None:
    value = {"Smuid": "a/0193abcdef01-1-1", "Hops": "a", "Account": "bob:desk@a"}[name]
    async with connected(site) as ada:
        await ada.send(publish("t", "x", f"{name}: {value}"))
        start, attributes = await ada.line()
        assert start == "ERROR bad-header"
        assert (attributes["Cmuid"], attributes["Header"], attributes["Value"]) == ("x", name, value)
        assert attributes["Expected"]


async def test_a_header_that_cannot_be_read_costs_one_message_and_says_why(site: BrokerSite) -> None:
    async with connected(site) as ada:
        await ada.send(
            publish("t", "x", "Priority: high"), publish("t", "y", "no colon"), publish("t", "z"), b"\r\n"
        )
        start, attributes = await ada.line()
        assert start == "ERROR bad-header"
        assert attributes == {
            "Command": "PUBLISH",
            "Cmuid": "x",
            "Text": "Priority: 'high' is not an integer from 1 to 2147483647",
            "Header": "Priority",
            "Value": "high",
            "Expected": "an integer from 1 to 2147483647",
        }
        start, attributes = await ada.line()
        assert (start, attributes["Cmuid"]) == ("ERROR bad-header", "y")
        start, attributes = await ada.line()
        assert (start, attributes["Cmuid"]) == ("OK PUBLISH", "z")


async def test_lost_framing_is_told_and_ends_the_connection(site: BrokerSite) -> None:
    async with connected(site) as ada:
        await ada.send(frame("PUBLISH t", "Cmuid: 1", "Content-Length: 5", body=b"hello"), frame("PING"))
        start, attributes = await ada.line()
        assert start == "ERROR bad-frame"
        assert "Sections" in attributes["Text"]
        assert await ada.line() == ("BYE framing-lost", {})
        assert await ada.line() is None


async def test_header_lines_that_are_too_long_end_the_connection(site: BrokerSite) -> None:
    async with connected(site) as ada:
        await ada.send(frame("PUBLISH t", "X-Long: " + "x" * site.broker.limits.frame_header_bytes_max))
        assert (await ada.line())[0] == "ERROR too-large"
        assert await ada.line() == ("BYE framing-lost", {})
        assert await ada.line() is None


async def test_rights_are_checked(site: BrokerSite) -> None:
    async with connected(site, "eve/desk") as eve:
        await eve.send(frame("SUBSCRIBE eve.t"), publish("t", 1), frame("SET TOPIC DELIVERY eve.t ONE"))
        assert [(await eve.line())[0] for _ in range(3)] == ["ERROR forbidden"] * 3


async def test_topic_settings_removal_and_the_end_of_a_subscription(site: BrokerSite) -> None:
    async with connected(site) as ada:
        await ada.send(frame("SET TOPIC DELIVERY t ONE"), frame("SET TOPIC TIMEOUT t 60"), publish("t", 1))
        assert await ada.line() == ("OK SET", {})
        assert await ada.line() == ("OK SET", {})
        _, published = await ada.line()
        await ada.send(frame("SUBSCRIBE t"))
        lines = dict([await ada.line(), await ada.line()])
        assert 0 < float(lines["MESSAGE t"]["Expires"]) <= 60
        await ada.send(frame(f"REMOVE t {published['Smuid']}"))
        lines = dict([await ada.line(), await ada.line()])
        assert lines == {
            "OK REMOVE": {"Smuid": published["Smuid"]},
            "WITHDRAWN 1": {"Topic": "t", "Reason": "removed"},
        }
        await ada.send(frame("UNSUBSCRIBE t"))
        assert await ada.line() == ("OK UNSUBSCRIBE", {})
        await ada.send(frame("DETACH t"))
        assert (await ada.line())[0] == "ERROR not-subscribed"


async def test_a_second_connection_takes_a_subscription_over(site: BrokerSite) -> None:
    async with connected(site) as first, connected(site) as second:
        await first.send(frame("SUBSCRIBE t"))
        assert await first.line() == ("OK SUBSCRIBE", {})
        await second.send(frame("SUBSCRIBE t"))
        assert await second.line() == ("OK SUBSCRIBE", {})
        assert await first.line() == ("DETACHED t", {"Reason": "replaced"})


async def test_what_comes_for_a_subscription_with_a_name_says_the_name(site: BrokerSite) -> None:
    async with connected(site) as first, connected(site) as second:
        await first.send(frame("SUBSCRIBE t", "Subscription: s"), publish("t", 1))
        assert await first.line() == ("OK SUBSCRIBE", {})
        _, published = await first.line()
        start, delivery = await first.line()
        assert (start, delivery["Subscription"]) == ("MESSAGE t", "s")
        await first.send(frame(f"REMOVE t {published['Smuid']}"))
        lines = dict([await first.line(), await first.line()])
        assert lines["WITHDRAWN 1"] == {"Topic": "t", "Subscription": "s", "Reason": "removed"}
        await second.send(frame("SUBSCRIBE t", "Subscription: s"))
        assert await first.line() == ("DETACHED t", {"Subscription": "s", "Reason": "replaced"})


@pytest.mark.parametrize(
    ("where", "told"),
    [("4711", "192.0.2.1:4711"), ("host.example:1", "host.example:1"), ("[::1]:1", "[::1]:1")],
)
async def test_connectto_comes_to_the_other_logins_system_topic(
    site: BrokerSite, where: str, told: str
) -> None:
    async with connected(site, "bob/desk") as bob, connected(site, "ada/desk") as ada:
        await bob.send(frame(f"SUBSCRIBE bob:desk@{SERVER}"))
        assert await bob.line() == ("OK SUBSCRIBE", {})
        await ada.send(frame(f"CONNECTTO bob/desk {where}", "Request: 5"))
        start, attributes = await ada.line()
        assert (start, attributes["Request"]) == ("OK CONNECTTO", "5")
        message = await bob.frame()
        headers = dict(message.headers)
        assert headers["Account"] == f"ada:desk@{SERVER}"
        assert (headers["Name"], headers["Connect-To"]) == ("CONNECTTO", told)
        assert message.sections[0].body == told.encode()


async def test_connectto_an_account_that_is_not_there_is_refused(site: BrokerSite) -> None:
    async with connected(site, "ada/desk") as ada:
        await ada.send(frame("CONNECTTO nobody/desk 4711", "Request: 5"))
        start, attributes = await ada.line()
        assert (start, attributes["Request"]) == ("ERROR forbidden", "5")


async def test_what_was_received_goes_on_with_the_end_of_its_subscription(site: BrokerSite) -> None:
    async with connected(site, "ada/one") as one, connected(site, "ada/two") as two:
        await one.send(frame("SUBSCRIBE t"), publish("t", 1, "Delivery: ONE"))
        lines = [await one.line() for _ in range(3)]
        assert lines[2][0] == "MESSAGE t"
        await one.send(frame("RECEIVED 1"))
        assert await one.line() == ("OK RECEIVED", {})
        await two.send(frame("SUBSCRIBE t"))
        assert await two.line() == ("OK SUBSCRIBE", {})
        await one.send(frame("UNSUBSCRIBE t"))
        assert await one.line() == ("OK UNSUBSCRIBE", {})
        start, delivery = await two.line()
        assert (start, delivery["Smuid"]) == ("MESSAGE t", lines[1][1]["Smuid"])


async def test_a_client_that_quits_gets_all_its_answers_first(site: BrokerSite) -> None:
    async with connected(site) as ada:
        await ada.send(*(publish("t", number) for number in range(100)), frame("QUIT"), frame("PING"))
        found = [(await ada.line())[0] for _ in range(101)]
        assert found == ["OK PUBLISH"] * 100 + ["BYE quit"]
        assert await ada.line() is None


@pytest.mark.parametrize("login", [None, "ada/desk"])
async def test_the_goodbye_to_who_quits_repeats_the_request(site: BrokerSite, login: str | None) -> None:
    async with connected(site, login) as ada:
        if login is None:
            assert await ada.line() == ("SMQP 1.0 Ready smqpd/test", {})
        await ada.send(frame("QUIT", "Request: 7"))
        assert await ada.line() == ("BYE quit", {"Request": "7"})


async def test_a_client_that_ends_its_stream_gets_all_its_answers(site: BrokerSite) -> None:
    async with connected(site) as ada:
        await ada.send(*(publish("t", number) for number in range(10)))
        assert isinstance(ada.stream, trio.abc.HalfCloseableStream)
        await ada.stream.send_eof()
        assert [(await ada.line())[0] for _ in range(10)] == ["OK PUBLISH"] * 10
        assert await ada.line() == ("BYE quit", {})
        assert await ada.line() is None
    assert site.ended == ["its client closed the connection without a goodbye"]


async def test_a_client_is_read_no_further_while_too_much_is_unanswered(tmp_path: Path) -> None:
    async with (
        running_site(tmp_path, Limits(unanswered_per_session_max=3)) as site,
        connected(site) as ada,
    ):
        await ada.send(*(publish("t", number) for number in range(20)), frame("QUIT"))
        found = [(await ada.line())[0] for _ in range(21)]
        assert found == ["OK PUBLISH"] * 20 + ["BYE quit"]


async def test_a_disabled_account_is_told_goodbye(site: BrokerSite) -> None:
    async with connected(site) as ada:
        site.disable_all()
        start, attributes = await ada.line()
        assert (start, attributes["Text"]) == ("BYE disabled", "the account has been disabled")
        assert await ada.line() is None


async def test_a_message_that_is_on_its_way_is_whole_before_the_goodbye(site: BrokerSite) -> None:
    async with (
        connected(site, "bob/desk", pair=trio.testing.lockstep_stream_pair) as bob,
        connected(site) as ada,
    ):
        await bob.send(frame("SUBSCRIBE t"))
        assert await bob.line() == ("OK SUBSCRIBE", {})
        await ada.send(publish("t", 1, body=b"x" * 100_000))
        assert (await ada.line())[0] == "OK PUBLISH"
        bob.reader.feed(bytes(await bob.stream.receive_some(10)))  # the rest of it is being sent
        await bob.send(frame("QUIT"))
        assert [section.body for section in (await bob.frame()).sections] == [b"x" * 100_000]
        assert await bob.line() == ("BYE quit", {})


async def test_who_has_as_much_held_as_it_may_is_refused_by_name(tmp_path: Path) -> None:
    async with (
        running_site(tmp_path, quotas=Quotas(held_messages_max=1)) as site,
        connected(site) as peer,
    ):
        await peer.send(publish("t", 1, "Delivery: ONE"))
        assert (await peer.line())[0] == "OK PUBLISH"
        await peer.send(publish("t", 2, "Delivery: ONE"))
        start, attributes = await peer.line()
        assert start == "ERROR queue-full"
        assert "which may be 1 (held_messages_max)" in attributes["Text"]


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        (("Hops: x",), "one of the headers that clients write (only servers write it)"),
        (("Priority: 3", "Priority: 3"), "the only one (this header came before)"),
    ],
)
async def test_what_is_expected_of_a_header_is_a_sentence(
    site: BrokerSite, headers: tuple[str, ...], expected: str
) -> None:
    async with connected(site) as peer:
        await peer.send(publish("t", "c", *headers))
        start, told = await peer.line()
        assert (start, told["Expected"]) == ("ERROR bad-header", expected)
        assert told["Text"].endswith(f" is not {expected}")

"""What waits on system topics is bounded for each account that causes it."""

import math

import pytest

from routing.errors import Refusal
from routing.names import dead_letter_topic
from tests.support.one_router import RouterClient, RouterSite

ADA, BOB = "ada:desk@a.example", "bob:desk@a.example"


@pytest.fixture
def site() -> RouterSite:
    return RouterSite(system_messages_max=16, max_deliveries=2)


def fill(publisher: RouterClient, topic: str, **headers: object) -> int:
    """Publish until it is refused; how many were taken."""
    for count in range(1_000):
        try:
            publisher.publish(topic, "x", **headers)
        except Refusal as refusal:
            return count if refusal.code == Refusal.QUEUE_FULL else -1
    raise AssertionError("it was never refused")


def test_a_publisher_may_have_so_many_waiting_for_one_recipient_and_so_many_in_all(site: RouterSite) -> None:
    eve = site.login("eve")
    assert fill(eve, ADA, timeout_s=math.inf) == 2
    assert fill(eve, "ada:other@a.example") == 0
    assert fill(site.login("eve", "other-channel"), ADA) == 0
    assert [fill(eve, f"{name}:desk@b.example") for name in "abcdefgh"] == [2, 2, 2, 2, 2, 2, 2, 0]
    assert fill(site.login("bob"), ADA) == 2
    eve.publish("news", "this is not about system topics")


def test_what_was_read_makes_room_also_after_a_restart(site: RouterSite) -> None:
    assert fill(site.login("eve"), ADA) == 2
    site.restart()
    assert fill(site.login("eve"), ADA) == 0
    ada = site.login("ada").subscribe(ADA)
    ada.commit(*ada.take())
    assert fill(site.login("eve"), BOB) == 2


def test_bytes_are_bounded_likewise() -> None:
    site = RouterSite(system_bytes_max=800)
    eve = site.login("eve")
    eve.publish(ADA, "x" * 90)
    with pytest.raises(Refusal, match="1 messages of 90 bytes wait on the system topics of ada@"):
        eve.publish(ADA, "x" * 20)
    eve.publish(ADA, "x" * 10)


def test_a_publisher_that_reads_no_receipts_can_ask_for_no_more(site: RouterSite) -> None:
    eve = site.login("eve")
    assert fill(eve, "news", receipt="ALL") == 16
    eve.publish("news", "without one")
    assert site.login("bob").publish("news", "another's", receipt="ALL")
    eve.subscribe("eve:desk@a.example", credit=100)
    assert eve.receipts() == ["0/0"] * 16
    eve.commit(*eve.take())
    eve.publish("news", receipt="ALL")


def test_dead_letters_of_a_system_topic_wait_for_its_account(site: RouterSite) -> None:
    ada = site.login("ada").subscribe(ADA)
    site.login("eve").publish(ADA, "work")
    for _ in range(2):
        site.wait(10)
        ada.give_back(ada.one(), reason="no")
    site.restart()
    ada = site.login("ada").subscribe(dead_letter_topic(ADA))
    assert ada.bodies() == ["work"]


def test_dead_letters_of_the_longest_topic_can_be_read(site: RouterSite) -> None:
    topic = "t" * 255
    ada = site.login("ada").subscribe(topic)
    site.login("eve").publish(topic, "work")
    for _ in range(2):
        site.wait(10)
        ada.give_back(ada.one(), reason="no")
    site.restart()
    dead = site.login("ops").subscribe(dead_letter_topic(topic)).one()
    assert dict(dead.message.others)["Dead-Topic"] == topic


def test_dead_letters_that_an_earlier_version_gave_too_long_a_name_can_be_read(site: RouterSite) -> None:
    topic = "t" * 255
    site.login("eve").publish("dead." + topic, "work", delivery="ONE")
    site.restart()
    assert site.login("ops").subscribe(dead_letter_topic(topic)).bodies() == ["work"]

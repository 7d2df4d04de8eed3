"""Ordered delivery by Sequence, for subscriptions that ask for it. Source: SMQP SEQUENCE."""

import pytest

from routing import ordering
from tests.support.one_router import RouterClient, RouterSite


@pytest.fixture
def site() -> RouterSite:
    return RouterSite(unguaranteed_bytes_max=10_000)


@pytest.fixture
def ada(site: RouterSite) -> RouterClient:
    return site.login("ada").subscribe("news", ordered=True)


def send(publisher: RouterClient, *sequences: int) -> None:
    for sequence in sequences:
        publisher.publish("news", str(sequence), sequence=sequence)


def test_messages_that_come_out_of_order_are_delivered_in_order(site: RouterSite, ada: RouterClient) -> None:
    send(site.login("eva"), 2, 3, 1, 5, 4)
    assert ada.bodies() == ["1", "2", "3", "4", "5"]


def test_publishers_do_not_wait_for_each_other(site: RouterSite, ada: RouterClient) -> None:
    send(site.login("eva"), 2)
    send(site.login("fay"), 1, 2)
    assert ada.bodies() == ["1", "2"]


def test_each_topic_of_a_pattern_has_its_own_order(site: RouterSite) -> None:
    eva, ada = site.login("eva"), site.login("ada").subscribe("news.#", ordered=True)
    for topic, sequence in (("a", 1), ("b", 1), ("a", 2), ("a", 3), ("b", 3), ("a", 4), ("b", 2), ("c", 2)):
        eva.publish(f"news.{topic}", f"{topic}{sequence}", sequence=sequence)
    assert ada.bodies() == ["a1", "b1", "a2", "a3", "a4", "b2", "b3"]
    site.wait(5.1)
    assert ada.bodies() == ["c2"]


def test_who_does_not_ask_for_order_gets_them_as_they_come(site: RouterSite, ada: RouterClient) -> None:
    bob = site.login("bob").subscribe("news")
    send(site.login("eva"), 2, 1)
    assert (bob.bodies(), ada.bodies()) == (["2", "1"], ["1", "2"])


def test_messages_without_a_sequence_do_not_wait(site: RouterSite, ada: RouterClient) -> None:
    eva = site.login("eva")
    send(eva, 2)
    eva.publish("news", "plain")
    assert ada.bodies() == ["plain"]


def test_a_number_that_never_comes_holds_the_others_up_for_a_short_time_only(
    site: RouterSite, ada: RouterClient
) -> None:
    eva = site.login("eva")
    send(eva, 1, 3, 4, 7)
    assert ada.bodies() == ["1"]
    site.wait(4.9)
    assert ada.bodies() == []
    site.wait(0.2)
    assert ada.bodies() == ["3", "4"]
    site.wait(5)
    assert ada.bodies() == ["7"]
    send(eva, 8, 2)
    assert ada.bodies() == ["8", "2"], "late is better than never"


def order_of(site: RouterSite, ada: RouterClient) -> ordering.SequenceOrder:
    order = site.router._state.by_owner["news", ada.address, ""].order
    assert order is not None
    return order


def test_it_remembers_the_latest_publishers_whatever_is_held_back_of_others(
    site: RouterSite, ada: RouterClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ordering, "PUBLISHERS_MAX", 3)
    eva, fay = site.login("eva"), site.login("fay")
    send(eva, 2)
    for channel in range(10):
        send(site.login("gus", f"{channel}"), 1)
        send(fay, 1 + channel)
    ada.take()
    assert len(order_of(site, ada)._publishers) == 3
    send(eva, 1)
    assert ada.bodies() == ["1", "2"]
    send(fay, 11)
    assert ada.bodies() == ["11"]
    send(site.login("gus", "0"), 2)
    assert ada.bodies() == []
    site.wait(5.1)
    assert ada.bodies() == ["2"], "as that of one who is new"


def test_of_too_many_publishers_something_is_held_back_and_whoever_waits_longest_waits_no_more(
    site: RouterSite, ada: RouterClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ordering, "PUBLISHERS_MAX", 3)
    eva = site.login("eva")
    send(eva, 2, 7, 5)
    for channel in range(2):
        send(site.login("gus", f"{channel}"), 4)
    assert ada.bodies() == []
    send(site.login("gus", "2"), 4)
    assert ada.bodies() == ["2", "5", "7"]
    send(eva, 8, 3)
    assert ada.bodies() == ["8", "3"]


def test_of_many_publishers_what_has_waited_long_enough_goes_on_in_parts(
    site: RouterSite, ada: RouterClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ordering, "RELEASED_MAX", 2)
    for channel in range(5):
        send(site.login("gus", f"{channel}"), 2 + channel)
    site.now += 5.1
    site.router.timing.tick(site.now)
    site.settle()
    assert ada.bodies() == ["2", "3"]
    site.wait(0)
    assert ada.bodies() == ["4", "5", "6"]


def test_what_has_ended_while_it_was_held_back_is_not_waited_for(site: RouterSite, ada: RouterClient) -> None:
    eva = site.login("eva")
    for sequence in (3, 5, 7):
        eva.publish("news", f"{sequence}", sequence=sequence, timeout_s=1)
    send(eva, 9)
    site.wait(5.1)
    assert ada.bodies() == ["9"]
    for sequence in (12, 14):
        eva.publish("news", f"{sequence}", sequence=sequence, timeout_s=1)
    site.wait(5.1)
    send(eva, 15)
    assert ada.bodies() == ["15"]


def test_what_has_ended_while_it_was_held_back_takes_no_room(
    site: RouterSite, ada: RouterClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ordering, "SWEPT_FROM", 4)
    eva, held_back = site.login("eva"), []
    for sequence in range(1, 40):  # there is a next one always, in time
        send(eva, sequence)
        ada.commit(ada.one())
        eva.publish("news", "far ahead", sequence=1000 + sequence, timeout_s=1)
        site.wait(2)
        held_back += [len(each.early) for each in order_of(site, ada)._early.values()]
    assert max(held_back) <= 5


def test_of_several_publishers_each_is_held_up_for_as_long_as_it_is_to_be(
    site: RouterSite, ada: RouterClient
) -> None:
    eva, fay = site.login("eva"), site.login("fay")
    send(eva, 2, 4)
    site.wait(3)
    send(fay, 7)
    assert ada.bodies() == []
    site.wait(2.1)
    assert ada.bodies() == ["2"]
    site.wait(3)
    assert ada.bodies() == ["7"]
    site.wait(2)
    assert ada.bodies() == ["4"]


def test_one_sequence_twice_is_delivered_twice(site: RouterSite, ada: RouterClient) -> None:
    send(site.login("eva"), 2, 2, 1, 1)
    assert sorted(ada.bodies()) == ["1", "1", "2", "2"]


def test_what_expires_while_it_is_held_back_is_not_delivered(site: RouterSite, ada: RouterClient) -> None:
    eva = site.login("eva")
    smuid = eva.publish("news", "2", sequence=2, timeout_s=1.0)
    send(eva, 3)
    site.wait(2)
    send(eva, 1)
    assert ada.bodies() == ["1", "3"]
    assert site.fate(smuid) == ["published", "expired!"]


def test_what_another_received_before_it_expired_is_not_delivered_when_its_turn_comes(
    site: RouterSite, ada: RouterClient
) -> None:
    bob, eva = site.login("bob").subscribe("news"), site.login("eva")
    smuid = eva.publish("news", "2", sequence=2, timeout_s=1.0)
    got = bob.one()
    bob.received(got)
    site.wait(2)
    send(eva, 1)
    assert ada.bodies() == ["1"]
    bob.commit(got)
    assert site.fate(smuid)[-1] == "committed!"


def test_unsubscribing_ends_what_is_held_back(site: RouterSite, ada: RouterClient) -> None:
    smuid = site.login("eva").publish("news", "2", sequence=2)
    ada.unsubscribe("news")
    assert site.fate(smuid)[-1] == "expired!"
    site.wait(10)


def test_who_no_longer_asks_for_order_gets_what_was_held_back(site: RouterSite, ada: RouterClient) -> None:
    send(site.login("eva"), 3, 2)
    assert ada.subscribe("news", ordered=False).bodies() == ["2", "3"]
    site.wait(10)


def test_what_is_held_back_survives_a_restart_in_order(site: RouterSite, ada: RouterClient) -> None:
    send(site.login("eva"), 1, 3, 2, 5)
    assert ada.bodies() == ["1", "2", "3"]
    site.restart()
    ada = site.login("ada").subscribe("news", ordered=True)
    assert ada.bodies() == ["1", "2", "3"]
    site.wait(6)
    assert ada.bodies() == ["5"]


def test_unguaranteed_messages_that_are_held_back_count_as_waiting(
    site: RouterSite, ada: RouterClient
) -> None:
    eva = site.login("eva")
    for sequence in range(2, 10):
        eva.publish("news", "x" * 4_000, sequence=sequence, guarantee=False)
    assert [t.event for t in site.told].count("dropped") == 7
    assert site.router._state.unguaranteed_bytes <= 10_000

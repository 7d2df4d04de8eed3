"""Receipts `X/Y`. Source: routing contract 6, SMQP RECEIPT."""

from typing import Any

import pytest

from routing.message import INFINITE
from tests.support.one_router import RouterClient, RouterSite


@pytest.fixture
def site() -> RouterSite:
    return RouterSite(max_deliveries=2, unguaranteed_bytes_max=10_000)


@pytest.fixture
def eva(site: RouterSite) -> RouterClient:
    """The publisher, who consumes her system topic."""
    eva = site.login("eva")
    return eva.subscribe(eva.address)


def readers(site: RouterSite, count: int, **options: Any) -> list[RouterClient]:
    return [site.login(f"reader{number}").subscribe("news", **options) for number in range(count)]


def test_all_is_told_once_everyone_has_it(site: RouterSite, eva: RouterClient) -> None:
    clients = readers(site, 3)
    eva.publish("news", "hello", receipt="ALL")
    for client in clients:
        assert eva.receipts() == []
        client.commit(client.one())
    assert eva.receipts() == ["3/3"]


def test_one_is_told_as_soon_as_the_first_has_it_and_only_once(site: RouterSite, eva: RouterClient) -> None:
    clients = readers(site, 3)
    eva.publish("news", "hello", receipt="ONE")
    clients[1].commit(clients[1].one())
    assert eva.receipts() == ["1/3"]
    clients[0].commit(clients[0].one())
    clients[2].commit(clients[2].one())
    assert eva.receipts() == []


def test_none_is_told_nothing(site: RouterSite, eva: RouterClient) -> None:
    [ada] = readers(site, 1)
    eva.publish("news", "hello", receipt="NONE")
    ada.commit(ada.one())
    assert eva.receipts() == []


def test_a_receipt_says_which_message_it_is_about(site: RouterSite, eva: RouterClient) -> None:
    [ada] = readers(site, 1)
    smuid = eva.publish("news", "hello", receipt="ALL", cmuid="c1")
    ada.commit(ada.one())
    got = eva.one()
    assert dict(got.message.others) == {
        "Receipt-Smuid": smuid,
        "Receipt-Cmuid": "c1",
        "Receipt-Topic": "news",
    }
    assert got.message.sections[0].content_type == "text/plain"


@pytest.mark.parametrize("mode", ["ONE", "ALL"])
def test_of_delivery_one_it_is_one_of_one(site: RouterSite, eva: RouterClient, mode: str) -> None:
    eva.publish("news", "hello", delivery="ONE", receipt=mode)
    assert eva.receipts() == []
    [ada, _] = readers(site, 2)
    ada.commit(ada.one())
    assert eva.receipts() == ["1/1"]


def test_due_to_nobody_it_is_told_at_once(site: RouterSite, eva: RouterClient) -> None:
    eva.publish("news", "hello", receipt="ALL")
    eva.publish("news", "hello", receipt="ONE", timeout_s=60.0)
    assert eva.receipts() == ["0/0", "0/0"]


@pytest.mark.parametrize("mode", ["ONE", "ALL"])
@pytest.mark.parametrize("delivery", ["ONE", "ALL"])
def test_it_is_told_when_the_timeout_ends(
    site: RouterSite, eva: RouterClient, mode: str, delivery: str
) -> None:
    readers(site, 2, credit=0)
    eva.publish("news", "hello", receipt=mode, timeout_s=30.0, delivery=delivery)
    site.wait(29)
    assert eva.receipts() == []
    site.wait(2)
    assert eva.receipts() == ["0/1" if delivery == "ONE" else "0/2"]


def test_when_the_timeout_ends_what_is_received_and_not_committed_does_not_count(
    site: RouterSite, eva: RouterClient
) -> None:
    ada, bob = readers(site, 2)
    eva.publish("news", "hello", receipt="ALL", timeout_s=30.0)
    got = ada.one()
    ada.received(got)
    bob.commit(bob.one())
    site.wait(31)
    assert eva.receipts() == ["1/2"]
    ada.commit(got)
    assert eva.receipts() == []


def test_of_a_state_message_it_is_told_after_the_default_timeout(site: RouterSite, eva: RouterClient) -> None:
    [ada] = readers(site, 1)
    site.login("bob").subscribe("news", credit=0)
    eva.publish("news", "on", receipt="ALL", timeout_s=INFINITE)
    ada.commit(ada.one())
    site.wait(86_390)
    assert eva.receipts() == []
    site.wait(20)
    assert eva.receipts() == ["1/2"]


def test_it_is_told_when_the_message_is_removed(site: RouterSite, eva: RouterClient) -> None:
    ada, _ = readers(site, 2)
    smuid = eva.publish("news", "hello", receipt="ALL")
    ada.commit(ada.one())
    eva.remove("news", smuid)
    assert eva.receipts() == ["1/2"]


def test_it_is_told_when_no_more_can_have_it(site: RouterSite, eva: RouterClient) -> None:
    ada, bob, cyd = readers(site, 3)
    eva.publish("news", "hello", receipt="ALL")
    ada.commit(ada.one())
    bob.unsubscribe("news")
    assert eva.receipts() == []
    for _ in range(2):
        site.wait(1)
        cyd.give_back(cyd.one())
    assert eva.receipts() == ["1/3"], "bob has left, cyd's copy is a dead letter"


def test_a_late_subscriber_does_not_count(site: RouterSite, eva: RouterClient) -> None:
    [ada] = readers(site, 1)
    eva.publish("news", "hello", receipt="ALL", timeout_s=60.0)
    late = site.login("late").subscribe("news")
    late.commit(late.one())
    assert eva.receipts() == []
    ada.commit(ada.one())
    assert eva.receipts() == ["1/1"]


def test_what_is_given_back_is_still_owed(site: RouterSite, eva: RouterClient) -> None:
    ada, bob = readers(site, 2)
    eva.publish("news", "hello", receipt="ALL", delivery="ONE")
    ada.give_back(ada.one())
    assert eva.receipts() == []
    bob.commit(bob.one())
    assert eva.receipts() == ["1/1"]


def test_a_dead_letter_is_had_by_nobody(site: RouterSite, eva: RouterClient) -> None:
    [ada] = readers(site, 1)
    eva.publish("news", "hello", receipt="ALL", delivery="ONE")
    for _ in range(2):
        site.wait(1)
        ada.give_back(ada.one())
    assert eva.receipts() == ["0/1"]


def test_of_an_unguaranteed_message_handing_over_is_having(site: RouterSite, eva: RouterClient) -> None:
    ada, _ = readers(site, 2)[0], site.login("slow").subscribe("news", credit=0)
    eva.publish("news", "hello", guarantee=False, receipt="ALL")
    assert ada.bodies() == ["hello"]
    assert eva.receipts() == []
    site.login("slow").subscribe("news", credit=5)
    assert eva.receipts() == ["3/3"]


def test_of_an_unguaranteed_message_that_is_dropped_it_is_told(site: RouterSite, eva: RouterClient) -> None:
    readers(site, 1, credit=0)
    eva.publish("news", "x" * 8_000, guarantee=False, receipt="ALL")
    assert eva.receipts() == []
    eva.publish("news", "x" * 8_000, guarantee=False)
    assert eva.receipts() == ["0/1"]


def test_a_restart_forgets_neither_what_is_owed_nor_who_has_it(site: RouterSite, eva: RouterClient) -> None:
    ada, bob, cyd = readers(site, 3)
    eva.publish("news", "hello", receipt="ALL", timeout_s=600.0)
    ada.commit(ada.one())
    cyd.unsubscribe("news")
    late = site.login("late").subscribe("news")
    late.commit(late.one())
    later = site.login("later").subscribe("news")
    site.restart()
    eva = site.login("eva").subscribe(eva.address)
    assert eva.receipts() == []
    later = site.login("later").subscribe("news")
    later.commit(later.one())
    assert eva.receipts() == []
    bob = site.login(bob.consumer.account).subscribe("news")
    bob.commit(bob.one())
    assert eva.receipts() == ["2/3"]


def test_a_restart_tells_no_receipt_twice(site: RouterSite, eva: RouterClient) -> None:
    ada, bob = readers(site, 2)
    eva.publish("news", "hello", receipt="ONE", timeout_s=600.0)
    ada.commit(ada.one())
    assert eva.receipts() == ["1/2"]
    site.restart()
    eva = site.login("eva").subscribe(eva.address)
    bob = site.login(bob.consumer.account).subscribe("news")
    bob.commit(bob.one())
    site.wait(700)
    assert eva.receipts() == []


def test_a_restart_that_ends_the_last_who_could_have_it_tells_so(site: RouterSite, eva: RouterClient) -> None:
    ada, _ = readers(site, 2, durable=False)
    eva.publish("news", "hello", receipt="ALL")
    ada.commit(ada.one())
    site.restart()
    eva = site.login("eva").subscribe(eva.address)
    assert eva.receipts() == ["1/2"]


@pytest.mark.parametrize(("asked", "said"), [("NONE", ""), ("ONE", "ONE"), ("ALL", "ALL")])
def test_the_hop_log_says_which_receipt_was_asked_for(
    site: RouterSite, eva: RouterClient, asked: Any, said: str
) -> None:
    eva.publish("news", "hello", receipt=asked)
    assert [told.receipt for told in site.told if told.event == "published" and told.topic == "news"] == [
        said
    ]

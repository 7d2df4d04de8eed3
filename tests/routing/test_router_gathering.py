"""Subscriptions to patterns of very many topics: what waits in them is found in steps, and comes in order."""

import math
from collections.abc import Callable
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from routing import gathering, joining
from routing.gathering import LOOKED_AT_MAX
from routing.joining import OFFERED_MAX, TOPICS_MAX
from routing.message import DeliveryMode
from routing.rights import Rights, RightsTable
from routing.steps import STEPS_AT_FIRST
from tests.support.examples import examples
from tests.support.one_router import SERVER, RouterClient, RouterSite

MANY: Final = 2 * max(LOOKED_AT_MAX, TOPICS_MAX, OFFERED_MAX) + 100
"""Topics: more than two steps look at, and messages, one of each: more than two steps offer."""

ASKED_MAX: Final = LOOKED_AT_MAX + TOPICS_MAX + OFFERED_MAX + 100
"""What one input, or one turn, may ask of rights: it asks for each topic that it looks at."""


class CountedRights:
    """What ada may subscribe to, and how often it has been asked for since; all others may everything."""

    def __init__(self, *patterns: str) -> None:
        self.set(*patterns)

    def set(self, *patterns: str) -> None:
        self._table = RightsTable(SERVER, {"ada": Rights(subscribe=patterns)})
        self.asked = 0

    def may_subscribe(self, account: str, topic: str) -> bool:
        self.asked += 1
        return account != "ada" or self._table.allows(account, "subscribe", topic)

    def subscribable(self, account: str, pattern: str) -> list[str]:
        return [pattern] if account != "ada" else self._table.subscribable(account, pattern)


class Many:
    """A site with a message in each of `MANY` topics."""

    def __init__(self, mode: DeliveryMode = "ONE") -> None:
        self.rights = CountedRights("#")
        self.site = RouterSite(self.rights)
        self.eva = self.site.login("eva")
        for number in range(MANY):
            self.eva.publish(f"t.{number % 7}.{number}", str(number), delivery=mode, timeout_s=1_000.0)
        self.ada = self.site.login("ada")
        self.rights.asked = 0

    def subscribe(self, client: RouterClient, **options: Any) -> RouterClient:
        return client.subscribe("t.#", **{"credit": 2 * MANY, **options})

    def reload(self, *patterns: str) -> None:
        self.rights.set(*patterns)
        self.site.router.changed_rights.take_on(self.site.now)
        self.site.settle()

    def turn(self) -> None:
        """One turn of the site, in which little is asked."""
        self.rights.asked = 0
        self.site.wait(0.001)
        assert self.rights.asked <= ASKED_MAX

    def turns(self) -> None:
        """As many as there are."""
        for _ in range(20):
            self.turn()
        self.site.wait(1)


@pytest.mark.parametrize("mode", ["ONE", "ALL"])
def test_who_subscribes_to_very_many_topics_keeps_nobody_waiting(mode: DeliveryMode) -> None:
    many = Many(mode)
    many.subscribe(many.ada)
    assert many.rights.asked <= ASKED_MAX
    assert many.ada.take() == []
    bob = many.site.login("bob").subscribe("news")
    many.eva.publish("news", "at once")
    assert bob.bodies() == ["at once"]
    many.turns()
    assert many.ada.bodies() == [str(number) for number in range(MANY)]


@pytest.fixture
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Very many topics take more than a hundred of them."""
    monkeypatch.setattr(gathering, "LOOKED_AT_MAX", 10)
    monkeypatch.setattr(joining, "TOPICS_MAX", 10)


@pytest.mark.parametrize("mode", ["ONE", "ALL"])
def test_who_subscribes_to_few_topics_does_not_wait_for_all_who_subscribe_to_very_many(
    small_steps: None, mode: DeliveryMode
) -> None:
    many = Many(mode)
    bodies = [str(number) for number in range(20)]
    for body in bodies:
        many.eva.publish(f"few.{body}", body, delivery=mode, timeout_s=1_000.0)
    for number in range(STEPS_AT_FIRST):
        many.site.login(f"eva{number}").subscribe("t.#", credit=0, accepts=mode)
    bob = many.site.login("bob").subscribe("few.#", credit=10_000, accepts=mode)
    for _ in range(8 * STEPS_AT_FIRST):
        many.site.wait(0.001)
    assert bob.bodies() == bodies


def test_what_is_large_goes_on_however_many_others_begin(small_steps: None) -> None:
    many = Many("ALL")
    many.subscribe(many.ada)
    many.site.wait(0.01)
    for number in range(300):
        many.site.login(f"eva{number}").subscribe("t.#", credit=0)
        many.site.wait(0.001)
    assert many.ada.bodies() == [str(number) for number in range(MANY)]


@pytest.mark.parametrize("mode", ["ONE", "ALL"])
def test_what_comes_meanwhile_comes_in_its_order(mode: DeliveryMode) -> None:
    many = Many(mode)
    many.subscribe(many.ada)
    many.eva.publish("t.new", "new", delivery="ONE")
    many.eva.publish("t.new", "urgent", delivery="ONE", priority=9)
    many.eva.publish("t.3.3", "urgent, too", priority=9)
    assert many.ada.take() == []
    many.site.wait(1)
    first = ["urgent", "urgent, too"]
    assert many.ada.bodies() == [*first, *map(str, range(MANY)), "new"]


@pytest.mark.parametrize("restarts", [False, True])
def test_who_comes_back_to_it_keeps_nobody_waiting_and_gets_what_waits_in_order(*, restarts: bool) -> None:
    many = Many()
    many.subscribe(many.ada, credit=0)
    many.site.wait(1)
    many.ada.detach("t.#")
    many.eva.publish("t.last", "last", delivery="ONE")
    if restarts:
        many.site.restart()
        many.ada, many.eva = many.site.login("ada"), many.site.login("eva")
    many.rights.asked = 0
    many.subscribe(many.ada)
    assert many.rights.asked <= ASKED_MAX
    assert many.ada.take() == []
    many.turns()
    assert many.ada.bodies() == [*map(str, range(MANY)), "last"]


def test_who_leaves_in_the_middle_leaves_it_all_to_the_next() -> None:
    many = Many()
    many.subscribe(many.ada)
    many.turn()
    many.ada.unsubscribe("t.#")
    bob = many.subscribe(many.site.login("bob"))
    many.turns()
    assert (len(bob.take()), many.ada.take()) == (MANY, [])


def test_who_leaves_and_comes_back_in_the_middle_gets_it_all() -> None:
    many = Many()
    many.subscribe(many.ada)
    many.turn()
    many.ada.detach("t.#")
    many.eva.publish("t.last", "last", delivery="ONE")
    many.subscribe(many.ada)
    many.turns()
    assert many.ada.bodies() == [*map(str, range(MANY)), "last"]


def test_after_a_restart_in_the_middle_it_comes_in_order() -> None:
    many = Many()
    many.subscribe(many.ada, credit=1)
    many.turn()
    many.site.restart()
    ada = many.subscribe(many.site.login("ada"))
    many.turns()
    assert ada.bodies() == [str(number) for number in range(MANY)]


def test_another_of_the_account_who_comes_in_the_middle_waits_for_the_same() -> None:
    many = Many()
    many.subscribe(many.ada, credit=3)
    many.turn()
    lab = many.site.login("ada", "lab").subscribe("t.#", credit=3)
    assert lab.take() == []
    many.turns()
    assert sorted(int(body) for each in (many.ada, lab) for body in each.bodies()) == list(range(6))


def test_who_takes_mode_all_alone_does_not_wait_for_what_is_for_others() -> None:
    many = Many()
    lab = many.site.login("ada", "lab").subscribe("t.#", accepts="ALL")
    many.site.wait(1)
    many.subscribe(many.ada)
    many.eva.publish("t.new", "at once")
    assert (lab.bodies(), many.ada.take()) == (["at once"], [])


def test_what_ends_in_the_middle_does_not_come() -> None:
    many = Many()
    many.subscribe(many.ada)
    for number in range(7):
        many.eva.delete(f"t.{number % 7}.{number}")
    many.eva.publish("t.3.3", "anew", delivery="ONE")
    many.turns()
    assert many.ada.bodies() == [*map(str, range(7, MANY)), "anew"]


@pytest.mark.parametrize("mode", ["ONE", "ALL"])
def test_rights_that_change_keep_nobody_waiting_and_hold_for_what_is_still_to_come(
    mode: DeliveryMode,
) -> None:
    many = Many(mode)
    many.reload("t.0.*")
    many.subscribe(many.ada)
    many.reload("t.1.*", "t.2.*")
    many.rights.asked = 0
    many.reload("t.2.*", "t.3.*")
    assert many.rights.asked <= ASKED_MAX
    many.turns()
    got = [int(each.body) for each in many.ada.take()]
    assert got == [number for number in range(MANY) if number % 7 in (2, 3)]


def test_rights_that_stay_the_same_for_a_pattern_do_not_have_it_looked_through_again() -> None:
    many = Many()
    many.subscribe(many.ada, credit=0)
    many.site.wait(1)
    many.reload("#", "of.others")
    many.turns()
    many.reload("of.others", "#")
    many.subscribe(many.ada)
    assert many.rights.asked <= ASKED_MAX
    many.turns()
    assert len(many.ada.take()) == MANY


acts = st.one_of(
    st.tuples(st.just("turn")),
    st.tuples(st.just("turn")),
    st.tuples(st.just("subscribe"), st.sampled_from(["ada", "bob"]), st.sampled_from([0, 1, 3 * MANY])),
    st.tuples(st.just("detach"), st.sampled_from(["ada", "bob"])),
    st.tuples(st.just("unsubscribe"), st.sampled_from(["ada", "bob"])),
    st.tuples(st.just("publish"), st.integers(0, MANY), st.integers(0, 2), st.sampled_from(["", "group"])),
    st.tuples(st.just("delete"), st.integers(0, MANY)),
    st.tuples(st.just("rights"), st.lists(st.sampled_from(["t.0.*", "t.1.*", "#"]), min_size=1, max_size=2)),
    st.tuples(st.just("restart")),
)


class PlayedMany:
    """Does what is drawn; each message is to come, once."""

    def __init__(self) -> None:
        self.many = Many()
        self.there = {str(number) for number in range(MANY)}
        self.published = 0
        self.came: list[str] = []
        self.clients: dict[str, RouterClient] = {}

    def _client(self, account: str) -> RouterClient:
        if account not in self.clients:
            self.clients[account] = self.many.site.login(account)
        return self.clients[account]

    def turn(self) -> None:
        self.many.turn()

    def subscribe(self, account: str, credit: int) -> None:
        self._client(account).subscribe("t.#", accepts="ONE", credit=credit)

    def detach(self, account: str) -> None:
        if ("t.#", "") in self._client(account).consumer.subscriptions:
            self._client(account).detach("t.#")

    def unsubscribe(self, account: str) -> None:
        if ("t.#", "") in self._client(account).consumer.subscriptions:
            self._client(account).unsubscribe("t.#")

    def publish(self, number: int, priority: int, group: str) -> None:
        self.published += 1
        body = f"more {self.published}"
        self.there.add(body)
        topic = f"t.{number % 7}.{number}"
        self.many.eva.publish(topic, body, delivery="ONE", priority=priority, group=group)

    def delete(self, number: int) -> None:
        self.commit()
        topic = f"t.{number % 7}.{number}"
        ended = {
            message.sections[0].body.decode()
            for stored, message in self.many.site.store.messages.values()
            if stored.topic == topic
        }
        self.there -= ended
        self.many.eva.delete(topic)
        self.many.site.settle()

    def rights(self, patterns: list[str]) -> None:
        self.many.reload(*patterns)

    def restart(self) -> None:
        self.commit()
        self.many.site.restart()
        self.clients.clear()
        self.many.eva = self.many.site.login("eva")

    def commit(self) -> None:
        """Finish what has come."""
        for account, client in self.clients.items():
            held = [got for got in client.take() if got.number in client.consumer.locks]
            assert all(self.many.rights.may_subscribe(account, got.topic) for got in held)
            self.came += [got.body for got in held]
            client.commit(*held)

    def end(self) -> None:
        self.many.site.wait(1)
        self.commit()
        self._client("cyd").subscribe("t.#", credit=3 * MANY)
        for account in list(self.clients):
            if account != "cyd":
                self.clients.pop(account).close()
        self.many.site.wait(1)
        self.commit()


@given(st.lists(acts, min_size=3, max_size=12))
@settings(max_examples=examples(40), deadline=None, report_multiple_bugs=False)
def test_whatever_happens_meanwhile_each_comes_once(acts: list[tuple[Any, ...]]) -> None:
    played = PlayedMany()
    for what, *given_ in acts:
        act: Callable[..., None] = getattr(played, what)
        act(*given_)
        played.commit()
    played.end()
    assert sorted(played.came) == sorted(played.there)


@pytest.mark.parametrize("others", [("a.#", "a.1"), ("a.1", "a.#"), ("a.#", "#")])
def test_what_is_kept_comes_once_where_another_of_ones_own_begins_before_all_of_it_is_found(
    others: tuple[str, str],
) -> None:
    site = RouterSite(queue_messages_max=10_000)
    bodies = [*map(str, range(MANY))]
    for body in bodies:
        site.login("bob").publish(f"a.{body}", body, timeout_s=math.inf)
    ada = site.login("ada")
    for each in others:
        ada.subscribe(each, credit=10_000)
    site.wait(1)
    assert sorted(ada.bodies()) == sorted(bodies)

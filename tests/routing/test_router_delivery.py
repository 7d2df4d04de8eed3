"""Who gets what, in which order, how often. Source: routing contract 5."""

import pytest

from routing.errors import Refusal
from tests.support.one_router import RouterSite


@pytest.fixture
def site() -> RouterSite:
    return RouterSite()


def test_a_message_of_mode_all_reaches_every_subscription_once(site: RouterSite) -> None:
    ada, bob = site.login("ada").subscribe("news"), site.login("bob").subscribe("news")
    smuid = site.login("eva").publish("news", "hello")
    assert (ada.bodies(), bob.bodies()) == (["hello"], ["hello"])
    assert smuid.startswith("a.example/")


def test_a_message_of_mode_one_reaches_one_subscription(site: RouterSite) -> None:
    clients = [site.login(name).subscribe("jobs") for name in ("ada", "bob", "cyd")]
    eva = site.login("eva")
    for number in range(6):
        eva.publish("jobs", str(number), delivery="ONE")
    got = [client.bodies() for client in clients]
    assert sorted(body for bodies in got for body in bodies) == ["0", "1", "2", "3", "4", "5"]
    assert [len(bodies) for bodies in got] == [2, 2, 2], "they take turns"


def test_a_message_carries_what_the_server_writes_and_all_that_the_publisher_wrote(site: RouterSite) -> None:
    ada, eva = site.login("ada").subscribe("news"), site.login("eva")
    smuid = eva.publish("news", "hello", name="Greeting", priority=3, others=(("X-Colour", "red"),))
    message = ada.one().message
    assert (message.smuid, message.account) == (smuid, "eva:desk@a.example")
    assert (message.name, message.priority, message.others) == ("Greeting", 3, (("X-Colour", "red"),))


def test_a_higher_priority_goes_first_and_one_priority_first_in_first_out(site: RouterSite) -> None:
    ada, eva = site.login("ada").subscribe("news", credit=0), site.login("eva")
    for body, priority, mode in (
        ("low 1", 0, "ALL"),
        ("high 1", 9, "ONE"),
        ("low 2", 0, "ONE"),
        ("middle", 4, "ALL"),
        ("high 2", 9, "ALL"),
    ):
        eva.publish("news", body, priority=priority, delivery=mode)
    ada.subscribe("news", credit=10)
    assert ada.bodies() == ["high 1", "high 2", "middle", "low 1", "low 2"]


def test_a_returned_message_goes_before_those_that_came_after_it(site: RouterSite) -> None:
    ada, eva = site.login("ada").subscribe("news", credit=2), site.login("eva")
    for body in "abcd":
        eva.publish("news", body)
    a, b = ada.take()
    ada.commit(b)
    ada.give_back(a)
    assert ada.bodies() == ["c", "a"]


def test_credit_bounds_what_is_unfinished_and_received_counts(site: RouterSite) -> None:
    ada, eva = site.login("ada").subscribe("news", credit=2), site.login("eva")
    for body in "abcd":
        eva.publish("news", body)
    a, b = ada.take()
    ada.received(a, b)
    assert ada.bodies() == []
    ada.commit(a)
    assert ada.bodies() == ["c"]
    ada.commit(b)
    assert ada.bodies() == ["d"]


def test_a_slow_reader_slows_only_its_own_queue(site: RouterSite) -> None:
    ada, bob = site.login("ada").subscribe("news", credit=1), site.login("bob").subscribe("news")
    eva = site.login("eva")
    for body in "abc":
        eva.publish("news", body)
    assert (ada.bodies(), bob.bodies()) == (["a"], ["a", "b", "c"])


def test_a_paused_session_gets_nothing_until_it_resumes(site: RouterSite) -> None:
    ada, bob, eva = site.login("ada"), site.login("bob"), site.login("eva")
    ada.subscribe("news").pause()
    bob.subscribe("news")
    eva.publish("news", "all")
    eva.publish("news", "one", delivery="ONE")
    assert (ada.bodies(), bob.bodies()) == ([], ["all", "one"])
    ada.resume()
    assert ada.bodies() == ["all"]


def test_a_late_subscriber_gets_what_has_a_stated_timeout(site: RouterSite) -> None:
    site.login("ada").subscribe("news")
    eva = site.login("eva")
    eva.publish("news", "stated", timeout_s=60.0)
    eva.publish("news", "unstated")
    late = site.login("bob").subscribe("news")
    assert late.bodies() == ["stated"]


def test_a_late_subscriber_gets_what_others_have_finished_and_nothing_that_has_expired(
    site: RouterSite,
) -> None:
    ada, eva = site.login("ada").subscribe("news"), site.login("eva")
    eva.publish("news", "short", timeout_s=10.0)
    eva.publish("news", "long", timeout_s=60.0)
    ada.commit(*ada.take())
    site.wait(20)
    assert site.login("bob").subscribe("news").bodies() == ["long"]


def test_a_message_of_mode_one_waits_for_the_first_subscriber(site: RouterSite) -> None:
    site.login("eva").publish("jobs", "work", delivery="ONE")
    site.wait(400_000)
    assert site.login("bob").subscribe("jobs").bodies() == ["work"]


def test_a_message_of_mode_all_that_is_due_to_nobody_ends_at_once(site: RouterSite) -> None:
    smuid = site.login("eva").publish("news", "hello")
    assert site.fate(smuid) == ["published", "expired!"]
    assert site.store.messages == {}


def test_a_subscription_takes_part_only_in_the_modes_that_it_accepts(site: RouterSite) -> None:
    one, all_ = (
        site.login("ada").subscribe("t", accepts="ONE"),
        site.login("bob").subscribe("t", accepts="ALL"),
    )
    eva = site.login("eva")
    for body, mode in (("1", "ONE"), ("2", "ALL"), ("3", "ONE"), ("4", "ALL")):
        eva.publish("t", body, delivery=mode)
    assert (one.bodies(), all_.bodies()) == (["1", "3"], ["2", "4"])


def test_a_subscription_that_no_longer_accepts_one_gets_none(site: RouterSite) -> None:
    ada, eva = site.login("ada").subscribe("t"), site.login("eva")
    ada.subscribe("t", accepts="ALL")
    eva.publish("t", "job", delivery="ONE")
    assert ada.bodies() == []
    assert site.login("bob").subscribe("t").bodies() == ["job"]


def test_a_subscription_that_no_longer_accepts_all_gives_up_what_waits_for_it(site: RouterSite) -> None:
    ada, eva = site.login("ada").subscribe("t", credit=1), site.login("eva")
    smuids = [eva.publish("t", body) for body in "ab"]
    ada.subscribe("t", accepts="ONE")
    assert [site.fate(smuid)[-1] for smuid in smuids] == ["expired!", "expired!"]
    site.restart()
    assert site.held == 0


def test_set_topic_delivery_wins_over_what_messages_say(site: RouterSite) -> None:
    ada, bob, eva = site.login("ada").subscribe("t"), site.login("bob").subscribe("t"), site.login("eva")
    eva.set_delivery("t", "ONE")
    eva.publish("t", "a", delivery="ALL")
    eva.set_delivery("t", None)
    eva.publish("t", "b")
    eva.set_delivery("t", "ALL")
    eva.publish("t", "c", delivery="ONE")
    assert (ada.bodies(), bob.bodies()) == (["a", "b", "c"], ["b", "c"])


def test_set_topic_timeout_holds_for_messages_without_one_and_survives_a_restart(site: RouterSite) -> None:
    eva = site.login("eva")
    eva.set_timeout("t", 30.0)
    site.restart()
    eva = site.login("eva")
    eva.publish("t", "topic's")
    eva.publish("t", "own", timeout_s=90.0)
    site.wait(60)
    assert site.login("ada").subscribe("t").bodies() == ["own"]


def test_a_take_over_detaches_the_session_before_and_goes_on_with_what_it_had(site: RouterSite) -> None:
    first, eva = site.login("ada").subscribe("news"), site.login("eva")
    eva.publish("news", "a")
    first.one()
    second = site.login("ada").subscribe("news")
    assert first.detached == [("news", "replaced")]
    assert [(got.body, got.attempt) for got in second.take()] == [("a", 2)]
    eva.publish("news", "b")
    assert (first.bodies(), second.bodies()) == ([], ["b"])


def test_another_channel_or_name_is_another_subscription(site: RouterSite) -> None:
    desk, eva = site.login("ada", "desk").subscribe("news"), site.login("eva")
    phone = site.login("ada", "phone").subscribe("news")
    desk.subscribe("news", name="second")
    eva.publish("news", "hello")
    assert (desk.bodies(), phone.bodies()) == (["hello", "hello"], ["hello"])


def test_a_durable_subscription_gathers_while_nobody_is_there(site: RouterSite) -> None:
    site.login("ada").subscribe("news").close()
    site.login("eva").publish("news", "hello")
    assert site.login("ada").subscribe("news").bodies() == ["hello"]


def test_detach_leaves_a_durable_subscription_and_unsubscribe_ends_it(site: RouterSite) -> None:
    ada, eva = site.login("ada").subscribe("news"), site.login("eva")
    ada.detach("news")
    eva.publish("news", "kept")
    assert ada.bodies() == []
    assert ada.subscribe("news").bodies() == ["kept"]
    ada.unsubscribe("news")
    eva.publish("news", "lost to ada")
    assert ada.subscribe("news").bodies() == []


def test_a_session_bound_subscription_ends_with_its_session(site: RouterSite) -> None:
    site.login("ada").subscribe("news", durable=False).close()
    smuid = site.login("eva").publish("news", "hello")
    assert site.fate(smuid) == ["published", "expired!"]


def test_unsubscribing_what_is_not_subscribed_is_refused(site: RouterSite) -> None:
    ada = site.login("ada")
    for request in (ada.unsubscribe, ada.detach):
        with pytest.raises(Refusal) as refused:
            request("news")
        assert refused.value.code == Refusal.NOT_SUBSCRIBED


def test_a_subscription_that_nobody_uses_is_removed_and_named(site: RouterSite) -> None:
    site.login("ada").subscribe("news").close()
    used = site.login("bob").subscribe("news")
    site.wait(2_592_001)
    assert site.maintain() == ["ada:desk@a.example"]
    site.login("eva").publish("news", "hello")
    assert used.bodies() == ["hello"]


def test_a_subscription_in_use_until_a_crash_is_not_taken_for_unused(site: RouterSite) -> None:
    site.login("ada").subscribe("news")
    site.wait(2_592_001)
    site.maintain()
    site.restart()
    assert site.maintain() == []


def test_a_subscription_used_until_its_session_ended_is_not_taken_for_unused_after_a_restart(
    site: RouterSite,
) -> None:
    ada = site.login("ada").subscribe("news")
    site.wait(2_592_001)
    ada.close()
    site.restart()
    assert site.maintain() == []


def test_sessions_that_come_and_go_leave_nothing_behind(site: RouterSite) -> None:
    for _ in range(10):
        site.login("ada").subscribe("news", durable=False).close()
    assert site.router._state.topics == {}
    site.login("bob").subscribe("news")
    for _ in range(10):
        site.login("ada").subscribe("news", durable=False).close()
    assert len(site.router._state.topics["news"].takers) == 1


def test_the_system_topic_of_a_login_goes_to_one(site: RouterSite) -> None:
    ada, bob = site.login("ada"), site.login("bob")
    ada.subscribe(ada.address)
    bob.subscribe(ada.address, accepts="BOTH")
    site.login("eva").publish(ada.address, "reply", delivery="ALL")
    assert sorted(ada.bodies() + bob.bodies()) == ["reply"]


def test_what_waits_in_a_system_topic_ends_after_the_default_timeout(site: RouterSite) -> None:
    eva, ada = site.login("eva"), site.login("ada")
    smuid = eva.publish(ada.address, "reply")
    site.wait(86_500)
    assert site.fate(smuid) == ["published", "expired!"]


def test_one_publishers_messages_reach_a_subscriber_in_their_order(site: RouterSite) -> None:
    ada, eva = site.login("ada").subscribe("news", credit=3), site.login("eva")
    bodies = [str(number) for number in range(20)]
    got = []
    for body in bodies:
        eva.publish("news", body)
        for delivery in ada.take():
            got.append(delivery.body)
            ada.commit(delivery)
    assert got == bodies

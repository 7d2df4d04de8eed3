"""Groups of messages across sites. Source: routing/README.md, Groups."""

from collections.abc import Callable

import pytest

from routing.options import SubscribeOptions
from routing.subscription import Consumer
from tests.support.sites import RouterFederation


def close(federation: RouterFederation, consumer: Consumer, topic: str) -> None:
    federation.routers["alpha"].subscribing.close(federation.now, consumer)


def detach(federation: RouterFederation, consumer: Consumer, topic: str) -> None:
    federation.routers["alpha"].subscribing.detach(federation.now, consumer, topic, "", None)


def unsubscribe(federation: RouterFederation, consumer: Consumer, topic: str) -> None:
    federation.routers["alpha"].subscribing.unsubscribe(federation.now, consumer, topic, "", None)


def take_no_more(federation: RouterFederation, consumer: Consumer, topic: str) -> None:
    options = SubscribeOptions(accepts="ALL", credit=1)
    federation.routers["alpha"].subscribing.subscribe(federation.now, consumer, topic, options, None)


@pytest.mark.parametrize("topic", ["jobs", "#"])
@pytest.mark.parametrize("leave", [close, detach, unsubscribe, take_no_more])
def test_groups_that_were_kept_for_one_who_leaves_go_to_another_site(
    leave: Callable[[RouterFederation, Consumer, str], None], topic: str
) -> None:
    federation = RouterFederation({("alpha", "beta")})
    federation.settle()
    consumer = federation.subscribe("alpha", topic, accepts="ONE", credit=1)
    for name in ("x1", "y1", "z1"):
        federation.publish("alpha", name, "jobs", delivery="ONE", group=name[0], depth=2)
    federation.subscribe("beta", "jobs", accepts="ONE", credit=10)
    federation.settle()
    assert federation.delivered == {("alpha", "x1"): 1}
    leave(federation, consumer, topic)
    federation.pass_time(0.0)
    federation.settle()
    assert {name for site, name in federation.delivered if site == "beta"} == {"x1", "y1", "z1"}


def test_groups_stay_while_another_one_is_there_who_takes_them() -> None:
    federation = RouterFederation({("alpha", "beta")})
    consumer = federation.subscribe("alpha", "jobs", accepts="ONE", credit=0)
    federation.subscribe("alpha", "#", "other", accepts="ONE", credit=0)
    federation.publish("alpha", "x1", "jobs", delivery="ONE", group="x", depth=2)
    federation.subscribe("beta", "jobs", accepts="ONE", credit=10)
    federation.settle()
    close(federation, consumer, "jobs")
    federation.pass_time(0.0)
    federation.settle()
    assert not federation.delivered


@pytest.mark.parametrize("shared", [False, True])
def test_a_group_stays_while_a_session_takes_the_place_of_another(shared: bool) -> None:
    federation = RouterFederation({("alpha", "beta")})
    federation.settle()
    federation.subscribe("alpha", "jobs", credit=1, shared=shared)
    for name in ("x1", "x2", "x3"):
        federation.publish("alpha", name, "jobs", delivery="ONE", group="x", depth=2)
    federation.subscribe("beta", "jobs", accepts="ONE", credit=10)
    federation.settle()
    federation.subscribe("alpha", "jobs", credit=2)
    federation.pass_time(0.0)
    federation.settle()
    assert federation.delivered == {("alpha", "x1"): 2, ("alpha", "x2"): 1}


def test_a_group_goes_to_another_site_once_what_somebody_who_left_had_received_of_it_has_ended() -> None:
    federation = RouterFederation({("alpha", "beta")})
    federation.settle()
    ada = federation.subscribe("alpha", "jobs", accepts="ONE", credit=1)
    for name in ("x1", "x2"):
        federation.publish("alpha", name, "jobs", delivery="ONE", group="x", depth=2)
    alpha = federation.routers["alpha"]
    (_, number), *_ = federation.held["alpha", "x1"]
    alpha.acknowledging.received(ada, [number], None)
    close(federation, ada, "jobs")
    federation.subscribe("beta", "jobs", accepts="ONE", credit=10)
    federation.pass_time(0.0)
    federation.settle()
    assert federation.delivered == {("alpha", "x1"): 1}
    (received,) = (
        id for (site, id), sent in federation.messages.items() if (site, sent.name) == ("alpha", "x1")
    )
    alpha.topics.remove(federation.now, ada, "jobs", alpha._state.entries[received].smuid("alpha"), None)
    federation.pass_time(0.0)
    federation.settle()
    assert federation.delivered == {("alpha", "x1"): 1, ("beta", "x2"): 1}

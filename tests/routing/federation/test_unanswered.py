"""What is known of a peer that has not answered: whether it may have the message, and from which attempt."""

from pathlib import Path

import msgspec
import pytest

from routing.federation.outlook import AnswerDue
from routing.message import DeliveryMode
from routing.peering.copies import Answered
from tests.support.sites import RouterFederation
from tests.support.stored_sites import StoredFederation


def only_unanswered(federation: RouterFederation, site: str) -> AnswerDue:
    """Of the only message that is held at a site."""
    outlook = federation.routers[site].federation.outlook
    [copy] = outlook.copies.values()
    [one] = outlook.unanswered(copy.smuid)
    return one


@pytest.mark.parametrize("mode", ["ALL", "ONE"])
def test_a_peer_may_have_what_was_on_its_way_when_the_link_was_lost(mode: DeliveryMode) -> None:
    federation = RouterFederation({("alpha", "beta")})
    federation.subscribe("beta")
    federation.settle()
    federation.publish("alpha", delivery=mode, depth=-1)
    first = only_unanswered(federation, "alpha")
    assert (first.peer, first.may_have, first.attempt) == ("beta", False, 0)  # the link knows the rest
    federation.cut("alpha", "beta")
    after_one = msgspec.structs.replace(first, may_have=True, attempt=1)
    assert only_unanswered(federation, "alpha") == after_one
    federation.join("alpha", "beta")
    assert only_unanswered(federation, "alpha") == after_one
    federation.cut("alpha", "beta")
    assert only_unanswered(federation, "alpha") == msgspec.structs.replace(first, may_have=True, attempt=2)


def test_a_peer_has_nothing_of_what_was_published_while_its_link_was_down() -> None:
    federation = RouterFederation({("alpha", "beta")})
    federation.subscribe("beta")
    federation.settle()
    federation.cut("alpha", "beta")
    federation.publish("alpha", depth=-1)
    assert not only_unanswered(federation, "alpha").may_have
    federation.join("alpha", "beta")
    assert not only_unanswered(federation, "alpha").may_have


def test_what_a_peer_has_answered_is_not_what_waits_for_its_link() -> None:
    federation = RouterFederation({("gamma", "alpha"), ("alpha", "beta")})
    for site in ("alpha", "beta"):
        federation.subscribe(site)
    federation.settle()
    federation.publish("gamma", depth=2)
    [(_, coming)] = federation.bulk["gamma", "alpha"]
    alpha = federation.routers["alpha"].federation
    alpha.arriving.arrive(federation.now, msgspec.structs.replace(coming, depth=1))
    federation.take("alpha")
    [(entry_id, _)] = federation.bulk["alpha", "beta"]
    alpha.acknowledged(federation.now, "beta", entry_id, Answered("accepted"))
    federation.cut("alpha", "beta")
    alpha.arriving.arrive(federation.now, msgspec.structs.replace(coming, depth=2))
    assert only_unanswered(federation, "alpha") == AnswerDue("beta", entry_id)


@pytest.mark.parametrize("names_destinations", [True, False])
@pytest.mark.parametrize("mode", ["ALL", "ONE"])
def test_each_repetition_has_a_higher_attempt_whether_the_link_was_cut_or_the_site_was_killed(
    tmp_path: Path, mode: DeliveryMode, *, names_destinations: bool
) -> None:
    sites = StoredFederation(tmp_path, {("alpha", "beta")})
    sites.subscribe("beta")
    if names_destinations:
        sites.begin_news()
    sites.settle()
    sites.publish("alpha", delivery=mode, depth=-1)
    attempts = []
    for ends in ("cut", "cut", "killed", "killed", "cut", "killed", ""):
        sites.pass_time(0.0)
        [(_, sent)] = sites.bulk["alpha", "beta"]
        attempts.append(sent.attempt)
        if ends == "cut":
            sites.cut("alpha", "beta")
            sites.join("alpha", "beta")
        elif ends == "killed":
            sites.kill("alpha")
            sites.start("alpha", "beta")
    sites.settle()
    try:
        assert attempts == [1, 2, 3, 4, 5, 6, 7]
        assert sites.delivered == {("beta", "m"): 1}
    finally:
        sites.close()

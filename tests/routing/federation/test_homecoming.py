"""Messages of mode ONE that come to a site a second time: custody may go to and fro as interest does."""

import msgspec
import pytest

from routing.federation.outlook import AnswerDue
from routing.peering.copies import Answered, Arrival, PeerRules
from routing.peering.decisions import AcknowledgeUnit, Send
from routing.router import Router
from tests.support.sites import RouterFederation


def sends(router: Router) -> list[str]:
    """The peers to which a site sends what it has decided to send."""
    return [decision.peer for decision in router.take() if isinstance(decision, Send)]


def gone_and_come_back() -> RouterFederation:
    """A message of alpha waits at alpha again, after beta had it."""
    federation = RouterFederation({("alpha", "beta")})
    federation.subscribe("beta", credit=0)
    federation.settle()
    federation.publish("alpha", "m", delivery="ONE", depth=-1)
    federation.settle()
    worker = federation.consumer("beta", "c")
    federation.routers["beta"].subscribing.unsubscribe(federation.now, worker, "t", "", None)
    federation.take("beta")
    federation.subscribe("alpha", credit=0)
    federation.settle()
    return federation


def leaving_and_coming_back() -> tuple[RouterFederation, int, Arrival]:
    """A message of alpha's is on its way to beta; its entry there, and the message as beta hands it back."""
    federation = RouterFederation({("alpha", "beta")})
    federation.subscribe("beta", credit=0)
    federation.settle()
    federation.publish("alpha", "m", delivery="ONE", depth=-1)
    [(entry_id, leaving)] = federation.bulk["alpha", "beta"]
    return federation, entry_id, msgspec.structs.replace(leaving, peer="beta", hops=("alpha", "beta"))


def test_a_message_that_comes_home_keeps_its_smuid() -> None:
    federation = gone_and_come_back()
    published, *others = federation.records_of("m", "published", "received")
    assert [record.entry.smuid(site) for site, record in others] == [published[1].entry.smuid("alpha")] * 2


def test_the_record_of_a_handover_tells_which_crossing_of_its_link_it_was() -> None:
    federation = gone_and_come_back()
    worker = federation.consumer("alpha", "c")
    federation.routers["alpha"].subscribing.unsubscribe(federation.now, worker, "t", "", None)
    federation.take("alpha")
    federation.subscribe("beta")
    federation.settle()
    handed = federation.records_of("m", "forwarded")
    assert [(site, record.crossing) for site, record in handed] == [("alpha", 1), ("beta", 1), ("alpha", 2)]


def test_a_message_that_has_come_home_can_be_removed() -> None:
    federation = gone_and_come_back()
    alpha = federation.routers["alpha"]
    [entry] = alpha._state.entries.values()
    alpha.topics.remove(federation.now, federation.consumer("alpha", "p"), "t", entry.smuid("alpha"), None)
    assert not alpha._state.entries


@pytest.mark.parametrize("by", ["alpha", "beta"])
def test_a_message_that_has_come_home_is_removed_though_its_leaving_is_not_answered(by: str) -> None:
    federation, entry_id, coming = leaving_and_coming_back()
    alpha = federation.routers["alpha"]
    alpha.federation.arriving.arrive(federation.now, coming)
    smuid = coming.message.smuid
    if by == "alpha":
        alpha.topics.remove(federation.now, federation.consumer("alpha", "p"), "t", smuid, None)
    else:
        assert alpha.federation.removing.hear(federation.now, "beta", smuid, "t")
    assert not alpha._state.entries
    federation.subscribe("alpha")
    alpha.federation.acknowledged(federation.now, "beta", entry_id, Answered("denied"))
    federation.take("alpha")
    assert not federation.delivered


def test_a_peer_that_denies_a_message_is_not_asked_again_until_the_link_is_new() -> None:
    federation = RouterFederation({("alpha", "beta")})
    federation.subscribe("beta")
    federation.settle()
    beta = federation.routers["beta"].federation
    beta.set_peer("alpha", PeerRules(allow_in=()))
    federation.publish("alpha", "m", delivery="ONE", depth=-1)
    federation.settle()
    assert federation.transfers == 1
    beta.set_peer("alpha", PeerRules())
    federation.cut("alpha", "beta")
    federation.join("alpha", "beta")
    federation.settle()
    assert federation.delivered == {("beta", "m"): 1}
    [(_, received)] = federation.records_of("m", "received")
    assert received.hops == ("alpha",)


def test_what_comes_home_before_its_leaving_is_acknowledged_comes_home_once() -> None:
    federation, entry_id, coming = leaving_and_coming_back()
    alpha = federation.routers["alpha"]
    alpha.federation.arriving.arrive(federation.now, coming)
    alpha.federation.acknowledged(federation.now, "beta", entry_id, Answered("accepted"))
    alpha.federation.arriving.arrive(federation.now, coming)
    answers = [decision.outcome for decision in alpha.take() if isinstance(decision, AcknowledgeUnit)]
    assert answers == ["accepted", "duplicate"]


def test_what_comes_home_before_its_leaving_is_answered_waits_for_that_before_it_goes_there_again() -> None:
    federation, entry_id, coming = leaving_and_coming_back()
    alpha = federation.routers["alpha"]
    alpha.federation.arriving.arrive(federation.now, coming)
    assert sends(alpha) == []
    alpha.federation.acknowledged(federation.now, "beta", entry_id, Answered("accepted"))
    [again] = [decision for decision in alpha.take() if isinstance(decision, Send)]
    assert (again.peer, again.copy.hops) == ("beta", ("alpha", "beta"))


def test_what_comes_home_once_more_waits_for_each_peer_that_has_not_answered() -> None:
    federation = RouterFederation({("alpha", "beta"), ("alpha", "gamma")})
    for peer in ("beta", "gamma"):
        federation.subscribe(peer, credit=0)
    federation.settle()
    federation.publish("alpha", "m", delivery="ONE", depth=-1)
    alpha = federation.routers["alpha"]
    hops: tuple[str, ...] = ("alpha",)
    [(entry_id, leaving)] = federation.bulk["alpha", "beta"]
    for peer, goes_to in (("beta", ["gamma"]), ("gamma", [])):
        hops = (*hops, peer)
        alpha.federation.arriving.arrive(
            federation.now, msgspec.structs.replace(leaving, peer=peer, hops=hops)
        )
        assert sends(alpha) == goes_to
        hops = (*hops, "alpha")
    alpha.federation.acknowledged(federation.now, "beta", entry_id, Answered("accepted"))
    assert sends(alpha) == ["beta"]


def test_of_what_comes_home_each_peer_that_has_not_answered_is_known() -> None:
    federation = RouterFederation({("alpha", "beta"), ("alpha", "gamma")})
    for peer in ("beta", "gamma"):
        federation.subscribe(peer, credit=0)
    federation.settle()
    federation.publish("alpha", "m", delivery="ONE", depth=-1)
    alpha = federation.routers["alpha"]
    [(first, leaving)] = federation.bulk["alpha", "beta"]
    smuid = leaving.message.smuid
    coming = msgspec.structs.replace(leaving, peer="beta", hops=("alpha", "beta"))
    alpha.federation.arriving.arrive(federation.now, coming)
    federation.take("alpha")
    [(second, _)] = federation.bulk["alpha", "gamma"]
    outlook = alpha.federation.outlook
    assert outlook.unanswered(smuid) == [AnswerDue("beta", first), AnswerDue("gamma", second)]
    alpha.federation.acknowledged(federation.now, "gamma", second, Answered("accepted"))
    assert outlook.unanswered(smuid) == [AnswerDue("beta", first)]
    alpha.federation.acknowledged(federation.now, "beta", first, Answered("accepted"))
    assert outlook.unanswered(smuid) == []


def test_what_waits_for_an_answer_goes_on_where_none_will_come() -> None:
    federation, entry_id, coming = leaving_and_coming_back()
    alpha = federation.routers["alpha"]
    alpha.federation.arriving.arrive(federation.now, coming)
    assert sends(alpha) == []
    alpha.deliveries.drop(alpha._state.entries[entry_id], federation.now, "its body cannot be read")
    alpha.federation.custody.offer_denied()
    assert sends(alpha) == ["beta"]


def test_sites_with_no_way_to_a_taker_but_links_that_are_down_do_not_pass_a_message_to_and_fro() -> None:
    triangle = {("alpha", "beta"), ("beta", "gamma"), ("alpha", "gamma")}
    federation = RouterFederation(triangle)
    federation.subscribe("gamma")
    federation.settle()
    for near in ("alpha", "beta"):
        federation.cut(near, "gamma")
    federation.settle()
    federation.publish("alpha", "m", delivery="ONE", depth=-1)
    federation.settle()
    assert federation.transfers == 0
    federation.join("beta", "gamma")
    federation.settle()
    assert federation.delivered == {("gamma", "m"): 1}
    [*_, (_, received)] = federation.records_of("m", "received")
    assert received.hops == ("alpha", "beta")


def test_a_message_of_this_site_that_it_never_handed_to_anybody_is_made_up() -> None:
    federation = RouterFederation({("alpha", "beta")})
    federation.subscribe("beta", credit=0)
    federation.settle()
    federation.publish("alpha", "m", delivery="ONE", depth=-1)
    alpha = federation.routers["alpha"]
    [(_, leaving)] = federation.bulk["alpha", "beta"]
    message = msgspec.structs.replace(
        leaving.message, smuid="alpha/018bcfe56800-1-77", account="smqpd:system@alpha"
    )
    for guarantee in (True, False):
        forged = msgspec.structs.replace(
            leaving,
            peer="beta",
            hops=("alpha", "beta"),
            message=msgspec.structs.replace(message, guarantee=guarantee),
        )
        alpha.federation.arriving.arrive(federation.now, forged)
    answers = [decision.outcome for decision in alpha.take() if isinstance(decision, AcknowledgeUnit)]
    assert answers == ["denied", "denied"]
    assert len(alpha._state.entries) == 1


def test_a_message_without_a_guarantee_comes_home_too() -> None:
    federation = RouterFederation({("alpha", "beta")})
    federation.subscribe("beta", credit=0)
    federation.settle()
    federation.publish("alpha", "m", delivery="ONE", depth=-1, guarantee=False)
    [(_, leaving)] = federation.bulk["alpha", "beta"]
    coming = msgspec.structs.replace(leaving, peer="beta", hops=("alpha", "beta"))
    alpha = federation.routers["alpha"]
    for _ in range(2):
        alpha.federation.arriving.arrive(federation.now, coming)
    answers = [decision.outcome for decision in alpha.take() if isinstance(decision, AcknowledgeUnit)]
    assert answers == ["accepted", "duplicate"]

"""Where a message of mode ONE waits while the way on is down: in one place, not to and fro."""

import pytest

from tests.support.sites import RestingFederation, RouterFederation

TO_GAMMA = "bob:c@gamma"
TRIANGLE = {("alpha", "beta"), ("alpha", "gamma"), ("beta", "gamma")}


def waiting_for_gamma(seed: int) -> RouterFederation:
    """A reply of alpha's, while gamma is down; it has gone to beta, which might have had another way."""
    federation = RestingFederation(TRIANGLE, seed)
    federation.subscribe("gamma", TO_GAMMA)
    federation.settle()
    federation.cut("alpha", "gamma")
    federation.cut("beta", "gamma")
    federation.publish("alpha", "reply", TO_GAMMA)
    federation.settle()
    return federation


@pytest.mark.parametrize("seed", range(10))
def test_a_reply_waits_for_a_site_that_is_down_and_then_reaches_it(seed: int) -> None:
    federation = waiting_for_gamma(seed)
    federation.join("beta", "gamma")
    federation.settle()
    assert federation.delivered == {("gamma", "reply"): 1}
    assert federation.transfers == 2


def test_a_reply_that_waits_for_a_link_goes_back_once_there_is_no_such_link() -> None:
    federation = waiting_for_gamma(seed=0)
    federation.routers["beta"].federation.remove_peer("gamma", federation.now)
    federation.take("beta")
    federation.settle()
    federation.join("alpha", "gamma")
    federation.settle()
    assert federation.delivered == {("gamma", "reply"): 1}


@pytest.mark.parametrize("seed", range(10))
def test_a_reply_waits_where_its_account_is(seed: int) -> None:
    federation = RestingFederation(TRIANGLE, seed)
    federation.settle()
    federation.publish("alpha", "reply", TO_GAMMA)
    federation.settle()
    assert federation.transfers == 1
    federation.subscribe("gamma", TO_GAMMA)
    assert federation.delivered == {("gamma", "reply"): 1}

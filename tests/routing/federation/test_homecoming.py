"""Messages of mode ONE that come to a site a second time: custody may go to and fro as interest does."""

from tests.support.sites import Federation


def gone_and_come_back() -> Federation:
    """A message of alpha waits at alpha again, after beta had it."""
    federation = Federation({("alpha", "beta")})
    federation.subscribe("beta", credit=0)
    federation.settle()
    federation.publish("alpha", "m", delivery="ONE", depth=-1)
    federation.settle()
    worker = federation.consumer("beta", "c")
    federation.routers["beta"].unsubscribe(worker, "t", "", None, federation.now)
    federation.take("beta")
    federation.subscribe("alpha", credit=0)
    federation.settle()
    return federation


def test_a_message_that_comes_home_keeps_its_smuid() -> None:
    federation = gone_and_come_back()
    published, *others = federation.records_of("m", "published", "received")
    assert [record.entry.smuid(site) for site, record in others] == [published[1].entry.smuid("alpha")] * 2


def test_a_message_that_has_come_home_can_be_removed() -> None:
    federation = gone_and_come_back()
    alpha = federation.routers["alpha"]
    [entry] = alpha.state.entries.values()
    alpha.remove(federation.consumer("alpha", "p"), "t", entry.smuid("alpha"), None, federation.now)
    assert not alpha.state.entries

"""A peer says that a site has a message which that has not: nobody but the peer goes without it for that."""

import pytest

from routing.peering.copies import Arrival, UnitId
from tests.routing.federation.test_destinations import know_all
from tests.support.sites import RouterFederation

HOPS = ("o", "n", "m")


class Lying(RouterFederation):
    """The way from o to v is over a and r; m, a subscriber on no way to v, is quicker at r than a."""

    def __init__(self, receipt: str) -> None:
        super().__init__({("o", "n"), ("n", "m"), ("o", "a"), ("a", "r"), ("r", "w"), ("w", "v"), ("m", "r")})
        for site in "mvr":
            self.subscribe(site, lock_s=1e9)
        self.subscribe("o", "x:publisher@o", channel="publisher", lock_s=1e9)
        know_all(self)
        self.cut("r", "w")
        self.after()
        self.publish("o", depth=-1, receipt=receipt)
        while ("m", "m") not in self.delivered:
            for one, other in (("o", "n"), ("n", "m")):
                while self.bulk[one, other]:
                    self._arrive(one, other, self.bulk[one, other].pop(0))
                    self.take(other)
        [self.message] = [message for (site, _), message in self.messages.items() if site == "m"]

    def after(self, seconds: float = 3.0) -> None:
        self.settle()
        self.pass_time(seconds)
        self.settle()

    def send(self, hops: tuple[str, ...], *sites: str) -> None:
        """M sends r the copy, for these sites."""
        arrival = Arrival(
            peer="m",
            unit=UnitId(1, 999),
            topic="t",
            message=self.message,
            mode="ALL",
            depth=-1,
            hops=hops,
            timeout_left_s=None,
            query=0,
            destinations=sites,
        )
        self.routers["r"].federation.arriving.arrive(self.now, arrival)
        self.take("r")

    def finish(self) -> None:
        self.after()
        self.join("r", "w")
        for _ in range(3):
            self.after(60.0)
            for site in "mvr":
                if (site, "m") in self.delivered:
                    self.commit(site, "m")
        self.after()


@pytest.mark.parametrize("receipt", ["NONE", "ALL"])
def test_where_a_copy_claims_to_have_been_it_is_sent_by_who_is_asked_to(receipt: str) -> None:
    sites = Lying(receipt)
    sites.send(("o", "v", "m"), "r")
    sites.finish()
    assert [sites.delivered[site, "m"] for site in "mrv"] == [1, 1, 1]
    assert sites.receipts == (["3/3"] if receipt == "ALL" else [])


@pytest.mark.parametrize("receipt", ["NONE", "ALL"])
def test_who_asks_for_a_site_and_says_that_it_has_it_speaks_for_no_other_who_asks(receipt: str) -> None:
    sites = Lying(receipt)
    sites.send(HOPS, "r", "v")
    told = {sites.message.smuid: ["v"]}
    sites.routers["r"].federation.destinations_heard.hear(sites.now, "m", "arrived", told)
    sites.take("r")
    sites.finish()
    assert [sites.delivered[site, "m"] for site in "mrv"] == [1, 1, 1]
    assert sites.receipts == (["3/3"] if receipt == "ALL" else [])

"""Sites whose news is not attested for a while: what waits for them is kept.

Their certificate may be of another authority from now on, or have expired; or the clock of the site that
attests is wrong, as after a start without a battery: then it attests nobody's.
"""

from tests.routing.federation.test_destinations import know_all
from tests.support.notary import NamedNotary
from tests.support.sites import RouterFederation

FEATURES = ("destinations",)


def attested_again(
    sites: RouterFederation, *names: str, distrusted: set[str], seconds: float = 120.0
) -> None:
    """These sites take no word of others for a while."""
    notaries = {name: NamedNotary(name) for name in names}
    for name, notary in notaries.items():
        notary.distrusted |= distrusted - {name}
        sites.routers[name].federation.spreading.set_notary(notary, FEATURES)
        sites.take(name)
    for _ in range(int(seconds // 60)):
        sites.pass_time(60.0)
        sites.settle()
    for name, notary in notaries.items():
        notary.distrusted.clear()
        sites.routers[name].federation.spreading.set_notary(notary, FEATURES)
        sites.take(name)


def test_what_waits_for_a_site_that_is_cut_off_and_not_attested_for_a_while_is_kept() -> None:
    """A new authority, while x, with its only peer, cannot be reached."""
    sites = RouterFederation({("a", "b"), ("b", "y"), ("x", "y")})
    sites.subscribe("x")
    know_all(sites)
    sites.cut("b", "y")
    sites.settle()
    sites.pass_time(3.0)
    sites.settle()
    sites.publish("a", depth=-1)
    sites.settle()
    attested_again(sites, "a", "b", distrusted={"x"})
    sites.join("b", "y")
    for _ in range(3):
        sites.settle()
        sites.pass_time(3.0)
    assert sites.delivered["x", "m"] == 1


def test_a_site_whose_clock_is_wrong_for_a_while_loses_nothing() -> None:
    """It has no link meanwhile, since it trusts nobody, and what it holds is held nowhere else."""
    sites = RouterFederation({("a", "b"), ("b", "x")})
    sites.subscribe("x")
    know_all(sites)
    sites.cut("a", "b")
    sites.settle()
    sites.publish("a", depth=-1)
    sites.settle()
    attested_again(sites, "a", distrusted=set("abx"))
    sites.join("a", "b")
    for _ in range(3):
        sites.settle()
        sites.pass_time(3.0)
    assert sites.delivered["x", "m"] == 1

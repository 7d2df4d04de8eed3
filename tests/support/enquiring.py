"""Questions over links between real brokers, over a network in memory."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final

import trio

from daemon.control.reports import End, Heard, Report, Told
from routing.federation import enquiry
from routing.federation.enquiry import About, Ping
from routing.peering.news import DESTINATIONS, NEWS
from routing.peering.wants import PATTERNS
from tests.support.federated import FederatedSite, federated_site
from tests.support.links import MemoryNetwork
from tests.support.patience import PATIENCE_S

CHAIN: Final = {"alpha": ["beta"], "beta": ["alpha", "gamma"], "gamma": ["beta"]}
RING: Final = {"alpha": ["beta", "gamma"], "beta": ["alpha", "gamma"], "gamma": ["alpha", "beta"]}

KNOWS_DESTINATIONS: Final[dict[str, Any]] = {"features": (*enquiry.FEATURES, NEWS, DESTINATIONS)}
KNOWS_NONE: Final[dict[str, Any]] = {"features": (*enquiry.FEATURES, PATTERNS, NEWS)}
"""As long as news is not known everywhere, it depends on the moment whether destinations are named."""


class AskedSites(dict[str, FederatedSite]):
    """Sites by name, and what links them."""

    def __init__(self) -> None:
        super().__init__()
        self.network = MemoryNetwork()


@asynccontextmanager
async def asked_sites(
    directory: Path, links: dict[str, list[str]], **more: dict[str, Any]
) -> AsyncIterator[AskedSites]:
    """Linked sites; `more` is what a site is started with besides."""
    running = AskedSites()
    async with AsyncExitStack() as stack:
        for name, peers in links.items():
            site = federated_site(running.network, directory, name, peers, **KNOWS_NONE | more.get(name, {}))
            running[name] = await stack.enter_async_context(site)
        for name, peers in links.items():
            await running[name].linked(*peers)
        yield running


async def reports_of(site: FederatedSite, about: About, timeout_s: float = 5.0) -> tuple[list[Report], End]:
    """All reports to a question, and the end."""
    told: list[Told] = []

    async def tell(one: Told) -> None:
        told.append(one)

    await site.broker.federating.enquiring.ask(about, timeout_s, tell)
    end = told.pop()
    assert isinstance(end, End)
    return [heard.report for heard in told if isinstance(heard, Heard)], end


def outcomes(reports: list[Report]) -> dict[tuple[str, str], str]:
    """What came of the question, by who asked and who was asked."""
    return {(report.source, report.at): report.outcome for report in reports}


async def link_down(site: FederatedSite, peer: str) -> None:
    """Wait until the link is down, and the site knows why."""
    with trio.fail_after(PATIENCE_S):
        while not any(one.peer == peer and one.state != "up" and one.why_down for one in site.links.status()):
            await trio.sleep(0.01)


async def again_reached(site: FederatedSite, server: str) -> None:
    """Wait until a link that was cut is there again, on both sides."""
    with trio.fail_after(PATIENCE_S):
        while not any(one.outcome == "reached" for one in (await reports_of(site, Ping(server), 0.2))[0]):
            await trio.sleep(0.01)


async def told_interest(site: FederatedSite, topic: str, peer: str) -> None:
    """Wait until a site knows that a peer itself wants a topic."""
    interest = site.broker._router.federation.interest
    with trio.fail_after(PATIENCE_S):
        while interest.distance(peer, ("ALL", topic)) != 0:
            await trio.sleep(0.01)

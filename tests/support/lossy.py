"""Sites of a `RouterFederation` whose links fail as links do, at first unnoticed, and what is due there."""

from collections.abc import Iterable

from tests.support.sites import RouterFederation


class LossyFederation(RouterFederation):
    """As `RouterFederation`; a link is known by its two sites, in order.

    Attributes:
        all_links: up or down, in order.
        down: those of them that are, as both ends know.
        silent: those that swallow whatever goes, while both ends take them for up.
        wanting: the sites that want the topic `t`.
        published: by the name of each message, where it began and how far it may go.
    """

    def __init__(self, links: set[tuple[str, str]], seed: int = 0) -> None:
        self.all_links = sorted(links)
        self.down: set[tuple[str, str]] = set()
        self.silent: set[tuple[str, str]] = set()
        self.wanting: list[str] = []
        self.published: dict[str, tuple[str, int]] = {}
        super().__init__(links, seed)

    # -- what happens -----------------------------------------------------------------------------

    def join(self, a: str, b: str) -> None:
        self.down.discard((a, b))
        super().join(a, b)

    def cut(self, a: str, b: str) -> None:
        self.silent.discard((a, b))
        self.down.add((a, b))
        super().cut(a, b)

    def take(self, site: str) -> None:
        super().take(site)
        for a, b in self.silent:
            for pair in ((a, b), (b, a)):
                self.bulk[pair].clear()
                self.control[pair].clear()

    def silence(self, *links: tuple[str, str]) -> None:
        """From now on these swallow what goes, and what is under way, until they are cut."""
        self.silent.update(link for link in links if link not in self.down)
        self.take(self.names[0])

    def notice(self) -> None:
        """The links that are silent are known to be down."""
        for link in sorted(self.silent):
            self.cut(*link)

    def links_of(self, site: str) -> list[tuple[str, str]]:
        return [link for link in self.all_links if site in link]

    # -- copies -----------------------------------------------------------------------------------

    def want(self, sites: Iterable[str]) -> None:
        """So that nobody but these does."""
        self.wanting = sorted(sites)
        for site in self.wanting:
            self.subscribe(site, lock_s=1e9)

    def publish_copy(self, site: str, depth: int, receipt: str) -> None:
        name = f"m{len(self.published)}"
        self.published[name] = site, depth
        self.publish(site, name, depth=depth, receipt=receipt)

    def due(self, name: str) -> set[str]:
        """Where a message is wanted, and has a way to within its depth, by links that are up."""
        return self.ball(*self.published[name]).intersection(self.wanting)

    def come(self, name: str) -> dict[str, int]:
        """Where it has been delivered, and how often."""
        return {site: self.delivered[site, name] for site in self.wanting if self.delivered[site, name]}

"""The latest news of each site and what it wants, as far as that has come; both are kept on disk."""

from typing import Final

from routing.federation.known_wants import KnownWants
from routing.federation.news_allowances import SITES_MAX
from routing.federation.saying import Saying
from routing.peering.decisions import DiscardNews, DiscardWants, StoreNews, StoreWants
from routing.peering.leaves import BEGINNING_BYTES, Hashes, NumberedBucket, write_digest
from routing.peering.news import KnownNews, NewsVersion, SignedNews
from routing.state import SiteState

BYTES_MAX: Final = 64 * 2**20
"""Of all news."""


class HeldNews:
    """Part of `Spreading`, which alone changes it.

    Attributes:
        known: the latest news, by site; this site's own, too, once there is any.
        wants: what the other sites want.
        doubted: by site, when it said what is not attested any more, or the start since which it has said
            nothing: it may well be there.

    Args:
        saying: what this site says itself.
    """

    def __init__(self, state: SiteState, saying: Saying) -> None:
        self.known: dict[str, KnownNews] = {}
        self.wants = KnownWants(state.server)
        self.doubted: dict[str, float] = {}
        self._state = state
        self._saying = saying
        self._bytes = 0

    # -- what is held -----------------------------------------------------------------------------

    def version(self, site: str) -> NewsVersion:
        """What is held of a site, as peers are told it."""
        version = known.statement.version if (known := self.known.get(site)) is not None else (0, 0)
        held = self._saying.hashes if site == self._state.server else self.wants.held(site)
        return NewsVersion(site, *version, write_digest(held, BEGINNING_BYTES))

    def hashes(self, site: str) -> Hashes:
        """The hashes of the buckets of a site, also of those that have not come."""
        return self._saying.hashes if site == self._state.server else self.wants.hashes(site)

    def bucket(self, site: str, index: int) -> NumberedBucket:
        """A bucket of a site; without data where it has not come, or is empty."""
        if site == self._state.server:
            return self._saying.bucket(index)
        return NumberedBucket(index, self.wants.bucket(site, index))

    def has_room(self, site: str, signed: SignedNews) -> bool:
        """Whether news of a site may be held, in the place of what there is of it."""
        known = self.known.get(site)
        if known is None and len(self.known) >= SITES_MAX:
            return False
        return self._bytes + signed.size - (known.signed.size if known is not None else 0) <= BYTES_MAX

    def said_before(self, time: float) -> list[str]:
        """The other sites that have said nothing since then."""
        own = self._state.server
        return [site for site, known in self.known.items() if known.said_at < time and site != own]

    # -- what changes -----------------------------------------------------------------------------

    def keep(self, news: KnownNews) -> None:
        """Hold the news of a site, on disk, too."""
        site = news.statement.site
        self._state.out.append(StoreNews(news))
        emptied = self._enter(news)
        if news.statement.wants is None and emptied:
            self._state.out.append(DiscardWants(site))
        else:
            self._state.out += (StoreWants(site, NumberedBucket(index, b"")) for index in emptied)

    def restore(self, news: KnownNews) -> None:
        """Take news that the store holds."""
        self._enter(news)
        if news.statement.site == self._state.server:
            self._saying.restore(news.statement)

    def _enter(self, news: KnownNews) -> list[int]:
        """The numbers of its buckets that are empty now and were not."""
        site = news.statement.site
        before = self.known.get(site)
        self._bytes += news.signed.size - (before.signed.size if before is not None else 0)
        self.known[site] = news
        self.doubted.pop(site, None)
        return self.wants.say(news.statement)

    def note_wants(self, site: str, index: int) -> None:
        """Store a bucket that has come, or of which more has."""
        self._state.out.append(StoreWants(site, self.bucket(site, index)))

    def restore_wants(self, site: str, bucket: NumberedBucket) -> None:
        """Take a bucket that the store holds, after the news of its site; forget one that is not of it."""
        if site == self._state.server or self.wants.take(site, bucket.index, bucket.data) != "new":
            self._state.out.append(StoreWants(site, NumberedBucket(bucket.index, b"")))

    def forget(self, site: str, *, is_doubted: bool) -> None:
        """Hold nothing of a site any more; `is_doubted`: it may well be there."""
        known = self.known.pop(site)
        self._bytes -= known.signed.size
        if is_doubted:
            self.doubt(site, known.said_at)
        self._state.out.append(DiscardNews(site))
        if self.wants.forget(site):
            self._state.out.append(DiscardWants(site))

    def doubt(self, site: str, said_at: float) -> None:
        """Count a site as being there, though nothing is known of it: clocks or authorities may be wrong."""
        if len(self.doubted) < SITES_MAX:
            self.doubted.setdefault(site, said_at)

    def doubt_no_more(self, time: float) -> None:
        """Do not count sites as being there that are doubted since before then."""
        for site in [site for site, said_at in self.doubted.items() if said_at < time]:
            del self.doubted[site]

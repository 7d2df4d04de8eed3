"""What the router can want done across links; see `routing.decisions` for the rest."""

from typing import Any, Final, Literal, get_args

import msgspec

from routing.link.units import TransferOutcome
from routing.peering.about import OfEntry, OfEntryId, OfNoMessage
from routing.peering.copies import Arrival, Copy, Seen, UnitId
from routing.peering.counts import CountsAsked, CountsTold
from routing.peering.leaves import NumberedBucket
from routing.peering.news import KnownNews, NewsVersion
from routing.peering.wants import InterestChange
from routing.queue import Entry


class Send(msgspec.Struct, gc=False):
    """Transfer a copy to a peer; if its link is down, the broker waits for `Federation.link_up`.

    Attributes:
        depth: hops that it may still go from the peer on.
        query: what the peer is asked for the receipt; 0 where it is asked for none.
        attempt: from 1.
        earlier, destinations: see `routing.peering.copies.Arrival`.
    """

    peer: str
    copy: Copy
    depth: int
    query: int
    attempt: int = 1
    earlier: tuple[int, ...] = ()
    destinations: tuple[str, ...] = ()

    @property
    def about(self) -> int:
        """See `routing.peering.about`."""
        return self.copy.entry.id


class AcknowledgeUnit(OfEntryId, msgspec.Struct, gc=False):
    """Answer what a peer has sent: what came of it is on disk.

    Attributes:
        entry_id: of the copy that was made of it here; 0 where none was.
        arrival: what is answered, where it is a copy.
    """

    peer: str
    unit: UnitId
    outcome: TransferOutcome
    reason: str = ""
    entry_id: int = 0
    arrival: Arrival | None = None


class TellInterest(OfNoMessage, msgspec.Struct, gc=False):
    """Tell a peer what this site wants now.

    Attributes:
        whole: what is not among the changes is not wanted, or is in news that the peer has.
        opens: what follows was decided for a link that has come up.
    """

    peer: str
    changes: list[InterestChange]
    whole: bool
    opens: bool = False


class TellReceipt(OfNoMessage, msgspec.Struct, gc=False):
    """Answer a peer's question how many have what it sent here; a later answer replaces an earlier one.

    Attributes:
        query: the peer's number for the question.
        closed: the last answer to it.
    """

    peer: str
    query: int
    due: int
    have: int
    closed: bool


class TellCounts(OfNoMessage, msgspec.Struct, gc=False):
    """Tell a peer how many have a message at one site, or ask it; it may be for others beyond."""

    peer: str
    told: CountsAsked | CountsTold


class TellRemoved(OfNoMessage, msgspec.Struct, gc=False):
    """Tell a peer that a message has been removed.

    Attributes:
        number: of the removal, for `Removing.arrived`.
    """

    peer: str
    smuid: str
    topic: str
    number: int = 0


DestinationsWord = Literal["arrived", "no-way", "still", "again", "unwanted"]
"""What is said of destinations: they have it; they cannot be come to; does the peer still see to them? The
copy is not held any more, and is to come again; it is asked to see to them no more."""

DESTINATIONS_WORDS: Final[dict[str, DestinationsWord]] = {word: word for word in get_args(DestinationsWord)}


class TellDestinations(OfNoMessage, msgspec.Struct, gc=False):
    """Tell a peer something of destinations of copies that this site has asked it to see to, or was asked to.

    Attributes:
        sites: by Smuid.
    """

    peer: str
    word: DestinationsWord
    sites: dict[str, list[str]]


class TellKnownNews(OfNoMessage, msgspec.Struct, gc=False):
    """Tell a peer which news this site has: the first of all news, after a link has come up."""

    peer: str
    has: list[NewsVersion]


class TellNews(OfNoMessage, msgspec.Struct, gc=False):
    """Tell a peer news of a site.

    Attributes:
        buckets: of its leaves, those that the peer has not got, or as many of them as go into one control.
        number: for `Spreading.news_arrived`.
    """

    peer: str
    news: KnownNews
    buckets: tuple[NumberedBucket, ...]
    number: int


class TellWants(OfNoMessage, msgspec.Struct, gc=False):
    """Tell a peer buckets of a site of which it has the news; as `TellNews`."""

    peer: str
    news: KnownNews
    buckets: tuple[NumberedBucket, ...]
    number: int


class StoreCopy(OfEntryId, msgspec.Struct, gc=False):
    """A copy that is held goes to a peer, has come there, or may go further than before."""

    entry_id: int


class StoreInterest(OfNoMessage, msgspec.Struct, gc=False):
    """Remember what a peer wants; `whole`: instead of all that it wanted before."""

    peer: str
    changes: list[InterestChange]
    whole: bool


class StoreReceipt(OfEntry, msgspec.Struct, gc=False):
    """Remember how far a receipt is that peers have a part in.

    Attributes:
        entry: of the message; where that is refused, so is this.
        receipt: a `routing.receipt.Receipt`.
    """

    entry: Entry
    receipt: Any


class DiscardReceipt(OfEntryId, msgspec.Struct, gc=False):
    """That receipt is closed."""

    entry_id: int


class StoreAnswer(OfNoMessage, msgspec.Struct, gc=False):
    """Remember the last answer to a peer's question until the peer has it on disk."""

    peer: str
    query: int
    due: int
    have: int


class DiscardAnswer(OfNoMessage, msgspec.Struct, gc=False):
    """The peer has it."""

    peer: str
    query: int


class StoreSeen(OfNoMessage, msgspec.Struct, gc=False):
    """Remember a Smuid beyond the life of its copy.

    About none, though it has the id of one: what was seen stays so where the copy cannot be stored.
    """

    smuid: str
    seen: Seen


class StoreRemoval(OfNoMessage, msgspec.Struct, gc=False):
    """Remember that a message was removed: the tombstone."""

    smuid: str
    topic: str


class DiscardRemoval(OfNoMessage, msgspec.Struct, gc=False):
    """There are too many: forget that one."""

    smuid: str


class StoreNews(OfNoMessage, msgspec.Struct, gc=False):
    """Remember news of a site, instead of what was known of it."""

    news: KnownNews


class DiscardNews(OfNoMessage, msgspec.Struct, gc=False):
    """Forget it."""

    site: str


class StoreWants(OfNoMessage, msgspec.Struct, gc=False):
    """Remember a bucket of a site; forget it where there is no data."""

    site: str
    bucket: NumberedBucket


class DiscardWants(OfNoMessage, msgspec.Struct, gc=False):
    """Forget all buckets of a site."""

    site: str


FederationDecision = (
    Send
    | AcknowledgeUnit
    | TellInterest
    | TellReceipt
    | TellCounts
    | TellRemoved
    | TellDestinations
    | TellKnownNews
    | TellNews
    | TellWants
    | StoreCopy
    | StoreInterest
    | StoreReceipt
    | DiscardReceipt
    | StoreAnswer
    | DiscardAnswer
    | StoreSeen
    | StoreRemoval
    | DiscardRemoval
    | StoreNews
    | DiscardNews
    | StoreWants
    | DiscardWants
)

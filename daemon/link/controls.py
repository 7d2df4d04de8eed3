"""What two routers tell each other beside messages: the payloads of controls, and the flags of a transfer.

Each number has the bounds of `routing.numbers`: a control that goes beyond them makes no sense, and
nothing of it is heard. Only the counts of a receipt are judged where it is kept, so that it closes even so.
"""

from typing import Annotated, Final

import msgspec

from routing.errors import Refusal
from routing.federation.words import TOLD_MAX
from routing.numbers import SECONDS_MAX, Number, read_integer
from routing.peering.leaves import BUCKETS, NumberedBucket
from routing.peering.news import NewsVersion, SignedNews
from routing.peering.wants import NAME_CHARACTERS_MAX, InterestChange

CHANGES_MAX: Final = 500
"""Changes of interest, or news that is known, in one control."""

QUERY: Final = "query-"
EARLIER: Final = "earlier-query-"
"""What flags of a transfer begin with; the number of a question follows."""


class InterestTold(msgspec.Struct, frozen=True):
    """What a control `interest` says; `more`: the rest of it follows in another."""

    changes: list[InterestChange]
    whole: bool = False
    more: bool = False


class ReceiptTold(msgspec.Struct, frozen=True):
    """What a control `receipt` says: see `routing.peering.decisions.TellReceipt`."""

    query: Number
    due: int
    have: int
    closed: bool


class Removed(msgspec.Struct, frozen=True):
    """What a control `removed` says."""

    smuid: str
    topic: str


class DestinationsTold(msgspec.Struct, frozen=True):
    """What a control `arrived`, `no-way`, `still`, `again` or `unwanted` says of destinations.

    See `routing.peering.decisions`.

    Attributes:
        sites: by Smuid.
    """

    sites: Annotated[dict[str, list[str]], msgspec.Meta(max_length=TOLD_MAX)]


Buckets = Annotated[tuple[NumberedBucket, ...], msgspec.Meta(max_length=BUCKETS)]


class NewsTold(SignedNews, frozen=True, kw_only=True, omit_defaults=True):
    """What a control `news` says of a site.

    Attributes:
        age_s: seconds since the site has said it.
        buckets: of its leaves; the rest follows in controls `wants`.
    """

    age_s: Annotated[float, msgspec.Meta(ge=0, lt=SECONDS_MAX)]
    buckets: Buckets = ()


class WantsTold(msgspec.Struct, frozen=True):
    """What a control `wants` says: buckets of a site, as it had them when it said that news."""

    site: Annotated[str, msgspec.Meta(max_length=NAME_CHARACTERS_MAX)]
    boot: Number
    number: Number
    buckets: Buckets


class NewsKnown(msgspec.Struct, frozen=True):
    """What a control `news-known` says: the news that the sender has; `more`: the rest follows in another."""

    has: Annotated[list[NewsVersion], msgspec.Meta(max_length=CHANGES_MAX)]
    more: bool = False


class NameClaimed(msgspec.Struct, frozen=True):
    """What a control `claimed` says: somebody else, at `remote`, has dialled under the listener's name.

    The link that there is stays; the other one was refused.
    """

    remote: Annotated[str, msgspec.Meta(pattern=r"^[\x21-\x7e]{1,100}\Z")]


def transfer_flags(query: int, earlier: tuple[int, ...]) -> tuple[str, ...]:
    """The questions that go with a transfer."""
    asked = (f"{QUERY}{query}",) if query else ()
    return (*asked, *(f"{EARLIER}{each}" for each in earlier)) if earlier else asked


def queries_in(flags: tuple[str, ...], kind: str) -> tuple[int, ...]:
    """The peer's questions for receipts, of one kind. Raises Refusal."""
    asked = []
    for flag in flags:
        if flag.startswith(kind):
            number = read_integer(flag.removeprefix(kind))
            if number is None:
                raise Refusal(Refusal.BAD_HEADER, f"{flag} is no question")
            asked.append(number)
    return tuple(asked)

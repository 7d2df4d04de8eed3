"""What sites tell each other of receipts besides answers: each for itself, to where one is awaited."""

from collections.abc import Collection
from typing import Annotated, Final

import msgspec

from routing.errors import Refusal
from routing.names import is_server_name, parse_smuid
from routing.numbers import Count

COUNTS: Final = "counts"
"""What a site says among the features of its links that answers such questions, and passes them on."""

SMUIDS_MAX: Final = 100
"""In one control."""

HOPS_MAX: Final = 255
"""Sites that a question or an answer comes through: above any real chain of them."""

_Hops = Annotated[tuple[str, ...], msgspec.Meta(min_length=1, max_length=HOPS_MAX)]


class SiteCounts(msgspec.Struct, frozen=True):
    """Subscriptions of one site alone: those that a message was due to, and those of them that have it.

    Attributes:
        open: some of the others may still come to have it.
    """

    due: Count
    have: Count
    open: bool = False


class CountsAsked(msgspec.Struct, frozen=True, tag="asked"):
    """How many have these messages at your site?

    Attributes:
        to: the site that is asked.
        hops: the sites that this has come through; the first one asks.
    """

    to: str
    hops: _Hops
    smuids: Annotated[tuple[str, ...], msgspec.Meta(max_length=SMUIDS_MAX)]


class CountsTold(msgspec.Struct, frozen=True, tag="told"):
    """So many do; not of those that have never been here.

    Attributes:
        to: the site that has asked.
        hops: the sites that this has come through; the first one tells.
        counts: by Smuid.
    """

    to: str
    hops: _Hops
    counts: Annotated[dict[str, SiteCounts], msgspec.Meta(max_length=SMUIDS_MAX)]

    @property
    def smuids(self) -> Collection[str]:
        """Of which something is told."""
        return self.counts


def check_counts(told: CountsAsked | CountsTold, peer: str) -> None:
    """Raises Refusal for what no honest peer sends."""
    if told.hops[-1] != peer:
        raise Refusal(Refusal.BAD_FRAME, "what is asked or told of counts has come through whoever sends it")
    if not all(map(is_server_name, (told.to, *told.hops))):
        raise Refusal(Refusal.BAD_FRAME, "what is asked or told of counts names what is no server")
    for smuid in told.smuids:
        parse_smuid(smuid)
    if isinstance(told, CountsTold) and any(each.have > each.due for each in told.counts.values()):
        raise Refusal(Refusal.BAD_FRAME, "more subscriptions have a message than it was due to")

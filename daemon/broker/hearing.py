"""What peers tell, from the bytes that came to inputs of the router."""

import msgspec

from daemon.control.enquiring import Enquiring
from daemon.link.controls import (
    DestinationsTold,
    InterestTold,
    NameClaimed,
    NewsKnown,
    NewsTold,
    ReceiptTold,
    Removed,
    WantsTold,
)
from daemon.link.port import ControlArrived
from daemon.link.refusals import Refusals
from daemon.system.log import one_line
from routing.door import Door
from routing.errors import Refusal
from routing.federation.interest import WANTS_MAX
from routing.link.codec import REASON_CHARACTERS_MAX
from routing.names import check_topic, parse_smuid
from routing.peering.copies import UnitId
from routing.peering.counts import CountsAsked, CountsTold, check_counts
from routing.peering.decisions import DESTINATIONS_WORDS
from routing.peering.news import SignedNews, read_statement
from routing.peering.wants import InterestChange


class Hearing:
    """Owned by `Federating`.

    Args:
        enquiring: takes questions of peers, and their answers.
        refusals: are told to the log, each now and then.
    """

    def __init__(self, door: Door, enquiring: Enquiring, refusals: Refusals) -> None:
        self._door = door
        self._enquiring = enquiring
        self._refusals = refusals
        self._heard: dict[str, list[InterestChange]] = {}
        """By peer, of an interest that has not been told whole."""

    def forget(self, peer: str) -> None:
        """Forget what a peer has not told whole: it tells that anew, as its link came up or went down."""
        self._heard.pop(peer, None)

    def hear(self, arrived: ControlArrived) -> None:
        """Take what a peer tells; it is answered once the router has it, also where it makes no sense."""
        control, peer = arrived.control, arrived.peer
        refusal = ""
        try:
            refusal = self._hear(peer, control.kind, control.payload)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, Refusal) as error:
            refusal = one_line(f"{control.kind}: {error}", REASON_CHARACTERS_MAX)
            self._refusals.log(peer, f"what {peer} told ({refusal})", "it makes no sense")
        self._door.heard(peer, UnitId(arrived.connection, control.number), refusal)

    def _hear(self, peer: str, kind: str, payload: bytes) -> str:
        """Why what could be read is denied; "" where it is not."""
        if kind == "interest":
            interest = msgspec.json.decode(payload, type=InterestTold)
            changes = self._heard.setdefault(peer, [])
            changes += interest.changes[: WANTS_MAX + 1 - len(changes)]
            if not interest.more:
                del self._heard[peer]
                if passed_over := self._door.hear_interest(peer, changes, whole=interest.whole):
                    text = f"{passed_over} wants are too much (more than {WANTS_MAX}), or no name or distance"
                    raise Refusal(Refusal.TOO_MANY, text)
        elif kind == "receipt":
            told = msgspec.json.decode(payload, type=ReceiptTold)
            self._door.hear_receipt(peer, told.query, told.due, told.have, closed=told.closed)
        elif kind == "counts":
            counts = msgspec.json.decode(payload, type=CountsAsked | CountsTold)
            check_counts(counts, peer)
            self._door.hear_counts(peer, counts)
        elif kind == "removed":
            removed = msgspec.json.decode(payload, type=Removed)
            check_topic(removed.topic)
            parse_smuid(removed.smuid)
            if not self._door.hear_removed(peer, removed.smuid, removed.topic):
                shown = f"the removal by {peer} of {removed.smuid} in {removed.topic}"
                self._refusals.log(peer, shown, "the rules of the link forbid it, or it never was there")
        elif (word := DESTINATIONS_WORDS.get(kind)) is not None:
            sites = msgspec.json.decode(payload, type=DestinationsTold).sites
            self._door.hear_destinations(peer, word, sites)
        elif kind == "news":
            return self._hear_news(peer, msgspec.json.decode(payload, type=NewsTold))
        elif kind == "wants":
            wants = msgspec.json.decode(payload, type=WantsTold)
            version = wants.boot, wants.number
            why = self._door.hear_wants(peer, wants.site, version, wants.buckets)
            if why:
                self._refusals.log(peer, f"wants of {wants.site} that {peer} told", why)
            return why
        elif kind == "news-known":
            known = msgspec.json.decode(payload, type=NewsKnown)
            self._door.hear_known_news(peer, known.has, more=known.more)
        elif kind == "claimed":
            claimed = msgspec.json.decode(payload, type=NameClaimed)
            reason = f"it claims the name of this site, {self._door.server}"
            self._refusals.log(peer, f"{claimed.remote} at {peer}", reason)
        elif kind == "ask":
            self._enquiring.ask_arrived(peer, payload)
        elif kind == "answer":
            self._enquiring.answer_arrived(peer, payload)
        return ""

    def _hear_news(self, peer: str, told: NewsTold) -> str:
        news = SignedNews(told.statement, told.certificate, told.signature)
        why = self._door.hear_news(peer, news, told.age_s, told.buckets)
        if why:
            site = read_statement(told.statement).site
            self._refusals.log(peer, f"news of {site} that {peer} told", why)
        return why

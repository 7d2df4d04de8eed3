"""Receiving by urn:xmpp:qos: what is held between `assured` and `deliver`.

    assured(msgId)   stored, answered `received`; known already: answered again, stored no second time
    deliver(msgId)   published and forgotten, then answered; unknown: answered at once, nothing to do

What is held is on disk, in a system topic that belongs to the sender alone, before `received` is
answered: a sender that has had it will never send the message again.

Limits are kept for each sender and for all. Source: urn:xmpp:qos, Assured service and Memory attacks.
"""

from typing import Final, Literal
from xml.etree.ElementTree import Element

import msgspec

from plugins.xmpp.stanzas import StanzaError

MSG_ID_CHARACTERS_MAX: Final = 1_000


class AssuredLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How much may be held, for one sender and for all."""

    messages_max: int
    bytes_max: int
    messages_total_max: int
    bytes_total_max: int


class Holding(msgspec.Struct):
    """One message between its two requests.

    Attributes:
        to: as the carrying IQ had it.
        smuid: of its copy on disk; "" until that is there.
        waiting: IQs to be answered once the present step is done.
    """

    message: Element
    to: str
    size: int
    state: Literal["storing", "held", "delivering"] = "storing"
    smuid: str = ""
    waiting: list[Element] = []


class Assured:
    """Everything held, by sender (a full JID) and msgId."""

    def __init__(self, limits: AssuredLimits) -> None:
        self._limits = limits
        self._senders: dict[str, dict[str, Holding]] = {}
        self._messages = 0
        self._bytes = 0

    def find(self, jid: str, msg_id: str) -> Holding | None:
        """What is held under the id, if anything is."""
        return self._senders.get(jid, {}).get(msg_id)

    def hold(self, jid: str, msg_id: str, holding: Holding) -> None:
        """Begin to hold. Raises StanzaError(resource-constraint); nothing is held then."""
        limits = self._limits
        held = self._senders.get(jid, {})
        if len(held) >= limits.messages_max or (
            sum(each.size for each in held.values()) + holding.size > limits.bytes_max
        ):
            raise StanzaError("resource-constraint", "wait", "too much of yours waits for <deliver/>")
        if self._messages >= limits.messages_total_max or self._bytes + holding.size > limits.bytes_total_max:
            raise StanzaError("resource-constraint", "wait", "too much waits for <deliver/>")
        self._senders.setdefault(jid, {})[msg_id] = holding
        self._messages += 1
        self._bytes += holding.size

    def forget(self, jid: str, msg_id: str) -> None:
        """It has been published, or could not be stored."""
        held = self._senders.get(jid, {})
        holding = held.pop(msg_id, None)
        if holding is not None:
            self._messages -= 1
            self._bytes -= holding.size
        if not held:
            self._senders.pop(jid, None)

    def forget_sender(self, jid: str) -> None:
        """Its session ends; what is on disk is read again when it comes back."""
        for msg_id in list(self._senders.get(jid, ())):
            self.forget(jid, msg_id)

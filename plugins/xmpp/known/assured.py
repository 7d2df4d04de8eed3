"""Receiving by urn:xmpp:qos: what is held between `assured` and `deliver`.

    assured(msgId)   stored, answered `received`; known already: answered again, stored no second time
    deliver(msgId)   published and forgotten, then answered; unknown: answered at once, nothing to do

What is held is on disk, in a system topic that belongs to the sender alone, before `received` is
answered: a sender that has had it will never send the message again.

Limits are kept for each source, which is a bare JID, since anybody may have many resources, and for all.
What is held counts until its time is over, whether or not its sender is there.
Source: urn:xmpp:qos, Assured service and Memory attacks.
"""

from typing import Final, Literal
from xml.etree.ElementTree import Element

import msgspec

from plugins.xmpp.forms.stanzas import StanzaError
from plugins.xmpp.known.identities import bare_of
from routing.message import text_bytes

MSG_ID_CHARACTERS_MAX: Final = 1_000

ELEMENT_BYTES: Final = 120
"""Memory that an element takes besides its text, or an attribute besides its value, about."""

_ATTRIBUTES_BYTES: Final = 200
"""What an element takes that has any, besides, about."""


class AssuredLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How much may be held, for one source and for all."""

    messages_max: int
    bytes_max: int
    messages_total_max: int
    bytes_total_max: int


class AssuredMessage(msgspec.Struct):
    """One message between its two requests.

    Attributes:
        to: as the carrying IQ had it.
        ends_at: when it is forgotten.
        smuid: of its copy on disk; "" until that is there.
        waiting: IQs to be answered once the present step is done.
        memory: bytes that it takes, about.
    """

    message: Element
    to: str
    size: int
    ends_at: float
    state: Literal["storing", "held", "delivering"] = "storing"
    smuid: str = ""
    waiting: list[Element] = []
    memory: int = 0

    def __post_init__(self) -> None:
        names = set[str]()
        for element in self.message.iter():
            names.add(element.tag)
            self.memory += ELEMENT_BYTES + text_bytes(element.text or "") + text_bytes(element.tail or "")
            if attributes := element.items():  # to look at `attrib` would give each element a dict
                names.update(name for name, _ in attributes)
                self.memory += _ATTRIBUTES_BYTES + ELEMENT_BYTES * len(attributes)
                self.memory += sum(text_bytes(value) for _, value in attributes)
        self.memory += sum(map(text_bytes, names))  # with their namespaces


class _Amount:
    def __init__(self) -> None:
        self.messages = 0
        self.bytes = 0

    def has_room(self, size: int, messages_max: int, bytes_max: int) -> bool:
        return self.messages < messages_max and self.bytes + size <= bytes_max

    def add(self, messages: int, size: int) -> None:
        self.messages += messages
        self.bytes += size


class Assured:
    """Everything held, by sender (a full JID) and msgId."""

    def __init__(self, limits: AssuredLimits) -> None:
        self._limits = limits
        self._senders: dict[str, dict[str, AssuredMessage]] = {}
        self._sources: dict[str, _Amount] = {}
        self._all = _Amount()

    def find(self, jid: str, msg_id: str) -> AssuredMessage | None:
        """What is held under the id, if anything is."""
        return self._senders.get(jid, {}).get(msg_id)

    def hold(self, jid: str, msg_id: str, holding: AssuredMessage) -> None:
        """Begin to hold, in the place of what was held under the id.

        Raises StanzaError(resource-constraint): all is as it was.
        """
        replaced = self.find(jid, msg_id)
        self.forget(jid, msg_id)
        try:
            self._check_room(jid, holding.size)
        except StanzaError:
            if replaced is not None:
                self.remember(jid, msg_id, replaced)
            raise
        self.remember(jid, msg_id, holding)

    def _check_room(self, jid: str, size: int) -> None:
        limits, source = self._limits, self._sources.get(bare_of(jid)) or _Amount()
        if not source.has_room(size, limits.messages_max, limits.bytes_max):
            raise StanzaError("resource-constraint", "wait", "too much of yours waits for <deliver/>")
        if not self._all.has_room(size, limits.messages_total_max, limits.bytes_total_max):
            raise StanzaError("resource-constraint", "wait", "too much waits for <deliver/>")

    def remember(self, jid: str, msg_id: str, holding: AssuredMessage) -> None:
        """Hold what is on disk already, whatever the limits are by now; of two under one id the last."""
        self.forget(jid, msg_id)
        self._senders.setdefault(jid, {})[msg_id] = holding
        for amount in (self._sources.setdefault(bare_of(jid), _Amount()), self._all):
            amount.add(1, holding.size)

    def holds(self, jid: str) -> bool:
        """Whether anything of the sender is held."""
        return jid in self._senders

    def memory_of(self, jid: str) -> int:
        """Bytes that all that is held of a sender takes, about."""
        return sum(holding.memory for holding in self._senders.get(jid, {}).values())

    def forget(self, jid: str, msg_id: str) -> None:
        """Forget a message that has been published, or could not be stored."""
        held = self._senders.get(jid, {})
        holding = held.pop(msg_id, None)
        if holding is not None:
            source = self._sources[bare_of(jid)]
            for amount in (source, self._all):
                amount.add(-1, -holding.size)
            if not source.messages:
                del self._sources[bare_of(jid)]
        if not held:
            self._senders.pop(jid, None)

    def forget_old(self, now: float) -> None:
        """Forget those whose time is over, as it is on disk."""
        for jid, held in list(self._senders.items()):
            for msg_id in [msg_id for msg_id, holding in held.items() if holding.ends_at <= now]:
                self.forget(jid, msg_id)

    def forget_sender(self, jid: str) -> None:
        """Forget what is held of a JID whose session ends; from disk it is read when that comes back."""
        for msg_id in list(self._senders.get(jid, ())):
            self.forget(jid, msg_id)

"""Sending by urn:xmpp:qos: what is still unanswered, and when to ask again.

    acknowledged   message -------------------------------> answered: done
    assured        message --> received --> (on disk) --> deliver --> answered: done

Both requests may be repeated at will: a receiver knows an assured message by its msgId. So every request
is sent again, under the same id, after a time that doubles, and at once when the stream to the server is a
new one. After `TRIES` without an answer, be it an error, the receiver counts as gone.
Source: urn:xmpp:qos, Use Cases.
"""

import heapq
from collections import Counter
from typing import Final, Literal

import msgspec

from plugins.xmpp.forms.stanzas import address_text
from plugins.xmpp.wire.namespaces import CLIENT, QOS
from plugins.xmpp.wire.serializer import escape_attribute
from routing.message import text_bytes

TRIES: Final = 6
BACKOFF_MAX: Final = 16

QosLevel = Literal["plain", "acknowledged", "assured"]
LEVELS: Final[tuple[QosLevel, ...]] = ("plain", "acknowledged", "assured")


class Transfer(msgspec.Struct):
    """One request on its way to one receiver.

    Attributes:
        jid: the receiver.
        number: of the delivery within the receiver's session.
        phase: which answer is awaited; an assured message begins a second transfer to be delivered.
        due_at: when it is sent again.
        tries: how often it was sent by this stream.
        unanswered: of these, those since the receiver answered, with an error that leaves it open.
        memory: that it takes, about.
    """

    id: str
    jid: str
    number: int
    phase: Literal["acknowledged", "assured", "deliver"]
    stanza: str
    due_at: float
    tries: int = 1
    unanswered: int = 1
    memory: int = 0

    def __post_init__(self) -> None:
        self.memory = text_bytes(self.stanza)


class Transfers:
    """All that are unanswered."""

    def __init__(self, answer_s: float) -> None:
        self._answer_s = answer_s
        self._open: dict[str, Transfer] = {}
        self._by_delivery: dict[tuple[str, int], str] = {}
        self._due: list[tuple[float, str]] = []
        self._bytes: Counter[str] = Counter()

    def begin(self, transfer: Transfer, now: float) -> None:
        """Note a request that is being sent; it replaces an earlier one of the same delivery."""
        self.forget(transfer.jid, transfer.number)
        self._open[transfer.id] = transfer
        self._by_delivery[transfer.jid, transfer.number] = transfer.id
        self._bytes[transfer.jid] += transfer.memory
        self._schedule(transfer, now)

    def _schedule(self, transfer: Transfer, now: float) -> None:
        transfer.due_at = now + self._answer_s * min(2 ** (transfer.tries - 1), BACKOFF_MAX)
        heapq.heappush(self._due, (transfer.due_at, transfer.id))

    def find(self, id: str, jid: str) -> Transfer | None:
        """The one that an answer is to; None where nobody waits, or another JID answers."""
        transfer = self._open.get(id)
        return transfer if transfer is not None and transfer.jid == jid else None

    def forget(self, jid: str, number: int) -> None:
        """Forget the request of a delivery that is no longer the receiver's."""
        id = self._by_delivery.pop((jid, number), None)
        if id is not None:
            self._bytes[jid] -= self._open.pop(id).memory
            if not self._bytes[jid]:
                del self._bytes[jid]

    def memory_of(self, jid: str) -> int:
        """Bytes that all that is on its way to a receiver takes, about."""
        return self._bytes[jid]

    def due(self, now: float) -> tuple[list[Transfer], list[Transfer]]:
        """Those to be sent again now, and those that have been sent often enough and are forgotten."""
        again, given_up = [], []
        while self._due and self._due[0][0] <= now:
            due_at, id = heapq.heappop(self._due)
            transfer = self._open.get(id)
            if transfer is None or transfer.due_at != due_at:
                continue
            if transfer.unanswered >= TRIES:
                self.forget(transfer.jid, transfer.number)
                given_up.append(transfer)
                continue
            transfer.tries += 1
            transfer.unanswered += 1
            self._schedule(transfer, now)
            again.append(transfer)
        return again, given_up

    def next_at(self) -> float | None:
        """When `due` has something, at the earliest; None for never."""
        return self._due[0][0] if self._due else None

    def restart(self, now: float) -> None:
        """Let all requests be due at once, on a new stream: nobody knows what arrived over the old one."""
        for transfer in self._open.values():
            transfer.due_at = now
            transfer.tries = transfer.unanswered = 0
            heapq.heappush(self._due, (now, transfer.id))


def carrier(sender: str, jid: str, id: str, level: str, content: str, msg_id: str) -> str:
    """The IQ that carries a message: its own `to` and `from` hold, the message has none.

    The message is written in the namespace that clients know; servers pass on what is inside an IQ as it
    is.
    """
    named = f" msgId='{escape_attribute(msg_id)}'" if level == "assured" else ""
    return (
        f"<iq type='set'{address_text(sender, jid, id)}><{level} xmlns='{QOS}'{named}>"
        f"<message xmlns='{CLIENT}'>{content}</message></{level}></iq>"
    )


def deliver(sender: str, jid: str, id: str, msg_id: str) -> str:
    """The IQ that lets an assured message be worked on."""
    request = f"<deliver xmlns='{QOS}' msgId='{escape_attribute(msg_id)}'/>"
    return f"<iq type='set'{address_text(sender, jid, id)}>{request}</iq>"

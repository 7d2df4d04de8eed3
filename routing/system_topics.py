"""What waits on system topics and in their dead letters, and on whose account: each has a bounded share.

Every account may publish to every system topic that somebody can read, without a right; so what waits there
is bounded for each publisher (`account@server`, whatever its channels), and within that for each account that
it is to, so that one which never reads cannot use up all that a publisher may have waiting for others:

    for one recipient       an eighth of the publisher's share
    for itself              all of it

What the server itself sends there (receipts, dead letters) is never refused, and is counted for whom it is
to: who asks for receipts and does not read them can ask for no more.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from routing.errors import Refusal
from routing.names import SERVER_ACCOUNT, owner_of, parse_address
from routing.queue import Entry

RECIPIENT_SHARE: Final = 8
"""One part in so many of what a publisher may have waiting is for one recipient."""


class _Waiting(msgspec.Struct):
    messages: int = 0
    bytes: int = 0


class SystemTopics:
    """Counts; owned by `routing.state`, which tells it what begins and ends."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._charged: dict[int, tuple[str, str]] = {}  # by entry id: publisher and recipient
        self._waiting: dict[tuple[str, str], _Waiting] = {}  # by these, and by the publisher and ""

    def hold(self, entry: Entry, publisher: str) -> None:
        """Count a message for the recipient of its topic, which is held; `publisher` is its Account."""
        recipient = entry.topic.recipient
        by = self._publisher(publisher) or recipient
        self._charged[entry.id] = (by, recipient)
        for key in ((by, recipient), (by, "")):
            waiting = self._waiting.setdefault(key, _Waiting())
            waiting.messages += 1
            waiting.bytes += entry.size

    def discard(self, entry: Entry) -> None:
        """Count a message no longer, if it is counted."""
        charged = self._charged.pop(entry.id, None)
        if charged is None:
            return
        by, recipient = charged
        for key in ((by, recipient), (by, "")):
            waiting = self._waiting[key]
            waiting.messages -= 1
            waiting.bytes -= entry.size
            if not waiting.messages:
                del self._waiting[key]

    def check(
        self, publisher: str, added: Iterable[tuple[str, int, bool]], messages_max: int, bytes_max: int
    ) -> None:
        """Check that a publisher may add messages at once: topic, bytes, and if it wants a receipt.

        One to an ordinary topic counts if it wants a receipt, as the message of no bytes that this will be.
        Raises Refusal (queue-full).
        """
        by = self._publisher(publisher)
        if not by:
            return
        more: dict[str, list[int]] = {"": [0, 0]}
        for topic, size, wants_receipt in added:
            owner = owner_of(topic, self._server)
            if owner is None and not wants_receipt:
                continue
            recipient = by if owner is None else f"{owner.account}@{owner.server}"
            for key in (recipient, ""):
                one = more.setdefault(key, [0, 0])
                one[0] += 1
                one[1] += 0 if owner is None else size
        for recipient, (messages, bytes) in more.items():
            share = 1 if recipient in ("", by) else RECIPIENT_SHARE
            held = self._waiting.get((by, recipient)) or _Waiting()
            if held.messages + messages > max(messages_max // share, 1) or held.bytes + bytes > max(
                bytes_max // share, 1
            ):
                where = f"the system topics of {recipient}" if recipient else "system topics"
                raise Refusal(
                    Refusal.QUEUE_FULL,
                    f"{held.messages} messages of {held.bytes} bytes wait on {where} for or from {by}, which"
                    " is as much as may; try again once some have been read",
                )

    @staticmethod
    def _publisher(address: str) -> str:
        """`account@server`; "" for the servers themselves, and where it is not known."""
        if not address:
            return ""
        sender = parse_address(address)
        return "" if sender.account == SERVER_ACCOUNT else f"{sender.account}@{sender.server}"

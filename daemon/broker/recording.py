"""From decisions to records of the hop log: what happens to a message, and what is refused."""

import math
from collections.abc import Callable
from typing import Any, Final

from daemon.hops.writer import HopFields, HopLog
from daemon.metrics import Metrics
from daemon.system.clock import Clock
from routing import decisions
from routing.decisions import OF_A_DELIVERY
from routing.queue import DELAYED, GUARANTEED, ONE, STATED, Entry


class Recording:
    """Owned by the executor.

    Attributes:
        handlers: how each decision that is recorded is appended to the hop log, not yet flushed.
    """

    def __init__(self, server: str, hops: HopLog, clock: Clock, metrics: Metrics) -> None:
        self._server = server
        self._hops = hops
        self._clock = clock
        self._metrics = metrics
        self.handlers: Final[dict[type, Callable[[Any], None]]] = {
            decisions.Record: self._record,
            decisions.Refused: self._refused,
        }

    def _record(self, d: decisions.Record) -> None:
        entry, event, origin = d.entry, d.event, d.entry.origin
        # only what differs from the record's defaults: a message has several records, and each field costs
        fields: HopFields = {
            "smuid": origin if isinstance(origin, str) else entry.smuid(self._server),
            "topic": entry.topic.name,
            "size": entry.size,
        }
        flags = entry.flags
        if flags & ONE:
            fields["mode"] = "ONE"
        if not flags & GUARANTEED:
            fields["guarantee"] = False
        if entry.priority:
            fields["priority"] = entry.priority
        if d.attempt:
            fields["attempt"] = d.attempt
        if d.final:
            fields["final"] = True
        if (subscription := d.subscription) is not None:
            fields["subscription"] = subscription.label
            if subscription.pattern:
                fields["pattern"] = subscription.pattern
        if event not in OF_A_DELIVERY:
            self._add_rare(d, fields)
        self._hops.append_fields(event, fields)

    def _add_rare(self, d: decisions.Record, fields: HopFields) -> None:
        """What no record of a delivery has, and most records are of those."""
        if d.crossing:
            fields["crossing"] = d.crossing
        if d.account:
            fields["account"] = d.account
        if d.reason:
            fields["reason"] = d.reason
            if d.event == "dropped":
                self._metrics.turn_away(d.event, d.reason)
        if d.peer:
            fields["peer"] = d.peer
        if d.depth:
            fields["depth"] = d.depth
        if d.hops:
            fields["hops"] = d.hops
        if d.destinations:
            fields["destinations"] = d.destinations
        if d.receipt:
            fields["receipt"] = d.receipt
        if d.due is not None:
            fields["due"] = d.due
            fields["expires_us"] = self._expires_us(d.entry)
        if (answered := d.answered) is not None:
            fields["attempt"] = answered.attempt
            fields["outcome"] = answered.outcome
            fields["sent_us"] = answered.sent_us
            fields["peer_received_us"] = answered.peer_received_us
            fields["peer_sent_us"] = answered.peer_sent_us
            fields["acknowledged_us"] = answered.acknowledged_us

    def _refused(self, d: decisions.Refused) -> None:
        self._metrics.turn_away(d.event, d.reason)
        self._hops.append(
            d.event,
            smuid=d.smuid,
            topic=d.topic,
            account=d.publisher,
            peer=d.peer,
            depth=d.depth,
            hops=d.hops,
            reason=d.reason,
            size=d.size,
            attempt=d.attempt,
            mode=d.mode,
            priority=d.priority,
            guarantee=d.guarantee,
        )

    def _expires_us(self, entry: Entry) -> int:
        """When a stated timeout ends, by the wall clock; 0 where none was stated, -1 for never or unknown."""
        if entry.flags & DELAYED:
            return -1
        if not entry.flags & STATED:
            return 0
        if entry.deadline == math.inf:
            return -1
        return self._clock.wall_us() + int((entry.deadline - self._clock.now()) * 1e6)

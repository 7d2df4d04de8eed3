"""What a peer sent, in the words of the router."""

from daemon.link.controls import EARLIER, QUERY, queries_in
from daemon.link.port import Arrived
from routing.decisions import Refused
from routing.link.units import Transfer
from routing.message import Message
from routing.peering.copies import Arrival, UnitId


def arrival_of(arrived: Arrived) -> Arrival:
    """A copy, in the words of the router. Raises Refusal for flags that are none."""
    transfer = arrived.transfer
    queries, earlier = (queries_in(transfer.flags, kind) for kind in (QUERY, EARLIER))
    return Arrival(
        peer=arrived.peer,
        unit=UnitId(arrived.connection, transfer.number) if transfer.number else None,
        topic=transfer.topic,
        message=arrived.message,
        mode=transfer.mode,
        depth=transfer.depth,
        hops=transfer.hops,
        timeout_left_s=transfer.timeout_left_s,
        query=queries[0] if queries else 0,
        earlier=earlier,
        attempt=transfer.attempt,
        destinations=transfer.destinations if transfer.mode == "ALL" else (),
    )


def refused(peer: str, transfer: Transfer, message: Message | None, reason: str) -> Refused:
    """The record of a copy that was denied before the router saw it; without `message` if it has none."""
    smuid, account, size, priority = "", "", 0, 0
    if message is not None:
        smuid, account = message.smuid, message.account
        size, priority = message.size_bytes, message.priority
    return Refused(
        "denied",
        transfer.topic,
        account,
        reason,
        size,
        smuid,
        peer,
        transfer.depth,
        transfer.hops,
        transfer.attempt,
        transfer.mode,
        priority,
        transfer.guarantee,
    )

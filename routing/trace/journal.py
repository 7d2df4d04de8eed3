"""One route as plain values: a tree to print, JSON, and OTLP JSON for tracing user interfaces.

A route's row holds what the logs say, by each writer's clock, and the corrected times of its hops. What is
not known is None here and "unknown" in print; nothing is filled in.
"""

import hashlib
import sys
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any, Final

from routing.trace.arrivals import arrivals

OTLP_KIND_SERVER: Final = 2
OTLP_KIND_CLIENT: Final = 3


@dataclass
class RouteStop:
    """A server on the way of a message, with the hops that left it.

    Attributes:
        state: of the copy there, as in `ends.states`; "" where no record speaks of a copy.
        arrival: the hop by which it came, None at the origin.
        doubt: why it may have come otherwise, in words; "" where it has come so.
        rejected: hops from here that are no branch: duplicates, loops, denials, a copy of more depth, or
            one of mode ONE that was handed back.
    """

    server: str
    copy: dict[str, Any]
    arrival: dict[str, Any] | None = None
    doubt: str = ""
    onward: list["RouteStop"] = field(default_factory=list)
    rejected: list[dict[str, Any]] = field(default_factory=list)

    @property
    def state(self) -> str:
        return str(self.copy.get("state") or "")


def tree(route: dict[str, Any]) -> tuple[list[RouteStop], list[dict[str, Any]]]:
    """The stops that nothing led to, the origin first, and the hops that could not be hung anywhere.

    A server hangs below the one whose copy it accepted first. Where logs are missing there may be more than
    one root: how those servers were reached is not known.
    """
    copies = {copy["server"]: copy for copy in route["copies"]}
    stops: dict[str, RouteStop] = {name: RouteStop(name, copy) for name, copy in copies.items()}
    first = arrivals(route)
    for server, arrival in first.items():
        stop = stops.setdefault(server, RouteStop(server, {}))
        stop.arrival, stop.doubt = arrival.hop, arrival.doubt
    loose = []
    for stop in sorted(stops.values(), key=_order):
        if stop.arrival is None:
            continue
        parent = stops.setdefault(stop.arrival["from"], RouteStop(stop.arrival["from"], {}))
        parent.onward.append(stop)
    for hop in route["hops"]:
        is_first = hop["to"] in first and first[hop["to"]].hop is hop
        if hop["kind"] != "passed" and not is_first:
            if hop["from"] in stops:
                stops[hop["from"]].rejected.append(hop)
            else:
                loose.append(hop)
    roots = [stop for stop in stops.values() if stop.arrival is None]
    return sorted(roots, key=lambda stop: (stop.server != route["origin"], stop.server)), loose


def outline(route: dict[str, Any], most: int) -> list[dict[str, Any]]:
    """`tree` as lines from top to bottom, at most so many of them; what hangs below nothing has depth 0.

    Of a stop: depth, server, state ("" where no record speaks of a copy), hop (how it came: delay_us,
    delay_raw_us, attempt; null for a root), doubt, unknown (how it came there is not known). Of a hop that is
    no branch: depth and rejected, in words.
    """
    roots, loose = tree(route)
    found: list[dict[str, Any]] = []
    waiting: list[tuple[int, RouteStop]] = [(0, root) for root in reversed(roots)]
    while waiting and len(found) < most:
        depth, stop = waiting.pop()
        hop = stop.arrival
        found.append(
            {
                "depth": depth,
                "server": stop.server,
                "state": stop.state,
                "hop": None if hop is None else {name: hop[name] for name in _HOW_IT_CAME},
                "doubt": stop.doubt,
                "unknown": hop is None and stop.server != route["origin"],
            }
        )
        found += [{"depth": depth + 1, "rejected": rejected(hop)} for hop in stop.rejected]
        waiting += [(depth + 1, following) for following in reversed(stop.onward)]
    return (found + [{"depth": 0, "rejected": rejected(hop)} for hop in loose])[:most]


def left_open(route: dict[str, Any], most: int = sys.maxsize) -> list[str]:
    """Which copies are proven to be lost, and of which it is not known what became of them, in words.

    Of each kind so many servers at most are named, and the others counted.
    """
    lost = {copy["server"] for copy in route["copies"] if copy["state"] == "lost"}
    proven = [server for server in route["missing"] if server in lost]
    others = [server for server in route["missing"] if server not in lost]
    found = (
        [f"proven: {_copies_at(proven, most)} {'was' if len(proven) == 1 else 'were'} lost"] if proven else []
    )
    return found + ([f"not known: what became of {_copies_at(others, most)}"] if others else [])


def _copies_at(servers: list[str], most: int) -> str:
    more = f" and {len(servers) - most:,} more" if len(servers) > most else ""
    return f"the {'copy' if len(servers) == 1 else 'copies'} at {', '.join(servers[:most])}{more}"


_HOW_IT_CAME: Final = ("delay_us", "delay_raw_us", "attempt")


def rejected(hop: dict[str, Any]) -> str:
    """A hop that is no branch of the tree, in words."""
    meaning = {"depth": "again, with more depth", "accepted": "handed back"}.get(hop["kind"], hop["kind"])
    return f"-> {hop['to']} {meaning}"


def _order(stop: RouteStop) -> tuple[bool, int, str]:
    hop = stop.arrival or {}
    when = hop.get("received_at_us") or hop.get("received_us")
    return (when is None, when or 0, stop.server)


def clock_shifts(route: dict[str, Any]) -> dict[str, int]:
    """What to add to a server's times, microseconds, as far as this route's hops tell."""
    shifts: dict[str, int] = {}
    for hop in route["hops"]:
        for server, raw, true in (("from", "sent_us", "sent_at_us"), ("to", "received_us", "received_at_us")):
            if hop[raw] is not None and hop[true] is not None:
                shifts[hop[server]] = hop[true] - hop[raw]
    return shifts


def otlp(route: dict[str, Any]) -> dict[str, Any]:
    """The route as OTLP JSON (`ExportTraceServiceRequest`): one trace, a span for each hop and each copy.

    Times are corrected where they can be; the attribute `smqp.clock` says which are not. A copy whose times
    are not in the logs has no span of its own, and what came of it hangs below what led there.
    """
    trace_id = hashlib.sha256(route["smuid"].encode()).hexdigest()[:32]
    shifts = clock_shifts(route)
    first = arrivals(route)
    begun = {copy["server"] for copy in route["copies"] if copy["begun_us"] is not None}
    spans: dict[str, list[dict[str, Any]]] = {}

    def span_id(*parts: object) -> str:
        return hashlib.sha256("\0".join(map(str, (route["smuid"], *parts))).encode()).hexdigest()[:16]

    def of_hop(hop: dict[str, Any]) -> str:
        return span_id("hop", hop["from"], hop["to"], *_number(hop))

    def above(server: str) -> str:
        """The span of what led to the copy at a server; "" where there is none."""
        while server in first:
            hop = first[server].hop
            if _sent_us(hop) is not None:
                return of_hop(hop)
            server = hop["from"]
            if server in begun:
                return span_id("copy", server)
        return ""

    def add(server: str, span: dict[str, Any]) -> None:
        spans.setdefault(server, []).append({"traceId": trace_id} | span)

    for copy in route["copies"]:
        if copy["begun_us"] is None:
            continue
        server, shift = copy["server"], shifts.get(copy["server"], 0)
        came_us = first[server].hop["received_us"] if server in first else None
        begun_us = min(time for time in (copy["begun_us"], came_us) if time is not None)
        ended = copy["ended_us"] if copy["ended_us"] is not None else begun_us
        add(
            server,
            {
                "spanId": span_id("copy", server),
                "parentSpanId": above(server),
                "name": f"{route['topic']} at {server}",
                "kind": OTLP_KIND_SERVER,
                "startTimeUnixNano": str((begun_us + shift) * 1000),
                "endTimeUnixNano": str((max(ended, begun_us) + shift) * 1000),
                "attributes": _attributes(
                    {
                        "smqp.smuid": route["smuid"],
                        "smqp.topic": route["topic"],
                        "smqp.state": copy["state"],
                        "smqp.clock": "corrected" if server in shifts else "raw",
                    }
                ),
            },
        )
    for hop in route["hops"]:
        sent = _sent_us(hop)
        if sent is None:
            continue
        received = hop["received_at_us"] if hop["delay_us"] is not None else None
        add(
            hop["from"],
            {
                "spanId": of_hop(hop),
                "parentSpanId": span_id("copy", hop["from"]) if hop["from"] in begun else above(hop["from"]),
                "name": f"{hop['from']} to {hop['to']}",
                "kind": OTLP_KIND_CLIENT,
                "startTimeUnixNano": str(sent * 1000),
                "endTimeUnixNano": str(max(received or sent, sent) * 1000),
                "attributes": _attributes(
                    {"smqp.peer": hop["to"], "smqp.attempt": hop["attempt"], "smqp.outcome": hop["kind"]}
                ),
                "status": {"code": 2 if hop["kind"] == "denied" else 0},
            },
        )
    return {
        "resourceSpans": [
            {
                "resource": {"attributes": _attributes({"service.name": server})},
                "scopeSpans": [{"scope": {"name": "smqpd"}, "spans": found}],
            }
            for server, found in sorted(spans.items())
        ]
    }


def _sent_us(hop: dict[str, Any]) -> int | None:
    """When it was sent, by a corrected clock where that is known; what no record has has no span."""
    sent = hop["sent_at_us"] if hop["sent_at_us"] is not None else hop["sent_us"]
    return None if sent is None else int(sent)


def _number(hop: dict[str, Any]) -> tuple[int, int]:
    """What tells the hops of one message over one link apart."""
    return (hop["crossing"] or 1, hop["attempt"])


def _attributes(values: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {
            "key": key,
            "value": {"intValue": str(value)} if isinstance(value, int) else {"stringValue": str(value)},
        }
        for key, value in values.items()
    ]


def jsonable(value: Any) -> Any:
    """Rows, dates and their containers as what JSON knows."""
    if isinstance(value, (date, datetime)):
        return value.isoformat()
    if hasattr(value, "asDict"):
        return jsonable(value.asDict())
    if isinstance(value, dict):
        return {key: jsonable(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [jsonable(item) for item in value]
    return value

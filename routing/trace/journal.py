"""One route as plain values: a tree to print, JSON, and OTLP JSON for tracing user interfaces.

A route's row holds what the logs say, by each writer's clock, and the corrected times of its hops. What is
not known is None here and "unknown" in print; nothing is filled in.
"""

import hashlib
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any, Final

OTLP_KIND_SERVER: Final = 2
OTLP_KIND_CLIENT: Final = 3


@dataclass
class RouteStop:
    """A server on the way of a message, with the hops that left it.

    Attributes:
        state: of the copy there, as in `ends.states`; "" where no record speaks of a copy.
        arrival: the hop by which it came, None at the origin.
        sure: False where only the Hops of a later record tell how it came.
        rejected: hops from here that are no branch: duplicates, loops, denials, a copy of more depth, or
            one of mode ONE that was handed back.
    """

    server: str
    copy: dict[str, Any]
    arrival: dict[str, Any] | None = None
    sure: bool = True
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
    arrivals = _arrivals(route)
    for server, found in _passed(route["hops"]).items():
        if server not in arrivals and len(found) == 1 and server != route["origin"]:
            arrivals[server] = found[0]
    loose = []
    for server, hop in arrivals.items():
        stop = stops.setdefault(server, RouteStop(server, {}))
        stop.arrival, stop.sure = hop, hop["kind"] == "accepted"
    for stop in sorted(stops.values(), key=_order):
        if stop.arrival is None:
            continue
        parent = stops.setdefault(stop.arrival["from"], RouteStop(stop.arrival["from"], {}))
        parent.onward.append(stop)
    for hop in route["hops"]:
        if hop["kind"] != "passed" and arrivals.get(hop["to"]) is not hop:
            if hop["from"] in stops:
                stops[hop["from"]].rejected.append(hop)
            else:
                loose.append(hop)
    roots = [stop for stop in stops.values() if stop.arrival is None]
    # A ring can only come from logs that contradict each other; it is shown from one of its servers on.
    reached = {stop.server for root in roots for stop in _below(root)}
    for server, stop in sorted(stops.items()):
        if server not in reached:
            roots.append(RouteStop(server, stop.copy, stop.arrival, sure=False))
    return sorted(roots, key=lambda stop: (stop.server != route["origin"], stop.server)), loose


def _below(root: RouteStop) -> list[RouteStop]:
    found, queue = [], [root]
    while queue:
        stop = queue.pop()
        found.append(stop)
        queue += stop.onward
    return found


def _arrivals(route: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """By server the hop by which it had the message first; not the origin, to which it may be handed back."""
    accepted = [hop for hop in route["hops"] if hop["kind"] == "accepted" and hop["to"] != route["origin"]]
    found: dict[str, dict[str, Any]] = {}
    for hop in sorted(accepted, key=lambda hop: (hop["level"] is None, hop["level"] or 0, hop["attempt"])):
        found.setdefault(hop["to"], hop)
    return found


def _passed(hops: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for hop in hops:
        if hop["kind"] == "passed":
            found.setdefault(hop["to"], []).append(hop)
    return found


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
    are not in the logs has no span of its own.
    """
    trace_id = hashlib.sha256(route["smuid"].encode()).hexdigest()[:32]
    shifts = clock_shifts(route)
    spans: dict[str, list[dict[str, Any]]] = {}

    def span_id(*parts: object) -> str:
        return hashlib.sha256("\0".join(map(str, (route["smuid"], *parts))).encode()).hexdigest()[:16]

    def add(server: str, span: dict[str, Any]) -> None:
        spans.setdefault(server, []).append({"traceId": trace_id} | span)

    parents = _arrivals(route)
    for copy in route["copies"]:
        if copy["begun_us"] is None:
            continue
        server, shift = copy["server"], shifts.get(copy["server"], 0)
        ended = copy["ended_us"] if copy["ended_us"] is not None else copy["begun_us"]
        parent = parents.get(server)
        add(
            server,
            {
                "spanId": span_id("copy", server),
                "parentSpanId": span_id("hop", parent["from"], server, *_number(parent)) if parent else "",
                "name": f"{route['topic']} at {server}",
                "kind": OTLP_KIND_SERVER,
                "startTimeUnixNano": str((copy["begun_us"] + shift) * 1000),
                "endTimeUnixNano": str((max(ended, copy["begun_us"]) + shift) * 1000),
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
        sent = hop["sent_at_us"] if hop["sent_at_us"] is not None else hop["sent_us"]
        if sent is None:
            continue
        received = hop["received_at_us"] if hop["delay_us"] is not None else None
        add(
            hop["from"],
            {
                "spanId": span_id("hop", hop["from"], hop["to"], *_number(hop)),
                "parentSpanId": span_id("copy", hop["from"]),
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

"""What is kept of each hop, copy and delivery: in which slot of the aggregation, and what it is called.

All that is kept is a smallest or greatest number: these do not change when a log is read twice, and Spark
aggregates them in place. The three kinds share one set of numbered slots, because the width of the
aggregation buffer is what the job's time is made of; a greatest number is kept as the smallest negative one.
"""

from collections.abc import Callable, Mapping
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as f

from routing import hop_words
from routing.trace.coded import (
    COPY,
    CROSSING_BITS,
    DELIVERY,
    EVENT_CODES,
    HOP,
    RECEIPT_BITS,
    first_sent,
    is_event,
    number_of,
)
from routing.trace.schema import ARRIVALS, ENDS, PASSED

BEGINS: Final = {word: code for code, word in enumerate(hop_words.BEGINS, start=1)}

TURNED_AWAY: Final = len(BEGINS) + 1
"""In the place of a beginning: its server took none, and has said why."""

OWN_FIRST: Final = 1 << 61
"""Is added to what a copy's own server states of it, so that this is the greatest, whatever others say."""

HANDED: Final = -1
CAME_BACK: Final = -2
"""What is known of a copy of mode ONE: it was handed on; its Hops say that it was at this server before."""

_Layout = dict[str, Callable[[], Column]]


def slots() -> list[Column]:
    """The slots `s0` ... as aggregations of coded records with their `key`."""
    layouts = [(kind, list(layout.values())) for kind, layout in _LAYOUTS.items()]
    found = []
    for number in range(max(map(len, _LAYOUTS.values()))):
        value = f.lit(None).cast("long")
        for kind, layout in layouts:
            if number < len(layout):
                value = f.when(f.col("key.kind") == kind, layout[number]()).otherwise(value)
        found.append(f.min(value.cast("long")).alias(f"s{number}"))
    return found


def only_turned_away() -> Column:
    """Whether nothing is known of a copy but that its server turned it away, and that others say it had it.

    Null for false, too.
    """
    at = {name: f.col(f"s{number}") for number, name in enumerate(_COPY)}
    told = f.coalesce(*(at[name] for name in _TELLS_OF_A_COPY))
    return (f.col("kind") == COPY) & (at["begun"] == TURNED_AWAY) & told.isNull()


def by_name() -> tuple[dict[str, Column], dict[int, dict[str, Column]]]:
    """The slots by their names: those that all kinds share, and by kind those that mean something else."""
    at = {
        kind: {name: f.col(f"s{number}") for number, name in enumerate(layout)}
        for kind, layout in _LAYOUTS.items()
    }
    told = -f.coalesce(at[HOP]["traits"], f.lit(0))
    traits = told % OWN_FIRST
    outcome, arrival = at[HOP]["outcome"], at[HOP]["arrival"]
    receipt = at[COPY]["receipt"]
    crossing = (f.shiftright("attempt", CROSSING_BITS) + 1).cast("int")
    of_hops = {
        "from": f.col("a"),
        "to": f.col("b"),
        "attempt": f.col("attempt").bitwiseAND((1 << CROSSING_BITS) - 1).cast("int"),
        "crossing": f.when(at[HOP]["unnumbered"].isNull(), crossing),
        "sent_us": at[HOP]["sent_us"],
        "received_us": f.coalesce(at[HOP]["received_us"], at[HOP]["peer_received_us"]),
        "answered_us": at[HOP]["peer_sent_us"],
        "acked_us": at[HOP]["acked_us"],
        "arrival": arrival.cast("int"),
        "outcome": outcome.cast("int"),
        "sent_logged": outcome.isNotNull(),
        "received_logged": f.coalesce(arrival < PASSED, f.lit(False)),
    }
    of_copies = {
        "topic": f.col("b"),
        "begun": f.when(at[COPY]["begun"] < TURNED_AWAY, at[COPY]["begun"]).cast("int"),
        "begun_us": at[COPY]["begun_us"],
        "begun_record": at[COPY]["begun_record"],
        "begun_last_record": -at[COPY]["begun_last"],
        "ended": at[COPY]["ended"].cast("int"),
        "ended_us": at[COPY]["ended_us"],
        "ended_record": at[COPY]["ended_record"],
        "ended_last_record": -at[COPY]["ended_last"],
        "due": (-at[COPY]["due"]).cast("int"),
        "expires_us": at[COPY]["expires_us"],
        "claimed_us": at[COPY]["claimed_us"],
        "asked": f.when(traits >= 8, "ALL").when(traits >= 4, "ONE"),
        "receipt_x": f.shiftright(receipt, RECEIPT_BITS),
        "receipt_y": receipt % (1 << RECEIPT_BITS),
        "receipt_us": at[COPY]["receipt_us"],
        "widened": at[COPY]["widened"].isNotNull() & (traits % 4 < 2),
        "widened_record": f.when(traits % 4 < 2, -at[COPY]["widened"]),
        "handed": at[COPY]["widened"].isNotNull() & (traits % 4 >= 2),
        "came_back": f.coalesce(at[COPY]["widened"] == CAME_BACK, f.lit(False)) & (traits % 4 >= 2),
        "told_by_itself": told >= OWN_FIRST,
        "depth": at[COPY]["depth"].cast("int"),
        "priority": (-at[COPY]["priority"] % OWN_FIRST).cast("int"),
    }
    of_deliveries = {
        "subscription": f.expr("substr(b, 1, length(b) - length(substring_index(b, ' ', -1)) - 1)"),
        "pattern": f.substring_index("b", " ", -1),
        "delivered_us": at[DELIVERY]["delivered_us"],
        "committed_us": at[DELIVERY]["committed_us"],
        "attempts": (-at[DELIVERY]["attempts"]).cast("int"),
        "returned": at[DELIVERY]["returned"].isNotNull(),
    }
    shared = {
        "level": at[HOP]["level"],
        "bytes": -at[HOP]["bytes"] % OWN_FIRST,
        "one": traits % 4 >= 2,
        "unguaranteed": traits % 2 == 1,
    }
    return shared, {HOP: of_hops, COPY: of_copies, DELIVERY: of_deliveries}


def _event_code(codes: Mapping[str, int]) -> Column:
    return number_of(f.col("event"), {EVENT_CODES[word]: code for word, code in codes.items()})


def _when(condition: Column, value: Column) -> Column:
    return f.when(condition, value)


def _stamp(name: str) -> Column:
    return _when(first_sent() & (f.col(name) > 0), f.col(name))


def _arrival() -> Column:
    return _event_code({**ARRIVALS, "passed": PASSED})


def _own() -> Column:
    """The copy is the writer's own and not the peer's that its forward tells of."""
    return f.col("key.a") == f.col("server")


def _own_first(value: Column) -> Column:
    # that another passed it on before is told by those whom it came to
    by_itself = _own() & ~is_event("passed")
    return value - f.when(by_itself, OWN_FIRST).otherwise(0)


def _one() -> Column:
    return -f.col("traits") % 4 >= 2


def _begun(value: Column) -> Column:
    return _when(is_event(*BEGINS), value)


def _ended(value: Column) -> Column:
    return _when(f.col("final") & _own(), value)


def _expires() -> Column:
    return _when(is_event(*BEGINS) & (f.col("expires_us") != 0), f.col("expires_us"))


def _acknowledged() -> Column:
    """When the answer came; earlier versions tell only when that was written, which may be much later."""
    return f.when(f.col("acknowledged_us") > 0, f.col("acknowledged_us")).otherwise(f.col("time_us"))


_SHARED: Final[_Layout] = {
    "traits": lambda: f.col("traits"),
    "bytes": lambda: -f.col("size"),
    "level": lambda: f.when(is_event("published"), 0).when(is_event("received", "passed"), f.col("level")),
}
"""What all kinds have stands in the same slots of each."""

_HOP: Final[_Layout] = _SHARED | {
    "received_us": lambda: _when(is_event("received"), f.col("time_us")),
    "sent_us": lambda: _stamp("sent_us"),
    "acked_us": lambda: _when(first_sent(), _acknowledged()),
    "peer_received_us": lambda: _stamp("peer_received_us"),
    "peer_sent_us": lambda: _stamp("peer_sent_us"),
    "arrival": _arrival,
    "outcome": lambda: f.col("outcome"),
    "unnumbered": lambda: _when(is_event("forwarded") & _one() & (f.col("crossing") == 0), f.lit(1)),
}

_COPY: Final[_Layout] = _SHARED | {
    "traits": lambda: _own_first(f.col("traits")),
    "bytes": lambda: _own_first(-f.col("size")),
    "begun_us": lambda: _begun(f.col("time_us")),
    "begun_record": lambda: _begun(f.col("record")),
    "begun_last": lambda: _begun(-f.col("record")),
    "ended_us": lambda: _ended(f.col("time_us")),
    "ended_record": lambda: _ended(f.col("record")),
    "ended_last": lambda: _ended(-f.col("record")),
    "begun": lambda: f.when(f.col("turned_away"), f.lit(TURNED_AWAY)).otherwise(_event_code(BEGINS)),
    "ended": lambda: _ended(_event_code(ENDS)),
    "due": lambda: _begun(-f.col("due")),
    "expires_us": _expires,
    "receipt": lambda: f.col("receipt"),
    "receipt_us": lambda: _when(is_event("receipt"), f.col("time_us")),
    # only copies of mode ALL are widened, and those of mode ONE may share the slot, see `HANDED`
    "widened": lambda: (
        f.when(is_event("depth"), -f.col("record"))
        .when(is_event("forwarded") & f.col("final") & _own() & _one(), f.lit(HANDED))
        .when(is_event("received") & (f.col("crossing") < 0), f.lit(CAME_BACK))
    ),
    "priority": lambda: _own_first(-f.col("priority")),
    "depth": lambda: _when(is_event("published"), f.col("depth")),
    "claimed_us": lambda: _when(~_own() & first_sent(), f.col("peer_received_us")),
}

_TELLS_OF_A_COPY: Final = ("level", "begun_record", "ended_record", "widened", "claimed_us")
"""Slots of which one is filled where somebody tells of a copy but who calls another one a duplicate of it."""

_DELIVERY: Final[_Layout] = _SHARED | {
    "delivered_us": lambda: _when(is_event("delivered"), f.col("time_us")),
    "committed_us": lambda: _when(is_event("committed"), f.col("time_us")),
    "attempts": lambda: -f.col("attempt"),
    "returned": lambda: _when(is_event("returned"), f.lit(-1)),
}

_LAYOUTS: Final[Mapping[int, _Layout]] = {HOP: _HOP, COPY: _COPY, DELIVERY: _DELIVERY}

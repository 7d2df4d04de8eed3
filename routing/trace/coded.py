"""Records as they are shuffled: what each of them speaks of, and its words as numbers.

A record says something about a *hop* (from, to, attempt), about a *copy* (a message at one server), about a
*delivery* (a message for one subscription), or about two or three of these.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from routing.trace.schema import ARRIVALS, EVENTS, OUTCOMES, PASSED

HOP: Final = 0
COPY: Final = 1
DELIVERY: Final = 2

CROSSING_BITS: Final = 32
"""In the keys of hops the number of a crossing, from 0, stands above these bits of the attempt."""

RECEIPT_BITS: Final = 31
"""A receipt X/Y travels as one number, Y in this many bits and X above them."""

EVENT_CODES: Final = {word: code for code, word in enumerate((*EVENTS, "passed"), start=1)}

_NEEDED: Final = (
    *("smuid", "server", "peer", "subscription", "pattern", "topic", "event", "outcome", "mode", "attempt"),
    *("record", "time_us", "depth", "size", "priority", "guarantee", "final", "sent_us", "peer_received_us"),
    *("peer_sent_us", "acknowledged_us", "due", "expires_us", "receipt", "reason"),
)


def needed(records: DataFrame, incomplete: Collection[str], by: Sequence[str]) -> DataFrame:
    """What is needed of the records of messages, and of what the Hops of others prove; see `facts.facts`."""
    level = f.size(f.coalesce("hops", f.array().cast("array<string>")))
    slim = records.where((f.col("event") != "heartbeat") & (f.col("smuid") != "")).select(
        *by, *_NEEDED, level.cast("long").alias("level"), _crossing(level).alias("crossing")
    )
    slim = slim.withColumn("pattern", f.coalesce("pattern", f.lit("")))
    return slim.unionByName(_passed(records, incomplete)) if incomplete else slim


def _passed(records: DataFrame, incomplete: Collection[str]) -> DataFrame:
    """The hops into `incomplete` servers that later records' Hops prove, as records of event `passed`.

    Without a peer where the server is the first of the Hops: it had the message, and nobody sent it.
    """
    wanted = list(incomplete)
    path = records.where(f.col("event").isin("received", "depth", "duplicate", "loop") & (f.size("hops") > 0))
    before = f.concat(f.array(f.lit("")), f.slice("hops", f.lit(1), f.size("hops") - 1))
    steps = f.arrays_zip(before.alias("f"), f.col("hops").alias("t"))
    found = path.select(
        "smuid", "topic", "mode", "guarantee", "size", f.posexplode(steps).alias("position", "step")
    ).where(f.col("step.t").isin(wanted) & f.col("step.f").isNotNull())
    zero = f.lit(0).cast("long")
    blanks = {
        name: zero for name in _NEEDED if name.endswith("_us") or name in ("record", "depth", "priority")
    }
    columns = blanks | {
        "smuid": f.col("smuid"),
        "server": f.col("step.t"),
        "peer": f.col("step.f"),
        "subscription": f.lit(""),
        "pattern": f.lit(""),
        "topic": f.col("topic"),
        "event": f.lit("passed"),
        "outcome": f.lit(""),
        "mode": f.col("mode"),
        "attempt": f.lit(0),
        "size": f.col("size"),
        "guarantee": f.col("guarantee"),
        "final": f.lit(False),
        "due": f.lit(None).cast("int"),
        "receipt": f.lit(""),
        "reason": f.lit(""),
    }
    level = f.col("position").cast("long").alias("level")
    return found.select(*(columns[name].alias(name) for name in _NEEDED), level, f.lit(1).alias("crossing"))


def _crossing(level: Column) -> Column:
    """Which crossing of the link the record tells of: its sender says so, and at its end the Hops do.

    Negative where they also say that the message, of mode ONE, was at this server before.
    """
    arrived = f.when(level < 3, f.lit(1)).otherwise(times_crossed("hops", "peer", "server") + 1)
    came_back = (f.col("mode") == "ONE") & f.array_contains("hops", f.col("server"))
    arrived = f.when(came_back, -arrived).otherwise(arrived)
    return f.when(f.col("event") == "forwarded", f.coalesce("crossing", f.lit(0))).otherwise(arrived)


def times_crossed(hops: str, sender: str, receiver: str) -> Column:
    """How often a message went over a link between the servers in these columns, as Hops in another tell."""
    return f.size(
        f.filter(hops, lambda name, at: (name == f.col(sender)) & (f.get(hops, at + 1) == f.col(receiver)))
    )


def crossing() -> Column:
    """The crossing of its link that a forwarded or received record tells of, from 1, as `hops` has it."""
    level = f.size(f.coalesce("hops", f.array().cast("array<string>")))
    unnumbered = (f.col("event") == "forwarded") & (f.coalesce("mode", f.lit("")) == "ONE")
    unnumbered &= f.coalesce("crossing", f.lit(0)) == 0
    return f.when(~unnumbered, f.greatest(f.abs(_crossing(level)), f.lit(1)))


def coded(slim: DataFrame) -> DataFrame:
    """The words of records as numbers, before they are shuffled and looked at once for each slot.

    outcome: null unless forwarded, `PASSED` where the peer did not say; traits: minus 1 for unguaranteed,
    minus 2 for mode ONE, minus 4 or 8 where a receipt ONE or ALL was asked for; receipt: X and Y in one
    number, null where it is none.
    """
    parts = f.split("receipt", "/")
    x, y = f.get(parts, f.lit(0)).try_cast("int"), f.get(parts, f.lit(1)).try_cast("int")
    packed = f.when((x >= 0) & (y >= 0), f.shiftleft(x.cast("long"), RECEIPT_BITS) + y)
    outcome = f.coalesce(number_of(f.col("outcome"), OUTCOMES), f.lit(PASSED))
    one = f.when(f.col("mode") == "ONE", 2).otherwise(0)
    asked = f.when(f.col("receipt") == "ONE", 4).when(f.col("receipt") == "ALL", 8).otherwise(0)
    new = {
        "event": number_of(f.col("event"), EVENT_CODES),
        "outcome": f.when(f.col("event") == "forwarded", outcome),
        "receipt": f.when(f.col("event") == "receipt", packed),
        "traits": -(asked + one + f.when(f.col("guarantee"), 0).otherwise(1)),
        "turned_away": (f.col("event") == "duplicate") & (f.coalesce("reason", f.lit("")) != ""),
    }
    return slim.withColumns(new).drop("mode", "guarantee", "reason")


def keys() -> Column:
    """What the record speaks of: one to three of hop, copy and delivery."""
    peer, server = f.col("peer"), f.col("server")
    none = f.lit(0).cast("long")

    def key(kind: int, a: Column, b: Column, attempt: Column) -> Column:
        fields = (f.lit(kind).alias("kind"), a.alias("a"), b.alias("b"), attempt.alias("attempt"))
        return f.struct(*fields)

    # earlier versions gave unguaranteed copies no number; they are sent once
    unguaranteed = f.col("traits") % 2 != 0
    attempt = f.when(unguaranteed, f.greatest("attempt", f.lit(1))).otherwise(f.col("attempt"))
    before = f.greatest(f.abs("crossing") - 1, f.lit(0)).cast("long")
    above = f.shiftleft(before, CROSSING_BITS)
    sent = key(HOP, server, peer, above + attempt)
    arrived = key(HOP, peer, server, above + f.col("attempt"))
    copy = key(COPY, server, f.col("topic"), none)
    # one account, channel and name may subscribe to a topic and to patterns; no pattern has a space in it
    subscribed = f.concat("subscription", f.lit(" "), "pattern")
    delivery = key(DELIVERY, server, subscribed, none)
    linked = (peer != "") & is_event(*ARRIVALS, "passed")
    handed = (f.col("subscription") != "") & is_event("delivered", "committed", "returned")
    claimed = key(COPY, peer, f.col("topic"), none)
    first = f.when(is_event("forwarded"), sent).when(linked, arrived).when(handed, delivery).otherwise(copy)
    # An unguaranteed copy was handed over without an answer: nobody claims to have it.
    unanswered = (f.col("outcome") == PASSED) & unguaranteed
    accepted = first_sent() & ~unanswered
    # who had it before has had it, though no record may be left of who brought it there
    had_it = accepted | f.col("outcome").isin(OUTCOMES["depth"], OUTCOMES["duplicate"])
    also = linked | handed | is_event("forwarded")
    return (
        f.when(had_it & f.col("final"), f.array(first, claimed, copy))
        .when(had_it, f.array(first, claimed))
        .when(f.col("turned_away"), f.array(first, copy))
        .when(also & (f.col("final") | is_event("received", "depth", "passed")), f.array(first, copy))
        .otherwise(f.array(first))
    )


def number_of(column: Column, codes: Mapping[Any, int]) -> Column:
    """The number of a word; null where it has none."""
    chain = f.lit(None).cast("int")
    for word, code in reversed(list(codes.items())):
        chain = f.when(column == word, f.lit(code)).otherwise(chain)
    return chain


def is_event(*events: str) -> Column:
    """Whether a coded record is one of these events."""
    return f.col("event").isin(*(EVENT_CODES[event] for event in events))


def first_sent() -> Column:
    """Whether a coded record tells of a copy that its peer took, or that it was handed without an answer."""
    return f.col("outcome").isin(OUTCOMES["accepted"], PASSED)

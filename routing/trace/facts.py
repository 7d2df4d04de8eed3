"""The one large aggregation: all records of a message, paired into hops, copies and deliveries.

Every record says something about a *hop* (from, to, attempt), about a *copy* (a message at one server), about
a *delivery* (a message for one subscription), or about two of these. After one repartition by Smuid a single
`groupBy` brings together what the two ends of a hop, or the beginning and the end of a copy, have written.

All that is kept is a smallest or greatest number: these do not change when a log is read twice, and Spark
aggregates them in place. The three kinds share one set of numbered slots, because the width of the
aggregation buffer is what the job's time is made of; a greatest number is kept as the smallest negative one.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from routing import hop_words
from routing.trace.schema import ARRIVALS, ENDS, EVENTS, OUTCOMES, PASSED
from routing.trace.session import spread

HOP: Final = 0
COPY: Final = 1
DELIVERY: Final = 2

BEGINS: Final = {word: code for code, word in enumerate(hop_words.BEGINS, start=1)}

TURNED_AWAY: Final = len(BEGINS) + 1
"""In the place of a beginning: its server took none, and has said why."""

CROSSING_BITS: Final = 32
"""In the keys of hops the number of a crossing, from 0, stands above these bits of the attempt."""

HANDED: Final = -1
CAME_BACK: Final = -2
"""What is known of a copy of mode ONE: it was handed on; its Hops say that it was at this server before."""

RECEIPT_BITS: Final = 31
"""A receipt X/Y travels as one number, Y in this many bits and X above them."""

_Layout = dict[str, Callable[[], Column]]

_NEEDED: Final = (
    *("smuid", "server", "peer", "subscription", "pattern", "topic", "event", "outcome", "mode", "attempt"),
    *("record", "time_us", "depth", "size", "priority", "guarantee", "final", "sent_us", "peer_received_us"),
    *("peer_sent_us", "acknowledged_us", "due", "expires_us", "receipt", "reason"),
)


def facts(
    records: DataFrame,
    incomplete: Collection[str] = (),
    by: Sequence[str] = (),
    *,
    shortened: Collection[str] = (),
) -> DataFrame:
    """Records to one row for each hop, copy and delivery.

    `incomplete`: servers whose log has gaps or is absent; for these the Hops of other servers' records are
    read as well. `shortened`: those whose first records were not read; they, too, may have had what they
    turned away later. `by`: columns to group by besides, such as a stream's window. Returns `by`, `smuid`,
    `kind` (HOP, COPY, DELIVERY), `a`, `b`, `attempt` and the slots `s0` ...; `named` gives them their names.
    Partitioned by Smuid.
    """
    level = f.size(f.coalesce("hops", f.array().cast("array<string>")))
    slim = records.where((f.col("event") != "heartbeat") & (f.col("smuid") != "")).select(
        *by, *_NEEDED, level.cast("long").alias("level"), _crossing(level).alias("crossing")
    )
    slim = slim.withColumn("pattern", f.coalesce("pattern", f.lit("")))
    if incomplete:
        slim = slim.unionByName(_passed(records, incomplete))
    keyed = spread(_coded(slim), "smuid").withColumn("key", f.explode(_keys()))
    kind = f.col("key.kind")
    slots = []
    layouts = (list(_HOP.values()), list(_COPY.values()), list(_DELIVERY.values()))
    for number in range(max(map(len, layouts))):
        value = f.lit(None).cast("long")
        for code, layout in enumerate(layouts):
            if number < len(layout):
                value = f.when(kind == code, layout[number]()).otherwise(value)
        slots.append(f.min(value.cast("long")).alias(f"s{number}"))
    found = keyed.groupBy(
        *by,
        "smuid",
        kind.alias("kind"),
        f.col("key.a").alias("a"),
        f.col("key.b").alias("b"),
        f.col("key.attempt").alias("attempt"),
    ).agg(*slots)
    # whoever turned it away for a reason, as one that was removed, may be called one that has had it; whether
    # it had is known where all of its log was read
    unsure = f.col("a").isin(sorted({*incomplete, *shortened}))
    told = f.coalesce(*(f.col(f"s{list(_COPY).index(name)}") for name in _TELLS_OF_A_COPY))
    turned_away = (f.col("kind") == COPY) & (f.col(f"s{list(_COPY).index('begun')}") == TURNED_AWAY)
    return found.where(~f.coalesce(turned_away & told.isNull() & ~unsure, f.lit(False)))


def named(facts: DataFrame, by: Sequence[str] = ()) -> DataFrame:
    """The slots by their names, those of hops, copies and deliveries side by side; null in rows of others.

    `by` as in `facts`; smuid, kind, and the columns of `hops`, `copies` and `deliveries`.
    """
    kind = f.col("kind")
    shared, of_kinds = _columns()
    return facts.select(
        *by,
        "smuid",
        "kind",
        f.when(kind != HOP, f.col("a")).alias("server"),
        *(column.alias(name) for name, column in shared.items()),
        *(
            f.when(kind == code, column).alias(name)
            for code, columns in of_kinds.items()
            for name, column in columns.items()
        ),
    )


def hops(facts: DataFrame) -> DataFrame:
    """One row for each hop and attempt that some log tells of.

    smuid, `from`, `to` string; attempt int (0 where only the Hops of a later record tell of the copy);
    crossing int, which one of this link by this message, from 1 (null where its sender does not say);
    sent_us, acked_us by from's clock, received_us, answered_us by to's clock (long, null where unknown);
    arrival, outcome int (`schema.KINDS`; what the receiver's log and the acknowledgement say, null where they
    are silent); level long, hops from the origin; bytes long; one, unguaranteed bool; sent_logged,
    received_logged bool, which ends are in the logs.
    """
    names = (
        *("smuid", "from", "to", "attempt", "crossing", "sent_us", "received_us", "answered_us", "acked_us"),
        *("arrival", "outcome", "level", "bytes", "one", "unguaranteed", "sent_logged", "received_logged"),
    )
    return _of_kind(facts, HOP, names)


def copies(facts: DataFrame) -> DataFrame:
    """One row for each server that has had the message, by its own log or by a peer's.

    Of a peer's record it is enough that it was there before, with less depth or with as much: who brought it
    there may be told nowhere. Not so where its server, of which all records were read, turned it away as one
    that was removed.

    smuid, server, topic; begun int (1 published, 2 received, null where that record is missing), begun_us,
    begun_record, begun_last_record; ended int (`schema.ENDS`, null where no record is final), ended_us,
    ended_record, ended_last_record; due int or null; expires_us (null: none stated or unknown; -1: a state
    message); claimed_us, when it came by its own clock, as a peer's acknowledgement says (0: the peer gave no
    time; null: no acknowledgement); asked: ONE or ALL, the receipt that was asked for, null for none or
    unknown; receipt_x, receipt_y, receipt_us; widened bool, widened_record, the last of them; handed bool: it
    is of mode ONE and was handed on; came_back bool: and its Hops say that it was there before; depth int as
    published; priority; level (0 at the origin); bytes; one, unguaranteed bool.
    """
    names = (
        *("smuid", "server", "topic", "begun", "begun_us", "begun_record", "begun_last_record"),
        *("ended", "ended_us", "ended_record", "ended_last_record", "due", "expires_us", "claimed_us"),
        *("asked", "receipt_x", "receipt_y", "receipt_us", "widened", "widened_record", "handed"),
        *("came_back", "depth", "priority", "level", "bytes", "one", "unguaranteed"),
    )
    return _of_kind(facts, COPY, names)


def deliveries(facts: DataFrame) -> DataFrame:
    """One row for each subscription that the message was handed to.

    smuid, server, subscription; pattern that it is to ("" where it is to the topic itself); delivered_us,
    committed_us (null: not yet, or that record is missing); attempts int; returned bool; one, unguaranteed
    bool.
    """
    names = (
        *("smuid", "server", "subscription", "pattern", "delivered_us", "committed_us", "attempts"),
        "returned",
        *("one", "unguaranteed"),
    )
    return _of_kind(facts, DELIVERY, names)


def _of_kind(facts: DataFrame, kind: int, names: Sequence[str]) -> DataFrame:
    shared, of_kinds = _columns()
    columns = {"smuid": f.col("smuid"), "server": f.col("a")} | shared | of_kinds[kind]
    return facts.where(f.col("kind") == kind).select(*(columns[name].alias(name) for name in names))


def _columns() -> tuple[dict[str, Column], dict[int, dict[str, Column]]]:
    """The slots by their names: those that all kinds share, and by kind those that mean something else."""
    at = {
        kind: {name: f.col(f"s{number}") for number, name in enumerate(layout)}
        for kind, layout in ((HOP, _HOP), (COPY, _COPY), (DELIVERY, _DELIVERY))
    }
    traits = -f.coalesce(at[HOP]["traits"], f.lit(0))
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
        "depth": at[COPY]["depth"].cast("int"),
        "priority": (-at[COPY]["priority"]).cast("int"),
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
        "bytes": -at[HOP]["bytes"],
        "one": traits % 4 >= 2,
        "unguaranteed": traits % 2 == 1,
    }
    return shared, {HOP: of_hops, COPY: of_copies, DELIVERY: of_deliveries}


def _keys() -> Column:
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
    crossing = f.shiftleft(before, CROSSING_BITS)
    sent = key(HOP, server, peer, crossing + attempt)
    arrived = key(HOP, peer, server, crossing + f.col("attempt"))
    copy = key(COPY, server, f.col("topic"), none)
    # one account, channel and name may subscribe to a topic and to patterns; no pattern has a space in it
    subscribed = f.concat("subscription", f.lit(" "), "pattern")
    delivery = key(DELIVERY, server, subscribed, none)
    linked = (peer != "") & _is(*ARRIVALS, "passed")
    handed = (f.col("subscription") != "") & _is("delivered", "committed", "returned")
    claimed = key(COPY, peer, f.col("topic"), none)
    first = f.when(_is("forwarded"), sent).when(linked, arrived).when(handed, delivery).otherwise(copy)
    # An unguaranteed copy was handed over without an answer: nobody claims to have it.
    unanswered = (f.col("outcome") == PASSED) & unguaranteed
    accepted = _first_sent() & ~unanswered
    # who had it before has had it, though no record may be left of who brought it there
    had_it = accepted | f.col("outcome").isin(OUTCOMES["depth"], OUTCOMES["duplicate"])
    also = linked | handed | _is("forwarded")
    return (
        f.when(had_it & f.col("final"), f.array(first, claimed, copy))
        .when(had_it, f.array(first, claimed))
        .when(f.col("turned_away"), f.array(first, copy))
        .when(also & (f.col("final") | _is("received", "depth", "passed")), f.array(first, copy))
        .otherwise(f.array(first))
    )


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
    again = f.filter(
        "hops", lambda name, at: (name == f.col("peer")) & (f.get("hops", at + 1) == f.col("server"))
    )
    arrived = f.when(level < 3, f.lit(1)).otherwise(f.size(again) + 1)
    came_back = (f.col("mode") == "ONE") & f.array_contains("hops", f.col("server"))
    arrived = f.when(came_back, -arrived).otherwise(arrived)
    return f.when(f.col("event") == "forwarded", f.coalesce("crossing", f.lit(0))).otherwise(arrived)


def crossing() -> Column:
    """Which crossing of its link a forwarded or received record tells of, from 1, as `hops` has it."""
    level = f.size(f.coalesce("hops", f.array().cast("array<string>")))
    unnumbered = (f.col("event") == "forwarded") & (f.coalesce("mode", f.lit("")) == "ONE")
    unnumbered &= f.coalesce("crossing", f.lit(0)) == 0
    return f.when(~unnumbered, f.greatest(f.abs(_crossing(level)), f.lit(1)))


def _coded(slim: DataFrame) -> DataFrame:
    """The words of a record as numbers, before they are shuffled and looked at once for each slot.

    outcome: null unless forwarded, `PASSED` where the peer did not say; traits: minus 1 for unguaranteed,
    minus 2 for mode ONE, minus 4 or 8 where a receipt ONE or ALL was asked for; receipt: X and Y in one
    number, null where it is none.
    """
    parts = f.split("receipt", "/")
    x, y = f.get(parts, f.lit(0)).try_cast("int"), f.get(parts, f.lit(1)).try_cast("int")
    packed = f.when((x >= 0) & (y >= 0), f.shiftleft(x.cast("long"), RECEIPT_BITS) + y)
    outcome = f.coalesce(_code(f.col("outcome"), OUTCOMES), f.lit(PASSED))
    one = f.when(f.col("mode") == "ONE", 2).otherwise(0)
    asked = f.when(f.col("receipt") == "ONE", 4).when(f.col("receipt") == "ALL", 8).otherwise(0)
    new = {
        "event": _code(f.col("event"), _EVENT_CODES),
        "outcome": f.when(f.col("event") == "forwarded", outcome),
        "receipt": f.when(f.col("event") == "receipt", packed),
        "traits": -(asked + one + f.when(f.col("guarantee"), 0).otherwise(1)),
        "turned_away": (f.col("event") == "duplicate") & (f.coalesce("reason", f.lit("")) != ""),
    }
    return slim.withColumns(new).drop("mode", "guarantee", "reason")


def _event_code(codes: Mapping[str, int]) -> Column:
    return _code(f.col("event"), {_EVENT_CODES[word]: code for word, code in codes.items()})


def _code(column: Column, codes: Mapping[Any, int]) -> Column:
    chain = f.lit(None).cast("int")
    for word, code in reversed(list(codes.items())):
        chain = f.when(column == word, f.lit(code)).otherwise(chain)
    return chain


def _when(condition: Column, value: Column) -> Column:
    return f.when(condition, value)


def _is(*events: str) -> Column:
    return f.col("event").isin(*(_EVENT_CODES[event] for event in events))


def _first_sent() -> Column:
    return f.col("outcome").isin(OUTCOMES["accepted"], PASSED)


def _stamp(name: str) -> Column:
    return _when(_first_sent() & (f.col(name) > 0), f.col(name))


def _arrival() -> Column:
    return _event_code({**ARRIVALS, "passed": PASSED})


def _own() -> Column:
    """The copy is the writer's own and not the peer's that its forward tells of."""
    return f.col("key.a") == f.col("server")


def _one() -> Column:
    return -f.col("traits") % 4 >= 2


def _begun(value: Column) -> Column:
    return _when(_is(*BEGINS), value)


def _ended(value: Column) -> Column:
    return _when(f.col("final") & _own(), value)


def _expires() -> Column:
    return _when(_is(*BEGINS) & (f.col("expires_us") != 0), f.col("expires_us"))


def _acknowledged() -> Column:
    """When the answer came; earlier versions tell only when that was written, which may be much later."""
    return f.when(f.col("acknowledged_us") > 0, f.col("acknowledged_us")).otherwise(f.col("time_us"))


_EVENT_CODES: Final = {word: code for code, word in enumerate((*EVENTS, "passed"), start=1)}

_SHARED: Final[_Layout] = {
    "traits": lambda: f.col("traits"),
    "bytes": lambda: -f.col("size"),
    "level": lambda: f.when(_is("published"), 0).when(_is("received", "passed"), f.col("level")),
}
"""What all kinds have stands in the same slots of each."""

_HOP: Final[_Layout] = _SHARED | {
    "received_us": lambda: _when(_is("received"), f.col("time_us")),
    "sent_us": lambda: _stamp("sent_us"),
    "acked_us": lambda: _when(_first_sent(), _acknowledged()),
    "peer_received_us": lambda: _stamp("peer_received_us"),
    "peer_sent_us": lambda: _stamp("peer_sent_us"),
    "arrival": _arrival,
    "outcome": lambda: f.col("outcome"),
    "unnumbered": lambda: _when(_is("forwarded") & _one() & (f.col("crossing") == 0), f.lit(1)),
}

_COPY: Final[_Layout] = _SHARED | {
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
    "receipt_us": lambda: _when(_is("receipt"), f.col("time_us")),
    # only copies of mode ALL are widened, and those of mode ONE may share the slot, see `HANDED`
    "widened": lambda: (
        f.when(_is("depth"), -f.col("record"))
        .when(_is("forwarded") & f.col("final") & _own() & _one(), f.lit(HANDED))
        .when(_is("received") & (f.col("crossing") < 0), f.lit(CAME_BACK))
    ),
    "priority": lambda: -f.col("priority"),
    "depth": lambda: _when(_is("published"), f.col("depth")),
    "claimed_us": lambda: _when(~_own() & _first_sent(), f.col("peer_received_us")),
}

_TELLS_OF_A_COPY: Final = ("level", "begun_record", "ended_record", "widened", "claimed_us")
"""Slots of which one is filled where somebody tells of a copy but who calls another one a duplicate of it."""

_DELIVERY: Final[_Layout] = _SHARED | {
    "delivered_us": lambda: _when(_is("delivered"), f.col("time_us")),
    "committed_us": lambda: _when(_is("committed"), f.col("time_us")),
    "attempts": lambda: -f.col("attempt"),
    "returned": lambda: _when(_is("returned"), f.lit(-1)),
}

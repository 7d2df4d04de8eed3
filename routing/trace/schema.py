"""What a line of a hop log looks like to Spark, and the small codes that the jobs count in.

`routing.hops.HopRecord` is the record; a field that is absent from a line has the default given there. The
record's numbers are 64 bits wide and its time is UTC microseconds. Events and outcomes become small integers
because Spark aggregates numbers in place and strings only after a sort. The order of the codes matters:
where several records say what became of a copy, the smallest code is the one that counts.
"""

from typing import Final

from pyspark.sql import types as t

from routing import hop_words

VERSIONS_READ: Final = (1, 1)
"""First and last record version that these jobs understand; a newer one is set aside, not guessed at."""

NAME_CHARS_MAX: Final = 512
"""Server names are host:port, system topics `account:channel@host`: 64 + 64 + 261 and two signs at most."""

HOPS_MAX: Final = 4_096

LONG_MAX: Final = 1 << 53
INT_MAX: Final = 1 << 30
SIZE_MAX: Final = 1 << 40
"""Numbers of a record: what is larger no daemon writes, and sums of it end a job."""

FROM_MINUS_ONE: Final = ("depth", "expires_us")
"""All other numbers of a record begin with zero."""

EARLIEST_US: Final = 1_577_836_800_000_000
"""2020-01-01: no hop log is older, so an earlier time is a wrong one."""

HOUR_US: Final = 3_600_000_000
DAY_US: Final = 24 * HOUR_US

SMUID_PATTERN: Final = rf"^{hop_words.SMUID_IN_LOGS}\z"

EVENTS: Final = (
    "published",
    "received",
    "forwarded",
    "delivered",
    "committed",
    "returned",
    "expired",
    "removed",
    "dead",
    "duplicate",
    "loop",
    "depth",
    "denied",
    "dropped",
    "receipt",
    "heartbeat",
    "arrived",
)

ARRIVALS: Final = {"received": 1, "depth": 2, "duplicate": 3, "loop": 4, "denied": 5, "dropped": 6}
"""What a server did with a copy that a peer sent, as its own log says it."""

OUTCOMES: Final = {"accepted": 1, "depth": 2, "duplicate": 3, "loop": 4, "denied": 5}
"""The same as the acknowledgement says it in the sender's log; one scale with `ARRIVALS`."""

PASSED: Final = 7
"""A copy went over this link, as the Hops of a later record say; what became of it there is not known."""

SENT: Final = 8
"""An unguaranteed copy was handed to this link; no log that was read says that it came."""

KINDS: Final = {
    1: "accepted",
    2: "depth",
    3: "duplicate",
    4: "loop",
    5: "denied",
    6: "dropped",
    7: "passed",
    8: "sent",
}

ENDS: Final = {word: code for code, word in enumerate(hop_words.ENDS, start=1)}
"""The event whose record carried `final`; of a copy that was handed on and came back, what followed."""

RECORD: Final = t.StructType(
    [
        t.StructField("version", t.IntegerType()),
        t.StructField("server", t.StringType()),
        t.StructField("boot", t.LongType()),
        t.StructField("record", t.LongType()),
        t.StructField("time_us", t.LongType()),
        t.StructField("event", t.StringType()),
        t.StructField("smuid", t.StringType()),
        t.StructField("topic", t.StringType()),
        t.StructField("peer", t.StringType()),
        t.StructField("account", t.StringType()),
        t.StructField("subscription", t.StringType()),
        t.StructField("pattern", t.StringType()),
        t.StructField("mode", t.StringType()),
        t.StructField("depth", t.IntegerType()),
        t.StructField("attempt", t.IntegerType()),
        t.StructField("crossing", t.IntegerType()),
        t.StructField("hops", t.ArrayType(t.StringType())),
        t.StructField("size", t.LongType()),
        t.StructField("priority", t.IntegerType()),
        t.StructField("guarantee", t.BooleanType()),
        t.StructField("final", t.BooleanType()),
        t.StructField("reason", t.StringType()),
        t.StructField("receipt", t.StringType()),
        t.StructField("outcome", t.StringType()),
        t.StructField("sent_us", t.LongType()),
        t.StructField("peer_received_us", t.LongType()),
        t.StructField("peer_sent_us", t.LongType()),
        t.StructField("acknowledged_us", t.LongType()),
        t.StructField("due", t.IntegerType()),
        t.StructField("expires_us", t.LongType()),
        t.StructField("held", t.LongType()),
        t.StructField("destinations", t.ArrayType(t.StringType())),
        t.StructField("previous", t.LongType()),
    ]
)
"""`HopRecord`, field for field; a test keeps the two together."""

CLOSING_BEGINS: Final = '{"event":"closed",'
"""The line that closes a file (`routing.hops.Closing`) and no other begins so."""

ASIDE: Final = t.StructType(
    [
        t.StructField("file", t.StringType()),
        t.StructField("reason", t.StringType()),
        t.StructField("server", t.StringType()),
        t.StructField("line", t.StringType()),
    ]
)
"""A line that is no record: where it stood, why it was set aside, and its first 500 characters."""

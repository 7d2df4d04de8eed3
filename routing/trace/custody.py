"""Messages of mode ONE have one custodian at a time, and receipts say what the logs show."""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from routing.trace import jumps
from routing.trace.schema import ENDS
from routing.trace.session import kept

FEWER_DUE: Final = "fewer due than the servers counted"
"""Of a receipt ALL: a timeout may have cut it short, and by a clock that was set back be still to come."""


def custody(routes: DataFrame, vanished: DataFrame | None = None) -> DataFrame:
    """One row for each message of mode ONE; `vanished` as from `vanished.proven_vanished`.

    smuid, day, topic, origin; path: array of the servers that have had it, first to last; state: finished,
    held, handed over (to a server whose part is not known), lost, log missing, or gone, without a guarantee,
    with its holder or on a link;
    custodian: who holds it, or who finished it, null where that is not known; custodians: how many hold or
    finished it at once, of which more than one is a broken promise, and said only where the logs of all its
    copies are whole, and that of a server that handed it on too often tells of each time; committed:
    subscriptions.
    """
    copies = f.col("copies")
    first = f.filter("hops", lambda h: h["kind"] == "accepted")
    senders = f.transform(first, lambda h: h["from"])
    receivers = f.concat(f.array("origin"), f.transform(first, lambda h: h["to"]))
    # Until the answer has come the sender of a copy holds it as well; it is its custodian no more.
    holders = f.filter(
        copies,
        lambda c: (c["state"] == "held") & (_times(senders, c["server"]) < _times(receivers, c["server"])),
    )
    finishers = f.filter(copies, lambda c: (c["state"] == "finished") & (c["ended"] != ENDS["forwarded"]))
    # A timeout or a removal may end the copies on both sides of a link that a handover is on.
    takers = f.filter(finishers, lambda c: c["ended"].isin(ENDS["committed"], ENDS["delivered"]))
    # Whoever has handed on more often than it was given the message has made two custodians of one.
    surplus = f.transform(f.array_distinct(senders), lambda s: _times(senders, s) - _times(receivers, s))
    split = f.aggregate(surplus, f.lit(0), lambda total, more: total + f.greatest(more, f.lit(0)))
    # A handover whose records are in a gap, or not written yet, would make one custodian look like two.
    splitting = f.filter(f.array_distinct(senders), lambda s: _times(senders, s) > _times(receivers, s))
    known = _agreed() & f.forall(splitting, lambda s: _split_is_known(first, s))
    gone = _any("gone")
    if vanished is not None:
        known_gone = vanished.select("smuid").distinct().withColumn("vanished", f.lit(True))
        routes = routes.join(known_gone, "smuid", "left")
        gone |= f.coalesce("vanished", f.lit(False))
    several = f.greatest(f.size("owners"), f.least(f.lit(1), f.size("last")) + split)
    ordered = f.array_sort(
        f.transform(copies, lambda c: f.struct(c["level"].alias("level"), c["server"].alias("server")))
    )
    return (
        routes.where(f.col("mode") == "ONE")
        .withColumns({"owners": f.concat(holders, takers), "last": f.concat(holders, finishers)})
        .select(
            "smuid",
            "day",
            "topic",
            "origin",
            f.transform(ordered, lambda c: c["server"]).alias("path"),
            f.when(f.size("last") > 0, f.get("last", f.lit(0))["state"])
            .when(_any("lost"), "lost")
            .when(_any("log missing") | _any("unknown"), "log missing")
            .when(gone, "gone")
            .otherwise("handed over")
            .alias("state"),
            f.when(f.size("owners") == 1, f.get("owners", f.lit(0))["server"])
            .when((f.size("owners") == 0) & (f.size("last") == 1), f.get("last", f.lit(0))["server"])
            .alias("custodian"),
            f.when(known, several).otherwise(f.least(several, f.lit(1))).alias("custodians"),
            "committed",
        )
    )


def receipts(routes: DataFrame, records: DataFrame) -> DataFrame:
    """One row for each message whose receipt was sent. Runs a job, and where one counts fewer than were due
    another over the `records` of its server.

    smuid, day, topic, origin, mode; asked: ONE or ALL, null where that record is missing; x, y as the receipt
    says; had: subscriptions that have it, as the logs show (committed, or handed over where nothing is
    acknowledged); due: what the servers counted when they routed it, null where one does not say; verdict:
    right, wrong, or unknown where a log that counts is not whole, or the receipt was sent before all servers
    could have answered; why: in words, where it is wrong.

    Logs may end before what a receipt counts: that it counts too many is said only where nothing was to
    become of any copy any more. A receipt ONE counts whom it knows of when the first has the message. A
    receipt ALL that a timeout, a removal or a death cut short counts fewer than were due; a timeout may have
    cut any but those that were sent well before a stated one ended, by a clock that was never set back. What
    a server did with a copy without a guarantee may be missing in its log after a kill, so that nothing is
    wrong with a receipt that knows of more.
    """
    found = kept(_by_routes(routes))
    is_fewer = f.coalesce(f.col("why") == FEWER_DUE, f.lit(False))
    origins = {row.origin for row in found.where(is_fewer).select("origin").distinct().collect()}
    if not origins:
        return found
    is_doubted = is_fewer & f.col("origin").isin(sorted(jumps.set_back(records, origins)))
    return found.withColumns(
        {
            "verdict": f.when(is_doubted, "unknown").otherwise(f.col("verdict")),
            "why": f.when(~is_doubted, f.col("why")),
        }
    )


def _by_routes(routes: DataFrame) -> DataFrame:
    """`receipts`, as if no clock had been set back."""
    due = f.aggregate(
        f.filter("copies", lambda c: c["begun_us"].isNotNull()),
        f.lit(0).cast("long"),
        lambda total, c: total + c["due"],
    )
    one = f.col("mode") == "ONE"
    awaited = (f.col("asked") == "ALL") & ~f.col("cut_short")
    why = (
        f.when(f.col("x") > f.col("y"), "more than were due")
        .when(one & (f.col("y") > 1), "more than one for a message of mode ONE")
        .when(~f.col("known") | ~f.col("guarantee"), f.lit(None).cast("string"))
        .when(f.col("settled") & (f.col("x") > f.col("had")), "more than the logs show")
        .when(~one & f.col("settled") & (f.col("y") > f.col("due")), "more due than the servers counted")
        .when(~one & awaited & (f.col("y") < f.col("due")), FEWER_DUE)
    )
    told_all = (f.col("x") <= f.col("had")) & (one | (f.col("y") == f.col("due")) | (f.col("asked") == "ONE"))
    return (
        routes.where(f.col("receipt_x").isNotNull())
        .select(
            "smuid",
            "day",
            "topic",
            "origin",
            "mode",
            "asked",
            f.col("receipt_x").alias("x"),
            f.col("receipt_y").alias("y"),
            f.col("committed").alias("had"),
            due.alias("due"),
            (_agreed() & _all_told()).alias("known"),
            "guarantee",
            _settled().alias("settled"),
            (f.exists("copies", _cuts_short) | ~f.col("receipt_in_time")).alias("cut_short"),
        )
        .select(
            *("smuid", "day", "topic", "origin", "mode", "asked", "x", "y", "had", "due"),
            why.alias("why"),
            f.when(why.isNotNull(), "wrong")
            .when(f.col("known") & told_all, "right")
            .otherwise("unknown")
            .alias("verdict"),
        )
    )


def _agreed() -> Column:
    """Whether the logs of all copies are whole, and those of whoever brought a copy tell of that as well.

    A site alone could else have had a copy of a message that nobody sent there.
    """
    whole = (f.col("state") == "complete") & f.forall("copies", lambda c: c["whole"])
    came = f.filter("hops", lambda h: h["kind"] == "accepted")
    sent = f.filter("hops", lambda h: h["sent_logged"])
    others = f.filter(f.transform("copies", lambda c: c["server"]), lambda s: s != f.col("origin"))
    brought = f.size(f.array_except(others, f.transform(came, lambda h: h["to"]))) == 0
    return whole & brought & (f.size(f.array_except(_links(came), _links(sent))) == 0)


def _links(hops: Column) -> Column:
    return f.transform(hops, lambda h: f.concat_ws("\n", h["from"], h["to"]))


def _all_told() -> Column:
    """Whether of all who have had the message a copy is known: who calls one a duplicate has had another."""
    servers = f.transform("copies", lambda c: c["server"])
    return f.forall("hops", lambda h: (h["kind"] != "duplicate") | f.array_contains(servers, h["to"]))


def _settled() -> Column:
    """Whether nobody can have had the message of whom the logs, which may end before that, do not tell.

    Each copy has ended, none of them while it may have been under way to another site, and what one log says
    was sent the other says came.
    """
    came = f.forall("hops", lambda h: ~h["sent_logged"] | h["received_logged"])
    return came & f.forall("copies", lambda c: c["settled"]) & ~f.exists("copies", _cuts_short)


def _cuts_short(copy: Column) -> Column:
    """Whether this copy may have kept a receipt from counting all; one due to nobody expires at once."""
    ended = copy["ended"]
    timed_out = (ended == ENDS["expired"]) & ((copy["due"] > 0) | (copy["server"] == f.col("origin")))
    gone = ended.isin(ENDS["removed"], ENDS["dead"])
    return f.coalesce((copy["state"] == "held") | timed_out | gone, f.lit(False))


def _split_is_known(first: Column, server: Column) -> Column:
    """Whether its own log has all that it handed on, and that it had it once, or which crossing each was.

    Where only others tell, it may have had the message back in records that are not there yet. Where it had
    the message several times and does not number the crossings of a link, several count as one.
    """

    def told(hop: Column) -> Column:
        def by_its_own(other: Column) -> Column:
            link = (other["from"] == server) & (other["to"] == hop["to"])
            # what earlier versions did not number is the first crossing
            return link & other["sent_logged"] & (_crossing(other) == _crossing(hop))

        return (hop["from"] != server) | f.exists("hops", by_its_own)

    had_once = f.exists("copies", lambda c: (c["server"] == server) & ~c["begun_again"])
    numbered = f.forall(
        first, lambda h: (h["from"] != server) | (h["sent_logged"] & h["crossing"].isNotNull())
    )
    return f.forall(first, told) & (had_once | numbered)


def _crossing(hop: Column) -> Column:
    return f.coalesce(hop["crossing"], f.lit(1))


def _times(names: Column, name: Column) -> Column:
    return f.size(f.filter(names, lambda other: other == name))


def _any(state: str) -> Column:
    return f.exists("copies", lambda c: c["state"] == state)

"""Messages of mode ONE have one custodian at a time, and receipts say what the logs show."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from routing.trace.schema import ENDS


def custody(routes: DataFrame) -> DataFrame:
    """One row for each message of mode ONE.

    smuid, day, topic, origin; path: array of the servers that have had it, first to last; state: finished,
    held, handed over (to a server whose part is not known), lost or log missing; custodian: who holds it, or
    who finished it, null where that is not known; custodians: how many hold or finished it at once, of which
    more than one is a broken promise; committed: subscriptions.
    """
    handed = ENDS["forwarded"]
    copies = f.col("copies")
    owners = f.filter(
        copies,
        lambda c: (c["state"] == "held") | ((c["state"] == "finished") & (c["ended"] != handed)),
    )
    first = f.filter("hops", lambda h: h["kind"] == "accepted")
    senders = f.transform(first, lambda h: h["from"])
    # Whoever has handed one copy to two peers has made two custodians, wherever they handed it since.
    split = f.size(senders) - f.size(f.array_distinct(senders))
    ordered = f.array_sort(
        f.transform(copies, lambda c: f.struct(c["level"].alias("level"), c["server"].alias("server")))
    )
    return (
        routes.where(f.col("mode") == "ONE")
        .withColumn("owners", owners)
        .select(
            "smuid",
            "day",
            "topic",
            "origin",
            f.transform(ordered, lambda c: c["server"]).alias("path"),
            f.when(f.size("owners") > 0, f.get("owners", f.lit(0))["state"])
            .when(_any("lost"), "lost")
            .when(_any("log missing") | _any("unknown"), "log missing")
            .otherwise("handed over")
            .alias("state"),
            f.when(f.size("owners") == 1, f.get("owners", f.lit(0))["server"]).alias("custodian"),
            f.greatest(f.size("owners"), f.least(f.lit(1), f.size("owners")) + split).alias("custodians"),
            "committed",
        )
    )


def receipts(routes: DataFrame) -> DataFrame:
    """One row for each message whose receipt was sent.

    smuid, day, topic, origin, mode; x, y as the receipt says; committed: subscriptions that the logs show;
    due: what the servers counted when they routed it, null where one does not say; verdict: right, wrong, or
    unknown where a log that counts is not whole; why: in words, where it is wrong.
    """
    due = f.aggregate(
        f.filter("copies", lambda c: c["begun_us"].isNotNull()),
        f.lit(0).cast("long"),
        lambda total, c: total + c["due"],
    )
    one = f.col("mode") == "ONE"
    why = (
        f.when(f.col("x") > f.col("y"), "more than were due")
        .when(one & (f.col("y") > 1), "more than one for a message of mode ONE")
        .when(~f.col("known"), f.lit(None).cast("string"))
        .when(f.col("x") > f.col("committed"), "more than the logs show")
        .when(~one & (f.col("y") != f.col("due")), "not what the servers counted as due")
    )
    return (
        routes.where(f.col("receipt_x").isNotNull())
        .select(
            "smuid",
            "day",
            "topic",
            "origin",
            "mode",
            f.col("receipt_x").alias("x"),
            f.col("receipt_y").alias("y"),
            "committed",
            due.alias("due"),
            (f.col("state") == "complete").alias("known"),
        )
        .withColumn("why", why)
        .withColumn(
            "verdict",
            f.when(f.col("why").isNotNull(), "wrong").when(f.col("known"), "right").otherwise("unknown"),
        )
        .drop("known")
    )


def _any(state: str) -> Column:
    return f.exists("copies", lambda c: c["state"] == state)

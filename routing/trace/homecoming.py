"""Which copies of mode ONE that came home are still there, by all of their records.

Of most copies the first and the last beginning and end tell what became of them. One that left and came home
may be back before the answer to its leaving is on record, and that answer may even come after what has ended
the copy since. By which links, and at which crossing of them, it had left the Hops tell with which it came
home: the records of those leavings do not end it, and any other that follows its last beginning does.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from routing.hop_words import BEGINS
from routing.trace.coded import times_crossed
from routing.trace.ends import came_home
from routing.trace.session import broadcast, kept


def stays(copies: DataFrame, records: DataFrame) -> DataFrame | None:
    """Whether copies are still there that came home and have an end on record after that: smuid, server,
    is_here bool; None where there are none. In logs of earlier versions, which do not number crossings, it
    cannot be told, and they are left out.

    `copies` as from `facts.copies`. Runs a job, which reads six columns of them, and where there are such
    copies the rows are made of their `records`.
    """
    after = f.col("begun_last_record") < f.col("ended_last_record")
    doubted = kept(copies.where(came_home() & after).select("smuid", "server", "begun_last_record"))
    if doubted.isEmpty():
        return None
    of_them = records.join(broadcast(doubted), ["smuid", "server"])
    begun = f.col("event").isin(*BEGINS) & (f.col("record") == f.col("begun_last_record"))
    came = (
        of_them.where(begun)
        .groupBy("smuid", "server")
        .agg(f.coalesce(f.max("hops"), f.array()).alias("home"))
    )
    ends = of_them.where(f.col("final") & (f.col("record") > f.col("begun_last_record")))
    is_forward = f.col("event") == "forwarded"
    times_left = times_crossed("home", "server", "peer")
    is_numbered = ~is_forward | (f.col("crossing") > 0)
    found = (
        ends.select("smuid", "server", "event", "peer", f.coalesce("crossing", f.lit(0)).alias("crossing"))
        .join(came, ["smuid", "server"])
        .groupBy("smuid", "server")
        .agg(
            f.bool_and(is_forward & (f.col("crossing") <= times_left)).alias("is_here"),
            f.bool_and(is_numbered).alias("is_known"),
        )
    )
    return kept(found.where("is_known").select("smuid", "server", "is_here"))

"""Which unguaranteed copies of mode ONE a link has lost, proven by record numbers and boots alone.

Such a copy has no answer. Its sender writes that it has handed it to the link, and a link keeps the order of
what has the same priority. So where its receiver has a record of one that was handed over before and of one
that was handed over after, the record of a copy that came is between these. A kill takes the last records of
a boot, whose numbers the next one uses again: only where both are of one boot, and no number is missing in
the logs of both ends, has a copy without a record not come. Of the first and the last ones of a link, of a
boot or of a log nothing is said.
"""

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f

from routing.trace.coded import crossing
from routing.trace.session import broadcast, kept

_HANDED: Final = ["smuid", "from", "to", "crossing"]
_ORDER: Final = ("record", "priority")


def proven_vanished(hops: DataFrame, records: DataFrame, coverage: DataFrame) -> DataFrame | None:
    """Those of which that is proven: smuid, from, to; None where there can be none.

    `hops` is the table. Runs a job, which reads four columns of `hops`; where only the sender tells of such a
    copy, others over the unguaranteed copies of the links of these.
    """
    silent = hops.where("kind = 'sent' and one").select("smuid", "from", "to")
    whole = coverage.where("log = 'whole'")
    for end in ("from", "to"):
        silent = silent.join(broadcast(whole.select(f.col("server").alias(end))), end)
    silent = kept(silent.select("smuid", "from", "to").distinct())
    if silent.isEmpty():
        return None
    links = broadcast(silent.select("from", "to").distinct())
    loose = records.where("not guarantee and mode = 'ONE'")
    handed = (
        loose.where("event = 'forwarded'")
        .select("smuid", f.col("server").alias("from"), f.col("peer").alias("to"), _crossing(), *_ORDER)
        .join(links, ["from", "to"], "left_semi")
        .dropDuplicates(["from", "record"])
    )
    came = (
        loose.where("event != 'forwarded' and peer != ''")
        .select("smuid", f.col("peer").alias("from"), f.col("server").alias("to"), _crossing(), "boot")
        .join(links, ["from", "to"], "left_semi")
        .groupBy(*_HANDED)
        .agg(f.min("boot").alias("boot"), f.max("boot").alias("last_boot"))
        .where("boot = last_boot")
    )
    of_link = Window.partitionBy("from", "to", "priority")

    def nearest(order: Column) -> Column:
        # what follows is taken from the end on: Spark would gather it anew for each row
        preceding = of_link.orderBy(order).rowsBetween(Window.unboundedPreceding, -1)
        return f.last("boot", ignorenulls=True).over(preceding)

    before, after = nearest(f.asc("record")), nearest(f.desc("record"))
    bracketed = handed.join(came.drop("last_boot"), _HANDED, "left").withColumns(
        {"before": before, "after": after}
    )
    return kept(
        bracketed.where("boot is null and before = after")
        .select("smuid", "from", "to")
        .join(silent, ["smuid", "from", "to"], "left_semi")
        .distinct()
    )


def _crossing() -> Column:
    """Earlier versions did not number it: it goes over a link once."""
    return f.coalesce(crossing(), f.lit(1)).alias("crossing")

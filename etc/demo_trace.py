"""The end of the demonstration: the Spark jobs over the hop logs of its sites, which prove what was shown."""

from pathlib import Path
from typing import Final

from demo_stage import Stage, promise, quote, say

BROKEN_PROMISES: Final = (
    *("lost", "stuck", "looped", "over depth", "wrong receipt", "two custodians"),
    *("begun or ended twice", "held copies differ"),
)
"""Anomalies that no fault of a machine or a cable excuses."""


def prove(stage: Stage, kept: Path, smuid: str) -> Path:
    """Rebuild every route, and show the one of a message; the page that is left."""
    say("\n11. From the hop logs of all four sites, Spark rebuilds every route and proves the balance")
    logs = [str(Path(name) / "state" / "hops") for name in stage.sites]
    tables, page = str(kept / "tables"), kept / "trace.html"
    kept.mkdir()
    summary = stage.smqpd("trace", "run", *logs, "--out", tables)
    quote(summary)
    found = next((line for line in summary.splitlines() if line.startswith("anomalies:")), "")
    promise(
        not any(kind in found for kind in BROKEN_PROMISES),
        "no message is lost, looped, too far from home, in two hands or counted wrong",
    )
    promise("; closes" in summary, "the balance closes for every site and topic")
    # Each starts a Java of its own, which takes longer than the work; so they run beside one another.
    asked = {
        "the tree of the message that had to wait for the cable": ("route", smuid),
        "what each link did": ("links",),
        "the balance: copies begun = copies finished + copies held": ("balance",),
    }
    out = ("--out", tables)
    shown = {what: stage.begin("trace", *words, *out, quiet=True) for what, words in asked.items()}
    for what, words in asked.items():
        say(f"\n  $ smqpd trace {' '.join(words)}   ({what})")
        told = stage.finish(shown[what])
        quote(told)
        if words[0] == "route":
            arrived = [site.server in told for site in stage.sites.values()]
            promise(all(arrived) and "missing" not in told, "its route is known, at all four sites")
    stage.smqpd("trace", "report", *out, "--page", str(page))
    promise(page.stat().st_size > 10_000, f"the page is written: map, links, balance and routes, in {page}")
    return page

"""How much of the truth is found where logs are missing, and whether anything false is reported.

    python -m tests.bench.trace_truth [--sites 200] [--messages 5000] [--missing 0 0.01 0.1] [--absent 0.05]

For each share of missing records: synthetic logs, the jobs over them, and the routes beside the truth. With
records missing, `absent` of the sites have no log at all, one line in ten stands twice, and clocks are up to
a day off and jump. Exits with 1 if a wrong hop was reported, or a copy called lost that was not.
"""

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Any

from routing.trace.synthetic.plan import Plan
from routing.trace.synthetic.write import generate
from tests.support.traced import NOW_US, TracedLogs


def found(traced: TracedLogs) -> dict[str, Any]:
    """Shares of the true hops and copies that were found, and how many false ones were."""
    hops = accepted = known = wrong = states = right = lost = 0
    for smuid, message in traced.messages.items():
        route = traced.routes.get(smuid, {"hops": [], "copies": []})
        true = {(a, b) for a, b, _ in message["accepted"]}
        again = {tuple(edge) for edge in message["widened"]}
        sure = {(h["from"], h["to"]) for h in route["hops"] if h["kind"] == "accepted"}
        passed = {(h["from"], h["to"]) for h in route["hops"] if h["kind"] == "passed"}
        hops += len(true)
        accepted += len(true & sure)
        known += len(true & (sure | passed))
        wrong += len(sure - true) + len(passed - true - again)
        states += len(message["states"])
        for copy in route["copies"]:
            ended = copy["state"] in ("finished", "held", "gone")
            right += ended and copy["state"] == message["states"].get(copy["server"])
            wrong += ended and copy["state"] != message["states"].get(copy["server"])
            lost += copy["state"] == "lost"
    return {
        "hops_accepted": round(accepted / hops, 4),
        "hops_known": round(known / hops, 4),
        "copies_known": round(right / states, 4),
        "wrong": wrong,
        "called_lost": lost,
        "closes": traced.summary["balance"]["closes"],
        "log_missing": traced.summary["balance"]["log_missing"],
        "records": traced.summary["logs"]["records"],
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sites", type=int, default=200)
    parser.add_argument("--messages", type=int, default=5_000)
    parser.add_argument("--missing", type=float, nargs="+", default=[0.0, 0.01, 0.1])
    parser.add_argument("--absent", type=float, default=0.05)
    chosen = parser.parse_args()
    from routing.trace import batch
    from routing.trace.session import QUICK_JAVA, open_session

    session = open_session(java_options=QUICK_JAVA)
    session.conf.set("spark.sql.codegen.wholeStage", "false")
    session.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN")
    false = 0
    for missing in chosen.missing:
        with tempfile.TemporaryDirectory(prefix="smqpd-truth-") as scratch:
            plan = Plan(sites=chosen.sites, messages=chosen.messages, topics=2 * chosen.sites)
            if missing:
                absent, odd = int(chosen.absent * chosen.sites), max(chosen.sites // 40, 1)
                plan = Plan(
                    sites=chosen.sites,
                    messages=chosen.messages,
                    topics=2 * chosen.sites,
                    missing=missing,
                    absent=absent,
                    repeated=0.1,
                    day_off=odd,
                    jumps=odd,
                )
            logs, out = Path(scratch) / "logs", f"{scratch}/tables"
            generate(plan, logs)
            summary = batch.run(session, [str(logs)], out, now_us=NOW_US)
            figures = found(TracedLogs(session, plan, logs, out, summary))
        false += figures["wrong"] + figures["called_lost"]
        print(f"{missing:6.1%} missing  " + "  ".join(f"{k} {v}" for k, v in figures.items()), flush=True)
    session.stop()
    return 1 if false else 0


if __name__ == "__main__":
    sys.exit(main())

"""Whether the trace jobs accuse falsely, where simulated sites kept every promise and logs are missing.

    python -m tests.bench.accusations [--seeds 50] [--first 0] [--at-once 50] [--in-turn] [--keep DIR]
                                      [--profile all|ways] [--cases 0:0 0.1:1 0:0:early 0:1:late,anew,parts]

Each seed is simulated (`tests.sim`: kills, power cuts, clocks that are set), and its logs are read once for
each case, under names of their own (with `--in-turn` for one case, the next seed for the next one): a share
of missing records, a number of sites without a log, and what else befell the logs (`tests.bench.spoiled`):
they end early, as those that were fetched before others, or begin late; sites were installed anew or
restored; the files were given in two runs. Those of `--at-once` seeds are read in one run of the jobs: sites
of different seeds never meet. A promise that the simulation saw kept and the jobs call broken is a false
accusation; so is a copy that is said to be finished or held and was not, and a hop that no log tells of. Into
the same logs once more faults are planted (`tests.bench.planted`), which are to be found where the logs that
prove them are all there. After each run of the jobs the counts so far are printed, and what was said wrongly
or overlooked, for which it exits with 1.
"""

import argparse
import contextlib
import json
import random
import re
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations_with_replacement, pairwise
from pathlib import Path
from typing import Any, Final, NamedTuple, get_args

import msgspec

from routing.fate import judge
from routing.hop_words import BEGINS, REFUSES
from routing.hops import HopRecord
from tests.bench.planted import Fault, plant
from tests.bench.spoiled import Case, Left, spoiled
from tests.sim.machine import WALL_BEGINS_S
from tests.sim.scenario import ScenarioProfile
from tests.sim.simulation import Outcome, simulate
from tests.support.fates import balance_state

SITES_MAX: Final = 6
NOW_US: Final = int(WALL_BEGINS_S + 86_400) * 1_000_000
HEAP_BYTES: Final = 4 << 30

MINUTE_S: Final = 60.0

UNKNOWN_S_MAX: Final = 7200.0
"""For so long after it was set nothing may be known of a clock."""

JUMP_S: Final = 0.02
"""By less than this no clock is said to have been set, and more than the doubt that is stated."""

JUMP: Final = re.compile(r"by (?P<by>-?[\d.]+) s, give or take (?P<doubt>[\d.]+) ms")

ACCUSE: Final = (
    *("lost", "stuck", "looped", "over depth", "wrong receipt", "two custodians"),
    *("begun or ended twice", "held copies differ", "clock jump"),
)


FAR_S: Final = 3600.0

WHOLE: Final = Case()
"""The case in which nothing is missing."""


class ClockSet(NamedTuple):
    """A clock that showed `at_s` was set by `by_s`."""

    at_s: float
    by_s: float


class Truth:
    """What the logs of one seed say, all of them, under the names of the sites."""

    def __init__(self, outcome: Outcome, logs: Path) -> None:
        self.outcome = outcome
        self.clocks: dict[str, list[ClockSet]] = defaultdict(list)
        for fault in outcome.scenario.faults:
            if fault.kind == "wall clock":
                earlier = self.clocks[fault.a]
                ahead_s = sum(one.by_s for one in earlier)
                earlier.append(ClockSet(WALL_BEGINS_S + fault.at + ahead_s, fault.amount))
        self.hops: set[tuple[str, str, str]] = set()
        records: dict[tuple[str, str], list[HopRecord]] = defaultdict(list)
        decoder = msgspec.json.Decoder(HopRecord)
        for line in (line for path in logs.glob("*/hops-*.jsonl") for line in path.read_bytes().splitlines()):
            if line.startswith(b'{"event":"closed"'):
                continue
            record = decoder.decode(line)
            records[record.smuid, record.server].append(record)
            # of machines that lost power these may be all that tells of a hop
            self.hops |= {(record.smuid, *step) for step in pairwise(record.hops)}
            if record.event in ("received", "depth", *REFUSES):
                self.hops.add((record.smuid, record.peer, record.server))
            elif record.event == "forwarded":
                self.hops.add((record.smuid, record.server, record.peer))
        self._records = records

    def state(self, smuid: str, server: str, until: int) -> str | None:
        """Of the copy, as its server's log has it up to a record; None where it has not begun by then."""
        of_it = [record for record in self._records[smuid, server] if record.record <= until]
        if not any(record.event in BEGINS for record in of_it):
            return None
        return balance_state(judge(sorted(of_it, key=lambda record: record.record), None))

    def has_jumped(self, server: str, jump: ClockSet, doubt_s: float) -> bool:
        """Whether it was set by as much, at once or step by step, at the time or in the hours before."""
        sets = self.clocks[server]
        for first, last in combinations_with_replacement(range(len(sets)), 2):
            run = sets[first : last + 1]
            by_s = sum(one.by_s for one in run)
            # where it was set back, what is shown later is the earlier time
            by_as_much = min(abs(by_s - jump.by_s), abs(by_s + jump.by_s)) <= doubt_s
            began_s = min(min(one.at_s, one.at_s + one.by_s) for one in run)
            ended_s = max(max(one.at_s, one.at_s + one.by_s) for one in run)
            if by_as_much and began_s - MINUTE_S <= jump.at_s <= ended_s + UNKNOWN_S_MAX:
                return True
        return False


class Told(NamedTuple):
    """What is true of the logs of one seed in one case, and how far they go."""

    truth: Truth
    left: Left


def accusations(session: Any, out: str, truths: dict[str, Told]) -> Iterator[str]:
    """Each false one, in words; `truths` by prefix of the names."""
    from routing.trace import tables

    def own(name: str) -> tuple[Truth, str]:
        prefix, _, rest = name.partition("s")
        return truths[prefix].truth, f"s{rest}"

    # of faults that were planted, and of all that follows from them, see `overlooked`
    simulated = "not startswith(server, 'p')"
    for row in tables.read(session, out, "anomalies").where(f"kind in {ACCUSE} and {simulated}").collect():
        truth, server = own(row.server)
        if row.kind != "clock jump" or not _has_jumped(truth, server, row):
            yield f"{row.kind}: {row.server} {row.smuid or ''} {row.detail}"
    said = tables.read(session, out, "copies").where(f"state in ('finished', 'held') and {simulated}")
    # what was handed on is finished here, and whether it came home again the records that are missing know
    logs = tables.read(session, out, "coverage").select("server", "complete_from")
    known = said.join(logs, "server").where("not handed or ended_last_record >= complete_from")
    for row in known.collect():
        truth, server = own(row.server)
        until = truths[row.server.partition("s")[0]].left.until
        true = truth.state(own(row.smuid)[1], server, until[server])
        if true is not None and true != row.state:
            yield f"copy called {row.state}, was {true}: {row.smuid} at {row.server}"
    for row in (
        tables.read(session, out, "hops").where("kind != 'sent' and not startswith(`to`, 'p')").collect()
    ):
        truth, sender = own(row["from"])
        if (own(row.smuid)[1], sender, own(row.to)[1]) not in truth.hops:
            yield f"hop that was none: {row.smuid} from {row['from']} to {row.to} ({row.kind})"


def clocks_set_far(session: Any, out: str, whole: dict[str, Truth]) -> dict[str, int]:
    """How many sites had their clock set by `FAR_S`, and of how many that is told."""
    from routing.trace import tables

    told = {
        row.server for row in tables.read(session, out, "anomalies").where("kind = 'clock jump'").collect()
    }
    names = {
        f"{prefix}{site}"
        for prefix, truth in whole.items()
        for site, sets in truth.clocks.items()
        if any(abs(one.by_s) >= FAR_S for one in sets)
    }
    return {"set": len(names), "told": len(names & told)}


def overlooked(session: Any, out: str, planted: dict[str, list[Fault]]) -> Iterator[str]:
    """Each fault, by prefix of the names, that its proof is there for and that nothing is said of."""
    from routing.trace import tables

    found = {(row.kind, row.smuid) for row in tables.read(session, out, "anomalies").collect()}
    for prefix, faults in planted.items():
        for fault in faults:
            if (fault.kind, f"{prefix}{fault.smuid}") not in found:
                yield f"overlooked: {fault.kind} {prefix}{fault.smuid}"


def _has_jumped(truth: Truth, server: str, row: Any) -> bool:
    told = JUMP.search(row.detail)
    assert told is not None, row.detail
    jump = ClockSet(row.time_us / 1e6, float(told["by"]))
    # told against the median of all clocks, which moves with those of others
    others_s = sum(abs(one.by_s) for name, sets in truth.clocks.items() if name != server for one in sets)
    return truth.has_jumped(server, jump, float(told["doubt"]) / 1e3 + JUMP_S + others_s)


class Found(NamedTuple):
    """What one run of the jobs said.

    Attributes:
        said: counts of messages and anomalies, of faults that were planted, and of clocks that were set far.
        wrong: each false accusation and each fault that was overlooked, in words.
    """

    said: Counter[str]
    wrong: list[str]


def judged(
    session: Any,
    directory: Path,
    seeds: Iterable[int],
    cases: Sequence[Case],
    profile: ScenarioProfile,
    *,
    in_turn: bool = False,
) -> Found:
    """All that the jobs say of the logs of these seeds, spoiled as each case says; left below `directory`.

    `in_turn`: each seed has one case.
    """
    from routing.trace import batch

    logs, out = directory / "logs", str(directory / "tables")
    logs.mkdir(parents=True)
    truths: dict[str, Told] = {}
    planted: dict[str, list[Fault]] = {}
    for seed in seeds:
        kept, broken = directory / f"seed-{seed}", directory / f"broken-{seed}"
        outcome = simulate(seed, sites_max=SITES_MAX, profile=profile, keep=kept)
        if outcome.violations:
            print(f"seed {seed} breaks a promise, and is left out: {outcome.violations[0]}")
            continue
        truth = Truth(outcome, kept)
        faults = plant(kept, broken, random.Random(f"{seed} faults"))
        for number, case in enumerate(cases):
            if in_turn and number != seed % len(cases):
                continue
            prefix = f"n{seed}v{number}"
            truths[prefix] = Told(truth, spoiled(kept, logs, prefix, case, random.Random(f"{seed} {number}")))
            prefix = f"p{seed}v{number}"
            left = spoiled(broken, logs, prefix, case, random.Random(f"{seed} {number}"))
            planted[prefix] = [fault for fault in faults if fault.proven_by <= left.intact]
    for part in sorted(logs.iterdir()):
        summary = batch.run(session, [str(part)], out, now_us=NOW_US)
    whole = {
        prefix: told.truth
        for prefix, told in truths.items()
        if cases[int(prefix.rpartition("v")[2])] == WHOLE
    }
    said = Counter({"logs": len(truths)} | summary["messages"] | summary["anomalies"])
    said.update(f"planted: {fault.kind}" for faults in planted.values() for fault in faults)
    said.update({f"clocks: {name}": count for name, count in clocks_set_far(session, out, whole).items()})
    return Found(said, [*accusations(session, out, truths), *overlooked(session, out, planted)])


def main() -> int:
    """Exit code 1 for a false accusation, and for a fault that was overlooked."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=50)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--at-once", type=int, default=50, help="seeds in one run of the jobs")
    parser.add_argument("--profile", choices=get_args(ScenarioProfile), default="all", help="as of tests.sim")
    parser.add_argument("--cases", nargs="+", default=["0:0", "0:1", "0.01:0", "0.1:1", "0.3:2"])
    parser.add_argument("--in-turn", action="store_true", help="of the cases each seed has one")
    parser.add_argument("--keep", metavar="DIR", help="leave the logs and the tables there")
    chosen = parser.parse_args()
    cases = [Case.parse(case) for case in chosen.cases]

    from routing.trace.session import open_session

    total, wrong = Counter[str](), []
    # to compile the queries pays from the second run on
    session = open_session("local[2]", small=chosen.seeds <= chosen.at_once, heap_bytes=HEAP_BYTES)
    end = chosen.first + chosen.seeds
    for first in range(chosen.first, end, chosen.at_once):
        seeds = range(first, min(first + chosen.at_once, end))
        with contextlib.ExitStack() as stack:
            kept = chosen.keep or stack.enter_context(tempfile.TemporaryDirectory())
            directory = Path(kept) / f"from-{first}"
            found = judged(session, directory, seeds, cases, chosen.profile, in_turn=chosen.in_turn)
        total += found.said
        wrong += found.wrong
        kinds = Counter(line.partition(":")[0] for line in wrong)
        print(json.dumps({"seeds": seeds.stop - chosen.first, **total, "wrong": kinds}))
        print("\n".join(found.wrong), flush=True)
    session.stop()
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())

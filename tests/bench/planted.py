"""Promises broken on purpose in the logs of simulated sites, as their records would tell it."""

import json
import random
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final, NamedTuple

Record = dict[str, Any]


class Fault(NamedTuple):
    """What was broken, as the anomalies call it, and whose logs prove it."""

    kind: str
    smuid: str
    proven_by: frozenset[str]


class Logs:
    """The logs of one seed, which `write` numbers anew, so that what is taken out leaves no gap."""

    def __init__(self, kept: Path) -> None:
        self.files: dict[str, list[list[Record]]] = {}
        for site in sorted(path for path in kept.iterdir() if path.is_dir()):
            paths = sorted(site.glob("hops-*.jsonl"), key=lambda path: int(path.stem.rpartition("-")[2]))
            lines = [[json.loads(line) for line in path.read_bytes().splitlines()] for path in paths]
            self.files[site.name] = [[r for r in file if r["event"] != "closed"] for file in lines]
        numbers = {site: [r["record"] for r in self.of(site)] for site in self.files}
        self.whole = {site for site, seen in numbers.items() if seen and seen == list(range(1, seen[-1] + 1))}

    def of(self, site: str) -> list[Record]:
        return [record for file in self.files[site] for record in file]

    def about(self, smuid: str) -> list[Record]:
        return [r for site in self.files for r in self.of(site) if r.get("smuid") == smuid]

    def remove(self, site: str, smuid: str) -> None:
        self.files[site] = [[r for r in file if r.get("smuid") != smuid] for file in self.files[site]]

    def insert(self, after: Record, record: Record) -> None:
        for file in self.files[after["server"]]:
            for number, other in enumerate(file):
                if other is after:
                    file.insert(number + 1, record)
                    return

    def write(self, out: Path) -> None:
        for site, files in self.files.items():
            (out / site).mkdir(parents=True)
            shift, last = 0, 0
            for file in files:
                for record in file:
                    if "record" in record and site in self.whole:
                        shift = last + 1
                        record["record"], last = shift, shift
                        if record.get("previous"):
                            record["previous"] = shift - 1
                if not file:
                    continue
                name = f"hops-{site}-{file[0]['boot']}-{file[0]['record']}-{file[-1]['record']}.jsonl"
                (out / site / name).write_text(
                    "".join(json.dumps(record, separators=(",", ":")) + "\n" for record in file)
                )


def plant(kept: Path, out: Path, chance: random.Random) -> list[Fault]:
    """One fault of each kind that the logs below `kept` have room for; the logs with them go below `out`."""
    logs = Logs(kept)
    used: set[str] = set()
    faults = []
    for breaks in (_lose, _end_twice, _go_too_deep, _loop, _split):
        fault = breaks(logs, lambda smuid: smuid not in used, chance)
        if fault is not None:
            used.add(fault.smuid)
            faults.append(fault)
    logs.write(out)
    return faults


Free = Callable[[str], bool]


def _lose(logs: Logs, is_free: Free, chance: random.Random) -> Fault | None:
    """A copy that was acknowledged, between two others of its link, is in no record of its server.

    No receipt says that it was there.
    """
    counted = {r["smuid"] for site in logs.files for r in logs.of(site) if r["event"] == "receipt"}
    links: dict[tuple[str, str], list[Record]] = defaultdict(list)
    for site in logs.whole:
        for record in logs.of(site):
            if _taken(record) and record["peer"] in logs.whole:
                links[site, record["peer"]].append(record)
    found = []
    for (site, peer), answers in links.items():
        begun = _once(r["smuid"] for r in logs.of(peer) if r["event"] in ("received", "published"))
        known = [r for r in answers if r["smuid"] in begun]
        stamps = [r["peer_sent_us"] for r in known]
        found += [
            (site, peer, known[i]["smuid"])
            for i in range(1, len(known) - 1)
            if _all(known[i], is_free) and known[i]["smuid"] not in counted
            if stamps[i - 1] != stamps[i] != stamps[i + 1]
        ]
    if not found:
        return None
    site, peer, smuid = chance.choice(sorted(found))
    logs.remove(peer, smuid)
    return Fault("lost", smuid, frozenset((site, peer)))


def _end_twice(logs: Logs, is_free: Free, chance: random.Random) -> Fault | None:
    ends = _ends(logs, is_free, "ALL")
    if not ends:
        return None
    end = chance.choice(ends)
    again = {"event": "expired", "final": True} | {k: end[k] for k in KEPT if k in end and k != "event"}
    logs.insert(end, again)
    return Fault("begun or ended twice", end["smuid"], frozenset((end["server"],)))


def _go_too_deep(logs: Logs, is_free: Free, chance: random.Random) -> Fault | None:
    far = [
        (r["hops"][0], r["smuid"], r["server"])
        for site in logs.whole
        for r in logs.of(site)
        if r["event"] == "received" and _all(r, is_free) and r["hops"][0] in logs.whole
    ]
    if not far:
        return None
    origin, smuid, server = chance.choice(sorted(far))
    for record in logs.of(origin):
        if record["event"] == "published" and record["smuid"] == smuid:
            record["depth"] = 0
            return Fault("over depth", smuid, frozenset((origin, server)))
    return None


def _loop(logs: Logs, is_free: Free, chance: random.Random) -> Fault | None:
    ends = [end for end in _ends(logs, is_free, "ALL") if end["server"] != end["smuid"].partition("/")[0]]
    ends = [end for end in ends if not any(r["event"] == "depth" for r in logs.about(end["smuid"]))]
    # a sender whose log has gaps may have had a deeper copy in one of them
    ends = [end for end in ends if _coming(logs, end)["peer"] in logs.whole]
    if not ends:
        return None
    end = chance.choice(ends)
    came = _coming(logs, end)
    loop = {k: end[k] for k in KEPT if k in end} | {"event": "loop", "peer": came["peer"], "attempt": 9}
    logs.insert(end, loop | {"hops": [*came["hops"], end["server"], came["peer"]]})
    # its sender's log goes on to the answer
    last = logs.of(came["peer"])[-1]
    basis = {k: end[k] for k in KEPT if k in end} | {"server": came["peer"], "boot": last["boot"]}
    answer = {"event": "forwarded", "peer": end["server"], "attempt": 9, "outcome": "loop"}
    logs.insert(last, basis | answer | {"time_us": last["time_us"]})
    return Fault("looped", end["smuid"], frozenset((end["server"], came["peer"])))


def _coming(logs: Logs, end: Record) -> Record:
    """The first record of the server of `end` that says how this message came there."""
    return next(r for r in logs.about(end["smuid"]) if r["server"] == end["server"] and "hops" in r)


def _split(logs: Logs, is_free: Free, chance: random.Random) -> Fault | None:
    """Who reads a message of mode ONE has handed it on as well, and it is read there, too."""
    ends = [end for end in _ends(logs, is_free, "ONE") if end["event"] == "committed"]
    ends = [e for e in ends if {r["server"] for r in logs.about(e["smuid"])} == {e["server"]}]
    # it began here: the log of a site that has handed it on may be missing
    ends = [e for e in ends if any(r["event"] == "published" for r in logs.about(e["smuid"]))]
    if not ends or len(logs.whole) < 2:
        return None
    end = chance.choice(ends)
    other = chance.choice(sorted(logs.whole - {end["server"]}))
    # last in both logs, since copies are answered in the order in which they are recorded
    last, at = logs.of(end["server"])[-1], logs.of(other)[-1]
    basis = {k: end[k] for k in KEPT if k in end}
    answer = {"outcome": "accepted", "sent_us": last["time_us"], "crossing": 1, "attempt": 1}
    answer |= {"peer_received_us": at["time_us"], "peer_sent_us": at["time_us"]}
    forwarded = basis | answer | {"event": "forwarded", "peer": other}
    logs.insert(last, forwarded | {"boot": last["boot"], "time_us": last["time_us"]})
    there = basis | {"server": other, "boot": at["boot"], "time_us": at["time_us"]}
    received = there | {"event": "received", "peer": end["server"], "attempt": 1, "due": 1}
    read = there | {"event": "committed", "subscription": f"ada:other@{other}", "attempt": 1, "final": True}
    received["hops"] = [end["server"]]
    logs.insert(at, received)
    logs.insert(received, read)
    return Fault("two custodians", end["smuid"], frozenset((end["server"], other)))


KEPT: Final = (
    *("version", "server", "boot", "record", "time_us", "event", "smuid", "topic", "mode", "size"),
    *("priority", "guarantee"),
)


def _ends(logs: Logs, is_free: Free, mode: str) -> list[Record]:
    """The ends of guaranteed copies in whole logs, of those that ended once and were not widened."""
    found = []
    for site in sorted(logs.whole):
        finals = [r for r in logs.of(site) if r.get("final")]
        single = _once(r["smuid"] for r in finals)
        widened = {r["smuid"] for r in logs.of(site) if r["event"] == "depth"}
        found += [
            r
            for r in finals
            if r["smuid"] in single - widened and is_free(r["smuid"]) and r.get("guarantee", True)
            if r.get("mode", "ALL") == mode
        ]
    return found


def _once(names: Iterable[str]) -> set[str]:
    seen: dict[str, int] = defaultdict(int)
    for name in names:
        seen[name] += 1
    return {name for name, times in seen.items() if times == 1}


def _taken(record: Record) -> bool:
    return record["event"] == "forwarded" and record.get("outcome") == "accepted"


def _all(record: Record, is_free: Free) -> bool:
    guaranteed = record.get("guarantee", True) and record.get("mode", "ALL") == "ALL"
    return guaranteed and is_free(record["smuid"])

"""Logs of simulated sites as somebody has them who was not given all, or not all of one time."""

import json
import random
import re
from pathlib import Path
from typing import Any, Final, NamedTuple

SITE: Final = re.compile(rb'(?<=[",@])s(\d\d)(?=[",/@])')
FILES_MISSING: Final = 0.2
"""Of logs that lose records, the share that loses a file as well."""

CUT: Final = 0.7
"""Of the sites of a case whose logs end early, begin late or number anew, the share that does."""

BACK_MAX: Final = 50
"""Records that a site may have written between its backup and its loss."""

LEAP: Final = 1 << 50
"""What `smqpd restore` leaves out, or about that."""

WAYS: Final = ("early", "late", "anew", "parts")
"""Logs that end early, as those that were fetched before; that begin late; sites that were installed anew or
restored; the files of each log given in two runs."""

Record = dict[str, Any]


class Case(NamedTuple):
    """A share of the records that is missing, a number of sites without a log, and some of `WAYS`."""

    missing: float = 0.0
    absent: int = 0
    ways: frozenset[str] = frozenset()

    @classmethod
    def parse(cls, text: str) -> "Case":
        """`SHARE:SITES`, or `SHARE:SITES:WAY,WAY`."""
        share, sites, ways = [*text.split(":"), ""][:3]
        chosen = frozenset(ways.split(",")) - {""}
        if unknown := chosen.difference(WAYS):
            raise ValueError(f"{', '.join(sorted(unknown))}: there are {', '.join(WAYS)}")
        return cls(float(share), int(sites), chosen)


class Left(NamedTuple):
    """What is left of the logs of a seed.

    Attributes:
        intact: the sites whose logs are all there.
        until: of the others, by site, the last record that is left, as it was numbered before.
    """

    intact: set[str]
    until: dict[str, int]


def spoiled(logs: Path, out: Path, prefix: str, case: Case, chance: random.Random) -> Left:
    """The logs of a seed with other names for its sites, and without some of what they hold.

    They go below `out`, to `0`, and those of the second run to `1`.
    """
    left = Left(set(), {})
    sites = sorted(path for path in logs.iterdir() if path.is_dir())
    for site in sorted(chance.sample(sites, max(len(sites) - case.absent, 1))):
        paths = sorted(site.glob("hops-*.jsonl"), key=lambda path: int(path.stem.rpartition("-")[2]))
        files = [_records(path) for path in paths]
        whole = sum(map(len, files))
        if case.missing and len(files) > 1 and chance.random() < FILES_MISSING:
            # not the last one: what is held is held at the end of what was read
            files.remove(chance.choice(files[:-1]))
        files = _cut(files, case, chance)
        if files:
            left.until[site.name] = files[-1][-1]["record"]
        lives = _anew(files, chance) if "anew" in case.ways and chance.random() < CUT else [files]
        if sum(map(len, files)) == whole and len(lives) == 1:
            left.intact.add(site.name)
        for life, of_life in enumerate(lives):
            for file in of_life:
                kept = [record for record in file if chance.random() >= case.missing]
                if len(kept) < len(file):
                    left.intact.discard(site.name)
                part = chance.randrange(2) if "parts" in case.ways else 0
                claims = f"{file[0]['boot']}-{file[0]['record']}-{file[-1]['record']}"
                directory = out / str(part) / prefix / str(life)
                directory.mkdir(parents=True, exist_ok=True)
                path = directory / f"hops-{prefix}{site.name}-{claims}.jsonl"
                # without the closing lines: the checksums are those of other names
                lines = b"".join(json.dumps(one, separators=(",", ":")).encode() + b"\n" for one in kept)
                path.write_bytes(SITE.sub(prefix.encode() + rb"s\1", lines))
    return left


def _records(path: Path) -> list[Record]:
    lines = map(json.loads, path.read_bytes().splitlines())
    return [record for record in lines if record["event"] != "closed"]


def _cut(files: list[list[Record]], case: Case, chance: random.Random) -> list[list[Record]]:
    """The files as if the first or the last one had ended or begun at some other record."""
    for way in sorted(case.ways & {"early", "late"}):
        if chance.random() >= CUT:
            continue
        at = chance.randrange(1, max(sum(map(len, files)), 2))
        before, after = _split(files, at)
        files = before if way == "early" else after or files
    return files


def _split(files: list[list[Record]], at: int) -> tuple[list[list[Record]], list[list[Record]]]:
    """The files of the first `at` records, and those of the others."""
    before: list[list[Record]] = []
    after: list[list[Record]] = []
    for file in files:
        for part, records in ((before, file[:at]), (after, file[at:])):
            if records:
                part.append(records)
        at = max(at - len(file), 0)
    return before, after


def _anew(files: list[list[Record]], chance: random.Random) -> list[list[list[Record]]]:
    """The files of two lives: installed anew, restored and numbering from before, or from far beyond.

    Of the last the records between the backup and the loss are gone.
    """
    count = sum(map(len, files))
    if count < 2:
        return [files]
    first, second = _split(files, chance.randrange(1, count))
    begun = second[0][0]
    back = chance.randint(1, BACK_MAX)
    match chance.choice(("installed", "restored", "raised")):
        case "installed":
            records, boots = 1 - begun["record"], 1 - begun["boot"]
        case "restored":
            records, boots = -min(back, begun["record"] - 1), 0
        case _:
            records, boots = LEAP, LEAP >> 20
            first, _ = _split(first, max(sum(map(len, first)) - back, 1))
    raised = [[_renumbered(record, records, boots) for record in file] for file in second]
    return [first, raised]


def _renumbered(record: Record, records: int, boots: int) -> Record:
    numbers = {"record": record["record"] + records, "boot": record["boot"] + boots}
    if "previous" in record:
        numbers["previous"] = max(record["previous"] + records, 0)
    return record | numbers

"""Takes the power from real daemons and from commands: `python -m tests.power --states 2000`.

Workloads are recorded, each write and each sync; states of the disk after a loss of power at any moment are
made from that, and each is opened by the whole daemon and judged. Exit code 1 where a promise was broken.

A state is its recording, with the number that is shown. Recordings of one seed do the same things, but not at
the same moments, so one that led to a bad state is kept with `--keep DIR`: `--replay DIR` judges it again.
"""

import argparse
import json
import os
import pickle
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import msgspec

from tests.power.recorder import can_record, memory
from tests.power.recording import Recording, record
from tests.power.states import Judged, judge_all

STATES_EACH = 125
"""Of one recording."""

OPERATING_EVERY = 4
"""One recording in so many is of commands, the others of messages."""


def main() -> int:
    """See the module."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.power", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--states", type=int, default=500, help="how many to make and judge")
    parser.add_argument("--seed", type=int, default=0, help="of the first workload")
    parser.add_argument("-j", "--jobs", type=int, default=os.cpu_count() or 1, help="how many at a time")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="recordings with bad states go there")
    parser.add_argument("--replay", type=Path, metavar="DIR", help="judge the states of a recording again")
    parser.add_argument("--number", type=int, help="of --replay: this state alone; its disk is kept, too")
    parser.add_argument("--json", action="store_true", help="one line of JSON for each state")
    given = parser.parse_args()
    if not can_record():
        print("gcc is needed to make the recorder", file=sys.stderr)
        return 2
    if given.replay is not None:
        return _replay(given)
    judged, began, seed = 0, time.monotonic(), given.seed
    bad: Counter[str] = Counter()
    while judged < given.states:
        workload = "operating" if seed % OPERATING_EVERY == OPERATING_EVERY - 1 else "messages"
        with tempfile.TemporaryDirectory(prefix="smqpd-power-", dir=memory()) as directory:
            recording = record(workload, seed, Path(directory) / "run")
            kept = pickle.dumps(recording)
            count = min(STATES_EACH, given.states - judged)
            found = list(judge_all(recording, range(count), given.jobs))
        _show(found, as_json=given.json)
        judged += len(found)
        broken = sum(bool(one.violations) for one in found)
        bad[workload] += broken
        if broken and given.keep is not None:
            given.keep.mkdir(parents=True, exist_ok=True)
            (given.keep / f"{workload}-{seed}").write_bytes(kept)
        if not given.json:
            seconds = time.monotonic() - began
            print(f"{judged} states, {bad.total()} bad, {seconds / judged:.2f} s each ({workload} {seed})")
        seed += 1
    return bool(bad.total())


def _replay(given: argparse.Namespace) -> int:
    bad = False
    for file in sorted(given.replay.iterdir()):
        if file.is_dir():
            continue
        recording: Recording = pickle.loads(file.read_bytes())
        numbers = range(STATES_EACH) if given.number is None else range(given.number, given.number + 1)
        keep = None if given.number is None else given.replay / "disks"
        found = list(judge_all(recording, numbers, 1 if keep else given.jobs, keep))
        _show(found, as_json=given.json)
        bad |= any(one.violations for one in found)
    return bad


def _show(found: list[Judged], *, as_json: bool) -> None:
    for one in found:
        if as_json:
            print(json.dumps(msgspec.to_builtins(one)))
        elif one.violations:
            print(f"{one.workload} {one.seed}, state {one.number}: {one.losses}")
            for violation in one.violations[:10]:
                print(f"  {violation}")


if __name__ == "__main__":
    sys.exit(main())

"""Breaks the promises one by one, and says who notices: `python -m tests.mutants`.

Each mutation of tests/mutants/catalogue is applied in a copy of the source, and the tests or the seeds of
the simulation that it names are run until one fails. Exit code 1 where one goes unnoticed, 2 where one does
not apply any more.
"""

import argparse
import json
import sys
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import msgspec

from tests.mutants.hunt import Hunt, hunt
from tests.mutants.mutation import Mutation, StaleError, every, mutated


def main() -> int:
    """See the module."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.mutants", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--only", action="append", metavar="TEXT", help="those with this in name or file")
    parser.add_argument(
        "--simulated", action="store_true", help="those that seeds are to notice, and by these alone"
    )
    parser.add_argument("--list", action="store_true", help="show them, and try none")
    parser.add_argument("-j", "--jobs", type=int, default=1, help="how many at a time")
    parser.add_argument("--json", action="store_true", help="one line of JSON for each")
    given = parser.parse_args()
    chosen = [
        one
        for one in every()
        if (not given.only or any(t in one.name or t in one.file for t in given.only))
        and (one.seed is not None or not given.simulated)
    ]
    if not chosen:
        print("no mutation has that name; --list shows them", file=sys.stderr)
        return 2
    try:
        for mutation in chosen:
            mutated(mutation)
    except StaleError as error:
        print(error, file=sys.stderr)
        return 2
    if given.list:
        for mutation in chosen:
            seed = f" (seed {mutation.seed}, {mutation.profile})" if given.simulated else ""
            print(f"{mutation.file:36} {mutation.name}{seed}")
        return 0
    began = time.monotonic()
    with ThreadPoolExecutor(given.jobs) as pool:
        hunts = pool.map(partial(hunt, simulated=given.simulated), chosen)
        unnoticed = _shown(hunts, chosen, as_json=given.json)
    if not given.json:
        print(f"{len(chosen)} mutations, {len(unnoticed)} unnoticed, {time.monotonic() - began:.0f} s")
    return bool(unnoticed)


def _shown(hunts: Iterable[Hunt], chosen: list[Mutation], *, as_json: bool) -> list[str]:
    width = max(len(mutation.name) for mutation in chosen)
    unnoticed = []
    for found in hunts:
        if not found.by:
            unnoticed.append(found.name)
        if as_json:
            print(json.dumps(msgspec.to_builtins(found)), flush=True)
            continue
        print(f"{found.name:{width}}  {found.seconds:6.1f} s  {found.by or 'UNNOTICED'}", flush=True)
        if found.trouble:
            print("    " + found.trouble.replace("\n", "\n    "), flush=True)
    return unnoticed


if __name__ == "__main__":
    sys.exit(main())

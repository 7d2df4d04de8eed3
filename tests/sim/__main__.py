"""Simulates seeds: `python -m tests.sim --seeds 2000`, or one of them again: `--seed 17`."""

import argparse
import os
import sys
from collections import Counter

from tests.sim.simulation import Outcome, simulate

HASHING = "PYTHONHASHSEED"


def main() -> int:
    """Exit code 1 where a promise was broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.sim", description=__doc__)
    parser.add_argument("--seeds", type=int, default=20, help="how many seeds to run")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--twice", action="store_true", help="run each a second time, and compare")
    parser.add_argument("--seed", type=int, help="run this one alone, and print what happened")
    arguments = parser.parse_args()
    if os.environ.get(HASHING) != "0":
        # the order of sets of text is part of what a seed stands for
        os.environ[HASHING] = "0"
        os.execv(sys.executable, [sys.executable, "-m", "tests.sim", *sys.argv[1:]])
    if arguments.seed is not None:
        outcome = simulate(arguments.seed)
        print("\n".join(outcome.trace))
        _report(outcome)
        return bool(outcome.violations)
    seeds = range(arguments.first, arguments.first + arguments.seeds)
    return _run_all(seeds, twice=arguments.twice)


def _run_all(seeds: range, *, twice: bool) -> int:
    broken: list[int] = []
    slowest: list[tuple[float, int]] = []
    shapes: Counter[str] = Counter()
    cpu_s = faults = 0.0
    for done, seed in enumerate(seeds, 1):
        outcome = simulate(seed)
        if twice and simulate(seed).digest != outcome.digest:
            outcome.violations.append("it was another run the second time")
        cpu_s += outcome.cpu_s
        faults += len(outcome.scenario.faults)
        shapes[outcome.scenario.shape] += 1
        slowest = sorted([*slowest, (outcome.cpu_s, seed)], reverse=True)[:10]
        if outcome.violations:
            broken.append(seed)
            print(end="\r")
            _report(outcome)
        if sys.stdout.isatty() or done % 50 == 0:
            print(
                f"\r{done}/{len(seeds)} seeds, {len(broken)} with violations, {cpu_s / done:.2f} s each",
                end="" if sys.stdout.isatty() else "\n",
                flush=True,
            )
    print(f"\n{len(seeds)} seeds, {faults:.0f} faults, {cpu_s:.0f} s; {dict(shapes)}")
    print("slowest: " + ", ".join(f"{seed} ({cpu:.1f} s)" for cpu, seed in slowest))
    print(f"violations in {len(broken)} seeds{': ' if broken else ''}{', '.join(map(str, broken))}")
    return bool(broken)


def _report(outcome: Outcome) -> None:
    scenario = outcome.scenario
    print(
        f"seed {scenario.seed}: {scenario.shape} of {len(scenario.sites)}, {len(scenario.faults)} faults,"
        f" {outcome.virtual_s:.0f} s virtual, {outcome.cpu_s:.2f} s, digest {outcome.digest}"
    )
    for violation in outcome.violations[:20]:
        print(f"  {violation}")


if __name__ == "__main__":
    sys.exit(main())

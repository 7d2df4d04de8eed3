"""Simulates seeds: `python -m tests.sim --seeds 2000`, or one of them again: `--seed 17`."""

import argparse
import gc
import os
import shutil
import sys
from collections import Counter
from pathlib import Path
from typing import get_args

from tests.power.recorder import ROOT, can_record, memory, preloaded
from tests.sim.scenario import CIRCLE_SITES, SITES_MAX, ScenarioProfile
from tests.sim.simulation import Outcome, simulate

HASHING = "PYTHONHASHSEED"


def main() -> int:
    """Exit code 1 where a promise was broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.sim", description=__doc__)
    parser.add_argument("--seeds", type=int, default=20, help="how many seeds to run")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--first-of-all", type=int, metavar="SEED", help="a seed to run before all others")
    parser.add_argument("--stop", action="store_true", help="end with the first that breaks a promise")
    parser.add_argument("--sites-max", type=int, default=SITES_MAX, help="other, smaller runs")
    parser.add_argument(
        "--profile",
        choices=get_args(ScenarioProfile),
        default="all",
        help="ways: circles, and lasting losses",
    )
    parser.add_argument("--twice", action="store_true", help="run each a second time, and compare")
    parser.add_argument("--seed", type=int, help="run this one alone, and print what happened")
    arguments = parser.parse_args()
    if os.environ.get(HASHING) != "0" or (can_record() and ROOT not in os.environ):
        _begin_again()
    try:
        return _run(arguments)
    finally:
        if ROOT in os.environ:
            shutil.rmtree(Path(os.environ[ROOT]).parent, ignore_errors=True)


def _begin_again() -> None:
    """As a process in which a seed is always the same run, and whose writes are recorded."""
    environment = dict(os.environ)
    if can_record():
        root = memory() / f"smqpd-sim-{os.getpid()}"
        root.mkdir(mode=0o700)
        (root / "sites").mkdir()
        environment = preloaded(root / "sites", root / "record")
    else:
        print("there is no gcc: a loss of power takes only the end of a hop log", file=sys.stderr)
    environment[HASHING] = "0"  # the order of sets of text is part of what a seed stands for
    os.execve(sys.executable, [sys.executable, "-m", "tests.sim", *sys.argv[1:]], environment)


def _run(arguments: argparse.Namespace) -> int:
    if arguments.seed is not None:
        outcome = simulate(arguments.seed, sites_max=arguments.sites_max, profile=arguments.profile)
        print("\n".join(outcome.trace))
        _report(outcome)
        return bool(outcome.violations)
    seeds = list(range(arguments.first, arguments.first + arguments.seeds))
    if arguments.first_of_all is not None:
        seeds.insert(0, arguments.first_of_all)
    return _run_all(seeds, arguments)


def _run_all(seeds: list[int], arguments: argparse.Namespace) -> int:
    gc.set_threshold(50_000, 20, 100)  # most of what a run makes is reachable until its end
    broken: list[int] = []
    slowest: list[tuple[float, int]] = []
    shapes: Counter[str] = Counter()
    of_circles = 0
    cpu_s = faults = 0.0
    for done, seed in enumerate(seeds, 1):
        outcome, *again = (
            simulate(seed, sites_max=arguments.sites_max, profile=arguments.profile)
            for _ in range(1 + arguments.twice)
        )
        if any(other.digest != outcome.digest for other in again):
            outcome.violations.append("it was another run the second time")
        cpu_s += outcome.cpu_s
        faults += len(outcome.scenario.faults)
        shapes[outcome.scenario.shape] += 1
        of_circles += outcome.scenario.has_circles
        slowest = sorted([*slowest, (outcome.cpu_s, seed)], reverse=True)[:10]
        if outcome.violations:
            broken.append(seed)
            print(end="\r")
            _report(outcome)
            if arguments.stop:
                break
        if sys.stdout.isatty() or done % 50 == 0:
            print(
                f"\r{done}/{len(seeds)} seeds, {len(broken)} with violations, {cpu_s / done:.2f} s each",
                end="" if sys.stdout.isatty() else "\n",
                flush=True,
            )
    print(f"\n{sum(shapes.values())} seeds, {faults:.0f} faults, {cpu_s:.0f} s; {dict(shapes)}")
    print(f"with {' to '.join(map(str, CIRCLE_SITES))} sites and circles: {of_circles}")
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

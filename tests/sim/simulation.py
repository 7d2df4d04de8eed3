"""Runs one seed."""

import hashlib
import tempfile
import time
from pathlib import Path

import msgspec
import trio

from tests.sim import virtual
from tests.sim.scenario import SITES_MAX, Scenario, draw
from tests.sim.site import clean
from tests.sim.world import World


class Outcome(msgspec.Struct):
    """What came of a seed.

    Attributes:
        trace: what happened, one line each.
        digest: of the trace and of all hop logs: equal for runs that were the same.
        virtual_s: how long it took, by virtual time.
        cpu_s: and by the processor's.
    """

    scenario: Scenario
    violations: list[str]
    trace: list[str]
    digest: str
    virtual_s: float
    cpu_s: float


def simulate(seed: int, *, sites_max: int = SITES_MAX) -> Outcome:
    """Run a seed to its end; `sites_max` makes it another, smaller one."""
    scenario = draw(seed, sites_max=sites_max)
    began = time.process_time()
    directory = Path(tempfile.mkdtemp(dir="/dev/shm" if Path("/dev/shm").is_dir() else None))
    worlds: list[World] = []
    virtual_s = 0.0

    async def main() -> None:
        nonlocal virtual_s
        worlds.append(World(scenario, directory))
        try:
            await worlds[0].run()
        finally:
            virtual_s = trio.current_time()

    violations, trace = [], []
    try:
        virtual.run(seed, main)
    except virtual.Livelock as error:
        violations.append(str(error))
    finally:
        if worlds:
            violations = worlds[0].ledger.violations + violations
            trace = worlds[0].ledger.trace
        digest = _digest(trace, directory)
        clean(directory)
    return Outcome(scenario, violations, trace, digest, virtual_s, time.process_time() - began)


def _digest(trace: list[str], directory: Path) -> str:
    digest = hashlib.sha256("\n".join(trace).encode())
    for path in sorted(directory.glob("*/hops/*.jsonl")):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]

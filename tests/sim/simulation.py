"""Runs one seed."""

import hashlib
import shutil
import tempfile
import time
from pathlib import Path

import msgspec
import trio

from tests.power.recorder import Recorder, memory
from tests.sim import virtual
from tests.sim.drawing import draw
from tests.sim.ledger import Ledger
from tests.sim.power import Power
from tests.sim.scenario import SITES_MAX, Scenario, ScenarioProfile
from tests.sim.site import clean
from tests.sim.world import World


class Outcome(msgspec.Struct):
    """What came of a seed.

    Attributes:
        trace: what happened, one line each.
        committed: by the Smuid of each guaranteed message, the subscriptions (`channel@site`) whose COMMIT
            was answered.
        digest: of the trace and of all hop logs: equal for runs that were the same.
        virtual_s: how long it took, by virtual time.
        cpu_s: and by the processor's.
    """

    scenario: Scenario
    violations: list[str]
    trace: list[str]
    committed: dict[str, set[str]]
    digest: str
    virtual_s: float
    cpu_s: float


def simulate(
    seed: int, *, sites_max: int = SITES_MAX, profile: ScenarioProfile = "all", keep: Path | None = None
) -> Outcome:
    """Run a seed to its end; `sites_max` and `profile` make it another one.

    `keep`: where the hop logs go, a directory for each site; the sites are stopped in order for that.
    """
    scenario = draw(seed, sites_max=sites_max, profile=profile)
    began = time.process_time()
    recorder = Recorder.here()
    directory = Path(tempfile.mkdtemp(dir=recorder.root if recorder is not None else memory()))
    worlds: list[World] = []
    virtual_s = 0.0

    async def main() -> None:
        nonlocal virtual_s
        worlds.append(
            World(scenario, directory, Power(recorder, directory) if recorder is not None else None)
        )
        try:
            await worlds[0].run(stops=keep is not None)
        finally:
            virtual_s = trio.current_time()

    violations, trace, committed = [], [], {}
    try:
        virtual.run(seed, main)
    except virtual.Livelock as error:
        violations.append(str(error))
    finally:
        if worlds:
            violations = worlds[0].ledger.violations + violations
            trace = worlds[0].ledger.trace
            committed = _committed(worlds[0].ledger)
        digest = _digest(trace, directory)
        if keep is not None:
            for site in scenario.sites:
                shutil.copytree(directory / site / "hops", keep / site)
        clean(directory)
    return Outcome(scenario, violations, trace, committed, digest, virtual_s, time.process_time() - began)


def _committed(ledger: Ledger) -> dict[str, set[str]]:
    return {
        smuid: {reader for reader, hold in ledger.of_message[key].items() if hold.state == "committed"}
        for key, told in ledger.told.items()
        for smuid in told.smuids
        if ledger.publications[key].guarantee
    }


def _digest(trace: list[str], directory: Path) -> str:
    digest = hashlib.sha256("\n".join(trace).encode())
    for path in sorted(directory.glob("*/hops/*.jsonl")):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]

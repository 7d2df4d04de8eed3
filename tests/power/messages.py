"""Messages between two daemons, and what has to hold of them whatever a loss of power has left.

The clients, the ledger of what they were told and the judges are the simulation's (`tests.sim`); daemons,
time, sockets and disks are real. One site is stopped and started again on the way.
"""

import itertools
from pathlib import Path
from typing import Any, Final

import msgspec
import trio

from daemon.hops.examine import examine
from daemon.store import write_ahead_log
from routing.frames import decode_message
from tests.power.disk import Cut
from tests.power.recording import Recorded, Recording
from tests.power.sites import PASSWORD, PowerSite, chance_of, join, linked, make_sites
from tests.sim import balance, promises
from tests.sim.clients import SimulatedClients
from tests.sim.drawing import draw
from tests.sim.ledger import Ledger, PublicationFate
from tests.sim.power import broken_hop_files, loses_records
from tests.sim.scenario import PlannedPublication, Scenario
from tests.sim.site import ACCOUNT
from tests.support.patience import PATIENCE_S
from tests.support.ports import free_ports
from tests.support.stomp import StompClient
from tests.support.wishes import takes

LASTS_S: Final = 6.0
QUEUE: Final = "stomp"
THINK_S_MAX: Final = 0.05
WAL_BYTES: Final = 150_000
QUIET_WITHIN_S: Final = 120.0
QUIET_LOOKS: Final = 4
LOOK_EVERY_S: Final = 0.01
_KEPT: Final = (
    *("told", "holds", "of_message", "replies", "ended", "ending", "changes"),
    *("stomp", "_last", "_sessions", "_reply_smuids", "_receipt_smuids", "_named"),
)


def scenario_of(seed: int) -> Scenario:
    """One of the simulation's for two sites, in a few seconds."""
    drawn = draw(seed, sites_max=2)
    share = LASTS_S / drawn.lasts_s

    def sooner(at: float | None) -> float | None:
        return None if at is None else at * share

    replace = msgspec.structs.replace
    return replace(
        drawn,
        publications=[
            replace(one, at=one.at * share, removed_at=sooner(one.removed_at)) for one in drawn.publications
        ],
        readers=[
            replace(
                one,
                topic="a.#" if takes(one.topic, QUEUE) else one.topic,  # the queue is the client's of STOMP
                begins_at=one.begins_at * share,
                ends_at=sooner(one.ends_at),
                think_s=min(one.think_s, THINK_S_MAX),
            )
            for one in drawn.readers
        ],
        lasts_s=LASTS_S,
    )


class Stomp(msgspec.Struct):
    """What a client of STOMP knows: bodies of which SEND was answered, ACK was said, and was answered."""

    sent: set[str] = set()
    acking: set[str] = set()
    acked: set[str] = set()


class NotedLedger(Ledger):
    """Leaves a note after each thing that a client was told or is about to say."""

    def __init__(self, scenario: Scenario, recorded: Recorded) -> None:
        super().__init__(scenario, trio.current_time)
        self.stomp = Stomp()
        self._recorded = recorded

    def keep(self) -> None:
        self._recorded.note({name: getattr(self, name) for name in _KEPT})


def _noted(name: str) -> Any:
    told = getattr(Ledger, name)

    def noted(self: NotedLedger, *arguments: Any, **options: Any) -> Any:
        result = told(self, *arguments, **options)
        self.keep()
        return result

    return noted


for _name in (
    *("session", "sent", "accepted", "refused", "removed", "receipt", "replied", "reply_came"),
    *("delivered", "hold_is", "unsubscribing", "unsubscribed", "session_ended"),
):
    setattr(NotedLedger, _name, _noted(_name))


def ledger_at(scenario: Scenario, note: dict[str, Any]) -> Ledger:
    """The ledger when a note was left; all sessions have ended since."""
    ledger = Ledger(scenario, trio.current_time)
    for name, value in note.items():
        setattr(ledger, name, value)
    for hold in ledger.holds.values():
        if hold.state == "with":
            hold.state = "returned"
    ledger.publications = {key: one for key, one in ledger.publications.items() if ledger.told[key].sent}
    for site in scenario.sites:
        fresh = PlannedPublication(
            f"new-{site}", site, 0.0, "a", "ALL", -1, None, "ALL", True, 0, 10, None, False
        )
        ledger.publications[fresh.key] = fresh
        ledger.told[fresh.key] = PublicationFate()
    return ledger


# -- the workload ---------------------------------------------------------------------------------


def work(recorded: Recorded, seed: int, file: Path) -> None:
    """Record what two sites do."""
    trio.run(_work, recorded, seed, file)


async def _work(recorded: Recorded, seed: int, file: Path) -> None:
    write_ahead_log.WAL_CHECKPOINT_BYTES = WAL_BYTES  # type: ignore[attr-defined] # so that it happens here, too
    scenario = scenario_of(seed)
    ports = dict(zip(scenario.sites, free_ports(len(scenario.sites)), strict=True))
    make_sites(recorded.root, scenario.sites)
    join(recorded.root, ports)
    ledger = NotedLedger(scenario, recorded)
    clients = SimulatedClients(ledger, chance_of("clients", seed))
    sites = {
        name: PowerSite(recorded.root / name, port, scenario.max_deliveries) for name, port in ports.items()
    }
    async with trio.open_nursery() as nursery:
        for site in sites.values():
            await nursery.start(site.run, clients)
        await linked(list(sites.values()))
        await trio.sleep(0.3)  # the readers that are there from the beginning
        for site in sites.values():
            await _settled(site)
        recorded.begin()
        ledger.keep()
        clients.begun_at = trio.current_time()
        clients.change()
        again, other = chance_of("again", seed).sample(list(sites.values()), 2)
        nursery.start_soon(_queue, other, ledger)
        await trio.sleep(scenario.lasts_s / 2)
        again.stop()
        while again.site is not None:
            await trio.sleep(0.01)
        await nursery.start(again.run, clients)
        await trio.sleep(scenario.lasts_s / 2)
        recorded.end(file)


async def _queue(site: PowerSite, ledger: NotedLedger) -> None:
    """Send messages to a queue by STOMP, and acknowledge most of them."""
    client = StompClient(await trio.open_tcp_stream("127.0.0.1", site.stomp_port))
    login = {"accept-version": "1.2", "host": site.name, "login": ACCOUNT, "passcode": PASSWORD}
    await client.send("CONNECT", login)
    await client.expect("CONNECTED")
    queue = {"destination": f"/queue/{QUEUE}"}
    await client.send("SUBSCRIBE", {**queue, "id": "0", "ack": "client-individual", "prefetch-count": "5"})
    for number in itertools.count():
        body = f"{site.name} {number}"
        await client.send("SEND", {**queue, "persistent": "true", "receipt": f"sent {body}"}, body.encode())
        while body not in ledger.stomp.sent:
            frame = await client.receive()
            if frame.command == "MESSAGE":
                text = frame.body.decode()
                if number % 4:
                    ledger.stomp.acking.add(text)
                    ledger.keep()
                    await client.send("ACK", {"id": frame.headers["ack"], "receipt": f"acked {text}"})
                continue
            kind, _, text = frame.headers["receipt-id"].partition(" ")
            (ledger.stomp.sent if kind == "sent" else ledger.stomp.acked).add(text)
            ledger.keep()
        await trio.sleep(0.05)


async def _settled(site: PowerSite) -> None:
    while site.broker is None or site.broker._router._state.out or not site.broker.idle:
        await trio.sleep(0.01)


# -- the judge ------------------------------------------------------------------------------------


def judge_state(
    directory: Path, recording: Recording, note: dict[str, Any], cuts: dict[str, Cut]
) -> list[str]:
    """What is wrong with a state of the disks; `cuts` are of the sites' state directories."""
    scenario = scenario_of(recording.seed)
    broken = [
        f"{path} lost part of {file}, which was closed"
        for path, cut in cuts.items()
        for file in broken_hop_files(cut, directory / path / "hops")
    ]
    lost = {path.partition("/")[0] for path, cut in cuts.items() if loses_records(cut)}
    return broken + trio.run(_judge, directory, scenario, note, lost)


async def _judge(directory: Path, scenario: Scenario, note: dict[str, Any], lost: set[str]) -> list[str]:
    ledger = ledger_at(scenario, note)
    try:
        with trio.fail_after(PATIENCE_S):
            await judge(directory, scenario, ledger, note, lost)
    except Exception as error:
        ledger.violate(balance.shown(error))
    return ledger.violations


async def judge(
    directory: Path, scenario: Scenario, ledger: Ledger, note: dict[str, Any], lost: set[str]
) -> None:
    """Start the sites with what is in the directory, let all be finished; what is wrong.

    `lost`: sites whose hop log has lost something.
    """
    ports = dict(zip(scenario.sites, free_ports(len(scenario.sites)), strict=True))
    join(directory, ports)
    sites = {
        name: PowerSite(directory / name, port, scenario.max_deliveries, lost=name in lost)
        for name, port in ports.items()
    }
    clients = SimulatedClients(ledger, chance_of("judge"))
    clients.calm = True
    clients.begun_at = -1e6
    async with trio.open_nursery() as nursery:
        for site in sites.values():
            await nursery.start(site.run, clients)
        await _quiet(list(sites.values()), ledger)
        facts = balance.judge(ledger, sites)  # type: ignore[arg-type] # they have what it asks for
        promises.judge(ledger, sites, facts)  # type: ignore[arg-type] # likewise
        for site in sites.values():
            _judge_why(ledger, site)
            _judge_queue(ledger, site, note["stomp"])
        nursery.cancel_scope.cancel()


async def _quiet(sites: list[PowerSite], ledger: Ledger) -> None:
    until, looks, changes = trio.current_time() + QUIET_WITHIN_S, 0, -1
    why = ""
    while looks < QUIET_LOOKS:
        await trio.sleep(LOOK_EVERY_S)
        why = _unrest(sites, ledger)
        looks = looks + 1 if not why and changes == ledger.changes else 0
        changes = ledger.changes
        if trio.current_time() > until:
            ledger.violate(f"there is no quiet: {why}")
            return


def _unrest(sites: list[PowerSite], ledger: Ledger) -> str:
    """Why it is not quiet; "" where it is."""
    for site in sites:
        if site.broker is None or site.manager is None:
            return f"{site.name} does not run"
        router = site.broker._router
        if any(one.state != "up" for one in site.manager.status()):
            return f"{site.name} has no link"
        if router._state.out or not site.broker.idle or site.broker._carrying_out._hops._gathered:
            return f"{site.name} has decisions to carry out"
        for copy in router.federation.outlook.copies.values():
            if any(forward.unacknowledged for forward in copy.forwards.values()):
                return f"{site.name} waits for a peer to have {copy.smuid}"
        for subscription in router._state.subscriptions.values():
            if subscription.locks or subscription.received:
                return f"{site.name}: {subscription.owner} has not finished"
    for key, publication in ledger.publications.items():
        told = ledger.told[key]
        if publication.guarantee and not told.accepted:
            return f"{key} is not accepted"
        if publication.removed_at is not None and not told.removed:
            return f"{key} is not removed"
    return ""


def _judge_queue(ledger: Ledger, site: PowerSite, told: Stomp) -> None:
    """What was sent and not acknowledged waits there, and nothing that was."""
    assert site.broker is not None
    assert site.store is not None
    waiting = [one.id for one in site.broker._router._state.entries.values() if one.topic.name == QUEUE]
    wires = site.store.load(waiting).wires.values()
    held = {decode_message(wire).sections[0].body.decode() for wire in wires}
    own = {body for body in told.sent if body.startswith(site.name + " ")}
    if lost := own - told.acking - held:
        ledger.violate(f"{site.name} has lost what STOMP was told to be there: {sorted(lost)}")
    if again := held & told.acked:
        ledger.violate(f"{site.name} has what was acknowledged by STOMP: {sorted(again)}")


def _judge_why(ledger: Ledger, site: PowerSite) -> None:
    """What it says of a message is true, or it says that it does not know."""
    assert site.broker is not None
    held = {entry.smuid(site.name) for entry in site.broker._router._state.entries.values()}
    for told in ledger.told.values():
        for smuid in told.smuids:
            found = examine(site.machine.directory / "hops", smuid)
            if found.state == "waiting" and smuid not in held:
                ledger.violate(f"`why` says at {site.name} of {smuid}, which is not held: {found.verdict}")

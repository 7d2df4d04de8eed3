"""What operators do to a site, and what has to be there of it whatever a loss of power has left.

Each step is one command of `smqpd`, or a run of the daemon. A command that has ended has done all of it; one
that was under way leaves each file as it was or as it was to be. Then the whole daemon starts with that.
"""

import contextlib
import io
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec
import trio

from daemon.accounts.accounts_file import read_accounts
from daemon.certificates.authority import Authority
from daemon.cli.main import main
from daemon.configuration.config import load
from daemon.frontend import Answer, Delivered, Identity, SubscribeOptions
from daemon.link.peers_file import load_peers
from daemon.site.lock import state_lock
from daemon.site.site import RunningSite, serve_site
from daemon.store.store import Store
from daemon.system.systemd import Notifier
from routing.frames import decode_message
from routing.message import Message, Section
from tests.power.disk import Cut, Disk, Tree
from tests.power.recording import Recorded, Recording
from tests.power.sites import INSTALLED, chance_of
from tests.sim.balance import shown
from tests.support.patience import PATIENCE_S
from tests.support.ports import free_port

SITE: Final = "site"
NAME: Final = "a.example"
TOPIC: Final = "kept"
STEPS_DRAWN: Final = 14


class Note(msgspec.Struct, frozen=True):
    """Of one moment between or in steps.

    Attributes:
        step: what is under way; "" for nothing.
        answered: bodies of the messages whose PUBLISH was answered.
        taken, finished: of those whose COMMIT was said, and answered.
        backups: by name, the messages that each holds.
        restored: likewise, sites that were made of backups.
        number: of the note.
    """

    step: str
    answered: frozenset[str] = frozenset()
    taken: frozenset[str] = frozenset()
    finished: frozenset[str] = frozenset()
    number: int = 0
    backups: dict[str, frozenset[str]] = {}
    restored: dict[str, frozenset[str]] = {}


# -- the workload ---------------------------------------------------------------------------------


def work(recorded: Recorded, seed: int, file: Path) -> None:
    """Record what an operator does."""
    Operator(recorded, seed).work()
    recorded.end(file)


class Operator:
    """Does one thing after the other, drawn from the seed."""

    def __init__(self, recorded: Recorded, seed: int) -> None:
        self._recorded = recorded
        self._root = recorded.root
        self._site = recorded.root / SITE
        self._chance = chance_of("operator", seed)
        self._now = Note("")
        self._accounts: list[str] = []
        self._peers: list[str] = []
        self._issued: list[str] = []
        self._certificates = 0

    def work(self) -> None:
        self._recorded.begin()
        self._recorded.note(self._now)
        self._do("init", str(self._site), "--server-name", NAME, "--port", str(free_port()))
        self._do("cert", "ca", str(self._root / "ca"))
        self._do("cert", "issue", NAME, "--ca", str(self._root / "ca"), "--out", str(self._site / "keys"))
        self._run()
        steps: list[Callable[[], None]] = [
            *(self._add, self._disable, self._rights, self._add_peer, self._change_peer),
            *(self._issue, self._revoke, self._run, self._back_up, self._restore),
        ]
        for _ in range(STEPS_DRAWN):
            self._chance.choice(steps)()
        self._back_up()
        self._restore()
        self._restore()

    def _do(self, *words: str) -> None:
        """One command; it must succeed."""
        self._step(" ".join(words), lambda: _command(*words))

    def _step(self, name: str, action: Callable[[], None]) -> None:
        self._note(step=name)
        action()
        self._note(step="")

    def _note(self, **changes: Any) -> None:
        self._now = msgspec.structs.replace(self._now, number=self._now.number + 1, **changes)
        self._recorded.note(self._now)

    def _account(self, *words: str) -> None:
        self._do("account", *words, "--site", str(self._site))

    def _add(self) -> None:
        name = f"u{len(self._accounts)}"
        self._accounts.append(name)
        self._account("add", name, "--generate", "--publish", "#")

    def _disable(self) -> None:
        if self._accounts:
            verb = self._chance.choice(["disable", "enable"])
            self._account(verb, self._chance.choice(self._accounts))

    def _rights(self) -> None:
        if self._accounts:
            name = self._chance.choice(self._accounts)
            self._account("rights", name, "--subscribe", f"t{self._chance.randrange(100)}.#")

    def _add_peer(self) -> None:
        name = f"p{len(self._peers)}.example"
        self._peers.append(name)
        self._do("peer", "add", name, "127.0.0.1:9", "--site", str(self._site))

    def _change_peer(self) -> None:
        if self._peers:
            words = (f"127.0.0.1:{self._chance.randrange(10, 100)}", "--replace")
            name = self._chance.choice(self._peers)
            self._do("peer", "add", name, *words, "--site", str(self._site))

    def _issue(self) -> None:
        self._certificates += 1
        name = f"s{self._certificates}.example"
        self._issued.append(name)
        self._do("cert", "issue", name, "--ca", str(self._root / "ca"), "--out", str(self._root / name))

    def _revoke(self) -> None:
        if self._issued:
            name = self._issued.pop(self._chance.randrange(len(self._issued)))
            self._do("cert", "revoke", name, "--ca", str(self._root / "ca"))

    def _back_up(self) -> None:
        name = f"backup{len(self._now.backups)}"
        self._do("backup", str(self._root / name), "--keys", "--site", str(self._site))
        left = self._now.answered - self._now.taken
        self._note(backups={**self._now.backups, name: left})

    def _restore(self) -> None:
        """Make a site of a backup, in a new place or in that of another."""
        if not self._now.backups:
            return
        backup = self._chance.choice(sorted(self._now.backups))
        names = [f"restored{len(self._now.restored)}", *sorted(self._now.restored)[:1]]
        name = self._chance.choice(names)
        self._do("restore", str(self._root / backup), str(self._root / name), "--replace")
        self._note(restored={**self._now.restored, name: self._now.backups[backup]})

    def _run(self) -> None:
        self._step("run", lambda: trio.run(self._run_daemon))

    async def _run_daemon(self) -> None:
        """Publish some messages, take some."""
        async with trio.open_nursery() as nursery:
            site = await nursery.start(serve, self._site)
            session = site.open_session(Identity("admin"), "desk", protocol="test", remote="")
            session.subscribe(TOPIC, SubscribeOptions(accepts="ONE", credit=1), None)
            for number in range(self._chance.randint(1, 5)):
                body = f"{len(self._now.answered)}-{number}"
                message = Message(delivery="ONE", sections=(Section("text/plain", body.encode()),))
                session.publish(TOPIC, message, body)
                while body not in self._now.answered:
                    for event in await session.events():
                        if isinstance(event, Answer) and isinstance(event.request, str):
                            self._note(answered=self._now.answered | {event.request})
                        elif isinstance(event, Answer) and event.request is not None:
                            self._note(finished=self._now.finished | set(event.request))
                        elif isinstance(event, Delivered) and self._chance.random() < 0.5:
                            taken = event.stored.message.sections[0].body.decode()
                            self._note(taken=self._now.taken | {taken})
                            session.commit([event.number], (taken,))
            session.close()
            site.stop()
            nursery.cancel_scope.deadline = trio.current_time() + PATIENCE_S


async def serve(
    directory: Path, task_status: trio.TaskStatus[RunningSite] = trio.TASK_STATUS_IGNORED
) -> None:
    """The whole daemon of a site, on ports of its own."""
    config = directory / "smqpd.toml"
    settings = load(config, INSTALLED)
    smqp = msgspec.structs.replace(settings.plugins["smqp"], listen=("127.0.0.1:0",))
    settings = msgspec.structs.replace(settings, plugins={"smqp": smqp})
    with state_lock(settings.site.state_directory):
        await serve_site(config, settings, INSTALLED, Notifier({}), {}, task_status)


def _command(*words: str) -> None:
    sys.argv = ["smqpd", *words]
    said = io.StringIO()
    try:
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            main()
    except SystemExit as ended:
        if ended.code:
            raise RuntimeError(f"smqpd {' '.join(words)}: {said.getvalue()}") from None


# -- the judge ------------------------------------------------------------------------------------


def judge_state(directory: Path, recording: Recording, note: Note, cuts: dict[str, Cut]) -> list[str]:
    """What is wrong with a state of everything."""
    (cut,) = cuts.values()
    violations = [
        f"while {note.step or 'nothing is under way'}: {text}" for text in _judge_files(recording, note, cut)
    ]
    try:
        for path in _sites(directory, note):
            trio.run(_judge_site, path, note)
        if (directory / "ca" / "crl.pem").exists():
            authority = Authority.open(directory / "ca")
            authority.issued(), authority.revoked_serials()
    except Exception as error:
        violations.append(f"while {note.step or 'nothing is under way'}: {shown(error)}")
    return violations


def _judge_files(recording: Recording, note: Note, cut: Cut) -> list[str]:
    """Each file is as it was before the step, or as it is after it."""
    before, after = _around(recording, note)
    if note.step.startswith("init"):
        return []  # what is made by a command that did not end can be removed, and made again
    out = []
    command, *words = note.step.split(" ")
    made: set[str] = set()
    replaced = ""
    if command in ("backup", "restore"):
        made = _tops(after) - _tops(before)
    if command == "restore" and Path(words[1]).name not in made:
        replaced = Path(words[1]).name
        out += _judge_replaced(replaced, before, after, cut.tree)
    for path in sorted(before.keys() | after.keys() | cut.tree.keys()):
        top = path.partition("/")[0]
        if top == replaced or _is_the_daemons(path) or any(part[:1] == "." for part in path.split("/")):
            continue
        found, allowed = cut.tree.get(path, b"gone"), {before.get(path, b"gone"), after.get(path, b"gone")}
        if top in made and top in cut.tree:
            allowed = {after.get(path, b"gone")}  # all of a backup is there, or nothing
        if found not in allowed:
            out.append(f"{path} is {_size(found)}, neither as it was nor as it was to be")
    return out


def _judge_replaced(name: str, before: Tree, after: Tree, found: Tree) -> list[str]:
    """What is in the place of a site is all old or all new; and the old one is there, by whatever name."""
    was, is_to_be, is_now = (_below(tree, name) for tree in (before, after, found))
    if is_now not in (was, is_to_be, {}):
        return [f"{name} is neither as it was nor as it was to be"]
    if was and not any(_below(found, top) == was for top in _tops(found)):
        return [f"{name} as it was is gone"]
    return []


def _tops(tree: Tree) -> set[str]:
    return {path.partition("/")[0] for path in tree}


def _below(tree: Tree, top: str) -> Tree:
    return {
        path.partition("/")[2]: content
        for path, content in tree.items()
        if path.startswith(f"{top}/") and not _is_the_daemons(path)
    }


def _size(found: bytes | None) -> str:
    return "gone" if found == b"gone" else "a directory" if found is None else f"{len(found)} bytes"


def _is_the_daemons(path: str) -> bool:
    return path.startswith((f"{SITE}/state/",)) or path.endswith((".lock", "/lock"))


_TREES: dict[int, list[tuple[Note, Tree]]] = {}


def _around(recording: Recording, note: Note) -> tuple[Tree, Tree]:
    """What was there before the step of this note began, and what once it had ended."""
    trees = _TREES.get(recording.seed)
    if trees is None:
        trees = _TREES[recording.seed] = _all_trees(recording)
    at = note.number
    if not note.step:
        return trees[at][1], trees[at][1]
    first = max(number for number, (one, _) in enumerate(trees[: at + 1]) if not one.step)
    last = next(number for number, (one, _) in enumerate(trees) if number > at and not one.step)
    return trees[first][1], trees[last][1]


def _all_trees(recording: Recording) -> list[tuple[Note, Tree]]:
    disk = Disk(recording.disk.root, scan=False)
    out = []
    for event in recording.events:
        if event.kind == "mark":
            out.append((recording.note(event.offset), disk.now(disk.root)))
        else:
            disk.apply([event])
    return out


def _sites(directory: Path, note: Note) -> list[Path]:
    """Those that have to start: the site itself, and one of its backups, or a site made of one."""
    if not note.answered and not note.step.startswith("run"):
        return []
    copies = note.restored if note.number % 2 and not note.step.startswith("restore") else note.backups
    newest = max(copies, default=None)
    return [directory / SITE, *([directory / newest] if newest is not None else [])]


async def _judge_site(path: Path, note: Note) -> None:
    """It starts, its accounts and peers are there, and what was answered is held. Raises what is wrong."""
    copies = {**note.backups, **note.restored}
    wanted = copies.get(path.name, note.answered - note.taken)
    read_accounts(path / "accounts.toml")
    load_peers(path / "peers.toml")
    with trio.fail_after(PATIENCE_S):
        async with trio.open_nursery() as nursery:
            site = await nursery.start(serve, path)
            store: Store = site.broker._store
            wires = store.load(list(site.broker._router._state.entries)).wires.values()
            held = {decode_message(wire).sections[0].body.decode() for wire in wires}
            if not wanted <= held:
                raise AssertionError(f"{path.name} has lost {sorted(wanted - held)}")
            if path.name == SITE and held & note.finished:
                raise AssertionError(f"{path.name} has {sorted(held & note.finished)} again")
            nursery.cancel_scope.cancel()

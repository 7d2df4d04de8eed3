"""A disk as its files are written and synced, and what it may hold once the power has gone.

What POSIX promises, and no more: what was written to a file is there once the file was synced; what was
created, renamed or removed in a directory once the directory was. Of all else any part may be there: each
sector of a write, each change of a directory, in any order, and a file may have grown without what it grew
by, which then reads as zeros. A rename within a directory happens or not, and nothing between.
"""

import random
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final, Literal, get_args

import msgspec

from tests.power.recorder import Event

SECTOR_BYTES: Final = 512

Loss = Literal[
    "nothing kept",  # of what was not synced
    "all kept",  # a kill
    "in order",  # what was written first, up to some write, which may be torn
    "one lost",
    "one kept",
    "at random",
]

Keeps = Callable[[int, int], bool]
"""Whether a sector (the second number) of the change with some number is there; changes of a directory have
one."""


class File:
    """A file.

    Attributes:
        synced: what it holds for certain.
        pending: since then: (number of the change, offset, data); data is None for a new size.
    """

    def __init__(self, content: bytes = b"") -> None:
        self.synced = content
        self.pending: list[tuple[int, int, bytes | None]] = []

    def now(self) -> bytes:
        """What a reader sees."""
        return self.after(lambda change, sector: True, grows=False)

    def after(self, keeps: Keeps, *, grows: bool) -> bytes:
        """What is there after a loss; `grows`: also the sizes of what is lost."""
        if not self.pending:
            return self.synced
        content = bytearray(self.synced)
        for change, offset, data in self.pending:
            if data is None:
                if keeps(change, 0):
                    _resize(content, offset)
                continue
            if grows and len(content) < offset + len(data):
                _resize(content, offset + len(data))
            for sector in range(offset // SECTOR_BYTES, (offset + len(data) - 1) // SECTOR_BYTES + 1):
                if not keeps(change, sector):
                    continue
                first = max(sector * SECTOR_BYTES, offset)
                last = min((sector + 1) * SECTOR_BYTES, offset + len(data))
                if len(content) < first:
                    _resize(content, first)
                content[first:last] = data[first - offset : last - offset]
        return bytes(content)

    def sync(self) -> None:
        self.synced = self.now()
        self.pending.clear()


class Directory:
    """A directory.

    Attributes:
        names: as a reader sees it.
        synced: what it holds for certain.
        pending: since then: (number of the change, what each name has become).
    """

    def __init__(self) -> None:
        self.names: dict[str, Node] = {}
        self.synced: dict[str, Node] = {}
        self.pending: list[tuple[int, dict[str, Node | None]]] = []

    def change(self, number: int, names: dict[str, "Node | None"]) -> None:
        self.pending.append((number, names))
        _apply(self.names, names)

    def after(self, keeps: Keeps) -> dict[str, "Node"]:
        """What is there after a loss."""
        names = dict(self.synced)
        for number, change in self.pending:
            if keeps(number, 0):
                _apply(names, change)
        return names

    def sync(self) -> None:
        self.synced = dict(self.names)
        self.pending.clear()


Node = File | Directory
Tree = dict[str, bytes | None]
"""Files by path below a directory; None for a directory."""


class Cut(msgspec.Struct):
    """What is there after the power has gone.

    Attributes:
        tree: all of it.
        before: what was there before.
    """

    loss: Loss
    tree: Tree
    before: Tree

    @property
    def lost(self) -> list[str]:
        """What is not as it was."""
        paths = sorted(self.tree.keys() | self.before.keys())
        return [path for path in paths if self.tree.get(path, b"-") != self.before.get(path, b"-")]

    def write(self, directory: Path) -> None:
        """Put it in the place of what is in the directory."""
        write_tree(self.tree, directory)


class Disk:
    """All that is below `root`; at first as it is, and all of that synced."""

    def __init__(self, root: Path, *, scan: bool = True) -> None:
        """`scan`: or the root is empty."""
        self.root = root
        self._top = Directory()
        self._by_inode: dict[int, Node] = {}
        self._changes = 0
        if scan:
            self.adopt(root)

    def adopt(self, directory: Path) -> None:
        """What is below a directory now is there for certain."""
        top = self._scan(directory)
        if directory == self.root:
            self._top = top
            return
        parent, name = self._parent(directory.as_posix())
        parent.names[name] = parent.synced[name] = top

    def _scan(self, directory: Path) -> Directory:
        found = Directory()
        for path in directory.iterdir():
            if not (path.is_dir() or path.is_file()):
                continue  # a socket
            found.names[path.name] = self._scan(path) if path.is_dir() else File(path.read_bytes())
            self._by_inode[path.stat().st_ino] = found.names[path.name]
        self._by_inode[directory.stat().st_ino] = found
        found.sync()
        return found

    def _parent(self, path: str) -> tuple[Directory, str]:
        node: Node = self._top
        *above, name = Path(path).relative_to(self.root).parts
        for part in above:
            assert isinstance(node, Directory)
            node = node.names[part]
        assert isinstance(node, Directory)
        return node, name

    def node(self, directory: Path) -> Directory:
        """A directory, as it is now."""
        if directory == self.root:
            return self._top
        parent, name = self._parent(directory.as_posix())
        found = parent.names[name]
        assert isinstance(found, Directory)
        return found

    def apply(self, events: Iterable[Event]) -> None:
        """These have happened."""
        for event in events:
            self._changes += 1
            self._apply(event)

    def _apply(self, event: Event) -> None:
        number = self._changes
        match event.kind:
            case "create" | "mkdir":
                node: Node = File() if event.kind == "create" else Directory()
                self._by_inode[event.inode] = node
                parent, name = self._parent(event.path)
                parent.change(number, {name: node})
            case "write" | "truncate":
                file = self._by_inode.get(event.inode)
                if isinstance(file, File):
                    file.pending.append((number, event.offset, event.data if event.kind == "write" else None))
            case "sync":
                if (found := self._by_inode.get(event.inode)) is not None:
                    found.sync()
            case "rename":
                (old, old_name), (new, new_name) = self._parent(event.path), self._parent(event.to)
                moved = old.names[old_name]
                if old is new:
                    old.change(number, {old_name: None, new_name: moved})
                else:
                    new.change(number, {new_name: moved})
                    old.change(number, {old_name: None})
            case "link":
                (old, old_name), (new, new_name) = self._parent(event.path), self._parent(event.to)
                new.change(number, {new_name: old.names[old_name]})
            case "unlink":
                parent, name = self._parent(event.path)
                parent.change(number, {name: None})

    def now(self, directory: Path) -> Tree:
        """What a reader sees below a directory."""
        return _tree(self.node(directory), lambda change, sector: True, grows=False, names_now=True)

    def cut(self, directory: Path, chance: random.Random, loss: Loss | None = None) -> Cut:
        """What may be left below a directory if the power goes now; which of it, `chance` says."""
        top = self.node(directory)
        pending = sorted(_pending(top, set()))
        kind: Loss = chance.choice(get_args(Loss)) if loss is None else loss
        one = chance.choice(pending) if pending else 0
        share, grows = chance.choice((0.1, 0.5, 0.9)), chance.random() < 0.3
        torn = random.Random(chance.random())

        def keeps(change: int, sector: int) -> bool:
            match kind:
                case "nothing kept":
                    return False
                case "all kept":
                    return True
                case "in order":
                    return change < one or (change == one and torn.random() < 0.5)
                case "one lost":
                    return change != one
                case "one kept":
                    return change == one
                case _:  # at random
                    return torn.random() < share

        grows = grows and kind != "all kept"
        return Cut(kind, _tree(top, keeps, grows=grows), self.now(directory))


def write_tree(tree: Tree, directory: Path) -> None:
    """Make files and directories, for their owner only, in the place of those that are there."""
    if directory.exists():
        shutil.rmtree(directory)
    directory.mkdir(mode=0o700, parents=True)
    for path, content in tree.items():
        if content is None:
            (directory / path).mkdir(mode=0o700)
            continue
        (directory / path).write_bytes(content)
        (directory / path).chmod(0o600)


def _tree(top: Directory, keeps: Keeps, *, grows: bool, names_now: bool = False, prefix: str = "") -> Tree:
    tree: Tree = {}
    for name, node in (top.names if names_now else top.after(keeps)).items():
        if isinstance(node, File):
            tree[prefix + name] = node.after(keeps, grows=grows)
        else:
            tree[prefix + name] = None
            tree |= _tree(node, keeps, grows=grows, names_now=names_now, prefix=f"{prefix}{name}/")
    return tree


def _pending(directory: Directory, seen: set[int]) -> Iterable[int]:
    """The numbers of all changes that are not synced, also of what has been unlinked."""
    yield from (number for number, _ in directory.pending)
    nodes = [*directory.names.values(), *directory.synced.values()]
    nodes += [node for _, change in directory.pending for node in change.values() if node is not None]
    for node in nodes:
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, File):
            yield from (number for number, _, _ in node.pending)
        else:
            yield from _pending(node, seen)


def _apply(names: dict[str, Node], change: dict[str, Node | None]) -> None:
    for name, node in change.items():
        if node is None:
            names.pop(name, None)
        else:
            names[name] = node


def _resize(content: bytearray, size: int) -> None:
    if size < len(content):
        del content[size:]
    else:
        content.extend(bytes(size - len(content)))

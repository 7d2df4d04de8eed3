"""Changes to the file of the peers, for `smqpd peer`: comments and order stay, and it is replaced whole."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import tomlkit
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import AoT

from daemon.link.peers_file import PeerEntry, load_peers
from daemon.settings import ConfigError
from daemon.system import private_files


def add_peer(path: Path, peer: PeerEntry, *, replace: bool = False) -> None:
    """Write the peer into the file, made if it is not there; `replace`: in the place of what it was.

    Raises ConfigError if it is already a peer and not to be replaced, or if the file cannot be written.
    """
    with _edit(path) as document:
        if peer.name not in load_peers(path):
            table = tomlkit.table()
            document.setdefault("peers", tomlkit.aot()).append(table)
        elif replace:
            table = _tables(document)[_index(document, peer.name)]
        else:
            raise ConfigError(path, "peers", f"{peer.name} is already a peer; --replace changes it")
        for name in peer.__struct_fields__:
            value = getattr(peer, name)
            if value is not None:
                table[name] = list(value) if isinstance(value, tuple) else value
            else:
                table.pop(name, None)


def remove_peer(path: Path, name: str) -> None:
    """Take the peer out of the file; everything else in it stays.

    Raises ConfigError if it is no peer, or if the file cannot be written.
    """
    with _edit(path) as document:
        if name not in load_peers(path):
            raise ConfigError(path, "peers", f"{name} is not a peer")
        tables = _tables(document)
        del tables[_index(document, name)]
        if not tables:
            del document["peers"]


def _tables(document: tomlkit.TOMLDocument) -> AoT:
    tables = document["peers"]
    assert isinstance(tables, AoT)
    return tables


def _index(document: tomlkit.TOMLDocument, name: str) -> int:
    return next(number for number, table in enumerate(_tables(document)) if table["name"] == name)


@contextmanager
def _edit(path: Path) -> Iterator[tomlkit.TOMLDocument]:
    """One editor at a time, and all of the block's changes or none."""
    try:
        with private_files.alone(path.parent):
            document = tomlkit.parse(path.read_text(encoding="utf-8") if path.exists() else "")
            yield document
            text = tomlkit.dumps(document)
            text += "\n" if text and not text.endswith("\n") else ""
            private_files.replace(path, text.encode())
    except OSError as error:
        raise ConfigError(path, "", f"cannot be changed: {error.strerror or error}") from None
    except (UnicodeDecodeError, TOMLKitError) as error:
        raise ConfigError(path, "", f"cannot be read: {error}") from None

"""Changes to the file of the peers, for `smqpd peer`: comments and order stay, and it is replaced whole.

Peers that are written as one list, `peers = [{name = "beta"}]`, are written anew as a table each, and only
then lose their comments: the library that keeps those puts no table into a list.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import tomlkit
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import AoT

from daemon.configuration.config import parse_toml
from daemon.link.peers_file import PEERS_MAX, PeerEntry, load_peers
from daemon.settings import ConfigError
from daemon.system import private_files


def add_peer(path: Path, peer: PeerEntry, *, replace: bool = False) -> None:
    """Write the peer into the file, made if it is not there; `replace`: in the place of what it was.

    Raises ConfigError if it is already a peer and not to be replaced, if there are as many as may be, or if
    the file cannot be written.
    """
    with _edit(path) as document:
        peers, tables = load_peers(path), _tables(document)
        if peer.name in peers and replace:
            table = tables[_index(tables, peer.name)]
        elif peer.name in peers:
            raise ConfigError(path, "peers", f"{peer.name} is already a peer; --replace changes it")
        elif len(peers) >= PEERS_MAX:
            raise ConfigError(path, "peers", f"there are {PEERS_MAX:,} already, and no more may be")
        else:
            table = tomlkit.table()
            tables.append(table)
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
        del tables[_index(tables, name)]
        if not tables:
            del document["peers"]


def _tables(document: tomlkit.TOMLDocument) -> AoT:
    """The table of each peer, with room for one more."""
    if not isinstance(document.get("peers"), AoT):
        listed = document.pop("peers", tomlkit.array())
        document["peers"] = tomlkit.aot()
        for peer in listed.unwrap():
            document["peers"].append(tomlkit.item(peer))
    tables: AoT = document["peers"]
    return tables


def _index(tables: AoT, name: str) -> int:
    return next(number for number, table in enumerate(tables) if table["name"] == name)


@contextmanager
def _edit(path: Path) -> Iterator[tomlkit.TOMLDocument]:
    """One editor at a time, and all of the block's changes or none."""
    try:
        with private_files.alone(path.parent):
            before = path.read_text(encoding="utf-8") if path.exists() else ""
            document = tomlkit.parse(_ended(before))
            yield document
            text = _ended(tomlkit.dumps(document))
            parse_toml(path, text.encode())
            private_files.replace(path, text.encode())
    except OSError as error:
        raise ConfigError(path, "", f"cannot be changed: {error.strerror or error}") from None
    except (UnicodeDecodeError, TOMLKitError) as error:
        raise ConfigError(path, "", f"cannot be read: {error}") from None


def _ended(text: str) -> str:
    """`text` with the end of its last line, behind which the library would write on."""
    return f"{text}\n" if text and not text.endswith("\n") else text

"""Two daemons that speak STOMP and are linked by mutual TLS, each in the foreground, for `tests/bench`.

    python -m tests.support.stomp_pair first --port PORT --data DIR --second PORT
    python -m tests.support.stomp_pair second --port PORT --data DIR

`first` makes both sites below its directory, and leaves a note where the second one is. What has no depth
goes to both. Accounts as in `tests.support.stomp_site`.
"""

import argparse
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from daemon.certificates.authority import Authority
from daemon.link.peers_editor import add_peer
from daemon.link.peers_file import PeerEntry
from tests.support.keys import write_keys
from tests.support.stomp_site import become_daemon, make_stomp_site

LINK_PORTS_ABOVE = 100
"""From the port of STOMP to that of links."""


def note(port: int) -> Path:
    """Where it stands which directory is the second site's."""
    return Path(tempfile.gettempdir()) / f"smqpd-stomp-pair-{port}"


def make_pair(directory: Path, ports: tuple[int, int]) -> Path:
    """Both sites; the configuration of the first."""
    now = datetime.now(UTC)
    authority = Authority.create(directory / "ca", "bench", 365, now)
    names = ("first", "second")
    configs = []
    for name, port in zip(names, ports, strict=True):
        config = make_stomp_site(directory / name, port, name=name, depth=1)
        listen = f"[links]\nlisten = ['127.0.0.1:{port + LINK_PORTS_ABOVE}']\n"
        config.write_text(config.read_text().replace("[links]\n", listen))
        write_keys(authority, name, directory / name / "keys", now)
        configs.append(config)
    for name, (other, port) in zip(names, reversed(list(zip(names, ports, strict=True))), strict=True):
        address = f"127.0.0.1:{port + LINK_PORTS_ABOVE}"
        add_peer(directory / name / "peers.toml", PeerEntry(name=other, address=address))
    note(ports[1]).write_text(str(configs[1]))
    return configs[0]


def main() -> None:
    """Become the daemon of one of them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("which", choices=["first", "second"])
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--second", type=int)
    given = parser.parse_args()
    if given.which == "first":
        become_daemon(make_pair(given.data, (given.port, given.second)))
    become_daemon(Path(note(given.port).read_text()))


if __name__ == "__main__":
    main()

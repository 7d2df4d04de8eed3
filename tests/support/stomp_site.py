"""A daemon that speaks STOMP, as a process: its site is made in a new directory, then run in the foreground.

    python -m tests.support.stomp_site --port PORT --data DIR [--websocket PORT] [--tls PORT]

Its one account is guest with the password guest and every right. Where DIR holds a site, that is run again.
"""

import argparse
import os
import sys
from pathlib import Path
from typing import NoReturn

from daemon.accounts.accounts_editor import edit
from daemon.accounts.accounts_file import Account
from routing.rights import EVERYTHING
from tests.support.made_site import made_site
from tests.support.passwords import cheap_hash
from tests.support.process import inherited

ROOT = Path(__file__).parent.parent.parent


def make_stomp_site(
    directory: Path,
    port: int,
    websocket: int | None = None,
    tls: int | None = None,
    name: str = "stomp.example",
    depth: int = 0,
) -> Path:
    """Make the site; its configuration file."""
    config = made_site(directory, name, 0, is_bare=True).config
    with edit(directory / "accounts.toml") as editor:
        editor.add("guest", Account(password=cheap_hash("guest"), rights=EVERYTHING))
    listen = {"listen": port, "listen_websocket": websocket, "listen_tls": tls}
    tables = ["", "[plugins.smqp]", "enabled = false", "", "[plugins.stomp]", f"depth = {depth}"]
    tables += [
        f'{name} = ["127.0.0.1:{number}"]' if number else f"{name} = []" for name, number in listen.items()
    ]
    with config.open("a") as file:
        file.write("\n".join((*tables, "")))
    return config


def stomp_environment(directory: Path) -> dict[str, str]:
    """For a daemon of this checkout: STOMP is found in it even where it is not installed."""
    installed = directory / "installed" / "smqpd_stomp-1.dist-info"
    installed.mkdir(parents=True, exist_ok=True)
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: smqpd-stomp\nVersion: 1\n")
    (installed / "entry_points.txt").write_text(
        "[smqpd.plugins]\nsmqp = plugins.smqp.plugin:plugin\nstomp = plugins.stomp.plugin:plugin\n"
    )
    return {**inherited(), "PYTHONPATH": f"{ROOT}:{installed.parent}"}


def main() -> None:
    """Make the site if need be, and become its daemon."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--websocket", type=int)
    parser.add_argument("--tls", type=int)
    options = parser.parse_args()
    directory = options.data / "site"
    config = directory / "smqpd.toml"
    if not config.exists():
        config = make_stomp_site(directory, options.port, options.websocket, options.tls)
    become_daemon(config)


def become_daemon(config: Path) -> NoReturn:
    """This process becomes the daemon of a site."""
    directory = config.parent
    os.chdir(ROOT)
    os.execve(sys.executable, [sys.executable, "-m", "daemon", str(config)], stomp_environment(directory))


if __name__ == "__main__":
    main()

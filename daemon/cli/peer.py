"""`smqpd peer`: who may link with this site, and what may cross. A running site takes it on, or says why."""

from pathlib import Path
from typing import Annotated

import msgspec
import typer

from daemon.cli.asking import decoded, line
from daemon.cli.completing import complete_peer
from daemon.cli.options import DEFAULT_CONFIG, ConfigOption, read_settings
from daemon.cli.telling import tell
from daemon.configuration.config import typed
from daemon.control.client import Question
from daemon.link.peers_editor import add_peer, remove_peer
from daemon.link.peers_file import EVERYTHING, PeerEntry, load_peers
from daemon.operating.federation import LinkStatus
from daemon.settings import ConfigError
from daemon.terminal.failure import USAGE, Failure
from daemon.terminal.figures import counted
from daemon.terminal.output import JsonOption, show_table
from daemon.terminal.printable import printable
from routing.names import is_server_name

app = typer.Typer(help="The sites that this one links with.", no_args_is_help=True)

PeerName = Annotated[
    str,
    typer.Argument(metavar="NAME", help="The server name in its certificate.", autocompletion=complete_peer),
]
NOTHING = "none"


@app.command()
def add(
    name: PeerName,
    address: Annotated[
        str | None,
        typer.Argument(metavar="HOST:PORT", help="Where to dial it; absent: it dials this site."),
    ] = None,
    allow_in: Annotated[
        list[str] | None,
        typer.Option("--allow-in", metavar="PATTERN", help="Topics that may come from it; `none` for none."),
    ] = None,
    allow_out: Annotated[
        list[str] | None,
        typer.Option("--allow-out", metavar="PATTERN", help="Topics that may go to it; `none` for none."),
    ] = None,
    depth_max: Annotated[
        int, typer.Option(min=-1, help="How far at most what comes from it may go on; -1: any.")
    ] = -1,
    flood: Annotated[
        bool, typer.Option("--flood", help="Send it also what nobody there subscribes to.")
    ] = False,
    replace: Annotated[
        bool, typer.Option("--replace", help="It is a peer already: this is all that holds for it now.")
    ] = False,
    config: ConfigOption = DEFAULT_CONFIG,
    as_json: JsonOption = False,
) -> None:
    """Link with a site. Pattern options can be given several times; without them every topic may cross."""
    settings = read_settings(config)
    if name == settings.site.server_name:
        raise Failure(f"{name} is this site itself; name another", USAGE)
    path = settings.links.peers_file
    given = {
        "name": name,
        "address": address,
        "allow_in": _patterns(allow_in),
        "allow_out": _patterns(allow_out),
        "depth_max": depth_max,
        "flood": flood,
    }
    try:
        # as a file would be, so that both are held to the same rules
        peer = typed(path, "", given, PeerEntry)
    except ConfigError as error:
        raise Failure(f"not a peer: {error.key}{': ' if error.key else ''}{error.problem}", USAGE) from None
    done = "Changed" if replace and name in load_peers(path) else "Added"
    add_peer(path, peer, replace=replace)
    _say(name, tell(config, settings.site.state_directory, f"{done} {name}.", ["peers"]), as_json)


@app.command()
def remove(name: PeerName, config: ConfigOption = DEFAULT_CONFIG, as_json: JsonOption = False) -> None:
    """Link with a site no longer; a link that is up ends, and what waits for it is not sent.

    What the site may have without having said so passes for denied: a message of mode ONE goes to another
    subscriber then, and may come twice. So remove it when `smqpd peers` shows nothing unanswered.
    """
    if not is_server_name(name):
        raise Failure(f"{printable(name)!r} is not a server name", USAGE)
    settings = read_settings(config)
    waited = _waiting(settings.site.state_directory, name)
    remove_peer(settings.links.peers_file, name)
    for_it = f", for which {counted(waited, 'message')} waited" if waited else ""
    done = tell(config, settings.site.state_directory, f"Removed {name}{for_it}.", ["peers"])
    _say(name, done, as_json, waited=waited)


def _waiting(state_directory: Path, name: str) -> int:
    """How many messages a peer has not answered for; 0 where that is not known, as where no site runs."""
    try:
        links = decoded(line(state_directory, Question(ask="peers")), list[LinkStatus])
    except Failure:  # whoever has the site take the change on says why
        return 0
    return sum(link.messages for link in links if link.peer == name)


def _say(name: str, done: str, as_json: bool, **more: int) -> None:
    typer.echo(msgspec.json.encode({"peer": name, **more, "done": done}) if as_json else done)


@app.command("list")
def list_(config: ConfigOption = DEFAULT_CONFIG, as_json: JsonOption = False) -> None:
    """Show the peers and their rules; `smqpd peers` shows the state of the links."""
    peers = load_peers(read_settings(config).links.peers_file)
    if as_json:
        typer.echo(msgspec.json.encode(list(peers.values())))
        return
    rows = [
        (
            peer.name,
            peer.address or "(dials us)",
            " ".join(peer.allow_in) or "-",
            " ".join(peer.allow_out) or "-",
            "any" if peer.depth_max < 0 else str(peer.depth_max),
            "yes" if peer.flood else "no",
        )
        for peer in peers.values()
    ]
    columns = ("name", "address", "may come", "may go", "depth", "flood")
    show_table(columns, rows, folds=("name", "may come", "may go"))


def _patterns(given: list[str] | None) -> tuple[str, ...]:
    if given == [NOTHING]:
        return ()
    return tuple(given) if given else EVERYTHING

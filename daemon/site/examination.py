"""What a site makes of its files: all are read, and judged part by part.

One code decides for `smqpd run`, which does not start with what is refused; for a reload, which takes on
each part that is good and keeps the others as they were; and for `smqpd config check`, which says it before.
"""

import errno
import os
from collections.abc import Collection, Iterator
from datetime import datetime
from pathlib import Path
from typing import Final

import msgspec

from daemon.accounts.accounts_file import Account, read_accounts
from daemon.certificates.errors import CertificateError
from daemon.certificates.expiry import Expiry
from daemon.certificates.files import KEY_FILE
from daemon.certificates.tls import ClientTls
from daemon.configuration.discovery import Installed
from daemon.connections.listen import ListenError, clash, reason_of, split_address, try_to_listen
from daemon.control.client import SOCKET
from daemon.link.keys import LinkKeys
from daemon.link.peers_file import PeerEntry, load_peers
from daemon.settings import HOPS, STORE, ConfigError, LinkSettings, Settings
from daemon.site.finding import Finding, Part
from daemon.site.lock import LOCK
from daemon.site.state_mark import INSTALLATION, check_state
from daemon.store.reserve import RESERVE
from daemon.terminal.failure import because

LINKS_SOCKET: Final = "smqp-links"
"""The name of a socket that the service manager opens for peers."""

_STATE_FILES: Final = (
    *(f"{STORE}{suffix}" for suffix in ("", "-wal", "-shm", "-journal")),
    LOCK,
    SOCKET,
    RESERVE,
    INSTALLATION,
)


class Examination(msgspec.Struct):
    """What was found.

    Attributes:
        accounts, tls, peers: None where they are refused.
        keys: None where they are refused, and where the site has no links.
        findings: without the ends in `expiries`, which become findings as time passes.
    """

    settings: Settings
    accounts: dict[str, Account] | None = None
    tls: ClientTls | None = None
    peers: dict[str, PeerEntry] | None = None
    keys: LinkKeys | None = None
    findings: list[Finding] = []

    @property
    def refused(self) -> list[Finding]:
        """Why a site does not start."""
        return [finding for finding in self.findings if finding.level == "refused"]

    @property
    def expiries(self) -> list[Expiry]:
        """When what was read ends."""
        return [*(self.tls.expiries if self.tls else ()), *(self.keys.expiries if self.keys else ())]

    def everything(self, now: datetime) -> list[Finding]:
        """All that is to be said at `now`."""
        return [*self.findings, *expired(self.expiries, now)]


def expired(expiries: Collection[Expiry], now: datetime) -> list[Finding]:
    """What is to be said of certificates and lists at `now`."""
    return [
        Finding("certificates", "broken" if expiry.is_invalid(now) else "warning", words)
        for expiry in expiries
        if (words := expiry.words(now)) is not None
    ]


def examine(
    config: Path,
    settings: Settings,
    installed: Installed,
    now: datetime,
    *,
    passed: Collection[str] = (),
    links: bool = False,
    has_peers: bool = False,
    starts: bool = True,
) -> Examination:
    """Read the files of the site whose `settings` stand in `config`; changes nothing. Never raises.

    `passed`: names of the sockets that the service manager has opened. `links`: whether the site has links
    already; `has_peers`: whether it knows peers. `starts`: False for a site that runs, whose front ends and
    state are no longer to be judged.
    """
    found = Examination(settings)

    def refuse(part: Part, error: Exception) -> None:
        found.findings.append(Finding(part, "refused", because(error)))

    try:
        found.accounts = read_accounts(settings.site.accounts_file)
    except (ConfigError, OSError) as error:
        refuse("accounts", error)
    try:
        found.tls = ClientTls(settings.tls)
    except (ConfigError, OSError) as error:
        refuse("tls", error)
    try:
        _check_there(config, settings.links.peers_file, has_peers)
        found.peers = load_peers(settings.links.peers_file)
    except (ConfigError, OSError) as error:
        refuse("peers", error)
    if links or has_links(settings, found.peers or {}, LINKS_SOCKET in passed):
        try:
            found.keys = LinkKeys.load(settings.links.keys_directory, settings.site.server_name)
        except (CertificateError, OSError) as error:
            refuse("keys", error)
    found.findings += _of_links(found, now, LINKS_SOCKET in passed)
    if starts:
        found.findings += _of_front_ends(settings, installed, found.accounts or {}, passed)
        found.findings += _of_state(config, settings)
    return found


def _check_there(config: Path, peers_file: Path, has_peers: bool) -> None:
    """Raise ConfigError where there should be a file of peers, and there is none: its name may be misspelt.

    A site that has no peers needs none where a site without a word of it has one.
    """
    usual = config.absolute().parent / LinkSettings().peers_file
    if (has_peers or peers_file != usual) and not peers_file.exists():
        raise ConfigError(peers_file, "", "there is no such file; an empty one is for a site without peers")


def has_links(settings: Settings, peers: Collection[str], passed: bool) -> bool:
    """Whether the site links: it has peers, or listens for some, or has a key to be known by."""
    links = settings.links
    try:
        return bool(peers or links.listen or passed) or (links.keys_directory / KEY_FILE).exists()
    except OSError:  # whoever reads the keys says why
        return True


def _of_links(found: Examination, now: datetime, passed: bool) -> Iterator[Finding]:
    flaw = found.keys.flaw(now) if found.keys else None
    if flaw is not None:
        yield Finding("keys", "broken", flaw)
    own = found.settings.site.server_name
    for peer in (found.peers or {}).values():
        if peer.name == own:
            yield Finding("peers", "warning", f"{peer.name} is this site itself; no link comes of it")
        elif peer.address is None and not (found.settings.links.listen or passed):
            yield Finding(
                "peers",
                "warning",
                f"{peer.name} has no address, so it has to dial this site, which listens for no peers: see"
                " listen in [links] (or the unit smqpd-links@.socket)",
            )


def _of_front_ends(
    settings: Settings, installed: Installed, accounts: Collection[str], passed: Collection[str]
) -> Iterator[Finding]:
    if not settings.plugins:
        problem = "no front end is enabled, nobody could connect; see [plugins] in the configuration"
        yield Finding("front ends", "refused", problem)
    yield from _of_addresses(settings, passed)
    for name, table_settings in settings.plugins.items():
        plugin = installed.plugins[name]
        lists = [
            addresses for table, addresses in _addresses(settings) if table.startswith(f"[plugins.{name}]")
        ]
        if lists and not any(lists) and not passed:
            problem = f"[plugins.{name}] listens nowhere (unless a socket unit listens for it)"
            yield Finding("front ends", "warning", problem)
        try:
            for problem in plugin.check(table_settings, accounts):
                yield Finding("front ends", "warning", f"[plugins.{name}]: {problem}")
        except (ConfigError, OSError) as error:
            yield Finding("front ends", "refused", because(error))


def _of_addresses(settings: Settings, passed: Collection[str]) -> Iterator[Finding]:
    taken: dict[tuple[str | None, int], str] = {}
    for table, listening in _addresses(settings):
        for address in listening:
            try:
                where = split_address(address)
                (where[0] or "").encode("idna")
            except ValueError as error:
                yield Finding("front ends", "refused", f"{table}: {address} cannot be listened on: {error}")
                continue
            other = next((other for other in taken if clash(where, other)), None)
            if other is not None:
                problem = f"{table} and {taken[other]} both listen on {address}"
                yield Finding("front ends", "warning" if passed else "refused", problem)
            taken[where] = table


def listening(settings: Settings, own_ports: Collection[int] | None = ()) -> list[Finding]:
    """What would keep a start from listening now. Blocks.

    `own_ports`: those that the running site has itself; None where that is not known, and any that is taken
    may be its own. Nothing is said of addresses that clash, or cannot be read: see `examine`.
    """
    found = []
    for table, address, port, error in _closed(settings):
        if error.errno == errno.EADDRINUSE and (own_ports is None or port in own_ports):
            continue
        problem = f"{table}: {address} cannot be listened on now: {error.strerror or error}"
        if error.errno in (errno.EADDRINUSE, errno.EACCES):
            problem += "; a start would be refused, unless a socket unit listens for it"
            found.append(Finding("front ends", "warning", problem))
        else:
            found.append(Finding("front ends", "refused", problem))
    return found


def check_listening(settings: Settings) -> None:
    """Raise ListenError where a start that no socket unit listens for could not listen now. Blocks."""
    for table, address, _, error in _closed(settings):
        raise ListenError(f"cannot listen on {address}, as {table} says: {reason_of(error)}")


def _closed(settings: Settings) -> Iterator[tuple[str, str, int, OSError]]:
    """Where this user could not listen now: the setting, the address, its port, and why."""
    for table, addresses in _addresses(settings):
        for address in addresses:
            try:
                host, port = split_address(address)
                try_to_listen(host, port)
            except ValueError:
                continue
            except OSError as error:
                yield table, address, port, error


def _addresses(settings: Settings) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Each setting that says where to listen, with its addresses."""
    yield "[links] listen", settings.links.listen
    for name, table in settings.plugins.items():
        for field in table.__struct_fields__:
            if field.startswith("listen"):
                yield f"[plugins.{name}] {field}", getattr(table, field)


def _of_state(config: Path, settings: Settings) -> Iterator[Finding]:
    state = settings.site.state_directory
    try:
        for directory in (state, state / HOPS):
            there = next(path for path in (directory, *directory.parents) if path.exists())
            if not there.is_dir():
                yield Finding("state", "refused", f"{there}: is not a directory")
                return
            if not os.access(there, os.R_OK | os.W_OK | os.X_OK, effective_ids=True):
                yield Finding("state", "refused", f"{there}: may not be written")
                return
        for name in _STATE_FILES:
            if (state / name).is_dir():
                yield Finding("state", "refused", f"{state / name}: is a directory; a file comes there")
                return
        for path in state.iterdir() if state.exists() else ():
            if path.is_file() and not os.access(path, os.R_OK | os.W_OK, effective_ids=True):
                yield Finding("state", "refused", f"{path}: may not be written; whose is it?")
                return
        check_state(config, settings.site)
    except (ConfigError, OSError) as error:
        yield Finding("state", "refused", because(error))

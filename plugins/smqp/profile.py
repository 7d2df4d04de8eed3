"""Where `pub` and `sub` connect to and as whom: from a site's own directory, or else from options.

A site's address goes with the login that `smqpd init` left in DIR/keys/admin.toml, and that with nothing
else: a password of one server is not to come to another. Without a site the password is taken, in this order,
from --password-file, SMQPD_PASSWORD, or the terminal; never from an argument, which others can see. Of all
these, what is given on the command line goes before the environment.
"""

import os
import ssl
import sys
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Annotated, Final

import msgspec
import typer

from daemon.terminal.failure import USAGE, Failure, because, forbidden
from plugins.smqp.client import Client
from plugins.smqp.connecting import connect
from plugins.smqp.protocol import DEFAULT_PORT, check_password
from routing.errors import Refusal
from routing.names import account_name

PASSWORD_VARIABLE: Final = "SMQPD_PASSWORD"
CONNECTION: Final = "Connection"
LOGIN_FILE: Final = Path("keys", "admin.toml")
NOT_WITH_A_SITE: Final = {
    "server": "--server",
    "account": "--account",
    "password_file": "--password-file",
}
"""What names a server or a login itself, by its parameter."""

SiteOption = Annotated[
    Path | None,
    typer.Option(
        "--site",
        "-s",
        metavar="DIR",
        envvar="SMQPD_SITE",
        readable=False,  # who reads the login says who may
        help="A site of `smqpd init` on this machine: its address and administrator's login.",
        rich_help_panel=CONNECTION,
    ),
]
ServerOption = Annotated[
    str | None,
    typer.Option(
        "--server",
        metavar="HOST[:PORT]",
        envvar="SMQPD_SERVER",
        help="Where to connect to.",
        rich_help_panel=CONNECTION,
    ),
]
AccountOption = Annotated[
    str | None,
    typer.Option(
        "--account", "-a", envvar="SMQPD_ACCOUNT", help="Who to log in as.", rich_help_panel=CONNECTION
    ),
]
PasswordFileOption = Annotated[
    Path | None,
    typer.Option(
        "--password-file",
        metavar="FILE",
        help=f"Its first line is the password; else {PASSWORD_VARIABLE}, else the terminal.",
        rich_help_panel=CONNECTION,
    ),
]
TlsOption = Annotated[
    bool, typer.Option("--tls", help="Connect by TLS; --ca implies it.", rich_help_panel=CONNECTION)
]
CaOption = Annotated[
    Path | None,
    typer.Option(
        "--ca",
        metavar="FILE",
        help="PEM certificates to trust instead of the system's.",
        rich_help_panel=CONNECTION,
    ),
]
TlsNameOption = Annotated[
    str | None,
    typer.Option(
        "--tls-name",
        metavar="NAME",
        help="The name in the certificate, where it is not HOST.",
        rich_help_panel=CONNECTION,
    ),
]


class Profile(msgspec.Struct, frozen=True):
    """A connection that can be made; `tls` is None without TLS.

    Attributes:
        login_file: of the site that the server was taken from; None where it was named itself.
    """

    host: str
    port: int
    account: str
    password: str
    tls: ssl.SSLContext | None
    tls_name: str | None
    login_file: Path | None = None

    def connect(self, channel: str) -> AbstractAsyncContextManager[Client]:
        """Connect and log in to `channel`; see `plugins.smqp.client.connect`."""
        return connect(
            self.host,
            self.port,
            self.account,
            self.password,
            channel=channel,
            tls=self.tls,
            tls_server_name=self.tls_name,
        )


class _Login(msgspec.Struct, frozen=True):
    server: str
    account: str
    password: str


def read_profile(
    context: typer.Context,
    site: Path | None,
    server: str | None,
    account: str | None,
    password_file: Path | None,
    tls: bool,
    ca: Path | None,
    tls_name: str | None,
) -> Profile:
    """Put a profile together, of the options of the command of `context`. Raises Failure."""
    login, login_file = None, None
    if site is not None and _is_meant(context):
        if os.path.isfile(site):  # the daemon's commands take the configuration itself, too
            site = site.parent
        login_file = site / LOGIN_FILE
        login = _read_login(login_file)
        server, account = login.server, login.account
    if account is None:
        raise Failure("nobody to log in as; give --account, or --site for a site on this machine", USAGE)
    host, port = _split_server(server or "127.0.0.1")
    if tls_name is not None and not _is_host(tls_name):
        raise Failure(f"--tls-name: {tls_name!r} is no name of a host", USAGE)
    try:
        account_name(account)
        password = check_password(login.password if login else _read_password(account, password_file))
    except Refusal as refusal:
        raise Failure(refusal.text, USAGE) from None
    return Profile(
        host, port, account, password, _tls_context(ca) if tls or ca else None, tls_name, login_file
    )


def _is_meant(context: typer.Context) -> bool:
    """Whether the site is to be connected to, and not what else is given. Raises Failure where both are."""
    beside = [option for name, option in NOT_WITH_A_SITE.items() if _source(context, name) == "COMMANDLINE"]
    if not beside:
        return True
    if _source(context, "site") == "ENVIRONMENT":
        return False
    raise Failure(f"--site brings an address and a login of its own; leave it out with {beside[0]}", USAGE)


def _source(context: typer.Context, name: str) -> str:
    source = context.get_parameter_source(name)
    return source.name if source is not None else ""


def _read_login(path: Path) -> _Login:
    try:
        return msgspec.toml.decode(path.read_bytes(), type=_Login)
    except FileNotFoundError:
        raise Failure(f"{path} is not there; --site names a directory that `smqpd init` made") from None
    except PermissionError:
        raise forbidden(path) from None
    except OSError as error:
        raise Failure(f"{path} cannot be read: {error.strerror}") from None
    except msgspec.DecodeError as error:
        raise Failure(f"{path} is no login: {because(error)}") from None


def _split_server(server: str) -> tuple[str, int]:
    """`host`, `host:port`, `[v6]` or `[v6]:port`."""
    if server.startswith("["):
        host, bracket, rest = server[1:].partition("]")
        good = bool(bracket) and rest[:1] in ("", ":")
        port = rest[1:]
    else:
        host, _, port = server.partition(":")
        good = bool(host)
    if not good or not _is_host(host) or (port and not _is_port(port)):
        raise Failure(f"{server!r} is no server; give HOST, HOST:PORT or [V6]:PORT", USAGE)
    return host, int(port) if port else DEFAULT_PORT


def _is_host(text: str) -> bool:
    """Whether it can be asked for; not whether there is one of that name."""
    try:
        return bool(text.encode("idna"))
    except UnicodeError:
        return False


def _is_port(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 5 and 0 < int(text) < 65536


def _read_password(account: str, password_file: Path | None) -> str:
    if password_file is not None:
        try:
            first_line = password_file.read_text(encoding="utf-8").partition("\n")[0].rstrip("\r")
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is not text in UTF-8"
            raise Failure(f"{password_file} cannot be read: {reason}", USAGE) from None
        if not first_line:
            raise Failure(f"{password_file} begins with an empty line, and should with a password", USAGE)
        return first_line
    password = os.environ.get(PASSWORD_VARIABLE)
    if password:
        return password
    if not sys.stdin.isatty():
        raise Failure(f"no password for {account}; set {PASSWORD_VARIABLE} or give --password-file", USAGE)
    return str(typer.prompt(f"Password of {account}", hide_input=True, err=True))


def _tls_context(ca: Path | None) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=ca)
    except (OSError, ssl.SSLError) as error:
        raise Failure(f"{ca} holds no certificates to trust: {because(error)}", USAGE) from None
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context

"""The command line of SMQP: `smqpd pub`, `sub` and `bench`, their arguments and options."""

import os
import secrets
import signal
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar

import msgspec
import trio
import typer

from daemon.frontend import Accepts, SubscribeOptions
from daemon.terminal.failure import FAILED, INTERRUPTED, REFUSED, TERMINATED, UNREACHABLE, USAGE, Failure
from daemon.terminal.output import JsonOption
from plugins.smqp.bench import BenchPlan, BenchResult
from plugins.smqp.bench import bench as run_bench
from plugins.smqp.bench import shown as bench_shown
from plugins.smqp.client import LoginRefused
from plugins.smqp.connection import ConnectionLost
from plugins.smqp.profile import (
    CONNECTION,
    AccountOption,
    CaOption,
    PasswordFileOption,
    ServerOption,
    SiteOption,
    TlsNameOption,
    TlsOption,
    read_profile,
)
from plugins.smqp.protocol import LOCK_S_MAX, LOCK_S_MIN
from plugins.smqp.pub import STDIN, TEXT_TYPE, Work, publish
from plugins.smqp.signals import SiteCommand, until_signal
from plugins.smqp.standard_output import StandardOutput
from plugins.smqp.sub import Format, Wish, receive
from routing.errors import Refusal
from routing.frames import encode_message
from routing.headers import Headers, is_header_name, is_reserved, parse_headers
from routing.message import Message, Section
from routing.names import channel_name, check_topic
from routing.patterns import check_wanted

_T = TypeVar("_T")

MESSAGE: Final = "Headers of the message"
_PUB_CHANNEL: Final = "pub"


class Mode(StrEnum):
    """Of a delivery, or of a receipt."""

    ONE = "ONE"
    ALL = "ALL"


class Accept(StrEnum):
    ONE = "ONE"
    ALL = "ALL"
    BOTH = "BOTH"


def _header(name: str, help: str) -> Any:
    return typer.Option(name, help=help, rich_help_panel=MESSAGE)


def pub(
    context: typer.Context,
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="Such as weather.oslo; made by its use.")],
    body: Annotated[
        bytes | None, typer.Argument(metavar="BODY", parser=os.fsencode, help="Else --file, else stdin.")
    ] = None,
    file: Annotated[
        list[Path] | None,
        typer.Option(
            "--file", "-f", metavar="FILE", help="A section of the message; - is stdin. Repeatable."
        ),
    ] = None,
    lines: Annotated[
        bool, typer.Option("--lines", "-l", help="Each line of the input is a message.")
    ] = False,
    name: Annotated[str | None, _header("--name", "The subject, at most 128 characters.")] = None,
    charset: Annotated[str | None, _header("--charset", "Of the name.")] = None,
    priority: Annotated[int | None, _header("--priority", "1 or more; higher goes first.")] = None,
    timeout: Annotated[
        str | None, _header("--timeout", "Seconds to keep it for those who come later, or INFINITE.")
    ] = None,
    delivery: Annotated[Mode | None, _header("--delivery", "To ONE subscriber or to ALL.")] = None,
    guarantee: Annotated[
        bool, typer.Option("--guarantee/--no-guarantee", help="On disk, or fast.", rich_help_panel=MESSAGE)
    ] = True,
    depth: Annotated[
        int | None, _header("--depth", "Links to other sites that it may cross; -1 for no limit.")
    ] = None,
    sequence: Annotated[
        int | None, _header("--sequence", "1 or more; with --lines the first line's, rising.")
    ] = None,
    group: Annotated[
        str | None, _header("--group", "With --delivery ONE: to whoever has others of this group, in order.")
    ] = None,
    group_end: Annotated[bool, _header("--group-end", "The last one of its group.")] = False,
    receipt: Annotated[Mode | None, _header("--receipt", "When ONE or ALL subscribers have it.")] = None,
    reply: Annotated[bool, _header("--reply", "A reply is expected.")] = False,
    cmuid: Annotated[
        str | None,
        _header("--cmuid", "Your id: published twice, it is routed once. With --lines, -N is added."),
    ] = None,
    created: Annotated[str | None, _header("--created", "UTC date-time; now, if not given.")] = None,
    mime_version: Annotated[str | None, _header("--mime-version", "Such as 1.0.")] = None,
    header: Annotated[
        list[str] | None,
        typer.Option(
            "--header", "-H", metavar="'NAME: VALUE'", help="Any other. Repeatable.", rich_help_panel=MESSAGE
        ),
    ] = None,
    content_type: Annotated[
        str | None, _header("--content-type", "Of the sections; else guessed from the file's name.")
    ] = None,
    wait_receipt: Annotated[
        bool, typer.Option("--wait-receipt", help="Wait for the receipt and print it, as X/Y.")
    ] = False,
    wait_timeout: Annotated[
        float, typer.Option("--wait-timeout", min=0, metavar="SECONDS", help="For each receipt.")
    ] = 60.0,
    json: JsonOption = False,
    site: SiteOption = None,
    server: ServerOption = None,
    account: AccountOption = None,
    channel: Annotated[
        str | None,
        typer.Option(help="Of the login; `pub` with --cmuid, else its own.", rich_help_panel=CONNECTION),
    ] = None,
    password_file: PasswordFileOption = None,
    tls: TlsOption = False,
    ca: CaOption = None,
    tls_name: TlsNameOption = None,
) -> None:
    """Publish to TOPIC, and print the Smuid of each message once the server has it on disk."""
    if body is not None and (file or lines):
        raise Failure("BODY stands alone; leave it out with --file and --lines", USAGE)
    if wait_receipt and not guarantee:
        raise Failure("a receipt needs a guaranteed message; leave --no-guarantee out", USAGE)
    wanted = receipt or (Mode.ALL if wait_receipt else None)
    given = {
        "Name": name if name is None or charset is None else f'{name}; charset="{charset}"',
        "Priority": priority,
        "Timeout": timeout,
        "Delivery": delivery,
        "Guarantee": None if guarantee else "NO",
        "Depth": depth,
        "Sequence": sequence,
        "Group": group,
        "Group-End": "YES" if group_end else None,
        "Receipt": wanted,
        "Reply": "YES" if reply else None,
        "Cmuid": cmuid,
        "Created": created,
        "MIME-Version": mime_version,
    }
    headers = [(key, str(value)) for key, value in given.items() if value is not None]
    work = Work(
        topic=_usage(lambda: check_topic(topic)),
        message=_usage(lambda: _message([*headers, *_other_headers(header or [])], content_type)),
        body=body,
        files=tuple(file or ()) or ((STDIN,) if body is None else ()),
        lines=lines,
        content_type=content_type,
        wait_receipt_s=wait_timeout if wait_receipt else None,
        json=json,
    )
    login_channel = _channel(channel, _PUB_CHANNEL if cmuid else _own_channel("pub"))
    profile = read_profile(context, site, server, account, password_file, tls, ca, tls_name)
    _run(lambda output: publish(profile, login_channel, work, output), profile.login_file)


def sub(
    context: typer.Context,
    topics: Annotated[
        list[str], typer.Argument(metavar="TOPIC", help="One or more, also patterns such as 'weather.#'.")
    ],
    count: Annotated[
        int | None, typer.Option("--count", "-n", min=1, help="End after so many messages.")
    ] = None,
    timeout: Annotated[
        float | None,
        typer.Option(
            min=0, metavar="SECONDS", help="End when nothing came for so long; with --count, as a failure."
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON object a line for each message.")] = False,
    raw: Annotated[bool, typer.Option("--raw", help="The bodies, byte for byte, and nothing else.")] = False,
    headers: Annotated[bool, typer.Option("--headers", help="The headers of each message, too.")] = False,
    ordered: Annotated[
        bool, typer.Option("--ordered", help="Messages with a Sequence in their publisher's order.")
    ] = False,
    delivery: Annotated[
        Accept, typer.Option("--delivery", help="Take part in deliveries to ONE, to ALL, or BOTH.")
    ] = Accept.BOTH,
    credit: Annotated[int, typer.Option(min=1, help="Messages that may be on their way at a time.")] = 100,
    lock: Annotated[
        float | None,
        typer.Option(
            min=LOCK_S_MIN,
            max=LOCK_S_MAX,
            metavar="SECONDS",
            help="Until a message that was not received goes to another.",
        ),
    ] = None,
    subscription: Annotated[str, typer.Option(help="Tells several subscriptions of a channel apart.")] = "",
    channel: Annotated[
        str | None,
        typer.Option(
            help="Makes the subscription last: what comes meanwhile waits for this channel.",
            rich_help_panel=CONNECTION,
        ),
    ] = None,
    site: SiteOption = None,
    server: ServerOption = None,
    account: AccountOption = None,
    password_file: PasswordFileOption = None,
    tls: TlsOption = False,
    ca: CaOption = None,
    tls_name: TlsNameOption = None,
) -> None:
    """Write the messages of TOPICs as they come; each is committed once it is written.

    When the connection is lost, another is made, until --count or --timeout ends it, an interrupt, or a login
    that is refused; where that is since the account has as many as it may, it is tried again.
    """
    if json + raw + headers > 1:
        raise Failure("--json, --raw and --headers exclude each other", USAGE)
    accepts: Accepts = delivery.value
    format: Format = "json" if json else "raw" if raw else "headers" if headers else "text"
    wish = Wish(
        topics=_usage(lambda: tuple(check_wanted(topic) for topic in topics)),
        options=SubscribeOptions(
            credit=credit,
            accepts=accepts,
            durable=channel is not None,
            ordered=ordered,
            lock_s=lock,
            acknowledges_all=True,
            name=subscription and _usage(lambda: channel_name(subscription)),
        ),
        count=count,
        timeout_s=timeout,
        format=format,
    )
    login_channel = _channel(channel, _own_channel("sub"))
    profile = read_profile(context, site, server, account, password_file, tls, ca, tls_name)
    _run(lambda output: receive(profile, login_channel, wish, output), profile.login_file)


def bench(
    context: typer.Context,
    messages: Annotated[int, typer.Option("--messages", "-n", min=1, help="Of all publishers.")] = 10_000,
    size: Annotated[int, typer.Option("--size", min=16, max=16_777_216, help="Bytes of each body.")] = 256,
    publishers: Annotated[int, typer.Option("--publishers", min=1, max=1_000, help="Connections.")] = 1,
    subscribers: Annotated[int, typer.Option("--subscribers", min=0, max=1_000, help="Connections.")] = 1,
    window: Annotated[
        int, typer.Option("--window", min=1, help="Of a publisher, messages not answered yet.")
    ] = 100,
    delivery: Annotated[Mode, typer.Option("--delivery", help="To ONE subscriber or to ALL.")] = Mode.ALL,
    guarantee: Annotated[bool, typer.Option("--guarantee/--no-guarantee", help="On disk, or fast.")] = True,
    topic: Annotated[
        str | None, typer.Option("--topic", metavar="TOPIC", help="Else one that nobody else uses.")
    ] = None,
    json: JsonOption = False,
    site: SiteOption = None,
    server: ServerOption = None,
    account: AccountOption = None,
    password_file: PasswordFileOption = None,
    tls: TlsOption = False,
    ca: CaOption = None,
    tls_name: TlsNameOption = None,
) -> None:
    """Publish and subscribe as fast as it goes, and show rates and latencies.

    Ends with 1 where something did not come. The clients take about as much of the machine as the site does.
    """
    plan = BenchPlan(
        topic=_usage(lambda: check_topic(topic or f"bench.{secrets.token_hex(6)}")),
        messages=messages,
        size=size,
        publishers=publishers,
        subscribers=subscribers,
        window=window,
        mode=delivery.value,
        guarantee=guarantee,
    )
    profile = read_profile(context, site, server, account, password_file, tls, ca, tls_name)
    results: list[BenchResult] = []

    async def run(_: StandardOutput) -> None:
        results.append(await run_bench(profile, plan))

    _run(run, profile.login_file)
    [result] = results
    if json:
        typer.echo(msgspec.json.encode(result))
    else:
        for line in bench_shown(result):
            typer.echo(line)
    if result.lost:
        raise typer.Exit(FAILED)


def _message(headers: Headers, content_type: str | None) -> Message:
    """Raises HeaderRefusal for what cannot be read, or sent with a section of that type."""
    message = Message(**parse_headers(headers))
    encode_message(msgspec.structs.replace(message, sections=(Section(content_type or TEXT_TYPE, b""),)))
    return message


def _other_headers(given: list[str]) -> Headers:
    headers: Headers = []
    for text in given:
        name, colon, value = text.partition(":")
        if not colon or not is_header_name(name) or is_reserved(name):
            raise Failure(f"{text!r} is no header; give 'NAME: VALUE' with a name of your own", USAGE)
        headers.append((name, value.removeprefix(" ")))
    return headers


def _channel(given: str | None, otherwise: str) -> str:
    return otherwise if given is None else _usage(lambda: channel_name(given))


def _own_channel(prefix: str) -> str:
    """A channel that nobody else uses, so that two commands do not take each other's subscriptions."""
    return f"{prefix}-{secrets.token_hex(6)}"


def _usage(read: Callable[[], _T]) -> _T:
    try:
        return read()
    except Refusal as refusal:
        raise Failure(refusal.text, USAGE) from None


def _run(command: SiteCommand, login: Path | None) -> None:
    """Run to the end; SIGINT and SIGTERM end it cleanly, with what is committed committed.

    `login`: the file that names the server; None where it was given.
    """
    try:
        ended_by = trio.run(until_signal, command)
    except LoginRefused as refused:  # for whatever it is: a wrong password, or a quota
        raise Failure(refused.text, REFUSED) from None
    except ConnectionLost as lost:
        if lost.reason == "unreachable":
            where = f", and there, as {login} says" if login is not None else ""
            raise Failure(f"cannot reach {lost.text}; does the site run{where}?", UNREACHABLE) from None
        if lost.reason == "refused":
            raise Failure(f"the site refuses what was sent, and ended the connection: {lost.text}") from None
        where = f"; go to {lost.redirect}" if lost.redirect else ""
        raise Failure(f"no connection: {lost}{where}", UNREACHABLE) from None
    if ended_by is not None:
        raise typer.Exit(INTERRUPTED if ended_by == signal.SIGINT else TERMINATED)

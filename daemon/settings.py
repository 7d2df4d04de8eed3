"""Every setting of a site: its type, unit, default, bounds and meaning; and how one is refused.

This is the only place where a default stands, but for those of `routing.quotas`. The configuration's tables
are the fields of `Settings`; `daemon.configuration` reads them from TOML, and writes them out again with the
descriptions given here. Names end in their unit: `_s` seconds, `_bytes` or `_bytes_max` bytes. A path that is
not absolute is relative to the directory of the configuration file.
"""

from pathlib import Path
from typing import Annotated, Final, Literal

import msgspec

from routing.names import OWN_NAME_EXPECTED, OWN_NAME_PATTERN, SERVER_PATTERN
from routing.numbers import EXACT_MAX
from routing.quotas import Quotas

YEAR_S: Final = 366 * 86_400.0
STORE: Final = "smqpd.db"
HOPS: Final = "hops"
"""In the state directory."""


def note(description: str, *examples: str) -> msgspec.Meta:
    """Anything that its type alone bounds; the first example is shown where there is no default."""
    return msgspec.Meta(description=description, examples=list(examples))


def text(description: str, pattern: str, expected: str) -> msgspec.Meta:
    """One line of text; `expected` says in words what the pattern accepts."""
    return msgspec.Meta(description=description, pattern=pattern, extra={"expected": expected})


def count(description: str, least: int = 0) -> msgspec.Meta:
    """A number of things, or of bytes."""
    return msgspec.Meta(description=description, ge=least, le=EXACT_MAX)


def seconds(description: str, least: float = 0.0) -> msgspec.Meta:
    """A length of time, at most a year: what is meant to be endless says so in its description."""
    return msgspec.Meta(description=description, ge=least, le=YEAR_S)


def rate(description: str) -> msgspec.Meta:
    """The bounds and the description of a number of so many a second."""
    return msgspec.Meta(description=description, ge=0, le=1e9)


PORT_PATTERN: Final = r"(\d{1,4}|[1-5]\d{4}|6[0-4]\d{3}|65[0-4]\d\d|655[0-2]\d|6553[0-5])"

ListenAddress = Annotated[
    str,
    msgspec.Meta(
        pattern=rf"^([^:\[\]\s/]+|\[[0-9A-Fa-f:.]+\]):{PORT_PATTERN}\Z",
        extra={"expected": "`host:port`, `[v6]:port` or `*:port`"},
    ),
]
"""Where a front end accepts connections, as `daemon.connections.listen.split_address` reads it."""


class ConfigError(Exception):
    """A configuration that cannot be used, said in one line: file, key, problem."""

    def __init__(self, file: Path, key: str, problem: str) -> None:
        super().__init__(f"{file}: {key}: {problem}" if key else f"{file}: {problem}")
        self.file = file
        self.key = key
        self.problem = problem


class SiteSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Who this site is, and where it keeps what it must not lose."""

    server_name: Annotated[
        str,
        text(
            "The name of this site, `host` or `host:port`, unique in the federation. It is part of every"
            " Smuid and system topic, so a store keeps the name that it began with.",
            rf"^{OWN_NAME_PATTERN}\Z",
            OWN_NAME_EXPECTED,
        ),
    ]
    state_directory: Annotated[Path, note("Holds the store, the hop log and the lock file.")] = Path("state")
    accounts_file: Annotated[Path, note("The accounts and their rights; edited with `smqpd account`.")] = (
        Path("accounts.toml")
    )
    redirect: Annotated[
        str,
        text(
            "`host:port` that clients are told to go to while this site drains; empty for none.",
            rf"^(?:{SERVER_PATTERN})?\Z",
            "`host:port`, or empty",
        ),
    ] = ""
    drain_s: Annotated[
        float, seconds("How long connections get to finish when the site is told to stop.")
    ] = 10.0


class StoreSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What may be on disk."""

    store_bytes_max: Annotated[
        int,
        count("Size of the store at which publishers are refused; peers may fill an eighth more.", 1_048_576),
    ] = 68_719_476_736


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """The bounds that every front end keeps, for each connection and message."""

    connections_max: Annotated[int, count("Connections at a time, over all front ends.", 1)] = 10_000
    connections_per_address_max: Annotated[int, count("Connections at a time from one address.", 1)] = 1_000
    login_timeout_s: Annotated[float, seconds("From connecting to being logged in.", 0.1)] = 15.0
    idle_timeout_s: Annotated[
        float,
        seconds(
            "A client from which nothing complete has come for so long is dropped. Of STOMP that holds within"
            " a frame alone: between two frames heart-beats say how long a client may be silent.",
            1.0,
        ),
    ] = 300.0
    send_timeout_s: Annotated[float, seconds("A client that reads nothing for so long is dropped.", 0.1)] = (
        60.0
    )
    frame_header_bytes_max: Annotated[int, count("All header lines of one frame.", 1_024)] = 65_536
    frame_headers_max: Annotated[int, count("Header lines of one frame.", 16)] = 200
    message_bytes_max: Annotated[int, count("All sections of one message.", 1)] = 16_777_216
    unfinished_bytes_max: Annotated[
        int,
        count(
            "Memory for what is no message yet, of all connections: bodies that have not come whole, open"
            " transactions; for messages that are not on disk yet; and for what XMPP clients are sent by"
            " urn:xmpp:qos until they answer. One account, or one address, gets half of it at most; two"
            " messages of the greatest size have to fit.",
            2,
        ),
    ] = 268_435_456
    sections_max: Annotated[int, count("Content sections of one message.", 1)] = 64
    subscriptions_per_session_max: Annotated[int, count("Subscriptions of one connection.", 1)] = 1_000
    credit_max: Annotated[int, count("Unfinished messages that one subscription may ask for.", 1)] = 10_000
    unanswered_per_session_max: Annotated[
        int, count("Requests of one connection that are not yet answered; it is read no further.", 1)
    ] = 10_000
    publish_rate_per_s_max: Annotated[
        float,
        rate("Messages a second from one connection, which is read no faster; 0 for no limit."),
    ] = 0.0

    def __post_init__(self) -> None:
        if self.unfinished_bytes_max < 2 * self.message_bytes_max:
            raise ValueError("unfinished_bytes_max must be at least twice message_bytes_max")


class QueueSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How long messages wait, and how many."""

    queue_messages_max: Annotated[
        int,
        count(
            "Messages in one topic at which publishers are refused; each peer may send as many again.",
            1,
        ),
    ] = 10_000_000
    queue_bytes_max: Annotated[
        int,
        count("Bytes in one topic at which publishers are refused; each peer may send as many again.", 1),
    ] = 34_359_738_368
    system_messages_max: Annotated[
        int,
        count(
            "Messages on system topics that one account, of this site or another, may have waiting; an eighth"
            " of them for one recipient.",
            1,
        ),
    ] = 100_000
    system_bytes_max: Annotated[int, count("Bytes of them, likewise.", 1)] = 536_870_912
    unguaranteed_bytes_max: Annotated[
        int, count("Memory for messages with Guarantee NO; above it those that wait longest are dropped.")
    ] = 67_108_864
    max_deliveries: Annotated[
        int, count("Failed deliveries after which a message goes to the dead-letter topic.", 1)
    ] = 16
    redelivery_wait_s: Annotated[
        float,
        seconds(
            "Until a message comes again that has failed twice, where nobody else could take it; it doubles"
            " with each further failure. 0: it comes again at once."
        ),
    ] = 0.1
    redelivery_wait_max_s: Annotated[float, seconds("The longest of these waits.")] = 30.0
    lock_s: Annotated[
        float, seconds("Until a message that a subscriber has not answered goes to the next one.", 0.1)
    ] = 60.0
    default_timeout_s: Annotated[
        float,
        seconds(
            "How long a message of mode ALL without a Timeout waits for the subscriptions it is due to.", 1.0
        ),
    ] = 86_400.0
    dedupe_window_s: Annotated[
        float,
        seconds(
            "How long a Cmuid is remembered, while the site runs: publishing it again changes nothing.", 1.0
        ),
    ] = 600.0
    subscription_unused_s: Annotated[
        float,
        seconds(
            "A subscription that nobody uses for so long, while the site runs, is removed and reported.", 60.0
        ),
    ] = 2_592_000.0


class HopSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The hop log: when a file is closed, and how long closed files are kept."""

    file_s: Annotated[float, seconds("Age at which the file being written is closed.", 1.0)] = 60.0
    file_bytes_max: Annotated[int, count("Size at which the file being written is closed.", 4_096)] = (
        67_108_864
    )
    heartbeat_s: Annotated[float, seconds("Between the records that prove a quiet log complete.", 1.0)] = 60.0
    retention_s: Annotated[float, seconds("Age at which closed files are deleted.", 60.0)] = 2_592_000.0
    retention_bytes_max: Annotated[
        int, count("Size of all closed files; above it the oldest are deleted.", 4_096)
    ] = 10_737_418_240


class TlsSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What this site shows to clients that connect by TLS; both or neither."""

    certificate: Annotated[
        Path | None,
        note("PEM file: the certificate of this site, then those of its issuers.", "keys/tls.crt"),
    ] = None
    key: Annotated[
        Path | None, note("PEM file: its private key, readable by nobody else.", "keys/tls.key")
    ] = None

    def __post_init__(self) -> None:
        if (self.certificate is None) != (self.key is None):
            raise ValueError("certificate and key must both be given, or neither")


class LinkSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How this site links with its peers; who they are stands in `peers_file`."""

    listen: Annotated[
        tuple[ListenAddress, ...],
        note("`host:port`, `[v6]:port` or `*:port` where peers may dial this site."),
    ] = ()
    keys_directory: Annotated[
        Path, note("Holds site.key, site.pem, ca.pem and crl.pem; see `smqpd cert`.")
    ] = Path("keys")
    peers_file: Annotated[Path, note("The peers and their rules; edited with `smqpd peer`.")] = Path(
        "peers.toml"
    )
    greeting_timeout_s: Annotated[
        float, seconds("To connect to a peer; and again from there, or from its dial, to a link.", 0.1)
    ] = 15.0
    probe_interval_s: Annotated[float, seconds("Between two probes of a link.", 0.1)] = 10.0
    probe_timeout_s: Annotated[
        float, seconds("A link is ended when a probe has not come back after so long.", 0.1)
    ] = 20.0
    back_off_first_s: Annotated[float, seconds("Before a peer is dialled a second time.", 0.01)] = 0.5
    back_off_max_s: Annotated[float, seconds("Between two dials, once many have failed.", 0.01)] = 60.0
    window_units_max: Annotated[
        int, count("Messages taken from a peer, or sent to it, and not yet acknowledged.", 1)
    ] = 4_096
    window_bytes_max: Annotated[int, count("Bytes of messages, likewise.", 65_536)] = 16_777_216
    news_kept_s: Annotated[
        float,
        seconds(
            "A site of which nothing has been heard for so long, by whatever way, is forgotten.", 7_200.0
        ),
    ] = 604_800.0


class LogSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What is logged, and how."""

    level: Annotated[Literal["debug", "info", "warning", "error"], note("The least that is logged.")] = "info"
    format: Annotated[
        Literal["auto", "journal", "text", "json"],
        note(
            "`text` begins each line with its time; `auto` does so, too, but with its priority where stderr"
            " is the journal; `journal` sends entries to the journal itself, with fields such as"
            " SMQPD_ACCOUNT; `json` makes an object of each line."
        ),
    ] = "auto"


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """A whole configuration.

    Attributes:
        plugins: the front ends that run, by name; each value is of its plugin's own `settings` type.
    """

    site: SiteSettings
    store: StoreSettings = StoreSettings()
    limits: Limits = Limits()
    quotas: Quotas = Quotas()
    queues: QueueSettings = QueueSettings()
    hops: HopSettings = HopSettings()
    tls: TlsSettings = TlsSettings()
    links: LinkSettings = LinkSettings()
    log: LogSettings = LogSettings()
    plugins: dict[str, msgspec.Struct] = {}

"""The table [plugins.xmpp] of the configuration."""

from pathlib import Path
from typing import Annotated, Final

import msgspec

from daemon.frontend import PORT_PATTERN, count, note, seconds, text

TABLE: Final = Path("[plugins.xmpp]")
"""Named where a problem is in the configuration itself, whose file a front end does not know."""

LOCAL_PART: Final = "{local}"
"""In a rule's account: the part of the JID before the @."""


class JidRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which account some JIDs act as; exactly one of `jid`, `domain` and `pattern` is given."""

    account: Annotated[str, note("The account; `{local}` stands for the part of the JID before the @.")]
    jid: Annotated[str, note("One bare JID, `user@host`.")] = ""
    domain: Annotated[str, note("Every JID of one host.")] = ""
    pattern: Annotated[str, note("Bare JIDs in which `*` stands for any characters but @.")] = ""

    def __post_init__(self) -> None:
        if sum(map(bool, (self.jid, self.domain, self.pattern))) != 1:
            raise ValueError("a rule has exactly one of jid, domain and pattern")


class XmppSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How this site is a component of an XMPP server, and for whom."""

    component: Annotated[
        str,
        text(
            "The component's name, as configured at the XMPP server.",
            r"^([a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?)?\Z",
            "a host name in lower case",
        ),
    ] = ""
    server: Annotated[
        str,
        text(
            "`host:port` of the XMPP server's component listener.",
            rf"^[A-Za-z0-9]([A-Za-z0-9.-]{{0,251}}[A-Za-z0-9])?:(?!0){PORT_PATTERN}\Z",
            "`host:port`",
        ),
    ] = "127.0.0.1:5347"
    secret_file: Annotated[Path, note("File that holds the secret shared with the XMPP server.")] = Path(
        "keys/xmpp-secret"
    )
    tls: Annotated[bool, note("Whether the listener speaks TLS from the first byte.")] = False
    tls_authorities: Annotated[
        Path | None,
        note(
            "PEM file of the authorities that vouch for it; the system's where absent.",
            "keys/xmpp-authorities.pem",
        ),
    ] = None
    accounts: Annotated[
        tuple[JidRule, ...], note("Tables [[plugins.xmpp.accounts]]; the first that fits decides.")
    ] = ()
    event_log: Annotated[str, note("JID that is told of misuse (XEP-0337); empty for none.")] = ""
    clients_max: Annotated[int, count("Full JIDs at a time; of one account half of them.", 1)] = 10_000
    nodes_max: Annotated[int, count("Topics of the site above which XMPP makes no further node.", 1)] = (
        100_000
    )
    create_on_publish: Annotated[bool, note("Whether publishing to a node that is not there makes it.")] = (
        True
    )
    create_on_subscribe: Annotated[
        bool, note("Whether subscribing to a node that is not there makes it.")
    ] = False
    receive_bytes_max: Annotated[int, count("One stanza from the server.", 10_000)] = 16_777_216
    send_bytes_max: Annotated[
        int, count("One stanza to the server; keep it below the server's own limit.", 10_000)
    ] = 262_144
    answer_s: Annotated[
        float, seconds("In which a client should answer before it is asked again (urn:xmpp:qos).", 0.1)
    ] = 10.0
    assured_messages_max: Annotated[int, count("Assured messages held for one bare JID.", 1)] = 100
    assured_bytes_max: Annotated[int, count("Their bytes.", 1)] = 1_048_576
    assured_messages_total_max: Annotated[int, count("Assured messages held for all senders.", 1)] = 10_000
    assured_bytes_total_max: Annotated[int, count("Their bytes.", 1)] = 67_108_864

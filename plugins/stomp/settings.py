"""The table [plugins.stomp] of the configuration."""

from typing import Annotated

import msgspec

from daemon.frontend import YEAR_S, ListenAddress, count, note, text
from routing.message import DEPTH_UNLIMITED
from routing.names import CHANNEL_PATTERN
from routing.numbers import SMALL_MAX


class StompSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """STOMP 1.0, 1.1 and 1.2; the bounds that all front ends share are in [limits]."""

    listen: Annotated[
        tuple[ListenAddress, ...], note("Addresses, `host:port` or `[v6]:port`, of plain TCP.")
    ] = ("127.0.0.1:61613",)
    listen_tls: Annotated[
        tuple[ListenAddress, ...], note("Addresses of TLS; the port is usually 61614.")
    ] = ()
    listen_websocket: Annotated[
        tuple[ListenAddress, ...], note("Addresses of WebSocket; the port is usually 15674.")
    ] = ()
    listen_websocket_tls: Annotated[
        tuple[ListenAddress, ...], note("Addresses of WebSocket over TLS; the port is usually 15673.")
    ] = ()
    channel: Annotated[
        str,
        text(
            "The channel of a login that names none with the header client-id.",
            rf"^{CHANNEL_PATTERN}\Z",
            "the name of a channel: 1 to 64 letters, digits or . _ -",
        ),
    ] = "stomp"
    depth: Annotated[
        int,
        msgspec.Meta(
            description="How many sites far a message goes that has no header depth; -1 for all.",
            ge=DEPTH_UNLIMITED,
            le=SMALL_MAX,
        ),
    ] = 0
    guarantee: Annotated[
        bool,
        note("A SEND is guaranteed that says nothing about it, with persistent, guarantee or a receipt."),
    ] = False
    slashes: Annotated[
        bool,
        note(
            "Slashes in /queue/ and /topic/ destinations separate the levels of a topic, as dots do;"
            " /queue/T/A,B then names no channels."
        ),
    ] = False
    shared: Annotated[
        bool,
        note(
            "Connections that subscribe to one durable subscription share its messages, where they have no"
            " header shared; without this, the last one takes it over."
        ),
    ] = False
    token_passcode: Annotated[bool, note("Passcodes are the password in base64.")] = False
    cloud_headers: Annotated[
        bool,
        note(
            "As the cloud queue: MESSAGE also carries oci-message-id, expire-after and visible-after, who"
            " subscribes to a queue gets its channels, and T and T/CHANNEL are /queue/T and /queue/T/CHANNEL."
        ),
    ] = False
    header_line_bytes_max: Annotated[int, count("One header line.", 256)] = 16_384
    heart_beat_ms_min: Annotated[
        int, count("The shortest interval of heart-beats that is agreed to, either way.", 10)
    ] = 1_000
    heart_beat_grace: Annotated[
        float,
        msgspec.Meta(
            description="A client is given up after so many of its heart-beat intervals without a byte.",
            ge=1,
            le=1_000,
        ),
    ] = 2.5
    lock_s: Annotated[
        float,
        msgspec.Meta(
            description="How long a message waits for its ACK before it goes to another subscriber, where the"
            " subscription has no header visibility.",
            gt=0,
            le=YEAR_S,
        ),
    ] = 1_800.0
    prefetch: Annotated[
        int, count("Unacknowledged messages of a subscription that has no header prefetch-count.", 1)
    ] = 100
    prefetch_auto: Annotated[int, count("The same in the ack mode auto.", 1)] = 1_000
    transactions_max: Annotated[int, count("Open transactions of one connection.", 0)] = 100
    transaction_frames_max: Annotated[int, count("Frames in all its open transactions.", 0)] = 10_000
    transaction_bytes_max: Annotated[
        int, count("Bytes, of headers and bodies, of the messages in all its open transactions.", 0)
    ] = 67_108_864

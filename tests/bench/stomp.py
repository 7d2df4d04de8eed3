"""What STOMP costs without a network: frames by themselves, and a durable message through a whole site.

    python -m tests.bench.stomp

Frames: best of several runs, microseconds a frame, bodies of 1 KB, as a client library writes them. A durable
message: SEND, store, MESSAGE, RECEIPT, ACK, and the hop log, a hundred at a time, in one process without
sockets; CPU of all its threads, in a directory of TMPDIR.
"""

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import trio

from daemon.broker.bodies import Stored
from daemon.frontend import Delivered, Identity, Limits, Session
from plugins.stomp.codec import Decoder, encode
from plugins.stomp.conversation import StompConversation, decoder_limits
from plugins.stomp.destinations import parse_destination
from plugins.stomp.headers import read_message
from plugins.stomp.messages import shared_part
from plugins.stomp.settings import StompSettings
from routing.message import Message, Section
from tests.support.site import BrokerSite, running_site

BODY = b"x" * 1024
HEADERS = {"destination": "/queue/load", "content-length": "1024", "persistent": "true", "receipt": "m-12345"}
SEND = (
    "\n".join(["SEND", *(f"{name}:{value}" for name, value in HEADERS.items()), "\n"]).encode() + BODY + b"\0"
)
ACK = b"ACK\nid:1-12345\n\n\0"
MESSAGE = Message(
    smuid="bench.example/01a1fdb58f0b-1-4",
    account="guest:stomp@bench.example",
    created="2026-11-21T10:44:56.715Z",
    delivery="ONE",
    sections=(Section("application/octet-stream", BODY),),
)
FRAMES = 60
ROUNDS = 500
BATCH = 100
BATCHES = 300


def microseconds(work: Callable[[], object]) -> float:
    """Of one of the `FRAMES` that `work` handles."""
    best = float("inf")
    for _ in range(ROUNDS):
        began = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - began)
    return best / FRAMES * 1e6


def reading(frame: bytes) -> Callable[[], object]:
    """Cut so many of these frames out of one piece."""
    decoder, piece = Decoder(decoder_limits(Limits(), StompSettings())), frame * FRAMES

    def read() -> None:
        decoder.feed(piece)
        while decoder.next_frame() is not None:
            pass

    return read


def log_in(site: BrokerSite) -> tuple[StompConversation, Session]:
    """A connection without a socket."""
    connection = StompConversation(
        server_name=site.server_name,
        server_ident=site.server_ident,
        limits=site.limits,
        settings=StompSettings(),
        token="bench",
        wall_ms=lambda: 0,
        note_refused=site.metrics.tell_refused,
    )
    session = site.open_session(Identity("ada"), "bench", protocol="stomp", remote="bench")
    receive(connection, encode("CONNECT", {"accept-version": "1.2"}))
    connection.accept(session)
    return connection, session


def receive(connection: StompConversation, data: bytes) -> None:
    """The client sends this."""
    connection.feed(data)
    connection.proceed(2 * BATCH)


async def durable() -> list[float]:
    """CPU microseconds a durable message, of each batch."""
    found = []
    with tempfile.TemporaryDirectory() as directory:
        async with running_site(Path(directory)) as site:
            publisher, published = log_in(site)
            consumer, delivered = log_in(site)
            options = {"id": "0", "destination": "/queue/load", "ack": "client-individual"}
            receive(consumer, encode("SUBSCRIBE", {**options, "prefetch-count": str(2 * BATCH)}))
            number = 0
            for batch in range(1, BATCHES + 1):
                began = time.process_time()
                receive(publisher, SEND * BATCH)
                while number < batch * BATCH:
                    events = await delivered.events()
                    consumer.handle(events)
                    consumer.take_output()
                    acks = []
                    for event in events:
                        if isinstance(event, Delivered):
                            number += 1
                            acks.append(b"ACK\nid:1-%d\n\n\0" % number)
                    receive(consumer, b"".join(acks))
                while publisher.unanswered:
                    publisher.handle(await published.events())
                    publisher.take_output()
                found.append((time.process_time() - began) / BATCH * 1e6)
            published.close()
            delivered.close()
    return found


def main() -> None:
    """Print the tables."""
    destination = parse_destination("/queue/load")
    stored = Stored(message=MESSAGE)
    arguments: dict[str, Any] = {
        "depth": 0,
        "guarantee": False,
        "in_transaction": False,
        "reply_address": None,
        "wall_ms": lambda: 0,
    }
    rows = {
        "read a SEND of 1 KB with 4 headers": reading(SEND),
        "read an ACK": reading(ACK),
        "make a SEND a message": lambda: [
            read_message(HEADERS, BODY, destination, **arguments) for _ in range(FRAMES)
        ],
        "write a MESSAGE, first subscriber": lambda: [
            shared_part(Stored(message=MESSAGE), "1.2") for _ in range(FRAMES)
        ],
        "write a MESSAGE, every other subscriber": lambda: [
            shared_part(stored, "1.2") for _ in range(FRAMES)
        ],
    }
    for what, work in rows.items():
        print(f"{what:45} {microseconds(work):6.2f} us")
    found = trio.run(durable)
    print(f"a durable message, best batch                 {min(found):6.1f} us")
    print(f"a durable message, median                     {statistics.median(found):6.1f} us")


if __name__ == "__main__":
    main()

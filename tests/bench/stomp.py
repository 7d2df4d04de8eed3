"""What a STOMP frame costs without disk or network: one SEND read, one ACK read, one MESSAGE written.

    python -m tests.bench.stomp

Best of several runs, microseconds a frame, bodies of 1 KB, frames as a client library writes them.
"""

import time
from collections.abc import Callable

from daemon.bodies import Stored
from plugins.stomp.codec import Decoder, FrameLimits
from plugins.stomp.destinations import parse_destination
from plugins.stomp.headers import read_message
from plugins.stomp.messages import shared_part
from routing.message import Message, Section

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
    decoder, piece = Decoder(FrameLimits()), frame * FRAMES

    def read() -> None:
        decoder.feed(piece)
        while decoder.next_frame() is not None:
            pass

    return read


def main() -> None:
    """Print the table."""
    destination = parse_destination("/queue/load")
    stored = Stored(message=MESSAGE)
    arguments = {"depth": 0, "in_transaction": False, "reply_address": None, "wall_ms": lambda: 0}
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


if __name__ == "__main__":
    main()

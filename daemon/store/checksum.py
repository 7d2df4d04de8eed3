"""Tells whether a stored message is still what was stored: bits flip, and SQLite does not see it.

CRC-32 finds every flipped bit and every burst of up to 32. It covers the number and the topic, too: a body in
the place of another is no better than a wrong one. It guards against chance and not against people: who may
write the store may write a checksum.
"""

import zlib


def checksum(id: int, topic: bytes, wire: bytes) -> int:
    """The checksum of a message as it is stored; `topic` is its name in UTF-8."""
    return zlib.crc32(wire, zlib.crc32(topic, id & 0xFFFFFFFF))


def is_intact(id: int, topic: bytes | None, wire: bytes | None, stored: object) -> bool:
    """Whether a message is as it was stored, as its checksum says; one of an earlier version has none."""
    if topic is None or wire is None:
        return False
    return stored is None or stored == checksum(id, topic, wire)

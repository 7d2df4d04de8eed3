"""The words of the hop log's records that decide what became of a copy, and what bounds a record.

Without anything that Python does not bring along: the trace jobs take them to a cluster.
"""

from typing import Final

LINE_BYTES_MAX: Final = 262_144
"""Of a line. A frame's headers are bounded far below (65,536 bytes by default), and so a record of them."""

SMUID_NUMBERS: Final = r"([0-9a-f]{12})-([0-9a-f]{1,15})-([0-9a-f]{1,15})"
"""What follows a server's name and a slash in the id that it gives a message: its birth, in milliseconds, the
number of the server's start, and of the message since that; in hexadecimal digits."""

SMUID_IN_LOGS: Final = rf"[^/\s]{{1,261}}/{SMUID_NUMBERS}"
"""What the trace jobs take for the id of a message, whatever the writer of a log has called its server."""

BEGINS: Final = ("published", "received")
"""With these a site takes a copy on."""

TAKEN: Final = ("accepted", "depth")
"""Outcomes of a forward after which the peer has the copy."""

HAD: Final = (*TAKEN, "duplicate")
"""Outcomes of a forward by which the peer says that it has taken the message, with this copy or before."""

REFUSES: Final = ("duplicate", "loop", "denied")
"""With these a site does not take what a peer has sent."""

ENDS: Final = (
    "committed",
    "expired",
    "removed",
    "dead",
    "denied",
    "dropped",
    "returned",
    "delivered",
    "receipt",
    "forwarded",
    "arrived",
)
"""What ends a copy, in the record that is final. Of several the first one here counts: a copy that was handed
on and came home has ended as it did then."""

"""What two HELLOs agree on, and which of several connections between two sites is their link.

Both sites may dial at once, and a connection may be dead at one end and alive at the other. Only one of
the two decides, so they cannot disagree: the *arbiter*, whose name sorts first. The other waits for its
WELCOME, and takes the connection that was welcomed in place of any other it has.

What the arbiter does with a connection whose HELLO has come, when it holds

    nothing                                    welcome it
    a link to an earlier boot of the peer      welcome it, and end the old one: the peer has restarted
    a link to another installation             refuse it as `name-claimed`, and probe the old one at once
    a link to this very boot                   refuse it as `linked`, and probe the old one at once

The probe settles the last two: if the old link is dead it ends within the probe's time, and the peer,
which dials again, finds the place free. Source: routing contract 8.
"""

from typing import Literal

import msgspec

from routing.link.codec import PROTOCOL, VERSION
from routing.link.units import Hello

GreetingOutcome = Literal["welcome", "linked", "name-claimed"]


class Agreement(msgspec.Struct, frozen=True):
    """What holds on a link.

    Attributes:
        version: the lower minor version of the two.
        features: the words that both have said, in alphabetical order.
        window_units, window_bytes: what the peer takes unacknowledged.
    """

    version: tuple[int, int]
    features: tuple[str, ...]
    window_units: int
    window_bytes: int


def agree(own: Hello, peer: Hello) -> Agreement:
    """What holds between the two; see `refusal` first."""
    return Agreement(
        version=min(own.version, peer.version),
        features=tuple(sorted(set(own.features) & set(peer.features))),
        window_units=peer.window_units,
        window_bytes=peer.window_bytes,
    )


def refusal(own: Hello, peer: Hello, certified: str) -> str | None:
    """Why no link is made with who says this HELLO; None if one is. `certified` is its certificate's name.

    Both sites are told so: it names them, and is true at either.
    """
    if peer.version[0] != VERSION[0]:
        major, minor = peer.version
        ours = f"{own.server} {PROTOCOL}/{VERSION[0]}.{VERSION[1]}"
        return f"{certified} speaks {PROTOCOL}/{major}.{minor}, {ours}"
    if peer.server != certified:
        return f"who says that it is {peer.server} has the certificate of {certified}"
    if peer.server == own.server:
        return f"there is another site of the name {own.server}"
    return None


def is_arbiter(own: str, peer: str) -> bool:
    """Whether this site decides which connection is the link."""
    return own < peer


def judge(current: Hello | None, arrived: Hello) -> GreetingOutcome:
    """What the arbiter does with a connection; `current` is the HELLO of the link it holds."""
    if current is None:
        return "welcome"
    if current.site != arrived.site:
        return "name-claimed"
    return "linked" if arrived.boot == current.boot else "welcome"

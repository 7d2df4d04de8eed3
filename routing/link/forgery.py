"""What a peer may not claim about a message that it sends on.

A peer speaks for itself alone. Its certificate proves its name, so Hops must end with it; the first server in
Hops is the one that gave the Smuid, and wrote the Account of one of its own. Custody of a message of mode ONE
may come to a site again, and then Hops names it again. More cannot be known from one copy: what a trusted
peer says about servers behind it has to be believed, and that is why its certificate can be revoked.
"""

from routing.errors import Refusal
from routing.message import DeliveryMode, Message
from routing.names import parse_smuid


def forged(peer: str, hops: tuple[str, ...], message: Message, mode: DeliveryMode) -> str | None:
    """What is false in a copy from `peer`; None where nothing is known to be."""
    if not hops or hops[-1] != peer:
        return f"Hops does not end with {peer}, which sent it"
    if mode == "ALL" and len(set(hops)) != len(hops):
        return "Hops names a server twice"
    if not message.smuid:
        return "Smuid is missing"
    try:
        origin = parse_smuid(message.smuid).server
    except Refusal as refusal:
        return refusal.text
    if origin != hops[0]:
        return f"Smuid is of {origin}, but Hops begins with {hops[0]}"
    if message.account.rpartition("@")[2] != origin:
        return f"Account is {message.account or 'missing'}, but Smuid is of {origin}"
    return None

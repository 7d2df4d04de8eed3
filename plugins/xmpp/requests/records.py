"""Changing what is kept with a node. What is read and written with nothing awaited in between is not lost."""

from collections.abc import Callable
from datetime import UTC, datetime

import msgspec

from daemon.frontend import Session
from plugins.xmpp.forms.node_options import NodeOptions
from plugins.xmpp.forms.node_record import NodeRecord, read_record, written
from plugins.xmpp.known.identities import bare_of
from plugins.xmpp.requests.request import AskingClient


def begun(options: NodeOptions, creator: str) -> NodeRecord:
    """The record of a node that a JID makes now."""
    now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    return NodeRecord(options=options, creator=bare_of(creator), created=now)


def record(session: Session, node: str) -> NodeRecord:
    """The record of a node as it is now."""
    return read_record(session.annotation(node))


async def change(
    client: AskingClient,
    node: str,
    edit: Callable[[NodeRecord], NodeRecord],
    go_along: Callable[[], None] | None = None,
) -> NodeRecord:
    """Keep what `edit` makes of it. Raises StanzaError, Refusal: nothing has changed.

    Args:
        go_along: called once it is sure that the record can be kept, with nothing awaited before it is;
            where it raises, the record stays as it was.
    """
    new = edit(record(client.session, node))
    text = written(new)
    if go_along is not None:
        go_along()
    await client.ask(client.session.annotate, node, text)
    return new


async def set_options(client: AskingClient, node: str, options: NodeOptions) -> NodeRecord:
    """Keep what an owner has chosen; of a record that could not be read, nothing but that is left."""
    return await change(client, node, lambda kept: msgspec.structs.replace(kept, options=options))

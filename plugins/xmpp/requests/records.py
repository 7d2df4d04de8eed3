"""Changing what is kept with a node. What is read and written with nothing awaited in between is not lost."""

from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime

from daemon.frontend import Session
from plugins.xmpp.delivery.calls import Reply
from plugins.xmpp.forms.node_options import NodeOptions
from plugins.xmpp.forms.node_record import NodeRecord, read_record, written
from plugins.xmpp.known.identities import bare_of
from plugins.xmpp.requests.request import AskingClient
from routing.errors import Refusal


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
        go_along: called once the session has taken what is to be kept, with nothing awaited in between; where
            it raises, the record is as it was.
    """
    session, reply = client.session, Reply()
    before = session.annotation(node)
    new = edit(read_record(before))
    client.request(session.annotate, node, written(new), done=reply.done)
    if go_along is not None:
        try:
            go_along()
        except Exception:
            with suppress(Refusal):  # there is no room on the disk for either
                session.annotate(node, before)
            raise
    await reply.wait()
    return new

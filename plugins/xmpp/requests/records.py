"""Changing what is kept with a node. What is read and written with nothing awaited in between is not lost."""

from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, NamedTuple

from daemon.frontend import Session
from plugins.xmpp.delivery.calls import Reply
from plugins.xmpp.forms.node_options import NodeOptions
from plugins.xmpp.forms.node_record import FRONT_END, NodeRecord, read_record, written
from plugins.xmpp.forms.node_settings import NodeSettings
from plugins.xmpp.known.identities import bare_of
from plugins.xmpp.requests.request import AskingClient
from routing.errors import Refusal
from routing.message import DeliveryMode


def begun(options: NodeOptions, creator: str) -> NodeRecord:
    """The record of a node that a JID makes now."""
    now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    return NodeRecord(options=options, creator=bare_of(creator), created=now)


def record(session: Session, node: str) -> NodeRecord:
    """The record of a node as it is now."""
    return read_record(session.annotation(node))


class NodeState(NamedTuple):
    """All that is kept with a node, at one moment."""

    mode: DeliveryMode | None = None
    timeout_s: float | None = None
    text: str | None = None

    @classmethod
    def now(cls, session: Session, node: str) -> "NodeState":
        """As the session sees it."""
        topic = session.topic(node)
        if topic is None:
            return cls()
        return cls(topic.delivery, topic.timeout_s, topic.annotations.get(FRONT_END))


def put(session: Session, node: str, new: NodeState, old: NodeState) -> None:
    """Keep something else with a node than what was kept with it, or the same text anew. Raises Refusal."""
    if new.mode != old.mode:
        session.set_delivery(node, new.mode)
    if new.timeout_s != old.timeout_s:
        session.set_timeout(node, new.timeout_s)
    if new.text is not old.text:
        session.annotate(node, new.text)


def put_back(session: Session, node: str, before: NodeState, after: NodeState) -> None:
    """Undo a change that was refused once it had been made, unless another has come since.

    Until that is on disk, which nobody waits for, a crash may leave some of it there.
    That is told by the text, which each change writes for itself, also where it changes nothing.
    """
    now = NodeState.now(session, node)
    if now == after and now.text is after.text:
        with suppress(Refusal), session.transaction():
            put(session, node, before, after)


async def change(
    client: AskingClient,
    node: str,
    edit: Callable[[NodeRecord], NodeRecord],
    go_along: Callable[[], None] | None = None,
    *,
    settings: NodeSettings | None = None,
) -> NodeRecord:
    """Keep what `edit` makes of it. Raises StanzaError, Refusal: all that is kept is set back.

    Args:
        go_along: called once the session has taken what is to be kept, with nothing awaited in between; where
            it raises, all that is kept is as it was.
        settings: of the topic, which change with the record, or neither does; None for those that it has.
    """
    session, reply = client.session, Reply()
    before = NodeState.now(session, node)
    new = edit(read_record(before.text))
    after = before._replace(text=written(new))
    if settings is not None:
        after = NodeState(settings.mode, settings.timeout_s, after.text)

    def keep(*, request: Any) -> None:
        with session.transaction(request):
            put(session, node, after, before)

    client.request(keep, done=reply.done)
    if go_along is not None:
        try:
            go_along()
        except Exception:
            put_back(session, node, before, after)
            raise
    try:
        await reply.wait()
    except Refusal:
        put_back(session, node, before, after)
        raise
    return new

"""One request as its handler gets it: what was asked, by whom, and what a handler may ask of the rest.

OpenRequest   the stanza, cut up as XEP-0060 has it, and how it is answered
Request       the same of a client, which has an account here: what all handlers but disco#info take
AskingClient  the client that asks, as far as a handler has to do with it; AskingClients, the others
ServicePort   what belongs to nobody alone: what is known of all, and the way out
"""

from collections.abc import Awaitable, Callable
from typing import Any, Protocol
from xml.etree.ElementTree import Element

import msgspec

from daemon.frontend import Answer, Right, Session, Site
from plugins.xmpp.delivery.calls import Done
from plugins.xmpp.delivery.finishing import Finishing
from plugins.xmpp.delivery.presence import Looked
from plugins.xmpp.forms.stanzas import StanzaError, from_refusal, result, result_text
from plugins.xmpp.known.access import Access
from plugins.xmpp.known.assured import Assured
from plugins.xmpp.known.identities import AccountRules, bare_of
from plugins.xmpp.known.item_index import ItemIndex
from plugins.xmpp.known.queueing import ItemHolders
from plugins.xmpp.known.registry import NodeSubscription, Registry
from plugins.xmpp.known.replaced import Replaced
from plugins.xmpp.settings import XmppSettings
from plugins.xmpp.wire.component import StanzaTooLargeError
from plugins.xmpp.wire.serializer import UnsendableError
from routing.names import check_topic
from routing.patterns import check_wanted


def named(action: Element) -> str:
    """The name of the node, unchecked. Raises StanzaError where there is none."""
    node = action.get("node")
    if not node:
        raise StanzaError("bad-request", "modify", pubsub="nodeid-required")
    return node


def node_of(action: Element) -> str:
    """The node that is named, checked; no collection. Raises StanzaError, Refusal."""
    return check_topic(named(action))


class AskingClient(Protocol):
    """A full JID and its session, as handlers see it; see `delivery.client.Client`."""

    jid: str
    session: Session
    assured_known: bool
    mute: bool

    @property
    def in_hand(self) -> set[str]:
        """The Smuids of what is with the client."""

    def request(self, call: Callable[..., None], *args: Any, done: Done) -> None:
        """Make a call of the session; `done` is awaited with what it answers. Raises Refusal."""

    async def ask(self, call: Callable[..., None], *args: Any) -> Answer:
        """Make a call of the session, and wait for its answer. Raises Refusal."""

    def settle(self, numbers: list[int], done: Done, *, finished: bool) -> None:
        """Finish items of a queue, or give them back; `done` is awaited then. Raises Refusal."""

    async def notify(self, event: Element) -> None:
        """Send an `<event/>` that nobody answers."""

    def holds(self, subscription: NodeSubscription) -> bool:
        """Whether any item of the subscription is with the client."""

    def replace(self, previous: NodeSubscription | None, subscription: NodeSubscription) -> None:
        """Have a subscription hold what the one before it to the node held; None: there was none."""

    def release(self, subscription: NodeSubscription) -> None:
        """Let go of what a subscription holds; the broker knows already, or is about to."""

    def change(self, subscription: NodeSubscription, done: Done) -> None:
        """Have the broker know what a subscription wants by now; where its JID is away it stays stopped.

        `done` is awaited with the answer. Raises Refusal.
        """

    def leave(self, subscription: NodeSubscription) -> None:
        """Stop a subscription that is about to end: nothing more comes by it."""

    def drop(self, subscription: NodeSubscription, done: Done | None = None) -> None:
        """Have the broker end a subscription, and forget it at once. Raises Refusal: it goes on."""


class AskingClients(Protocol):
    """All that are logged in, and whoever else has an account; see `delivery.clients.Clients`."""

    def of(self, jid: str) -> AskingClient:
        """The client of a full JID, logged in where it was not. Raises StanzaError, Refusal."""

    def get(self, jid: str, /) -> AskingClient | None:
        """The client of a full JID; None where it is not logged in."""

    def allowed(self, node: str, *rights: Right) -> AskingClient | None:
        """Any client whose account has these rights on a node; None where there is none."""


class ServicePort(Protocol):
    """The service, as handlers see it; see `service.Service`."""

    name: str
    site: Site
    settings: XmppSettings
    rules: AccountRules
    registry: Registry
    access: Access
    holders: ItemHolders
    index: ItemIndex
    assured: Assured
    replaced: Replaced
    finishing: Finishing

    @property
    def clients(self) -> AskingClients:
        """Who is logged in."""

    def memory_of(self, jid: str) -> int:
        """Bytes that are held of a JID and for it, and are no message, or not only one."""

    def check_room_for_node(self) -> None:
        """Raises StanzaError where no node can be made that is not there."""

    def start(self, task: Callable[[], Awaitable[object]]) -> None:
        """Run something of our own beside everything else; its errors are logged."""

    def start_request(self, jid: str, stanza: Element, task: Awaitable[object]) -> None:
        """Run a JID's request as a task; what it raises is answered. Raises StanzaError if it has many."""

    async def answer(self, stanza: Element | str) -> None:
        """Send the answer to a request."""

    async def answering(self, stanza: Element, task: Awaitable[object]) -> None:
        """Await something, and answer the stanza with the error where it refuses, or cannot be sent."""

    async def fail(self, stanza: Element, error: StanzaError) -> None:
        """Answer with an error; to an error or a result nothing is sent."""

    async def notify(self, jid: str, event: Element, *, collection: str = "") -> None:
        """Send a JID an `<event/>` that nobody answers; `collection` is that by which it comes."""

    async def look_at(self, client: Looked, *, is_there: bool) -> bool:
        """Whether a client speaks urn:xmpp:qos; see `delivery.presence.look_at`. Raises StanzaError."""

    def next_id(self, kind: str) -> str:
        """An id for a stanza of ours; the prefix tells kinds apart in a log."""

    async def log_misuse(self, jid: str, text: str) -> None:
        """Note what somebody should look into. Source: XEP-0337, urn:xmpp:qos Memory attacks."""


class OpenRequest(msgspec.Struct, frozen=True):
    """An IQ of type get or set, or a message that is meant as much as one, whoever sends it.

    Attributes:
        parent: the stanza's child, `<pubsub/>` for most; of a message, itself.
        action: what is asked for: the first child of that; the parent itself where it has none.
    """

    service: ServicePort
    stanza: Element
    parent: Element
    action: Element

    @property
    def jid(self) -> str:
        """The full JID that asks."""
        return self.stanza.get("from", "")

    @property
    def asker(self) -> str:
        """The bare JID that asks."""
        return bare_of(self.jid)

    def of_client(self) -> "Request":
        """The same of whoever asks, logged in where it was not. Raises StanzaError, Refusal."""
        client = self.service.clients.of(self.jid)
        return Request(self.service, self.stanza, self.parent, self.action, client)

    async def answer(self, *children: Element) -> None:
        """Answer with a result."""
        await self.service.answer(result(self.stanza, *children))

    async def answer_text(self, content: str) -> None:
        """Answer with a result that has been written already."""
        await self.service.answer(result_text(self.stanza, content))

    def start(self, task: Awaitable[object]) -> None:
        """Go on in a task of its own. Raises StanzaError if the client has many."""
        self.service.start_request(self.jid, self.stanza, task)


class Request(OpenRequest, frozen=True):
    """A request of a client."""

    client: AskingClient

    @property
    def node(self) -> str:
        """The node that is named, checked; no collection. Raises StanzaError, Refusal."""
        return node_of(self.action)

    @property
    def wanted(self) -> str:
        """What is subscribed to, a node or a collection, checked. Raises StanzaError, Refusal."""
        return check_wanted(named(self.action))

    def unless_refused(self, go_on: Done) -> Done:
        """Go on with what the broker has done; what it refuses is answered with the error.

        Where the answer cannot be sent it is a result without content: after an error the client would ask
        again for what has been done for good.
        """

        async def answered(answer: Answer) -> None:
            try:
                await go_on(answer)
            except (UnsendableError, StanzaTooLargeError):
                await self.answer()

        async def done(answer: Answer) -> None:
            if answer.error is not None:
                await self.service.fail(self.stanza, from_refusal(answer.error))
            else:
                await self.service.answering(self.stanza, answered(answer))

        return done

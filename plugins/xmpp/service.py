"""The pubsub service: every stanza that comes for it goes through here, to the handler of its kind.

Requests on the hot path (publish, retract, unlock) are put to the broker before the next stanza is read,
so that what one client sends keeps its order; their answers come with the events of its session. All other
requests run as tasks of their own, of which a client may have a few at a time, and a bare JID half of all.
"""

import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final
from xml.etree.ElementTree import Element

import trio

from daemon.frontend import Site
from plugins.xmpp.delivery import presence
from plugins.xmpp.delivery.attention import QUIET_S, Availability
from plugins.xmpp.delivery.client import Client
from plugins.xmpp.delivery.clients import Clients
from plugins.xmpp.delivery.finishing import Finishing
from plugins.xmpp.delivery.looking import Looking
from plugins.xmpp.delivery.questions import Questions
from plugins.xmpp.delivery.repeating import Repeating
from plugins.xmpp.forms import event_log, notifications
from plugins.xmpp.forms.node_record import FRONT_END, record_of
from plugins.xmpp.forms.stanzas import (
    IQ,
    MESSAGE,
    PRESENCE,
    StanzaError,
    failure,
    from_refusal,
)
from plugins.xmpp.known.access import Access
from plugins.xmpp.known.assured import Assured, AssuredLimits
from plugins.xmpp.known.identities import AccountRules, bare_of
from plugins.xmpp.known.item_index import ItemIndex
from plugins.xmpp.known.misuse import Misuse
from plugins.xmpp.known.queueing import ItemHolders
from plugins.xmpp.known.registry import NAME_PREFIX, Registry, read_subscription
from plugins.xmpp.known.replaced import Replaced
from plugins.xmpp.known.transfers import Transfer, Transfers
from plugins.xmpp.requests import routes
from plugins.xmpp.settings import XmppSettings
from plugins.xmpp.wire.component import Component, StanzaTooLargeError
from plugins.xmpp.wire.parser import StanzaTooMuch
from plugins.xmpp.wire.serializer import UnsendableError
from routing.errors import Refusal

_log = logging.getLogger(__name__)

ID_CHARACTERS_MAX: Final = 1_000
"""Of a stanza, to be told again in its answer. RFC 6120 8.1.3 sets no bound; clients take about 40."""

CLIENT_TASKS_MAX: Final = 20
TASKS_MAX: Final = 2_000
BARE_JID_TASKS_MAX: Final = TASKS_MAX // 2
"""Over all of its resources: the rest is for others."""

AWAY_S: Final = 10.0
"""A stream that has been down for so long takes its clients with it, until it is up again."""


class Service:
    """See the module."""

    def __init__(
        self, site: Site, settings: XmppSettings, component: Component, nursery: trio.Nursery
    ) -> None:
        """`component` sends what the service has to say; what it reads is to go to `handle`."""
        self.site = site
        self.settings = settings
        self.name = settings.component
        self.component = component
        self.rules = AccountRules(settings.accounts)
        self.registry = Registry()
        self.access = Access(site, self.rules, self.registry)
        self.holders = ItemHolders()
        self.index = ItemIndex()
        self.replaced = Replaced()
        self.transfers = Transfers(settings.answer_s)
        self.assured = Assured(
            AssuredLimits(
                messages_max=settings.assured_messages_max,
                bytes_max=settings.assured_bytes_max,
                messages_total_max=settings.assured_messages_total_max,
                bytes_total_max=settings.assured_bytes_total_max,
            )
        )
        self.clients = Clients(self)
        self._nursery = nursery
        self._tasks = 0
        self._tasks_of: Counter[str] = Counter()
        """By bare JID."""
        self._questions = Questions()
        self._ids = 0
        self._misuse = Misuse()
        self._run = f"{trio.current_time():.0f}"
        self.is_up = False
        """Whether there is a stream to the XMPP server."""
        self.streams = 0
        """That have been established."""
        self.looking = Looking(self)
        self.repeating = Repeating(self)
        self.finishing = Finishing()
        for info in site.durable_subscriptions(NAME_PREFIX):
            if (subscription := read_subscription(info)) is not None:
                self.registry.add(subscription)
        for topic in site.annotated_topics(FRONT_END):
            for jid in record_of(topic).requests:
                self.registry.add_pending(jid, topic.name)

    def next_id(self, kind: str) -> str:
        """An id for a stanza of ours; the prefix tells kinds apart in a log."""
        self._ids += 1
        return f"{kind}{self._run}-{self._ids}"

    def check_room_for_node(self) -> None:
        """Raises StanzaError where no node can be made that is not there."""
        if self.site.topic_count >= self.settings.nodes_max:
            raise StanzaError("resource-constraint", "wait", "there are too many nodes")

    async def drained(self) -> None:
        """Wait until all sessions have ended, and what they had to say has been read."""
        await self.clients.all_gone()
        await self.component.flushed()

    def memory_of(self, jid: str) -> int:
        """Bytes that are held of a JID and for it, and are no message, or not only one."""
        return self.assured.memory_of(jid) + self.transfers.memory_of(jid)

    # -- tasks ------------------------------------------------------------------------------------

    def start(
        self, task: Callable[[], Awaitable[object]], what: str = "a task of the XMPP front end"
    ) -> None:
        """Run something of our own beside everything else; `what` it is, for the log."""
        self._nursery.start_soon(self._run_task, what, task)

    async def _run_task(self, what: str, task: Callable[[], Awaitable[object]]) -> None:
        try:
            await task()
        except Exception as error:
            self.site.mishap(what, error)

    def start_request(self, jid: str, stanza: Element, task: Awaitable[object]) -> None:
        """Run a JID's request as a task; what it raises is answered. Raises StanzaError if it has many."""
        client, bare = self.clients.get(jid), bare_of(jid)
        if (
            self._tasks >= TASKS_MAX
            or self._tasks_of[bare] >= BARE_JID_TASKS_MAX
            or (client is not None and client.tasks >= CLIENT_TASKS_MAX)
        ):
            if hasattr(task, "close"):
                task.close()
            raise StanzaError("resource-constraint", "wait", "too many requests at a time")
        self._tasks += 1
        self._tasks_of[bare] += 1
        if client is not None:
            client.tasks += 1
        self._nursery.start_soon(self._run_request, client, bare, stanza, task)

    async def _run_request(
        self, client: Client | None, bare: str, stanza: Element, task: Awaitable[object]
    ) -> None:
        try:
            await self.answering(stanza, task)
        finally:
            self._tasks -= 1
            self._tasks_of[bare] -= 1
            if not self._tasks_of[bare]:
                del self._tasks_of[bare]
            if client is not None:
                client.tasks -= 1

    async def answering(self, stanza: Element, task: Awaitable[object]) -> None:
        """Await something, and answer the stanza with the error where it refuses."""
        try:
            await task
        except Exception as error:
            await self._failed(stanza, error)

    async def _failed(self, stanza: Element, error: Exception) -> None:
        if isinstance(error, Refusal):
            error = from_refusal(error)
        elif isinstance(error, UnsendableError | StanzaTooLargeError):
            error = StanzaError("internal-server-error", "cancel", str(error))
        elif not isinstance(error, StanzaError):
            self.site.mishap(f"a stanza of {stanza.get('from')}", error)
            text = "an error of the server; its log says more"
            error = StanzaError("internal-server-error", "cancel", text)
        await self.fail(stanza, error)

    async def fail(self, stanza: Element, error: StanzaError) -> None:
        """Answer with an error; errors and results are never answered, lest two services never stop."""
        if stanza.get("type") in ("error", "result"):
            return
        if (refusal := error.as_refusal) is not None:
            self.site.metrics.tell_refused(refusal)
        try:
            await self.component.send(failure(stanza, error), again=True)
        except (UnsendableError, StanzaTooLargeError):
            if not error.children:
                _log.warning("an error to %s could not be sent", stanza.get("from"))
                return
            # what was asked for was too much to be sent back with it
            error.children = ()
            await self.fail(stanza, error)

    async def answer(self, stanza: Element | str) -> None:
        """Send the answer to a request."""
        await self.component.send(stanza, again=True)

    async def notify(self, jid: str, event: Element, *, kind: str = "", collection: str = "") -> None:
        """Send an `<event/>` that nobody answers; it says no more when it comes twice.

        One that XML cannot carry, as it names an item of another front end, or that is too large is not sent.

        Args:
            kind: the message's type, "" for normal.
            collection: by which the subscriber is told; "" where it subscribes to the node.
        """
        stanza = notifications.message(self.name, jid, self.next_id("e"))
        if kind:
            stanza.set("type", kind)
        stanza.append(event)
        if collection:
            stanza.append(notifications.by_collection(collection))
        try:
            await self.component.send(stanza, again=True)
        except (UnsendableError, StanzaTooLargeError) as error:
            _log.info("%s could not be told of an event: %s", jid, error)

    # -- stanzas ----------------------------------------------------------------------------------

    async def handle(self, stanza: Element) -> None:
        """Take one stanza from the server."""
        jid, kind = stanza.get("from"), stanza.get("type", "")
        if not jid:
            return
        if kind not in ("error", "unavailable"):
            presence.seen(self, jid)
        try:
            if len(stanza.get("id", "")) > ID_CHARACTERS_MAX and stanza.tag != PRESENCE:
                text = f"an id of over {ID_CHARACTERS_MAX} characters"
                raise StanzaError("policy-violation", "modify", text)
            if kind in ("get", "set") and stanza.tag == IQ:
                await routes.question(self, stanza)
            else:
                await self._handle(stanza, kind)
        except Exception as error:
            await self._failed(stanza, error)

    async def refuse(self, stanza: StanzaTooMuch) -> None:
        """Refuse one stanza that is over the limits."""
        if stanza.head.get("from") and stanza.head.tag != PRESENCE:
            refusal = Refusal(Refusal.TOO_LARGE, stanza.text)
            await self.fail(
                stanza.head, StanzaError("policy-violation", "modify", stanza.text, refusal=refusal)
            )

    async def _handle(self, stanza: Element, kind: str) -> None:
        if stanza.tag == IQ:
            if kind in ("result", "error"):
                await self._response(stanza)
        elif stanza.tag == MESSAGE:
            if kind == "error":
                presence.bounced(self, stanza)
            else:
                await routes.message(self, stanza)
        elif stanza.tag == PRESENCE:
            await presence.changed(self, stanza)

    async def _response(self, iq: Element) -> None:
        id, jid = iq.get("id", ""), iq.get("from", "")
        if self._questions.answered(iq):
            return
        transfer, client = self.transfers.find(id, jid), self.clients.get(jid)
        if transfer is None or client is None:
            return
        if iq.get("type") == "result":
            client.transferred(transfer)
        else:
            client.refused(transfer, as_if_gone=presence.says_gone(iq))

    async def ask(self, jid: str, question: Element) -> Element | None:
        """An IQ of ours to a full JID; None where no answer comes in time, or the stream breaks."""
        iq = Element(IQ, {"type": "get", "from": self.name, "to": jid, "id": self.next_id("a")})
        iq.append(question)
        return await self._questions.ask(iq, self.component.send)

    async def is_there(self, jid: str) -> Availability:
        """Whether there is somebody under a full JID, as far as can be told."""
        return await presence.is_there(self, jid)

    async def look_at(self, client: presence.Looked, *, is_there: bool) -> bool:
        """Whether a client speaks urn:xmpp:qos; see `presence.look_at`. Raises StanzaError."""
        return await presence.look_at(self, client, is_there=is_there)

    def ask_later(self, jid: str) -> None:
        """Look for a subscriber again after a while."""
        if jid in self.registry.absent:
            self.looking.ask_later(jid)

    def found(self, jid: str) -> None:
        """Look no more for a subscriber that was away: it is there, or has no account any more."""
        self.looking.found(jid)

    async def keep_watch(self) -> None:
        """See to it that whoever works on items is there. Runs until cancelled."""
        while True:
            await trio.sleep(QUIET_S / 2)
            if self.is_up:
                for client in list(self.clients.values()):
                    client.attention.watch()

    async def begin_transfer(self, transfer: Transfer) -> None:
        """Send a request that is sent again until it is answered."""
        await self.repeating.begin(transfer)

    # -- the stream -------------------------------------------------------------------------------

    def up(self) -> None:
        """Begin with a stream that has been established: ask which subscribers are there."""
        self.is_up = True
        self.streams += 1
        self.repeating.restart()
        self.looking.ask_now(self.registry.jids())

    def down(self) -> None:
        """Note that the stream has ended, and with it the answers to questions."""
        self.is_up = False
        self._questions.lost()
        self.start(partial(self._stay_down, self.streams))

    async def _stay_down(self, stream: int) -> None:
        await trio.sleep(AWAY_S)
        if stream == self.streams:
            # else their items' locks would end time after time, until the items count as failed
            for client in list(self.clients.values()):
                client.away()
            self.component.drop()

    async def log_misuse(self, jid: str, text: str) -> None:
        """Note what somebody should look into. Source: XEP-0337, urn:xmpp:qos Memory attacks."""
        passed_over = self._misuse.noted(bare_of(jid), trio.current_time())
        if passed_over is None:
            return
        more = f" ({passed_over} more since the last of these lines)" if passed_over else ""
        _log.warning("misuse of urn:xmpp:qos by %s: %s%s", jid[:200], text, more)
        if not self.settings.event_log:
            return
        stanza = event_log.misuse(self.name, self.settings.event_log, self.next_id("l"), jid, text)
        await self.component.send(stanza, again=True)

"""What operators do to topics and their messages; see `daemon.operating`. Each is in the log."""

import logging
from collections.abc import Callable
from contextlib import aclosing
from itertools import islice
from typing import Any, Final

import msgspec

from daemon.broker.asking import Asker
from daemon.broker.broker import Broker
from daemon.frontend import HeldMessage, HeldPage
from daemon.operating.accounts import CONFLICT
from daemon.operating.messages import REFUSED_MAX, REPLAYED_MAX, Replayed
from daemon.operating.operations import Actor
from daemon.operations.messages import is_of_this_server
from daemon.system.stepping import sums_in_steps
from daemon.terminal.figures import counted
from routing.errors import Refusal
from routing.frames import encode_head
from routing.headers import write_seconds
from routing.message import DeliveryMode, Message
from routing.names import DEAD_LETTER_PREFIX, check_topic, dead_letter_topic, make_address, parse_smuid
from routing.publishing import DEAD_HEADERS
from routing.subscription import Consumer

_log = logging.getLogger(__name__)

AT_ONCE: Final = 100
"""Dead letters that share a transaction or two on their way back."""


class TopicActions:
    """Changes the topics of one site."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._door = broker.door

    async def purge(self, topic: str, by: Actor) -> int:
        """See `daemon.operating.operations.Operations`."""
        found = self._door.view.topic(check_topic(topic))
        if found is None:
            return 0
        held = found.messages
        await self._ask(lambda consumer, request: self._door.purge(consumer, topic, request))
        _log.info("purged %s, which held %s: by %s", topic, counted(held, "message"), by)
        return held

    async def delete_topic(self, topic: str, by: Actor) -> int:
        """See `daemon.operating.operations.Operations`."""
        found = self._door.view.topic(check_topic(topic))
        if found is None:
            raise Refusal(Refusal.NOT_FOUND, f"nothing is known of {topic}")
        held = found.messages
        await self._ask(lambda consumer, request: self._door.delete_topic(consumer, topic, request))
        _log.info("deleted %s, which held %s: by %s", topic, counted(held, "message"), by)
        return held

    async def set_delivery(self, topic: str, mode: DeliveryMode | None, by: Actor) -> None:
        """See `daemon.operating.operations.Operations`."""
        check_topic(topic)
        await self._ask(lambda consumer, request: self._door.set_delivery(consumer, topic, mode, request))
        _log.info("set the delivery of %s to %s: by %s", topic, mode or "none of its own", by)

    async def set_timeout(self, topic: str, timeout_s: float | None, by: Actor) -> None:
        """See `daemon.operating.operations.Operations`."""
        check_topic(topic)
        await self._ask(lambda consumer, request: self._door.set_timeout(consumer, topic, timeout_s, request))
        shown = "none of its own" if timeout_s is None else f"{write_seconds(timeout_s)}"
        _log.info("set the timeout of %s to %s: by %s", topic, shown, by)

    async def remove_message(self, topic: str, smuid: str, by: Actor) -> None:
        """See `daemon.operating.operations.Operations`."""
        check_topic(topic)
        parse_smuid(smuid)
        if topic.startswith(DEAD_LETTER_PREFIX):  # only what is still among those of this site
            await self._dead_letter(topic, smuid)
        await self._ask(lambda consumer, request: self._door.remove(consumer, topic, smuid, request))
        _log.info("removed %s from %s: by %s", smuid, topic, by)

    async def unsubscribe(
        self, wanted: str, login: tuple[str, str], name: str, by: Actor, session_id: Callable[[Any], int]
    ) -> int:
        """End a subscription of an account and channel, unless somebody consumes from it; see `Operations`.

        `session_id` tells which session a consumer's handle is of. What waits is counted in steps, just
        before the end: what comes or ends meanwhile may be counted or not.
        """
        account, channel = login
        asker, owner = Asker(account, channel), make_address(account, channel, self._broker.server_name)
        shown, waiting = f"{account}:{channel}{f'/{name}' if name else ''}", 0
        found = self._door.view.subscription(wanted, owner, name)
        if found is not None:
            [waiting] = await sums_in_steps([found.queue.count_in_steps()])
            found = self._door.view.subscription(wanted, owner, name)
        if found is not None:  # from here on nobody comes between
            ids = [session_id(each.consumer.handle) for each in found.holders if each.consumer is not None]
            if ids:
                raise Refusal(
                    CONFLICT, f"it is consumed from; end that first: sessions {', '.join(map(str, ids))}"
                )
        request = asker.request()
        self._door.unsubscribe(asker.consumer, wanted, name, request)
        await asker.answer(request)
        messages = counted(waiting, "message")
        _log.info("ended the subscription of %s to %s, with %s: by %s", shown, wanted, messages, by)
        return waiting

    async def _ask(self, call: Callable[[Consumer, int], Any]) -> None:
        asker = Asker()
        request = asker.request()
        call(asker.consumer, request)
        await asker.answer(request)

    # -- dead letters -----------------------------------------------------------------------------

    async def replay(self, topic: str, by: Actor, smuid: str, after: int) -> Replayed:
        """See `daemon.operating.operations.Operations`."""
        dead_topic = dead_letter_topic(check_topic(topic))
        done, stayed, refused, last_id = 0, 0, dict[str, str](), after
        left, more = REPLAYED_MAX, True
        while left > 0 and more:
            page, more = (
                HeldPage([await self._dead_letter(dead_topic, smuid)], more=False)
                if smuid
                else await self._broker.browse(dead_topic, last_id, min(left, AT_ONCE))
            )
            refused_now = await self._replay_page(dead_topic, page)
            refused |= islice(refused_now.items(), REFUSED_MAX - len(refused))
            stayed += len(refused_now)
            done += len(page) - len(refused_now)
            left -= len(page)
            last_id = page[-1].message_id if page else last_id
        if done:
            _log.info("replayed %d dead letters of %s: by %s", done, topic, by)
        return Replayed(done=done, stayed=stayed, refused=refused, last_id=last_id if more else None)

    async def _dead_letter(self, dead_topic: str, smuid: str) -> HeldMessage:
        """Raises Refusal (not-found)."""
        entry = self._door.view.entry(self._door.entry_id(smuid) or 0)
        if entry is not None and entry.topic.name == dead_topic:
            async with aclosing(self._broker.browse_every(dead_topic, entry.id - 1, 1, 1)) as pages:
                found = [held async for page in pages for held in page]
            if found and found[0].smuid == smuid:
                return found[0]
        topic = dead_topic.removeprefix(DEAD_LETTER_PREFIX)
        raise Refusal(Refusal.NOT_FOUND, f"{smuid} is not among the dead letters of {topic}")

    async def _replay_page(self, dead_topic: str, page: list[HeldMessage]) -> dict[str, str]:
        """Replay some; by Smuid, why one stays."""
        refused: dict[str, str] = {}
        asker, asked = Asker(), list[tuple[HeldMessage, int | None]]()
        for held in page:
            try:
                asked.append((held, self._publish_again(held, asker)))
            except Refusal as refusal:
                refused[held.smuid] = refusal.text
        for held, request in asked:
            try:
                if request is not None:
                    await asker.answer(request)
            except Refusal as refusal:
                refused[held.smuid] = refusal.text
        back = [(held, asker.request()) for held, _ in asked if held.smuid not in refused]
        for held, request in back:
            self._door.remove(asker.consumer, dead_topic, held.smuid, request)
        for _, request in back:
            await asker.answer(request)
        return refused

    def _publish_again(self, held: HeldMessage, asker: Asker) -> int | None:
        """The number of the request; None of an unguaranteed message, which is not answered."""
        dead = held.stored.message
        said = {name: value for name, value in dead.others if name in DEAD_HEADERS}
        if held.locked:
            raise Refusal(Refusal.NOT_AVAILABLE, "a subscriber of the dead-letter topic has it")
        # what a client says is not believed
        if not is_of_this_server(dead.account, self._broker.server_name):
            raise Refusal(Refusal.FORBIDDEN, "it was published there by a client, and came from nowhere")
        message = _as_it_was(dead, said, held.smuid)
        head = b""
        if message.guarantee:
            self._broker.room.check()
            head = encode_head(message)
        request = asker.request()
        self._door.publish(
            asker.consumer, said["Dead-Topic"], message, said["Dead-Account"], request, head=head
        )
        return request if message.guarantee else None


def _as_it_was(dead: Message, said: dict[str, str], smuid: str) -> Message:
    """A new message like the one that died. Its Cmuid is of its dead letter: see `Operations.replay`."""
    return msgspec.structs.replace(
        dead,
        delivery="ALL" if said.get("Dead-Delivery") == "ALL" else "ONE",
        smuid="",
        account="",
        cmuid=f"replay:{smuid.rpartition('/')[2]}",  # a Smuid may be longer than a Cmuid
        others=tuple((name, value) for name, value in dead.others if name not in DEAD_HEADERS),
    )

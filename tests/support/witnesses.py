"""Publishers and two-phase subscribers of a site that is killed again and again: they keep a record of what
they were told, and judge by it all that they are told later."""

import random
from collections import deque
from collections.abc import Callable

from daemon.frontend import SubscribeOptions
from plugins.smqp.client import Client, Publication
from plugins.smqp.incoming import Delivery
from routing.message import DeliveryMode, Message, Section

OUTSTANDING = 100
AGAIN = 3
"""Messages that were answered and are published once more after each start."""
LEFT = 0.2
"""The part of what is received that is not committed at once."""
CREDIT = 10_000

OnTold = Callable[[], None]
"""Called for each thing that a witness is told."""


class PublishingWitness:
    """Publishes to one topic, each message with its Cmuid as its body."""

    def __init__(self, name: str, topic: str, mode: DeliveryMode, chance: random.Random) -> None:
        self.name = name
        self.topic = topic
        self.answered: dict[str, str] = {}
        """Cmuid -> Smuid."""
        self.unanswered: dict[str, None] = {}
        self.came_though_unanswered = 0
        self._mode = mode
        self._chance = chance
        self._count = 0

    async def run(self, client: Client, told: OnTold, *, only_unanswered: bool = False) -> None:
        """Again what had no answer, and some of what had; then new messages, until the connection ends."""
        again = self._chance.sample(sorted(self.answered), min(AGAIN, len(self.answered)))
        repeated = deque([*self.unanswered, *again])
        on_their_way: deque[Publication] = deque()
        while repeated or not only_unanswered:
            cmuid = repeated.popleft() if repeated else self._next_cmuid()
            if cmuid not in self.answered:
                self.unanswered[cmuid] = None
            on_their_way.append(await client.publish_soon(self.topic, self._message(cmuid)))
            if len(on_their_way) >= OUTSTANDING:
                await self._answer(on_their_way.popleft(), told)
        while on_their_way:
            await self._answer(on_their_way.popleft(), told)

    def _next_cmuid(self) -> str:
        self._count += 1
        return f"{self.name}-{self._count}"

    def _message(self, cmuid: str) -> Message:
        return Message(
            cmuid=cmuid, delivery=self._mode, sections=(Section("text/plain", cmuid.encode() * 20),)
        )

    async def _answer(self, publication: Publication, told: OnTold) -> None:
        reply = await publication.wait()
        cmuid, smuid = publication.cmuid, reply["smuid"]
        if cmuid in self.answered:
            assert (smuid, reply.get("repeated")) == (self.answered[cmuid], "YES")
        else:
            self.answered[cmuid] = smuid
            self.came_though_unanswered += "repeated" in reply
            del self.unanswered[cmuid]
        told()


class SubscribedWitness:
    """One subscription; `owners` are those of all subscriptions that compete for the topic's messages."""

    def __init__(self, name: str, topic: str, owners: dict[str, str], chance: random.Random) -> None:
        self.name = name
        self.topic = topic
        self.smuids: dict[str, set[str]] = {}
        """Cmuid -> the Smuids that came with it."""
        self.committed: set[str] = set()
        """Answered COMMITs."""
        self.commit_unanswered: set[str] = set()
        self.owed: set[str] = set()
        """Answered RECEIVED, and no COMMIT since: they have to come again."""
        self.came_again = 0
        self._receiving: set[str] = set()
        self._owners = owners
        self._chance = chance

    async def run(self, client: Client, told: OnTold, *, all_at_once: bool = False) -> None:
        """Until the connection ends; `all_at_once` leaves nothing uncommitted."""
        await client.subscribe(self.topic, SubscribeOptions(credit=CREDIT))
        while True:
            taken = await client.take()
            for delivery in taken:
                self._judge(delivery)
            await self._receive(client, [delivery for delivery in taken if not delivery.received])
            finished = [delivery for delivery in taken if all_at_once or self._chance.random() > LEFT]
            await self._commit(client, finished)
            told()

    def _judge(self, delivery: Delivery) -> None:
        message, smuid = delivery.message, delivery.message.smuid
        assert message.sections[0].body == message.cmuid.encode() * 20
        assert smuid not in self.committed, "what was committed came again"
        assert self._owners.get(smuid, self.name) == self.name, "it is another subscription's own"
        self.smuids.setdefault(message.cmuid, set()).add(smuid)
        if delivery.received:
            assert smuid in self.owed | self._receiving | self.commit_unanswered
            self.came_again += 1
            self._own({smuid})
        else:
            assert smuid not in self.owed | self.commit_unanswered, "it had been received, and did not say so"

    def _own(self, smuids: set[str]) -> None:
        self._receiving -= smuids
        self.commit_unanswered -= smuids
        self.owed |= smuids
        self._owners.update(dict.fromkeys(smuids, self.name))

    async def _receive(self, client: Client, deliveries: list[Delivery]) -> None:
        smuids = {delivery.message.smuid for delivery in deliveries}
        self._receiving |= smuids
        await client.received(deliveries)
        self._own(smuids)

    async def _commit(self, client: Client, deliveries: list[Delivery]) -> None:
        smuids = {delivery.message.smuid for delivery in deliveries}
        self.owed -= smuids
        self.commit_unanswered |= smuids
        await client.commit(deliveries)
        self.commit_unanswered -= smuids
        self.committed |= smuids

"""Clients that go on through whatever happens to their sites, and remember what they were promised.

A publisher publishes each number under one Cmuid until it has an answer. A reader commits in two phases.
Both connect again whenever the connection is lost.
"""

from collections import defaultdict
from collections.abc import Awaitable, Callable

import trio

from plugins.smqp.client import Client
from plugins.smqp.connection import ConnectionLost
from plugins.smqp.incoming import Delivery
from routing.errors import Refusal
from routing.message import DeliveryMode, Message, ReceiptMode, Section
from tests.support.real_sites import RealSite

RECONNECT_S = 0.05


class Publisher:
    """Publishes numbers to a topic, to all sites.

    Attributes:
        smuids: of what was answered, by Cmuid.
        receipts: by Cmuid, `X/Y` of each receipt that came, by its Smuid.
    """

    def __init__(
        self, site: RealSite, topic: str, mode: DeliveryMode, pause_s: float, receipt: ReceiptMode = "ALL"
    ) -> None:
        self.site = site
        self.topic = topic
        self.mode = mode
        self.receipt = receipt
        self.channel = f"publisher.{topic}"
        self.smuids: dict[str, str] = {}
        self.receipts: defaultdict[str, dict[str, str]] = defaultdict(dict)
        self._pause_s = pause_s
        self._enough = False
        self._ended = trio.Event()

    async def stop(self) -> None:
        """Publish nothing new; returns once everything is answered."""
        self._enough = True
        await self._ended.wait()

    async def run(self) -> None:
        """Publish until `stop`, and take receipts until cancelled."""
        async with trio.open_nursery() as nursery:
            topic = f"admin:{self.channel}@{self.site.name}"
            nursery.start_soon(CommittingReader(self.site, topic, self.channel, self._take_receipt).run)
            while not self._enough:
                await _connected(self.site, self.channel, self._publish)
            self._ended.set()

    async def _publish(self, client: Client) -> None:
        while not self._enough:
            number = len(self.smuids)
            body = Section("text/plain", str(number).encode())
            message = Message(
                cmuid=f"{self.topic}.{number}",
                depth=-1,
                delivery=self.mode,
                receipt=self.receipt,
                sections=(body,),
            )
            self.smuids[message.cmuid] = await client.publish(self.topic, message)
            await trio.sleep(self._pause_s)

    def _take_receipt(self, delivery: Delivery) -> None:
        message = delivery.message
        cmuid = dict(message.others)["Receipt-Cmuid"]
        self.receipts[cmuid][message.smuid] = message.sections[0].body.decode()


class CommittingReader:
    """A subscription of a channel of its own.

    Attributes:
        finished: Smuids whose COMMIT was answered.
        unsure: Smuids whose COMMIT was sent when the connection was lost, or was refused.
        again: what came although its COMMIT had been answered.
    """

    def __init__(
        self,
        site: RealSite,
        topic: str,
        channel: str,
        take: Callable[[Delivery], None] | None = None,
        *,
        may_be_removed: bool = False,
    ) -> None:
        """`may_be_removed`: what is published, while it is being read."""
        self.site = site
        self.topic = topic
        self.channel = channel
        self.finished: set[str] = set()
        self.unsure: set[str] = set()
        self.again: list[str] = []
        self.subscribed = trio.Event()
        self._take = take
        self._may_be_removed = may_be_removed

    async def run(self) -> None:
        """Read until cancelled."""
        while True:
            await _connected(self.site, self.channel, self._read)

    async def _read(self, client: Client) -> None:
        await client.subscribe(self.topic)
        self.subscribed.set()
        while True:
            deliveries = await client.take()
            smuids = {delivery.message.smuid for delivery in deliveries}
            self.again += smuids & self.finished
            try:
                await self._finish(client, deliveries, smuids)
            except Refusal:
                if not self._may_be_removed:
                    raise
                self.unsure |= smuids

    async def _finish(self, client: Client, deliveries: list[Delivery], smuids: set[str]) -> None:
        await client.received(deliveries)
        if self._take is not None:
            for delivery in deliveries:
                self._take(delivery)
        self.unsure |= smuids
        await client.commit(deliveries)
        self.unsure -= smuids
        self.finished |= smuids


async def _connected(site: RealSite, channel: str, work: Callable[[Client], Awaitable[None]]) -> None:
    """Do some work on one connection, to the end of either."""
    try:
        async with site.client(channel) as client:
            await work(client)
    except ConnectionLost:
        await trio.sleep(RECONNECT_S)

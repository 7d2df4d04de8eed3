"""A client of SMQP for trio programs: one connection, one login; `plugins.smqp.connecting` makes it.

    async with connect("smqp.example", 720, "ada", password) as client:
        await client.publish("weather.oslo", Message(sections=(Section("text/plain", b"rain"),)))
        await client.subscribe("weather.oslo")
        async for delivery in client:
            await client.received([delivery])
            ...                                  # the work
            await client.commit([delivery])

When the connection ends, all who wait get `ConnectionLost`. To connect again, and to publish again what got
no answer (with the same Cmuid, so that it is routed once), is the caller's.
"""

import secrets
import time
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final

import msgspec
import trio

from daemon.frontend import ReturnOutcome, SubscribeOptions
from plugins.smqp.connection import ConnectionLost, FrameConnection, Pending
from plugins.smqp.incoming import (
    Delivery,
    Greeting,
    attributes,
    read_delivery,
    read_greeting,
    read_number,
    read_refusal,
)
from plugins.smqp.protocol import write_ids, write_login
from routing.errors import Refusal
from routing.frames import Frame, encode_message
from routing.headers import Headers, read_seconds, write_created, write_seconds
from routing.message import DeliveryMode, Message
from routing.names import check_cmuid, check_topic
from routing.patterns import check_wanted

IDS_PER_FRAME: Final = 2_000  # 20 characters each at most: within a server's limit on header lines
UNGUARANTEED_MAX: Final = 10_000  # waiting for the program; more are dropped, and counted


OTHER_PORT: Final = "is this a port of SMQP, and TLS used exactly where the port has it?"
"""What is to be looked at where a server speaks something else."""


class SubscriptionEnded(Exception):
    """A subscription no longer delivers here; the connection lives on.

    Attributes:
        name: of the subscription, "" for one without.
        reason: `replaced` (another connection of the same account and channel), `removed` or `forbidden`.
    """

    def __init__(self, topic: str, name: str, reason: str) -> None:
        super().__init__(f"the subscription {name and name + ' '}to {topic} was {reason}")
        self.topic = topic
        self.name = name
        self.reason = reason


class LoginRefused(Refusal):
    """The site does not let this login in: account or password are wrong, or it has as many as it may."""


class Publication(Pending):
    """A message on its way. `cmuid` is the id to publish it with again if the connection is lost."""

    def __init__(self, cmuid: str) -> None:
        super().__init__()
        self.cmuid = cmuid


class Client:
    """One login; made by `connect`.

    Attributes:
        topic: the login's system topic, to which receipts, replies and CONNECTTO requests come.
        timeout_s: of messages that state none, as the server says.
        connection: the lower half; `connection.lost` is set once it has ended.
        server_ident, suid: who the server is.
        dropped: unguaranteed messages that came faster than the program took them.
        is_greeted: whether the server has greeted.
    """

    def __init__(self, stream: trio.abc.Stream) -> None:
        self.topic = ""
        self.timeout_s = 0.0
        self.server_ident = ""
        self.suid = ""
        self.dropped = 0
        self.is_greeted = False
        self.connection = FrameConnection(stream, self._notice)
        self._cmuid_prefix = secrets.token_hex(8)
        self._published = 0
        self._deliveries: deque[Delivery] = deque()
        self._taken: deque[Delivery] = deque()  # by an iteration, which hands them out one by one
        self._unfinished: dict[int, Delivery] = {}
        self._unguaranteed = 0
        self._ended: deque[SubscriptionEnded] = deque()
        self._arrived = trio.lowlevel.ParkingLot()

    @property
    def has_ended(self) -> bool:
        """Whether a subscription has ended of which `take` has still to tell."""
        return bool(self._ended)

    # -- publishing -------------------------------------------------------------------------------

    async def publish(self, topic: str, message: Message) -> str:
        """Publish, and wait until the server has the message on disk. Returns its Smuid.

        Created and Cmuid are written where the message has none. An unguaranteed message is never
        answered: this returns "" at once. Raises Refusal, or ConnectionLost (it may or may not have come).
        """
        publication = await self.publish_soon(topic, message)
        return (await publication.wait()).get("smuid", "")

    async def publish_soon(self, topic: str, message: Message) -> Publication:
        """Publish without waiting for the answer, so that many can be on their way: `wait` gives it.

        Waits only where much is unsent. Raises Refusal for what cannot be written, or ConnectionLost.
        """
        check_topic(topic)
        self._published += 1
        if not (message.cmuid and message.created):
            message = msgspec.structs.replace(
                message,
                cmuid=message.cmuid or f"{self._cmuid_prefix}-{self._published}",
                created=message.created or write_created(time.time_ns() // 1_000_000),
            )
        check_cmuid(message.cmuid)  # by which the answer is known
        data = f"PUBLISH {topic}\r\n".encode() + encode_message(message)
        publication = Publication(message.cmuid)
        if message.guarantee:
            self.connection.expect(f"Cmuid {message.cmuid}", publication)
        else:
            publication.finish({})
        await self.connection.send(data)
        return publication

    # -- receiving --------------------------------------------------------------------------------

    async def subscribe(self, topic: str, options: SubscribeOptions | None = None) -> None:
        """Begin or change a subscription to a topic or a pattern; its messages come by iterating."""
        options = options or SubscribeOptions()
        headers: Headers = [
            ("Credit", str(options.credit)),
            ("Accept", options.accepts),
            ("Durable", "YES" if options.durable else "NO"),
            ("Ordered", "YES" if options.ordered else "NO"),
        ]
        if options.lock_s is not None:
            headers.append(("Lock", write_seconds(options.lock_s)))
        if options.acknowledges_all:
            headers.append(("Acknowledge", "ALL"))
        if options.shared:
            headers.append(("Shared", "YES"))
        await self.connection.request(
            "SUBSCRIBE", check_wanted(topic), [*headers, *_subscription(options.name)]
        )

    async def unsubscribe(self, topic: str, name: str = "") -> None:
        """End a subscription for good."""
        await self.connection.request("UNSUBSCRIBE", check_wanted(topic), _subscription(name))

    async def detach(self, topic: str, name: str = "") -> None:
        """Receive no more here; a durable subscription stays."""
        await self.connection.request("DETACH", check_wanted(topic), _subscription(name))

    async def take(self) -> list[Delivery]:
        """All messages that have come, at least one; of several tasks, one has each. Cancellation loses none.

        Raises ConnectionLost, or SubscriptionEnded once for each subscription that ended.
        """
        await trio.lowlevel.checkpoint()
        self.connection.check()
        while not self._deliveries:
            if self._ended:
                raise self._ended.popleft()
            await self._arrived.park()
            self.connection.check()
        taken = [delivery for delivery in self._deliveries if delivery.withdrawn is None]
        self._deliveries.clear()
        self._unguaranteed = 0
        return taken or await self.take()

    def __aiter__(self) -> "Client":
        """Each message as it comes, until an exception of `take`. Use either this or `take`."""
        return self

    async def __anext__(self) -> Delivery:
        while True:
            while self._taken:
                delivery = self._taken.popleft()
                if delivery.withdrawn is None:
                    return delivery
            self._taken.extend(await self.take())

    async def received(self, deliveries: Iterable[Delivery]) -> None:
        """Tell that these are stored here, the first phase. Once answered, they go to no other subscriber."""
        await self._acknowledge("RECEIVED", deliveries, [])

    async def commit(self, deliveries: Iterable[Delivery]) -> None:
        """Finish these, in the second phase or the only one. Raises Refusal (lock-lost) where one was."""
        await self._acknowledge("COMMIT", deliveries, [])

    async def give_back(
        self,
        deliveries: Iterable[Delivery],
        reason: str = "",
        delay_s: float = 0.0,
        *,
        outcome: ReturnOutcome = "failed",
    ) -> None:
        """Give these back, for the next or for here, after `delay_s` seconds; rejected, for nobody."""
        headers: Headers = [("Reason", reason)] if reason else []
        if outcome != "failed":
            headers.append(("Outcome", outcome.upper()))
        if delay_s:
            headers.append(("Delay", write_seconds(delay_s)))
        await self._acknowledge("RETURN", deliveries, headers)

    # -- other commands ---------------------------------------------------------------------------

    async def remove(self, topic: str, smuid: str) -> None:
        """REMOVE a message wherever it went."""
        await self.connection.request("REMOVE", f"{check_topic(topic)} {smuid}", [])

    async def set_topic_delivery(self, topic: str, mode: DeliveryMode | None) -> None:
        """Set the mode of a topic; None lets each message say again. Source: SMQP "SET TOPIC DELIVERY"."""
        await self.connection.request("SET", f"TOPIC DELIVERY {check_topic(topic)} {mode or 'NONE'}", [])

    async def set_topic_timeout(self, topic: str, timeout_s: float | None) -> None:
        """Set the timeout of a topic, in seconds; None removes it. Source: SMQP "SET TOPIC TIMEOUT"."""
        value = "NONE" if timeout_s is None else write_seconds(timeout_s)
        await self.connection.request("SET", f"TOPIC TIMEOUT {check_topic(topic)} {value}", [])

    async def connect_to(self, account: str, channel: str, port: int, address: str | None = None) -> None:
        """Ask another login of this site, by CONNECTTO, to connect to `port` here, or at `address`."""
        where = f"{address}:{port}" if address else str(port)
        await self.connection.request("CONNECTTO", f"{account}/{channel} {where}", [])

    async def ping(self) -> None:
        """Wait until the server has read all that was sent before."""
        await self.connection.request("PING", "", [])

    # -- inside -----------------------------------------------------------------------------------

    async def run(self) -> None:
        """Run the connection's tasks until it ends, for `connect`; raises nothing but Cancelled."""
        try:
            await self.connection.run()
        finally:
            self._deliveries.clear()
            self._arrived.unpark_all()

    async def log_in(self, account: str, password: str, channel: str | None) -> None:
        """Greet and log in, for `connect`. Raises LoginRefused, or ConnectionLost."""
        login = write_login(account, password, channel)  # before all else: nothing that is none is sent
        connection = self.connection
        greeting = await self._greeting()
        self.is_greeted = True
        if not greeting.ready:
            raise ConnectionLost("not-available", greeting.text or greeting.server_ident, greeting.redirect)
        answer = await connection.exchange(Frame("PASS", login))
        if answer.command == "ERROR":
            refusal = read_refusal(answer)
            if refusal.code == Refusal.NOT_AVAILABLE:
                raise ConnectionLost(refusal.code, refusal.text)
            raise LoginRefused(refusal.code, refusal.text)
        reply = attributes(answer)
        if answer.command == "BYE":
            raise ConnectionLost(answer.arguments, reply.get("text", ""), reply.get("redirect"))
        if answer.command != "OK" or "topic" not in reply:
            raise ConnectionLost("protocol", f"{answer.command} is no answer to PASS")
        self.server_ident = greeting.server_ident
        self.topic = reply["topic"]
        self.suid = reply.get("suid", "")
        self.timeout_s = read_seconds(reply.get("timeout", "0"))
        if "idle" in reply:
            connection.idle_s = read_seconds(reply["idle"])

    async def _greeting(self) -> Greeting:
        """The server's. Raises ConnectionLost where it is none of SMQP, which speaks first."""
        try:
            return read_greeting(await self.connection.next_frame())
        except Refusal as refusal:
            raise ConnectionLost("protocol", f"{refusal.text}; {OTHER_PORT}") from None
        except ConnectionLost as lost:
            raise ConnectionLost(lost.reason, f"{lost.text} before it had greeted; {OTHER_PORT}") from None

    async def _acknowledge(self, command: str, deliveries: Iterable[Delivery], headers: Headers) -> None:
        """Raises the last refusal, after all frames have been answered."""
        numbers = sorted(delivery.number for delivery in deliveries if delivery.number)
        requests = [
            await self.connection.request_soon(command, write_ids(numbers[at : at + IDS_PER_FRAME]), headers)
            for at in range(0, len(numbers), IDS_PER_FRAME)
        ]
        refused: Refusal | None = None
        for request in requests:
            try:
                await request.wait()
            except Refusal as refusal:
                refused = refusal
        if command != "RECEIVED":
            for number in numbers:
                self._unfinished.pop(number, None)
        if refused is not None:
            raise refused

    def _notice(self, frame: Frame) -> None:
        if frame.command == "MESSAGE":
            delivery = read_delivery(frame)
            if delivery.number:
                self._unfinished[delivery.number] = delivery
            elif self._unguaranteed >= UNGUARANTEED_MAX:
                self.dropped += 1
                return
            else:
                self._unguaranteed += 1
            self._deliveries.append(delivery)
        elif frame.command == "WITHDRAWN":
            withdrawn = self._unfinished.pop(read_number(frame.arguments), None)
            if withdrawn is not None:
                withdrawn.withdrawn = attributes(frame).get("reason", "")
        elif frame.command == "DETACHED":
            reply = attributes(frame)
            ended = SubscriptionEnded(frame.arguments, reply.get("subscription", ""), reply.get("reason", ""))
            self._ended.append(ended)
            for delivery in list(self._unfinished.values()):
                if (delivery.pattern or delivery.topic, delivery.subscription) == (ended.topic, ended.name):
                    delivery.withdrawn = ended.reason
                    del self._unfinished[delivery.number]
        self._arrived.unpark_all()


@contextmanager
def passing_over_lost() -> Iterator[None]:
    """For what is said of several deliveries: some are held no more, and all others have been carried out."""
    try:
        yield
    except Refusal as refusal:
        if refusal.code != Refusal.LOCK_LOST:
            raise


@contextmanager
def lost_where_refused() -> Iterator[None]:
    """For what a session refuses once it is to end, with its BYE on the way: raises ConnectionLost."""
    try:
        yield
    except Refusal as refusal:
        if refusal.code != Refusal.NOT_AVAILABLE:
            raise
        raise ConnectionLost(refusal.code, refusal.text) from None


def _subscription(name: str) -> Headers:
    return [("Subscription", name)] if name else []

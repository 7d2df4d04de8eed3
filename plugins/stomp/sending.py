"""The sending half of a connection: what a SEND publishes, and where. No I/O."""

from collections.abc import Callable

from daemon.frontend import Session
from plugins.stomp.codec import Frame
from plugins.stomp.consuming import Consuming, required
from plugins.stomp.destinations import Destination
from plugins.stomp.headers import BY_THE_CLOCK, read_delay, read_message
from plugins.stomp.settings import StompSettings
from plugins.stomp.transactions import Step
from routing.errors import Refusal
from routing.message import Message


class Sending:
    """The SENDs of one connection; its `consuming` knows what destinations of its own stand for."""

    def __init__(
        self, session: Session, consuming: Consuming, settings: StompSettings, wall_ms: Callable[[], int]
    ) -> None:
        self._session = session
        self._consuming = consuming
        self._settings = settings
        self._wall_ms = wall_ms

    def look_ahead(self, command: str, headers: dict[str, str]) -> None:
        """Check a SEND whose body is to come. Raises Refusal where it would be refused whatever that is."""
        if command == "SEND":
            destination = self._consuming.destination(required(Frame(command, headers), "destination"))
            self._session.check_publish(self._topic_of(destination))

    def read(self, frame: Frame) -> tuple[str, Message, float]:
        """What a SEND asks for: topic, message and delay. Raises Refusal: nothing was sent."""
        destination, reply_address = self._addresses(frame)
        message, delay_s = self._message(frame, destination, reply_address)
        return self._topic_of(destination), message, delay_s

    def read_for_commit(self, frame: Frame) -> Step:
        """What COMMIT is to do for a SEND. Raises Refusal where that could be sent at no time.

        All that it says counts from COMMIT: what is left until a time of the clock is reckoned anew then.
        """
        destination, reply_address = self._addresses(frame)
        topic = self._topic_of(destination)
        message, delay_s = self._message(frame, destination, reply_address)

        def publish() -> None:
            self._session.publish(topic, message, delay_s=delay_s)

        def publish_by_the_clock() -> None:
            message, delay_s = self._message(frame, destination, reply_address)
            self._session.publish(topic, message, delay_s=delay_s)

        return publish if BY_THE_CLOCK.isdisjoint(frame.headers) else publish_by_the_clock

    def _addresses(self, frame: Frame) -> tuple[Destination, str | None]:
        """Where a SEND goes, and the system topic that its `reply-to` stands for."""
        destination = self._consuming.destination(required(frame, "destination"))
        reply_to = frame.headers.get("reply-to")
        return destination, self._consuming.reply_address(reply_to) if reply_to is not None else None

    def _message(
        self, frame: Frame, destination: Destination, reply_address: str | None
    ) -> tuple[Message, float]:
        headers = frame.headers
        delay_s = read_delay(headers, self._wall_ms)
        message = read_message(
            headers,
            frame.body,
            destination,
            depth=self._settings.depth,
            guarantee=self._settings.guarantee,
            in_transaction="transaction" in headers,
            reply_address=reply_address,
            wall_ms=self._wall_ms,
            delay_s=delay_s,
        )
        return message, delay_s

    def _topic_of(self, destination: Destination) -> str:
        if destination.kind == "temporary":
            return self._consuming.temporary_topic(destination.name)
        return destination.topic

    def publish_unguaranteed(self, topic: str, message: Message, delay_s: float, *, asks: bool) -> None:
        """Publish what no answer comes for. Raises Refusal.

        Such messages are the first to be given up; who wants to know asks for a receipt.
        """
        try:
            self._session.publish(topic, message, delay_s=delay_s)
        except Refusal as refusal:
            if refusal.code != Refusal.QUEUE_FULL or asks:
                raise

"""What may still be published: to a topic, and by one account, to system topics and at all."""

from collections.abc import Iterable

from routing.errors import Refusal
from routing.state import SiteState


class Room:
    """Asked before something is accepted; it changes nothing."""

    def __init__(self, state: SiteState) -> None:
        self._state = state

    def check(self, topic_name: str, messages: int, bytes: int) -> None:
        """Check that a topic can take so much at once. Raises Refusal (queue-full)."""
        settings = self._state.settings
        held_messages, held_bytes = self._held(topic_name)
        if (
            held_messages + messages > settings.queue_messages_max
            or held_bytes + bytes > settings.queue_bytes_max
        ):
            text = f"{topic_name} cannot hold {messages} more messages of {bytes} bytes together"
            raise Refusal(Refusal.QUEUE_FULL, text)

    def is_full(self, topic_name: str) -> bool:
        """Whether a topic holds as much as it may."""
        settings = self._state.settings
        messages, bytes = self._held(topic_name)
        return messages >= settings.queue_messages_max or bytes >= settings.queue_bytes_max

    def _held(self, topic_name: str) -> tuple[int, int]:
        """What counts in a topic: see `routing.peering.crossing`."""
        settings, topic = self._state.settings, self._state.topics.get(topic_name)
        if topic is None:
            return 0, 0
        besides = self._state.crossing.besides.get(topic_name)
        if besides is None:
            return topic.messages, topic.bytes
        messages, bytes = besides.counted(settings.queue_messages_max, settings.queue_bytes_max)
        return topic.messages + messages, topic.bytes + bytes

    def check_share(self, account: str, messages: int, bytes: int) -> None:
        """Check that so much more of an account of this site may be held: see `Share.check`."""
        self._state.shares.of(account).check(messages, bytes)

    def check_system(self, publisher: str, added: Iterable[tuple[str, int, bool]]) -> None:
        """Check that an account may have so much more waiting on system topics: see `SystemTopics.check`."""
        settings = self._state.settings
        self._state.system_topics.check(
            publisher, added, settings.system_messages_max, settings.system_bytes_max
        )

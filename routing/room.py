"""What may still be published: to a topic, and by one account, to system topics and at all."""

from collections.abc import Iterable

from routing.errors import Refusal
from routing.state import SiteState


class Room:
    """Asked before something is accepted; it changes nothing."""

    def __init__(self, state: SiteState) -> None:
        self._state = state

    def check(self, topic_name: str, messages: int, bytes: int) -> None:
        """Whether a topic can take so much at once. Raises Refusal (queue-full)."""
        settings, topic = self._state.settings, self._state.topics.get(topic_name)
        held_messages, held_bytes = (topic.messages, topic.bytes) if topic is not None else (0, 0)
        if (
            held_messages + messages > settings.queue_messages_max
            or held_bytes + bytes > settings.queue_bytes_max
        ):
            text = f"{topic_name} cannot hold {messages} more messages of {bytes} bytes together"
            raise Refusal(Refusal.QUEUE_FULL, text)

    def check_share(self, account: str, messages: int, bytes: int) -> None:
        """Whether so much more of an account of this site may be held: see `Share.check`."""
        self._state.shares.of(account).check(messages, bytes)

    def check_system(self, publisher: str, added: Iterable[tuple[str, int]]) -> None:
        """Whether an account may have so much more waiting on system topics: see `SystemTopics.check`."""
        settings = self._state.settings
        self._state.system_topics.check(
            publisher, added, settings.system_messages_max, settings.system_bytes_max
        )

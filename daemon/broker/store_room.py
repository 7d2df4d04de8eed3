"""Whether the store can take guaranteed messages: of publishers, and of peers.

It cannot while the disk is short of room, nor after a transaction that failed, nor above its bound.
"""

from collections.abc import Callable
from typing import Final

from daemon.settings import StoreSettings
from daemon.store.disk_room import DiskRoom
from daemon.store.health import StoreHealth
from daemon.store.store import Store
from routing.errors import Refusal
from routing.room import Room

SHARE_FOR_PEERS: Final = 8
"""One part in so many, beyond what publishers may fill."""


class StoreRoom:
    """Asked before something is accepted; it changes nothing.

    Args:
        settings: those of now: they may change with a reload.
        topics: what each topic can take.
    """

    def __init__(
        self,
        store: Store,
        disk: DiskRoom,
        health: StoreHealth,
        topics: Room,
        settings: Callable[[], StoreSettings],
    ) -> None:
        self._store = store
        self._disk = disk
        self._health = health
        self._topics = topics
        self._settings = settings

    def check(self) -> None:
        """Raises Refusal where no guaranteed message can be taken now."""
        self._disk.check()
        if self._health.failed is not None:
            raise Refusal(Refusal.STORE_FAILED, f"the site cannot store messages: {self._health.failed}")
        if self._store.size_bytes >= self._settings().store_bytes_max:
            raise Refusal(Refusal.QUEUE_FULL, "the site's store is as large as it may be")

    def has_room(self, topic: str, size: int) -> bool:
        """Whether a guaranteed message of so many bytes can be taken now."""
        try:
            self.check()
            self._topics.check(topic, 1, size)
        except Refusal:
            return False
        return True

    def has_room_for_peers(self) -> bool:
        """Whether the store can take what peers send: they may fill some more of it than publishers may.

        Two sites that are full of messages for each other have to be able to hand them over.
        """
        store_bytes_max = self._settings().store_bytes_max
        return (
            self._health.failed is None
            and not self._disk.short
            and self._store.size_bytes < store_bytes_max + store_bytes_max // SHARE_FOR_PEERS
        )

"""What front ends hold in memory and what is no message yet: unfinished bodies, open transactions.

And what was accepted and is not on disk yet: that is never refused here, but stands in the way of more.

All connections share one budget. An account, and likewise an address, may hold as much as is still free: one
alone gets half of it, two get a third each, and so on, so that whoever holds much never leaves nothing for
others. A body is counted whole as soon as its length is known, so one that was begun can be finished. An
account may have a quota besides, which it never holds more than.

Who has to wait for room holds nothing meanwhile but what it held before, and is refused after `WAIT_S`. It
stands in nobody's way: what it waits for may be its own to give back.
"""

from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final

import msgspec
import trio

from daemon.connections.addresses import counted_as
from routing.errors import Refusal

WAIT_S: Final = 5.0
"""For others to finish: longer than a body takes that is on its way, shorter than any client's patience."""


UNFINISHED_BYTES: Final = "unfinished_bytes_max"
"""What there may be too much of, as the subject of a refusal, where it is the account's quota."""

FREE_BYTES: Final = 65_536
"""What a connection may have that is being stored, and is counted in steps of: most never have more."""


class Holder(msgspec.Struct, eq=False):
    """One connection.

    Attributes:
        address: the group that it is counted in.
        bytes: that it holds of what is no message yet.
        storing: bytes of messages of its that are not on disk yet.
    """

    account: str
    address: str
    bytes: int = 0
    storing: int = 0
    closed: bool = False


class Unfinished:
    """The budget of a site; `bytes_max` is asked each time, since it changes with a reload."""

    def __init__(self, bytes_max: Callable[[], int], quota: Callable[[str], int] = lambda account: 0) -> None:
        """`quota`: bytes that one account may hold; 0 for no limit of its own."""
        self._bytes_max = bytes_max
        self._quota = quota
        self.bytes = 0
        """That are held now, and are being stored."""
        self._storing: dict[Holder, int] = {}  # with the transaction that is gathered
        self._committing: dict[Holder, int] = {}  # with the one before it
        self._by_account: Counter[str] = Counter()
        self._by_address: Counter[str] = Counter()
        self._waiting: OrderedDict[Holder, tuple[int, trio.Event]] = OrderedDict()
        self._commits = trio.lowlevel.ParkingLot()

    @staticmethod
    def holder(account: str, remote: str) -> Holder:
        """A connection of `account` from `remote`, which holds nothing yet."""
        return Holder(account, counted_as(remote))

    async def hold(self, holder: Holder, bytes: int) -> None:
        """Have the connection hold so many bytes, in all; waits for room. To hold less never waits.

        Raises Refusal (too-many) where there is no room within a while; it holds then what it held before.
        """
        if self._hold(holder, bytes):
            return
        if self._is_more_than_quota(holder, bytes):
            raise self._no_room(holder, bytes)
        admitted = trio.Event()
        self._waiting[holder] = (bytes, admitted)
        try:
            with trio.move_on_after(WAIT_S):
                await admitted.wait()
        finally:
            self._waiting.pop(holder, None)
        if not admitted.is_set():
            raise self._no_room(holder, bytes)

    async def hold_beside_stored(self, holder: Holder, bytes: int) -> None:
        """Hold as `hold` does, once `FREE_BYTES` more have room, or no more than those are being stored."""
        while holder.storing >= FREE_BYTES:
            if self._is_more_than_quota(holder, bytes + FREE_BYTES):  # there never is such room
                await self._commits.park()
                continue
            with suppress(Refusal):  # after a wait; what is being stored makes room, sooner or later
                await self.hold(holder, bytes + FREE_BYTES)
                break
        await self.hold(holder, bytes)

    @asynccontextmanager
    async def holding(self, account: str, remote: str, bytes: int) -> AsyncIterator[None]:
        """Hold so many bytes in the block, apart from what any connection holds. Raises as `hold` does."""
        holder = self.holder(account, remote)
        try:
            await self.hold(holder, bytes)
            yield
        finally:
            self.close(holder)

    def hold_now(self, holder: Holder, bytes: int) -> None:
        """Hold, as `hold` does, without waiting. Raises Refusal (too-many) where there is no room now."""
        if not self._hold(holder, bytes):
            raise self._no_room(holder, bytes)

    def check(self, holder: Holder, bytes: int) -> None:
        """Raises Refusal (too-many) where the connection could not hold so many bytes more now."""
        if not self._fits(holder, holder.bytes + bytes):
            raise self._no_room(holder, holder.bytes + bytes)

    # -- what is accepted -------------------------------------------------------------------------

    def store(self, holder: Holder, bytes: int) -> None:
        """Count a message that has been accepted, until `committed` is called for the second time from now.

        Or for the first time, where `begin_commit` was called before that.
        """
        before = holder.storing
        holder.storing = before + bytes
        self._storing[holder] = self._storing.get(holder, 0) + bytes
        if (steps := holder.storing // FREE_BYTES - before // FREE_BYTES) > 0:
            self._count(holder, steps * FREE_BYTES)

    def begin_commit(self) -> None:
        """Let `committed` tell of what has been accepted so far."""
        self._committing, self._storing = self._storing, {}

    def committed(self) -> None:
        """Free what was accepted before `begin_commit`, which is on disk, or was refused."""
        if not self._committing:
            return
        done, self._committing = self._committing, {}
        for holder, bytes in done.items():
            before = holder.storing
            holder.storing = before - bytes
            self._count(holder, (holder.storing // FREE_BYTES - before // FREE_BYTES) * FREE_BYTES)
        self._admit()
        self._commits.unpark_all()

    def _hold(self, holder: Holder, bytes: int) -> bool:
        if bytes <= holder.bytes or holder.closed:
            self._set(holder, bytes)
            self._admit()
            return True
        if not self._fits(holder, bytes):
            return False
        self._set(holder, bytes)
        return True

    def close(self, holder: Holder) -> None:
        """Give back all that a connection holds that has ended; what it waits for is forgotten."""
        self._set(holder, 0)
        holder.closed = True
        _, admitted = self._waiting.pop(holder, (0, None))
        if admitted is not None:
            admitted.set()
        self._admit()

    def _fits(self, holder: Holder, bytes: int) -> bool:
        more = bytes - holder.bytes
        free = self._bytes_max() - self.bytes - more
        # not by [], which asks more of a counter that knows nothing of them, as it is with most
        of_account = self._by_account.get(holder.account, 0) + more
        if of_account > free or self._by_address.get(holder.address, 0) + more > free:
            return False
        return not 0 < self._quota(holder.account) < of_account

    def _over_quota(self, holder: Holder, bytes: int) -> bool:
        quota = self._quota(holder.account)
        return 0 < quota < self._by_account[holder.account] + bytes - holder.bytes

    def _is_more_than_quota(self, holder: Holder, bytes: int) -> bool:
        """Whether no wait makes that fit."""
        return 0 < self._quota(holder.account) < bytes

    def of_account(self, account: str) -> int:
        """Bytes that all connections of an account hold, and have stored."""
        return self._by_account[account]

    def _no_room(self, holder: Holder, bytes: int) -> Refusal:
        if self._over_quota(holder, bytes):
            return Refusal(
                Refusal.TOO_MANY,
                f"{holder.account} may have {self._quota(holder.account)} bytes unfinished"
                f" ({UNFINISHED_BYTES}), so that there is no room for {bytes}; finish bodies and transactions"
                " that are open, or send fewer at a time, and try again",
                subject=UNFINISHED_BYTES,
            )
        return Refusal(
            Refusal.TOO_MANY,
            f"there is no room for {bytes} bytes beside what {holder.account} and others have unfinished;"
            " finish bodies and transactions that are open, or send fewer at a time, and try again",
        )

    def _set(self, holder: Holder, bytes: int) -> None:
        if holder.closed:
            return
        more = bytes - holder.bytes
        holder.bytes = bytes
        self._count(holder, more)

    def _count(self, holder: Holder, more: int) -> None:
        if not more:
            return
        self.bytes += more
        for counter, key in ((self._by_account, holder.account), (self._by_address, holder.address)):
            counter[key] += more
            if not counter[key]:
                del counter[key]

    def _admit(self) -> None:
        """Those for whom there is room, in the order in which they came."""
        for holder, (bytes, admitted) in list(self._waiting.items()):
            if self._fits(holder, bytes):
                del self._waiting[holder]
                self._set(holder, bytes)
                admitted.set()

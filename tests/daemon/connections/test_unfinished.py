"""The memory that all connections share for what is no message yet; time is virtual."""

import pytest
import trio
import trio.testing

from daemon.connections.addresses import counted_as
from daemon.connections.unfinished import FREE_BYTES, WAIT_S, Holder, Unfinished
from daemon.settings import Limits
from routing.errors import Refusal

BYTES_MAX = 1_200


@pytest.fixture
def budget() -> Unfinished:
    return Unfinished(lambda: BYTES_MAX)


async def fill(budget: Unfinished, account: str, remote: str) -> int:
    """Connection after connection of 10 bytes, until there is no room; how many bytes got in."""
    held = 0
    while True:
        holder = budget.holder(account, remote)
        try:
            await budget.hold(holder, 10)
        except Refusal as refusal:
            return held if refusal.code == Refusal.TOO_MANY else -1
        held += 10


async def test_each_account_and_each_address_leaves_as_much_as_it_has(
    budget: Unfinished, autojump_clock: trio.testing.MockClock
) -> None:
    assert await fill(budget, "ann", "10.0.0.1:1") == BYTES_MAX // 2
    assert await fill(budget, "bob", "10.0.0.1:2") == 0
    assert await fill(budget, "ann", "10.0.0.2:1") == 0
    assert await fill(budget, "bob", "10.0.0.2:2") == BYTES_MAX // 4
    assert await fill(budget, "cyd", "10.0.0.3:2") == 150
    assert budget.bytes == 600 + 300 + 150


async def test_an_account_with_a_quota_holds_no_more_and_is_told_by_name(
    autojump_clock: trio.testing.MockClock,
) -> None:
    budget = Unfinished(lambda: BYTES_MAX, {"ann": 50, "bob": 0}.__getitem__)
    assert await fill(budget, "ann", "10.0.0.1:1") == 50
    assert budget.of_account("ann") == 50
    ann = budget.holder("ann", "10.0.0.2:1")
    began = trio.current_time()
    for call in (budget.check, budget.hold_now):
        with pytest.raises(Refusal, match=r"ann may have 50 bytes unfinished \(unfinished_bytes_max\)"):
            call(ann, 10)
    with pytest.raises(Refusal) as refused:
        await budget.hold(ann, 51)
    assert (refused.value.code, refused.value.subject) == (Refusal.TOO_MANY, "unfinished_bytes_max")
    assert trio.current_time() == began  # no wait makes that fit
    assert await fill(budget, "bob", "10.0.0.2:1") == 570  # half of what is free, in tens


async def test_a_connection_waits_for_room_and_gets_it_as_soon_as_there_is_some(
    budget: Unfinished, autojump_clock: trio.testing.MockClock
) -> None:
    first, second = (budget.holder("ann", "10.0.0.1:1") for _ in range(2))
    await budget.hold(first, 600)

    async def later() -> None:
        await trio.sleep(1)
        await budget.hold(first, 200)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(later)
        await budget.hold(second, 400)
    assert trio.current_time() == 1
    assert budget.bytes == 600


async def test_who_cannot_wait_is_refused_at_once(budget: Unfinished) -> None:
    holder, other = budget.holder("ann", "10.0.0.1:1"), budget.holder("bob", "10.0.0.2:1")
    budget.hold_now(holder, 600)
    with pytest.raises(Refusal, match="no room for 500 bytes"):
        budget.hold_now(other, 500)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(budget.hold, other, 400)
        await trio.testing.wait_all_tasks_blocked()
        budget.hold_now(holder, 100)
    assert budget.bytes == 500


async def test_nobody_is_refused_for_who_waits(autojump_clock: trio.testing.MockClock) -> None:
    budget = Unfinished(lambda: BYTES_MAX, {"ann": 50, "bob": 0, "cyd": 0}.__getitem__)
    ann, bob, cyd = (budget.holder(name, f"10.0.0.{at}:1") for at, name in enumerate(("ann", "bob", "cyd")))
    budget.hold_now(ann, 40)
    budget.hold_now(bob, 500)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(budget.hold, budget.holder("ann", "10.0.0.4:1"), 20)  # for its own quota
        nursery.start_soon(budget.hold, budget.holder("bob", "10.0.0.5:1"), 200)  # for its own part
        await trio.testing.wait_all_tasks_blocked()
        budget.check(cyd, 10)
        budget.hold_now(cyd, 10)
        budget.close(ann)
        budget.close(bob)
    assert trio.current_time() == 0


async def test_who_is_refused_holds_what_it_held_and_who_is_cancelled_too(
    budget: Unfinished, autojump_clock: trio.testing.MockClock
) -> None:
    holder = budget.holder("ann", "10.0.0.1:1")
    await budget.hold(holder, 500)
    with pytest.raises(Refusal, match="no room for 700 bytes beside what ann"):
        await budget.hold(holder, 700)
    assert trio.current_time() == WAIT_S
    with trio.move_on_after(1):
        await budget.hold(holder, 700)
    assert (holder.bytes, budget.bytes) == (500, 500)


async def test_a_connection_that_ends_while_it_waits_leaves_nothing(
    budget: Unfinished, autojump_clock: trio.testing.MockClock
) -> None:
    holders: list[Holder] = [budget.holder("ann", "10.0.0.1:1") for _ in range(2)]
    await budget.hold(holders[0], 600)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(budget.hold, holders[1], 100)
        await trio.testing.wait_all_tasks_blocked()
        budget.close(holders[1])
    await budget.hold(holders[1], 100)
    budget.close(holders[0])
    budget.close(holders[0])
    assert budget.bytes == 0
    assert trio.current_time() == 0


@pytest.mark.parametrize(
    ("remote", "counted"),
    [
        ("10.0.0.1:4711", "10.0.0.1"),
        ("10.0.0.1", "10.0.0.1"),
        ("[::1]:4711", "::/64"),
        ("[2001:db8:1:2:3:4:5:6]:80", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::", "2001:db8:1:2::/64"),
        ("[fe80::1%eth0]:1", "fe80::/64"),
        ("[::ffff:10.0.0.1]:80", "10.0.0.1"),
        ("unix", "unix"),
        ("test", "test"),
    ],
)
def test_addresses_are_counted_alone_and_those_of_ipv6_by_their_network(remote: str, counted: str) -> None:
    assert counted_as(remote) == counted


def test_two_messages_of_the_greatest_size_fit_or_the_settings_are_refused() -> None:
    with pytest.raises(ValueError, match="at least twice message_bytes_max"):
        Limits(message_bytes_max=200_000_000)


async def test_what_is_being_stored_stands_in_the_way_of_more_until_it_is_on_disk() -> None:
    budget = Unfinished(lambda: 8 * FREE_BYTES)
    ann, bob = budget.holder("ann", "10.0.0.1:1"), budget.holder("bob", "10.0.0.2:1")
    for _ in range(4):
        budget.store(ann, FREE_BYTES)
    budget.store(bob, FREE_BYTES - 1)
    assert budget.bytes == 4 * FREE_BYTES
    with pytest.raises(Refusal, match="no room"):
        budget.hold_now(ann, FREE_BYTES)
    budget.hold_now(bob, FREE_BYTES)
    budget.begin_commit()
    budget.store(ann, FREE_BYTES)
    with pytest.raises(Refusal, match="no room"):
        budget.check(ann, FREE_BYTES)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(budget.hold, ann, FREE_BYTES)
        await trio.testing.wait_all_tasks_blocked()
        budget.close(bob)
        budget.committed()
    budget.check(ann, FREE_BYTES)
    assert (ann.storing, budget.bytes) == (FREE_BYTES, 2 * FREE_BYTES)
    budget.close(ann)
    budget.begin_commit()
    budget.committed()
    assert (ann.storing, bob.storing, budget.bytes) == (0, 0, 0)


async def test_what_is_stored_is_waited_for_where_a_quota_leaves_no_room_beside_it() -> None:
    budget = Unfinished(lambda: 100 * FREE_BYTES, lambda account: 2 * FREE_BYTES)
    ann = budget.holder("ann", "10.0.0.1:1")
    budget.store(ann, FREE_BYTES)
    budget.begin_commit()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(budget.hold_beside_stored, ann, 2 * FREE_BYTES)
        await trio.testing.wait_all_tasks_blocked()
        assert ann.bytes == 0
        budget.committed()
    assert ann.bytes == 2 * FREE_BYTES

"""Places for handshakes: a flood from one address takes none from others."""

from collections import Counter

import trio
import trio.testing

from daemon.link.handshakes import Handshakes


async def test_a_full_house_makes_room_at_the_cost_of_who_has_most() -> None:
    handshakes, inside, refused = Handshakes(4), Counter[str](), Counter[str]()

    async def shake(address: str) -> None:
        with handshakes.admit(address) as has_place:
            if not has_place:
                refused[address] += 1
                return
            inside[address] += 1
            try:
                await trio.sleep_forever()
            finally:
                inside[address] -= 1

    async with trio.open_nursery() as nursery:

        async def come(address: str, count: int) -> None:
            for _ in range(count):
                nursery.start_soon(shake, address)
                await trio.testing.wait_all_tasks_blocked()

        await come("flood", 10)
        assert (inside["flood"], refused["flood"]) == (4, 6)
        await come("peer", 1)
        assert (inside["flood"], inside["peer"]) == (3, 1)
        await come("flood", 5)
        await come("other", 1)
        assert (inside["flood"], inside["peer"], inside["other"]) == (2, 1, 1)
        assert refused["peer"] == refused["other"] == 0
        nursery.cancel_scope.cancel()
    with handshakes.admit("later") as has_place:
        assert has_place
    assert handshakes._count == 0

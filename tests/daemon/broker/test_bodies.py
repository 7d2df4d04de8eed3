"""Which messages are certain to be in memory."""

from daemon.broker.bodies import RECENT_BYTES_MAX, Bodies, Stored


def test_what_is_not_on_disk_stays_in_memory_whatever_else_is_stored() -> None:
    bodies = Bodies()
    bodies.add(1, Stored(wire=b"waits for room"))
    for id in (2, 3):
        bodies.add(id, Stored(wire=bytes(RECENT_BYTES_MAX)))
    bodies.committed(besides=[1])
    assert [bodies.find(id) is not None for id in (1, 2, 3)] == [True, False, False]
    bodies.add(4, Stored(wire=b"later"))
    bodies.committed()
    assert bodies.find(1) is not None
    bodies.discard(1)
    assert bodies.find(1) is None

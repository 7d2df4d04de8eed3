"""JMSXGroupID: messages of one group go to one consumer at a time, in order, whatever happens to it."""

from pathlib import Path

import pytest

from plugins.stomp.codec import Frame
from tests.plugins.stomp.test_across_sites import clients
from tests.plugins.stomp.test_kill import client_of
from tests.support.ports import free_port
from tests.support.process import daemon
from tests.support.stomp import ConnectStomp, StompClient
from tests.support.stomp_site import make_stomp_site, stomp_environment


async def send(client: StompClient, *bodies: str, **headers: str) -> None:
    """Each is of the group that its first letter names."""
    for body in bodies:
        of_group = {"destination": "/queue/T", "JMSXGroupID": body[0], **headers}
        await client.ask("SEND", of_group, body.encode())


async def work(client: StompClient, *bodies: str) -> list[Frame]:
    """The client is sent these, and leaves them unacknowledged."""
    frames = [await client.expect("MESSAGE", JMSXGroupID=body[0]) for body in bodies]
    assert [frame.body.decode() for frame in frames] == list(bodies)
    return frames


async def subscribed(connect: ConnectStomp) -> StompClient:
    client: StompClient = connect()
    await client.connect()
    await client.subscribe("/queue/T", ack="client-individual")
    return client


async def test_a_group_has_one_consumer_until_that_dies(ada: StompClient, connect: ConnectStomp) -> None:
    one, other = await subscribed(connect), await subscribed(connect)
    await send(ada, "x1", "y1", "x2", "x3")
    first, *_ = await work(one, "x1", "x2", "x3")
    await work(other, "y1")
    await one.ask("ACK", {"id": first.headers["ack"]})
    await one.stream.aclose()
    await work(other, "x2", "x3")


async def test_a_sequence_below_zero_ends_a_group(ada: StompClient, connect: ConnectStomp) -> None:
    one, other = await subscribed(connect), await subscribed(connect)
    await send(ada, "x1")
    await send(ada, "x2", JMSXGroupSeq="-1")
    await send(ada, "x3", JMSXGroupSeq="1")
    first, last = await work(one, "x1", "x2")
    assert last.headers["JMSXGroupSeq"] == "-1"
    for frame in (first, last):
        await one.ask("ACK", {"id": frame.headers["ack"]})
    [begun] = await work(other, "x3")
    assert begun.headers["JMSXGroupSeq"] == "1"


async def test_a_group_is_sent_on_to_where_it_is_taken_and_stays_at_a_site_that_takes_it(
    tmp_path: Path,
) -> None:
    async with clients(tmp_path, depth=-1) as (alpha, _, sender, receiver):
        await receiver.subscribe("/queue/T", ack="client-individual")
        await alpha.wanted("ONE", "T", within=1)
        await send(sender, "x1", "x2")
        await work(receiver, "x1", "x2")
        await sender.subscribe("/queue/T", ack="client-individual", **{"prefetch-count": "1"})
        await sender.send(
            "SEND", {"destination": "/queue/T", "JMSXGroupID": "x", "persistent": "true"}, b"x3"
        )
        [here] = await work(sender, "x3")
        await sender.send(
            "SEND", {"destination": "/queue/T", "JMSXGroupID": "x", "persistent": "true"}, b"x4"
        )
        await sender.send("ACK", {"id": here.headers["ack"]})
        await work(sender, "x4")


@pytest.mark.kill
async def test_a_site_that_is_killed_hands_a_group_out_in_order(tmp_path: Path) -> None:
    port = free_port()
    config = make_stomp_site(tmp_path, port)
    path = stomp_environment(tmp_path)["PYTHONPATH"]
    async with daemon(config, PYTHONPATH=path) as running, client_of(port) as ada, client_of(port) as bob:
        await ada.subscribe("/queue/T", ack="client-individual", **{"prefetch-count": "2"})
        await send(bob, "x1", "x2", "x3", "y1")
        await work(ada, "x1", "x2")
        running.process.kill()
        await running.process.wait()
    async with daemon(config, PYTHONPATH=path), client_of(port) as ada, client_of(port) as bob:
        await ada.subscribe("/queue/T", ack="client-individual", **{"prefetch-count": "1"})
        await bob.subscribe("/queue/T", ack="client-individual")
        [first] = await work(ada, "x1")
        await work(bob, "y1")
        await ada.ask("ACK", {"id": first.headers["ack"]})
        await work(ada, "x2")

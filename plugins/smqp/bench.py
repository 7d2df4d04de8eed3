"""`smqpd bench`: how fast a site takes messages and hands them on, on a topic of its own.

Each publisher keeps `window` messages on their way, each with the time at which it was published.
Publishers and subscribers are in this process, so their clocks are one.
"""

import math
import time
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec
import trio

from daemon.frontend import SubscribeOptions
from daemon.terminal.figures import bytes_shown
from plugins.smqp.client import Client, Publication
from plugins.smqp.connection import ConnectionLost
from plugins.smqp.profile import Profile
from routing.errors import Refusal
from routing.message import DeliveryMode, Message, Section

STAMP_BYTES: Final = 16
"""Of each body: when it was published, in nanoseconds."""

SILENCE_S: Final = 30.0
"""Without a message after which no more are waited for."""


class BenchPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What to do; `messages` are of all publishers together."""

    topic: str
    messages: int
    size: int
    publishers: int
    subscribers: int
    window: int
    mode: DeliveryMode
    guarantee: bool


class Latency(msgspec.Struct, frozen=True, kw_only=True):
    """In seconds."""

    p50: float
    p90: float
    p99: float
    max: float


class BenchResult(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it.

    Attributes:
        published: from the call until the site has it on disk; None without a guarantee.
        delivered: from the call until a subscriber has it; None without subscribers.
        lost: deliveries that did not come.
    """

    messages: int
    size: int
    publish_per_s: float
    published: Latency | None
    deliveries: int
    deliver_per_s: float
    delivered: Latency | None
    lost: int


class _Measuring:
    def __init__(self, plan: BenchPlan) -> None:
        self.plan = plan
        self.publish_s: list[float] = []
        self.deliver_s: list[float] = []
        self.began = self.published_at = self.delivered_at = 0.0


async def bench(profile: Profile, plan: BenchPlan) -> BenchResult:
    """Run it. Raises Refusal, ConnectionLost."""
    try:
        return await _bench(profile, plan)
    except BaseExceptionGroup as group:  # what one connection met, mostly all do
        met = next((each for each in _leaves(group) if isinstance(each, Refusal | ConnectionLost)), None)
        if met is None:
            raise
        raise met from None


def _leaves(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    for each in group.exceptions:
        if isinstance(each, BaseExceptionGroup):
            yield from _leaves(each)
        else:
            yield each


async def _bench(profile: Profile, plan: BenchPlan) -> BenchResult:
    seen = _Measuring(plan)
    expected = plan.messages * (plan.subscribers if plan.mode == "ALL" else min(plan.subscribers, 1))
    async with trio.open_nursery() as subscribers:
        for number in range(plan.subscribers):
            await subscribers.start(_subscribe, profile, seen, number, expected)
        seen.began = time.perf_counter()
        async with trio.open_nursery() as publishers:
            for number in range(plan.publishers):
                share = plan.messages // plan.publishers + (number < plan.messages % plan.publishers)
                publishers.start_soon(_publish, profile, seen, number, share)
        seen.published_at = time.perf_counter()
        with trio.move_on_after(SILENCE_S) as silence:
            while (had := len(seen.deliver_s)) < expected:
                await trio.sleep(0.01)
                if len(seen.deliver_s) > had:
                    silence.deadline = trio.current_time() + SILENCE_S
        subscribers.cancel_scope.cancel()
    return _result(seen, expected)


async def _publish(profile: Profile, seen: _Measuring, number: int, messages: int) -> None:
    plan, filling = seen.plan, bytes(max(seen.plan.size - STAMP_BYTES, 0))
    room = trio.CapacityLimiter(plan.window)

    async def answered(publication: Publication, at: float) -> None:
        await publication.wait()
        seen.publish_s.append(time.perf_counter() - at)
        room.release_on_behalf_of(publication)

    async with profile.connect(f"bench-publisher-{number}") as client, trio.open_nursery() as waiting:
        for _ in range(messages):
            at = time.perf_counter_ns()
            body = b"%0*d" % (STAMP_BYTES, at) + filling
            message = Message(
                sections=(Section("application/octet-stream", body),),
                guarantee=plan.guarantee,
                delivery=plan.mode,
            )
            publication = await client.publish_soon(plan.topic, message)
            if plan.guarantee:
                await room.acquire_on_behalf_of(publication)
                waiting.start_soon(answered, publication, at / 1e9)


async def _subscribe(
    profile: Profile,
    seen: _Measuring,
    number: int,
    expected: int,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    options = SubscribeOptions(credit=1_000, durable=False, acknowledges_all=False)
    async with profile.connect(f"bench-subscriber-{number}") as client:
        await client.subscribe(seen.plan.topic, options)
        task_status.started()
        while len(seen.deliver_s) < expected:
            await _take(client, seen)


async def _take(client: Client, seen: _Measuring) -> None:
    taken = await client.take()
    now = time.perf_counter()
    for delivery in taken:
        sent_ns = int(delivery.message.sections[0].body[:STAMP_BYTES])
        seen.deliver_s.append(now - sent_ns / 1e9)
    seen.delivered_at = now
    if guaranteed := [delivery for delivery in taken if delivery.number]:
        await client.commit(guaranteed)


def _result(seen: _Measuring, expected: int) -> BenchResult:
    plan, deliveries = seen.plan, len(seen.deliver_s)
    return BenchResult(
        messages=plan.messages,
        size=plan.size,
        publish_per_s=plan.messages / (seen.published_at - seen.began),
        published=_latency(seen.publish_s),
        deliveries=deliveries,
        deliver_per_s=deliveries / (seen.delivered_at - seen.began) if deliveries else 0.0,
        delivered=_latency(seen.deliver_s),
        lost=max(expected - deliveries, 0),
    )


def _latency(seconds: Sequence[float]) -> Latency | None:
    if not seconds:
        return None
    rising = sorted(seconds)

    def percentile(share: float) -> float:
        return rising[min(math.ceil(share * len(rising)), len(rising)) - 1]

    return Latency(p50=percentile(0.5), p90=percentile(0.9), p99=percentile(0.99), max=rising[-1])


def shown(result: BenchResult) -> list[str]:
    """The result in lines, for people."""
    lines = [
        f"published  {result.messages:,} messages of {bytes_shown(result.size)}:"
        f" {result.publish_per_s:,.0f}/s{_in_words(result.published)}"
    ]
    if result.delivered is not None:
        what = f"{result.deliveries:,} deliveries: {result.deliver_per_s:,.0f}/s"
        lines.append(f"delivered  {what}{_in_words(result.delivered)}")
    if result.lost:
        lines.append(f"missing    {result.lost:,} deliveries")
    return lines


def _in_words(latency: Latency | None) -> str:
    if latency is None:
        return ""
    names = ("p50", "p90", "p99", "max")
    return "\n           " + ", ".join(f"{name} {getattr(latency, name) * 1e3:.2f} ms" for name in names)

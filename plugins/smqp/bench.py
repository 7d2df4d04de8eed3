"""`smqpd bench`: how fast a site takes messages and hands them on, on a topic of its own.

Each publisher keeps `window` messages on their way, each with the run that it is of and the time at which it
was published. Publishers and subscribers are in this process, so their clocks are one. On a topic that others
use, too, only messages of the run count; what is for all is passed over, and what is for one is left alone.
"""

import math
import secrets
import struct
import time
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec
import trio

from daemon.frontend import SubscribeOptions
from daemon.terminal.failure import Failure
from daemon.terminal.figures import bytes_shown
from plugins.smqp.client import Client, Publication, SubscriptionEnded
from plugins.smqp.connection import ConnectionLost
from plugins.smqp.incoming import Delivery
from plugins.smqp.profile import Profile
from routing.errors import Refusal
from routing.message import DeliveryMode, Message, Section

_STAMP: Final = struct.Struct(">8sQ")
"""What each body begins with: the run, and when since its beginning it was published, in nanoseconds."""

SILENCE_S: Final = 30.0
"""Without a message after which no more are waited for."""


ONE_TIMEOUT_S: Final = 600.0
"""Of messages for one subscriber: those of a run that is interrupted would wait for ever.

Those for all wait for nobody, and would be kept for so long.
"""


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
        self.run = secrets.token_bytes(8)
        self.zero_ns = time.perf_counter_ns()
        self.publish_s: list[float] = []
        self.deliver_s: list[float] = []
        self.began = self.published_at = self.delivered_at = 0.0
        self.committing = 0  # subscribers whose COMMIT has no answer

    def channel(self, role: str, number: int) -> str:
        """A login's, which is of no other run."""
        return f"bench-{self.run.hex()}-{role}-{number}"

    def stamp(self) -> bytes:
        """For a body that is published now."""
        return _STAMP.pack(self.run, time.perf_counter_ns() - self.zero_ns)

    def published_ns(self, delivery: Delivery) -> int | None:
        """When it was, as `time.perf_counter_ns` has it; None for a message that is not of this run."""
        body = delivery.message.sections[0].body if delivery.message.sections else b""
        if len(body) < _STAMP.size:
            return None
        run, since_ns = _STAMP.unpack_from(body)
        return self.zero_ns + since_ns if run == self.run else None


async def bench(profile: Profile, plan: BenchPlan) -> BenchResult:
    """Run it. Raises Failure, Refusal, ConnectionLost."""
    try:
        return await _bench(profile, plan)
    except BaseExceptionGroup as group:  # what one connection met, mostly all do
        met = next((each for each in _leaves(group) if isinstance(each, _MET)), None)
        if met is None:
            raise
        if isinstance(met, SubscriptionEnded):
            met = Failure(f"{met} meanwhile")
        raise met from None


_MET: Final = (Refusal, ConnectionLost, SubscriptionEnded, Failure)


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
            while (had := len(seen.deliver_s)) < expected or seen.committing:
                await trio.sleep(0.01)
                if len(seen.deliver_s) > had:
                    silence.deadline = trio.current_time() + SILENCE_S
        subscribers.cancel_scope.cancel()
    return _result(seen, expected)


async def _publish(profile: Profile, seen: _Measuring, number: int, messages: int) -> None:
    plan, filling = seen.plan, bytes(max(seen.plan.size - _STAMP.size, 0))
    room = trio.CapacityLimiter(plan.window)

    async def answered(publication: Publication, at: float) -> None:
        await publication.wait()
        seen.publish_s.append(time.perf_counter() - at)
        room.release_on_behalf_of(publication)

    async with profile.connect(seen.channel("publisher", number)) as client, trio.open_nursery() as waiting:
        for _ in range(messages):
            at = time.perf_counter()
            message = Message(
                sections=(Section("application/octet-stream", seen.stamp() + filling),),
                guarantee=plan.guarantee,
                delivery=plan.mode,
                timeout_s=ONE_TIMEOUT_S if plan.mode == "ONE" else None,
            )
            publication = await client.publish_soon(plan.topic, message)
            if plan.guarantee:
                await room.acquire_on_behalf_of(publication)
                waiting.start_soon(answered, publication, at)


async def _subscribe(
    profile: Profile,
    seen: _Measuring,
    number: int,
    expected: int,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    options = SubscribeOptions(credit=1_000, durable=False, acknowledges_all=False)
    async with profile.connect(seen.channel("subscriber", number)) as client:
        await client.subscribe(seen.plan.topic, options)
        task_status.started()
        while len(seen.deliver_s) < expected:
            await _take(client, seen)


async def _take(client: Client, seen: _Measuring) -> None:
    taken = await client.take()
    now_ns = time.perf_counter_ns()
    theirs: list[Delivery] = []
    for delivery in taken:
        published_ns = seen.published_ns(delivery)
        if published_ns is not None:
            seen.deliver_s.append((now_ns - published_ns) / 1e9)
            seen.delivered_at = now_ns / 1e9
        elif "ONE" in (seen.plan.mode, delivery.message.delivery):
            theirs.append(delivery)
    if theirs:
        await client.give_back(theirs, outcome="released")
        text = (
            f"others have messages for one subscriber on {seen.plan.topic}, which are not to be lost to them"
        )
        raise Failure(f"{text}; leave --topic out, or give one of your own")
    if guaranteed := [delivery for delivery in taken if delivery.number]:
        seen.committing += 1
        await client.commit(guaranteed)
        seen.committing -= 1


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

"""/metrics, for Prometheus: OpenMetrics, or its older text for who asks for that.

Topics are told of by name where they are few; where they are many, those of them that hold the most and those
to which the most comes, so that the page stays small. Sums of all topics are there besides.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import msgspec
import trio
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
)
from prometheus_client.exposition import choose_encoder

from daemon.frontend import (
    COUNTERS,
    LONG_PAUSE_S,
    STEPS_S,
    TOPIC_COUNTERS,
    Histogram,
    LinkStatus,
    Metrics,
    Overview,
    Site,
    TopicOrder,
    TopicSummary,
)

GAUGES: Final = {
    "connections": "Connections of clients, also those that have not logged in yet.",
    "sessions": "Clients that are logged in.",
    "topics": "Topics, without system topics.",
    "subscriptions": "Subscriptions, attached or not.",
    "held": "Messages that the site holds, with a guarantee or without.",
    "held_guaranteed": "Messages of those that have a guarantee; the others are in memory alone.",
    "held_bytes": "Bytes of the bodies of all messages that it holds.",
    "dead_letters": "Messages on dead-letter topics.",
    "unguaranteed_bytes": "Memory for messages without a guarantee.",
    "unfinished_bytes": "Memory for what is no message yet.",
    "memory_bytes": "Memory of the process.",
    "store_bytes": "Size of the database.",
    "disk_free_bytes": "Free bytes of the disk where the database is.",
    "disk_full": "1 while the disk is full and no messages are taken.",
    "draining": "1 once the site stops.",
}
"""What is told of the overview under its own name."""

TIMES: Final = {
    "commit_s": ("commit", "Transactions of the store, each with its fsync."),
    "stored_s": ("stored", "From a message's coming to its being on disk."),
    "delivered_s": ("delivered", "From then to its first being handed to a subscription."),
    "pause_s": ("loop_pause", "How late the event loop came to something, looked at ten times a second."),
}

TOPIC_GAUGES: Final = {
    "held": "Messages that a topic holds, with a guarantee or without.",
    "held_guaranteed": "Messages of those that have a guarantee; the others are in memory alone.",
    "bytes": "Bytes that a topic holds.",
    "subscriptions": "Subscriptions to a topic.",
    "dead_letters": "Messages on the dead-letter topic of a topic.",
}

UNITS: Final = "Copies, and what sites tell each other,"

BUSIEST_S: Final = 60.0
"""For so long the same topics are told of."""

BUSIEST: Final[tuple[TopicOrder, ...]] = ("in", "held")


class Sample(msgspec.Struct, frozen=True):
    """What is told of at one moment."""

    overview: Overview
    links: list[LinkStatus]
    topics: list[TopicSummary]
    metrics: Metrics


class Exposition:
    """What is told of one site."""

    def __init__(self, site: Site, topics_max: int) -> None:
        self._site = site
        self._topics_max = topics_max
        self._busiest: list[str] = []
        self._busiest_until = -math.inf

    async def expose(self, accept: str) -> tuple[bytes, str]:
        """All of it in the format that `accept` prefers, and the name of that."""
        encode, content_type = _encoder(accept)
        operations = self._site.operations
        overview = await operations.overview()
        sample = Sample(
            overview, await operations.links(), await self._topics(overview.topics), self._site.metrics
        )
        data: bytes = await trio.to_thread.run_sync(encode, _Families(families(sample)))
        return data, content_type

    async def _topics(self, there_are: int) -> list[TopicSummary]:
        """All topics, or those that matter most: for a minute the same, since to find them takes a while."""
        if there_are <= self._topics_max:
            return list((await self._first("name", self._topics_max)).values())
        if trio.current_time() >= self._busiest_until:
            found: dict[str, TopicSummary] = {}
            for order in BUSIEST:
                found |= await self._first(order, math.ceil(self._topics_max / len(BUSIEST)))
            self._busiest = list(found)[: self._topics_max]
            self._busiest_until = trio.current_time() + BUSIEST_S
        told: list[TopicSummary] = []
        for name in self._busiest:
            topic = await self._site.operations.topic(name)
            await trio.lowlevel.checkpoint()
            told += [topic.summary] if topic is not None else []
        return told

    async def _first(self, order: TopicOrder, count: int) -> dict[str, TopicSummary]:
        """So many of all in this order, by name."""
        topics = await self._site.operations.first_topics(order, count)
        return {topic.name: topic for topic in topics}


def _encoder(accept: str) -> tuple[Callable[[Any], bytes], str]:
    """What writes the format that is preferred, and its name; the older text for a version that is none."""
    chosen: tuple[Callable[[Any], bytes], str]
    try:
        chosen = choose_encoder(accept.replace('"', ""))
    except TypeError:  # words and numbers were compared
        chosen = choose_encoder("")
    return chosen


class _Families:
    """What the encoders of prometheus_client read."""

    def __init__(self, found: Iterable[Any]) -> None:
        self._found = list(found)

    def collect(self) -> Iterator[Any]:
        return iter(self._found)


def families(sample: Sample) -> Iterator[Any]:
    """Each metric with its values."""
    overview = sample.overview
    yield InfoMetricFamily("smqpd", "The site.", {"server": overview.server, "version": overview.version})
    yield GaugeMetricFamily("smqpd_start_time_seconds", "When the site started.", overview.started_at)
    for name, text in GAUGES.items():
        yield GaugeMetricFamily(f"smqpd_{name}", text, float(getattr(overview, name)))
    yield GaugeMetricFamily(
        "smqpd_store_failed", "1 while the store takes nothing.", float(bool(overview.store_failed))
    )
    yield CounterMetricFamily("smqpd_errors", "Errors of smqpd itself; the log has them.", overview.errors)
    yield CounterMetricFamily("smqpd_damaged_rows", "Rows of the store that were damaged.", overview.damaged)
    yield from _of_messages(sample)
    yield from _of_links(sample.links)
    yield from _of_topics(sample.topics)


def _of_messages(sample: Sample) -> Iterator[Any]:
    messages = CounterMetricFamily("smqpd_messages", "Messages, by what became of them.", labels=["event"])
    for event in COUNTERS:
        messages.add_metric([event], getattr(sample.overview.totals, event))
    yield messages
    metrics = sample.metrics
    refused = CounterMetricFamily(
        "smqpd_refused_requests", "Refused requests of clients, of all front ends.", labels=["code"]
    )
    for code, count in metrics.refused.items():
        refused.add_metric([code], count)
    yield refused
    over = CounterMetricFamily(
        "smqpd_over_quota_requests", "Requests and logins that a quota refused.", labels=["quota"]
    )
    for quota, count in metrics.over_quota.items():
        over.add_metric([quota], count)
    yield over
    yield CounterMetricFamily(
        "smqpd_slowed_clients",
        "Times that a client had to wait before it published more.",
        metrics.slowed,
    )
    away = CounterMetricFamily(
        "smqpd_turned_away_copies",
        "Copies and publications that were denied or dropped, and copies that had been here before.",
        labels=["event", "reason"],
    )
    for (event, reason), count in metrics.turned_away.items():
        away.add_metric([event, reason], count)
    yield away
    logins = CounterMetricFamily("smqpd_logins", "Logins of all front ends.", labels=["result"])
    logins.add_metric(["accepted"], metrics.logins)
    logins.add_metric(["refused"], metrics.logins_refused)
    yield logins
    for attribute, (name, text) in TIMES.items():
        yield _histogram(f"smqpd_{name}_seconds", text, getattr(metrics, attribute))
    yield GaugeMetricFamily(
        "smqpd_loop_longest_pause_seconds", "Of the event loop, in the last minute.", metrics.longest_pause_s
    )
    pauses = CounterMetricFamily(
        "smqpd_loop_long_pauses",
        f"Turns of the event loop of more than {LONG_PAUSE_S * 1000:g} ms, by whether it worked or waited.",
        labels=["cause"],
    )
    for cause in ("work", "wait"):
        pauses.add_metric([cause], metrics.long_pauses[cause])
    yield pauses
    warnings = GaugeMetricFamily("smqpd_warnings", "What is to be seen to.", labels=["level", "about"])
    by_kind: dict[tuple[str, str], int] = {}
    for warned in sample.overview.warnings:
        by_kind[warned.level, warned.about] = by_kind.get((warned.level, warned.about), 0) + 1
    for (level, about), count in by_kind.items():
        warnings.add_metric([level, about], count)
    yield warnings


def _of_links(links: list[LinkStatus]) -> Iterator[Any]:
    up = GaugeMetricFamily("smqpd_link_up", "1 where there is a link with a peer.", labels=["peer"])
    trip = GaugeMetricFamily("smqpd_link_round_trip_seconds", "Of the last probe of a link.", labels=["peer"])
    waiting = GaugeMetricFamily("smqpd_link_waiting", f"{UNITS} that wait for a link.", labels=["peer"])
    flight = GaugeMetricFamily(
        "smqpd_link_in_flight", f"{UNITS} that are sent and not acknowledged.", labels=["peer"]
    )
    lag = GaugeMetricFamily("smqpd_link_lag_seconds", "Age of the oldest of them.", labels=["peer"])
    for link in links:
        up.add_metric([link.peer], float(link.state == "up"))
        waiting.add_metric([link.peer], link.waiting)
        flight.add_metric([link.peer], link.in_flight)
        lag.add_metric([link.peer], link.lag_s or 0.0)
        if link.round_trip_s is not None:
            trip.add_metric([link.peer], link.round_trip_s)
    yield from (up, trip, waiting, flight, lag)


def _of_topics(topics: list[TopicSummary]) -> Iterator[Any]:
    for name, text in TOPIC_GAUGES.items():
        gauge = GaugeMetricFamily(f"smqpd_topic_{name}", text, labels=["topic"])
        for topic in topics:
            gauge.add_metric([topic.name], getattr(topic, name))
        yield gauge
    oldest = GaugeMetricFamily(
        "smqpd_topic_oldest_seconds", "Age of what waits longest in a topic.", labels=["topic"]
    )
    for topic in topics:
        oldest.add_metric([topic.name], topic.oldest_s or 0.0)
    yield oldest
    for name, counter in TOPIC_COUNTERS.items():
        family = CounterMetricFamily(f"smqpd_topic_{name}", counter.of_topics, labels=["topic"])
        for topic in topics:
            family.add_metric([topic.name], getattr(topic, name))
        yield family


def _histogram(name: str, text: str, times: Histogram) -> Any:
    buckets, count = [], 0
    for step_s, more in zip((*STEPS_S, None), times.counts, strict=True):
        count += more
        buckets.append(("+Inf" if step_s is None else str(step_s), count))
    return HistogramMetricFamily(name, text, buckets=buckets, sum_value=times.sum_s)

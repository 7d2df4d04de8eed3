"""One site's router without disk or network: tests say what comes in and read what each client is told.

A `RouterSite` carries decisions out as the broker does: what is to be stored first, then the effects. Time
stands until `wait`.
"""

from typing import Any

import msgspec

from routing import decisions as d
from routing.matching import EVERYBODY, SubscribeRights
from routing.message import Message, Section
from routing.names import make_address
from routing.options import ReturnOutcome, SubscribeOptions
from routing.queue import GUARANTEED
from routing.router import Router
from routing.state import RouterSettings
from routing.subscription import Consumer
from tests.support.model_store import ModelStore

SERVER = "a.example"

SETTINGS = RouterSettings(
    default_timeout_s=86_400.0,
    lock_s=60.0,
    max_deliveries=16,
    redelivery_wait_s=0.1,
    redelivery_wait_max_s=30.0,
    queue_messages_max=1_000,
    queue_bytes_max=1_000_000,
    system_messages_max=1_000,
    system_bytes_max=1_000_000,
    unguaranteed_bytes_max=1_000_000,
    dedupe_window_s=600.0,
    subscription_unused_s=2_592_000.0,
    news_kept_s=604_800.0,
)

OF_A_DELIVERY = {"event", "entry", "subscription", "attempt", "final"}
NOT_OF_A_DELIVERY = [field for field in d.Record.__struct_fields__ if field not in OF_A_DELIVERY]


class Got(msgspec.Struct, frozen=True):
    """A delivery, as a client sees it; `body` is what tests tell messages apart by."""

    number: int
    body: str
    topic: str
    attempt: int
    redelivered: bool
    received: bool
    acknowledge: bool
    message: Message


class HopLogRecord(msgspec.Struct, frozen=True):
    """A record of the hop log."""

    event: str
    body: str
    smuid: str
    topic: str
    subscription: str
    attempt: int
    final: bool
    reason: str
    receipt: str


class PendingRequest:
    """A request that may take a while; true once it has been answered."""

    def __init__(self, client: "RouterClient", request: int) -> None:
        self._client = client
        self._request = request

    def __bool__(self) -> bool:
        return self._request in self._client.answers


class RouterClient:
    """One session of an account and channel."""

    def __init__(self, site: "RouterSite", account: str, channel: str) -> None:
        self.site = site
        self.address = make_address(account, channel, SERVER)
        self.consumer: Consumer = Consumer(self, account, channel)
        self.answers: dict[Any, d.AnswerRequest] = {}
        self.withdrawn: list[tuple[int, str]] = []
        self.detached: list[tuple[str, str]] = []
        self._got: list[Got] = []
        self._requests = 0

    def _request(self) -> int:
        self._requests += 1
        return self._requests

    def _answer(self, request: int) -> d.AnswerRequest:
        self.site.settle()
        answer = self.answers.pop(request)
        if answer.error is not None:
            raise answer.error
        return answer

    def publish(self, topic: str, body: str = "", **headers: Any) -> str:
        """The Smuid that was answered; "" for an unguaranteed message, which is not answered.

        Among `headers` may be a `delay_s`, and `sections` in the place of the body.
        """
        delay_s: float = headers.pop("delay_s", 0.0)
        request = self._request()
        sections = headers.pop("sections", (Section("text/plain", body.encode()),))
        message = Message(created="2026-11-21T10:00:00.000Z", sections=sections, **headers)
        site = self.site
        site.router.publishing.publish(
            site.now, self.consumer, topic, message, self.address, request, delay_s=delay_s
        )
        if message.guarantee:
            return self._answer(request).smuid
        site.settle()
        return ""

    def subscribe(self, topic: str, **options: Any) -> "RouterClient":
        """Subscribe, and consume from it here."""
        request = self._request()
        self.site.router.subscribing.subscribe(
            self.site.now, self.consumer, topic, SubscribeOptions(**options), request
        )
        self._answer(request)
        return self

    def unsubscribe(self, topic: str, name: str = "") -> None:
        request = self._request()
        self.site.router.subscribing.unsubscribe(self.site.now, self.consumer, topic, name, request)
        self._answer(request)

    def detach(self, topic: str, name: str = "") -> None:
        request = self._request()
        self.site.router.subscribing.detach(self.site.now, self.consumer, topic, name, request)
        self._answer(request)

    def received(self, *got: Got) -> None:
        request = self._request()
        self.site.router.acknowledging.received(self.consumer, [g.number for g in got], request)
        self._answer(request)

    def commit(self, *got: Got) -> None:
        request = self._request()
        self.site.router.acknowledging.commit(self.site.now, self.consumer, [g.number for g in got], request)
        self._answer(request)

    def reached_nobody(self, *got: Got) -> None:
        self.site.router.acknowledging.reached_nobody(self.consumer, [g.number for g in got])

    def give_back(
        self, *got: Got, reason: str = "", delay_s: float = 0.0, outcome: ReturnOutcome = "failed"
    ) -> None:
        request = self._request()
        numbers = [g.number for g in got]
        router, now = self.site.router, self.site.now
        router.acknowledging.give_back(now, self.consumer, numbers, reason, delay_s, request, outcome)
        self._answer(request)

    def remove(self, topic: str, smuid: str) -> None:
        request = self._request()
        self.site.router.topics.remove(self.site.now, self.consumer, topic, smuid, request)
        self._answer(request)

    def purge(self, topic: str) -> "PendingRequest":
        request = self._request()
        self.site.router.topics.purge(self.site.now, self.consumer, topic, request)
        self.site.settle()
        return PendingRequest(self, request)

    def delete(self, topic: str) -> "PendingRequest":
        request = self._request()
        self.site.router.topics.delete(self.site.now, self.consumer, topic, request)
        self.site.settle()
        return PendingRequest(self, request)

    def set_delivery(self, topic: str, mode: Any) -> None:
        request = self._request()
        self.site.router.publishing.set_delivery(self.consumer, topic, mode, request)
        self._answer(request)

    def set_timeout(self, topic: str, timeout_s: float | None) -> None:
        request = self._request()
        self.site.router.publishing.set_timeout(self.consumer, topic, timeout_s, request)
        self._answer(request)

    def pause(self) -> None:
        self.consumer.pause()

    def resume(self) -> None:
        self.site.router.deliveries.resume(self.site.now, self.consumer)
        self.site.settle()

    def close(self, *, lost: bool = False) -> None:
        """The session ends; `lost`: without a word."""
        self.site.router.subscribing.close(self.site.now, self.consumer, lost=lost)
        self.site.settle()

    def take(self) -> list[Got]:
        """The deliveries since the last call."""
        got, self._got = self._got, []
        return got

    def bodies(self) -> list[str]:
        """The same, by their bodies."""
        return [got.body for got in self.take()]

    def one(self) -> Got:
        """The only delivery since the last call."""
        [got] = self.take()
        return got

    def receipts(self) -> list[str]:
        """The receipts since the last call, each committed; the client must consume its system topic."""
        got = self.take()
        self.commit(*got)
        return [g.body for g in got]

    def tell(self, effect: d.Decision) -> None:
        match effect:
            case d.AnswerRequest(request=request):
                assert request not in self.answers, "answered twice"
                self.answers[request] = effect
            case d.Deliver(entry=entry, number=number, lock=lock):
                message = self.site.bodies[entry.id]
                self._got.append(
                    Got(
                        number,
                        message.sections[0].body.decode(),
                        entry.topic.name,
                        effect.attempt,
                        effect.redelivered,
                        lock is not None and lock.received,
                        lock is not None,
                        message,
                    )
                )
            case d.Withdraw(number=number, reason=reason):
                self.withdrawn.append((number, reason))
            case d.Detach(target=target, reason=reason):
                self.detached.append((target.name, reason))


class RouterSite:
    """A router, its store, and what it wrote to the hop log."""

    def __init__(self, rights: SubscribeRights = EVERYBODY, **settings: Any) -> None:
        self.rights = rights
        self.settings = msgspec.structs.replace(SETTINGS, **settings)
        self.now = 1_000.0
        self.boot = 1
        self.store = ModelStore()
        self.bodies: dict[int, Message] = {}
        self.told: list[HopLogRecord] = []
        self.router = self._router()

    def _router(self) -> Router:
        return Router(SERVER, self.boot, self.settings, lambda: int(self.now * 1000), rights=self.rights)

    def login(self, account: str, channel: str = "desk") -> RouterClient:
        return RouterClient(self, account, channel)

    def settle(self) -> None:
        """Carry out what the router has decided, as the broker does."""
        effects: list[d.Decision] = []
        while decisions := self.router.take():
            for decision in decisions:
                self._carry_out(decision, effects)
        for effect in effects:
            effect.consumer.handle.tell(effect)  # type: ignore[union-attr]  # only those with a consumer

    def _carry_out(self, decision: d.Decision, effects: list[d.Decision]) -> None:
        self.store.apply(decision, self.now)
        match decision:
            case d.StoreMessage(entry=entry, message=message) | d.KeepMessage(entry=entry, message=message):
                assert bool(entry.flags & GUARANTEED) == isinstance(decision, d.StoreMessage)
                self.bodies[entry.id] = message
            case d.Bury(entry=entry):
                self.router.buried(decision, self.bodies[entry.id], self.now)
            case d.RouteDelayed(entry=entry):
                self.router.route_delayed(entry, self.bodies[entry.id], self.now)
            case d.Record(entry=entry, subscription=subscription):
                if decision.event in d.OF_A_DELIVERY:
                    assert not any(getattr(decision, field) for field in NOT_OF_A_DELIVERY)
                told = self.bodies.get(entry.id)
                self.told.append(
                    HopLogRecord(
                        decision.event,
                        told.sections[0].body.decode() if told else "",
                        entry.smuid(SERVER),
                        entry.topic.name,
                        subscription.owner if subscription else "",
                        decision.attempt,
                        decision.final,
                        decision.reason,
                        decision.receipt,
                    )
                )
            case d.AnswerRequest() | d.Deliver() | d.Withdraw() | d.Detach():
                effects.append(decision)

    def wait(self, seconds: float) -> None:
        """Let time pass, and what time brings about happen when it is due."""
        until = self.now + seconds
        while (wake_at := self.router.wake_at) <= until:
            self.now = max(self.now, wake_at)
            self.router.timing.tick(self.now)
            self.settle()
        self.now = until

    def maintain(self) -> list[str]:
        """What the broker does each minute; names the subscriptions that ended."""
        ended = [subscription.owner for subscription in self.router.maintain(self.now)]
        self.settle()
        return ended

    def restart(self) -> None:
        """All sessions are gone without a word; the store gives the new router what it holds."""
        self.boot += 1
        self.router = self._router()
        self.store.restore_into(self.router.restore(self.now))
        self.bodies = {id: message for id, (_, message) in self.store.messages.items()}
        self.settle()
        self.wait(0)

    def fate(self, smuid: str) -> list[str]:
        """The events of a copy; the one that ended it is marked `!`."""
        return [t.event + "!" * t.final for t in self.told if t.smuid == smuid]

    @property
    def held(self) -> int:
        return self.router._state.guaranteed

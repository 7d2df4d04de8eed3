"""Every promise of routing contract 3, 5 and 6 that one site can break, under random use and crashes."""

from typing import Any

from hypothesis import settings

from routing import decisions as d
from tests.support.examples import examples
from tests.support.model_store import ModelStore
from tests.support.router_machine import RouterMachine
from tests.support.router_promises import SERVER, SETTINGS, Backing, ObservedRouter


class Dictionaries(Backing):
    def __init__(self) -> None:
        self.store = ModelStore()
        self.committed = self.store.committed()
        self.bodies: dict[int, Any] = {}

    def start(self, boot: int, now: float) -> ObservedRouter:
        self.router = ObservedRouter(SERVER, boot, SETTINGS, lambda: 0)
        self.store.restore_into(self.router.restore(now))
        return self.router

    def commit(self, now: float) -> list[d.Decision]:
        effects = []
        while decisions := self.router.take():
            for decision in decisions:
                self.store.apply(decision, now)
                if isinstance(decision, d.StoreMessage | d.KeepMessage):
                    self.bodies[decision.entry.id] = decision.message
                elif isinstance(decision, d.Bury):
                    self.router.buried(decision, self.bodies[decision.entry.id], now)
                elif isinstance(decision, d.RouteDelayed):
                    body = self.bodies[decision.entry.id]
                    self.router.route_delayed(decision.entry, body, now)
                effects.append(decision)
        self.committed = self.store.committed()
        return effects

    def crash(self) -> None:
        self.store = self.committed.committed()

    def stored(self) -> set[int]:
        return set(self.store.messages)


class OneSite(RouterMachine):
    backing_type = Dictionaries


TestOneSite = OneSite.TestCase
TestOneSite.settings = settings(
    max_examples=examples(100), stateful_step_count=50, deadline=None, report_multiple_bugs=False
)

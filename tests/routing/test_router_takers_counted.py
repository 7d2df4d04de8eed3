"""Who takes the messages of a topic or pattern: counted as subscriptions change, as a recount finds it."""

from collections.abc import Callable
from typing import Any, Final

from hypothesis import given, settings
from hypothesis import strategies as st

from routing.errors import Refusal
from routing.rights import Rights, RightsTable
from routing.subscription import Target
from routing.targets import Pattern
from tests.support.examples import examples
from tests.support.one_router import SERVER, RouterClient, RouterSite

SEATS: Final = ("ada", "ada/2", "bob", "cyd")
"""Of two sessions of one account and channel the second is the account with a number."""
TOPICS: Final = ("t", "t.u")
UNUSED_S: Final = 1_000.0


class May:
    """What all but cyd, who may everything, may subscribe to."""

    def __init__(self) -> None:
        self.set(["#"])

    def set(self, patterns: list[str]) -> None:
        rights = Rights(subscribe=tuple(patterns))
        accounts = {"ada": rights, "bob": rights, "cyd": Rights(subscribe=("#",))}
        self._table = RightsTable(SERVER, accounts)

    def may_subscribe(self, account: str, topic: str) -> bool:
        return self._table.allows(account, "subscribe", topic)

    def subscribable(self, account: str, pattern: str) -> list[str]:
        return self._table.subscribable(account, pattern)


seats = st.sampled_from(SEATS)
wanted = st.sampled_from([*TOPICS, "#", "t.*"])
options = st.fixed_dictionaries(
    {
        "accepts": st.sampled_from(["BOTH", "BOTH", "ONE", "ALL"]),
        "durable": st.sampled_from([True, True, False]),
        "shared": st.booleans(),
        "credit": st.sampled_from([0, 1, 5]),
    }
)
steps = st.one_of(
    st.tuples(st.just("subscribe"), seats, wanted, options),
    st.tuples(st.just("subscribe"), seats, wanted, options),
    st.tuples(st.just("detach"), seats, wanted),
    st.tuples(st.just("unsubscribe"), seats, wanted),
    st.tuples(st.just("close"), seats, st.booleans()),
    st.tuples(st.just("publish"), st.sampled_from(TOPICS), st.sampled_from(["ONE", "ALL"])),
    st.tuples(st.just("delete"), st.sampled_from(TOPICS)),
    st.tuples(st.just("rights"), st.sampled_from([[], ["t"], ["t.u"], ["t", "t.u"], ["#"]])),
    st.tuples(st.just("unused")),
    st.tuples(st.just("restart")),
)


class Played:
    """A site that does what is drawn."""

    def __init__(self) -> None:
        self.may = May()
        self.site = RouterSite(self.may, subscription_unused_s=UNUSED_S)
        self.sessions: dict[str, RouterClient] = {}
        self.targets: dict[int, Target] = {}

    def _client(self, seat: str) -> RouterClient:
        if seat not in self.sessions:
            self.sessions[seat] = self.site.login(seat.partition("/")[0])
        return self.sessions[seat]

    def subscribe(self, seat: str, name: str, options: dict[str, Any]) -> None:
        self._client(seat).subscribe(name, **options)

    def detach(self, seat: str, name: str) -> None:
        self._client(seat).detach(name)

    def unsubscribe(self, seat: str, name: str) -> None:
        self._client(seat).unsubscribe(name)

    def close(self, seat: str, lost: bool) -> None:
        self._client(seat).close(lost=lost)
        del self.sessions[seat]

    def publish(self, topic: str, mode: str) -> None:
        self._client("cyd").publish(topic, delivery=mode)

    def delete(self, topic: str) -> None:
        self._client("cyd").delete(topic)

    def rights(self, patterns: list[str]) -> None:
        self.may.set(patterns)
        self.site.router.changed_rights.take_on(self.site.now)
        self.site.settle()

    def unused(self) -> None:
        self.site.wait(UNUSED_S + 1)
        self.site.maintain()

    def restart(self) -> None:
        self.sessions.clear()
        self.targets.clear()
        self.site.restart()

    def check(self) -> None:
        """Every count that there is is that of a recount, and what is said to want is what is wanted."""
        state = self.site.router._state
        subscriptions = state.subscriptions.values()
        targets = {id(each): each for each in (*state.topics.values(), *(s.target for s in subscriptions))}
        self.targets |= targets  # those that are forgotten count nobody
        wants = set()
        for target in self.targets.values():
            to_it = [each for each in subscriptions if each.target is target]
            one = [each for each in to_it if each.accepts_one]
            both = len(one), sum(each.accepts_all for each in to_it)
            assert (target.taking_one, target.taking_all) == both
            assert target.attended == sum(each.consumer is not None or bool(each.members) for each in one)
            names = target.allowed if isinstance(target, Pattern) else [target.name]
            counts = {"ONE": target.taking_one, "ALL": target.taking_all, "ATTACHED": target.attended}
            wants |= {(kind, name) for kind, count in counts.items() if count for name in names}
        assert set(self.site.router.federation.own_wants._count) == wants


@given(st.lists(steps, min_size=10, max_size=40))
@settings(max_examples=examples(200), deadline=None, report_multiple_bugs=False)
def test_who_takes_what_is_counted_whatever_changes(steps: list[tuple[Any, ...]]) -> None:
    played = Played()
    for what, *given_ in steps:
        step: Callable[..., None] = getattr(played, what)
        try:
            step(*given_)
        except Refusal:
            played.site.settle()
        played.check()

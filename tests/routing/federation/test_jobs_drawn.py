"""Where jobs come to rest in any federation, whatever has become of workers and links meanwhile."""

import random
from typing import Final

from hypothesis import example, given, settings
from hypothesis import strategies as st

from routing.peering.copies import PeerRules
from tests.support.examples import examples
from tests.support.wants import after
from tests.support.working import WorkingFederation

MINUTE_S: Final = 61.0
"""After which no lock is left, and what is done each minute is done."""

CHANNELS: Final = ("day", "night")
TOPICS: Final = ("t", "t", "#", "other")
CREDITS: Final = (0, 1, 2, 100)
ANYWHERE: Final = (-1,)
DEPTHS: Final = (-1, -1, 0, 1, 2, 3)
NO_GROUP: Final = (None,)
GROUPS: Final = ("g", "h", None, None)
ALLOWED: Final = ((), ("t",), ("other",), ("t", "other.#"))
WAITS_S: Final = (0.01, 0.05, 0.2, 3.0, MINUTE_S)
CARRIED: Final = (0, 0, 3, 10, 40, 1_000_000)
STEPS: Final = {"attach": 5, "leave": 4, "publish": 4, "link": 4, "work": 2, "wait": 2}
"""And how often each is drawn, beside the others."""


@settings(max_examples=examples(400))
@given(st.integers(0, 2**32))
@example(25)
@example(103)
@example(285)
@example(754)
@example(2593)
def test_each_job_comes_to_who_is_attached_whatever_happens_meanwhile(seed: int) -> None:
    """As far as links, their rules and its depth let it; at once, and once. Then nothing moves any more."""
    drawn = random.Random(seed)
    sites = federation(drawn)
    depths, groups = drawn.choice((ANYWHERE, DEPTHS)), drawn.choice((NO_GROUP, GROUPS))
    for _ in range(drawn.randint(5, 30)):
        [step] = drawn.choices([*STEPS], [*STEPS.values()])
        if step == "publish":
            sites.publish_job(drawn.choice(sites.names), drawn.choice(depths), drawn.choice(groups))
        else:
            happens(sites, step, drawn)
        sites.settle(drawn.choice(CARRIED))
    sites.come_to_rest(all_idle=drawn.random() < 0.5)
    assert sites.strayed() == []
    assert sites.outcomes() == dict.fromkeys(sites.published, 1)
    assert sites.receipts == ["1/1"] * sites.receipts_due
    before = sites.transfers
    for _ in range(3):
        after(sites, MINUTE_S)
    assert sites.transfers == before


def federation(drawn: random.Random) -> WorkingFederation:
    """Of three to seven sites that tell each other by news what they want; some have rules for some peers."""
    names = [f"s{number}" for number in range(drawn.randint(3, 7))]
    links = {(names[drawn.randint(max(0, at - 3), at - 1)], names[at]) for at in range(1, len(names))}
    for _ in range(drawn.randint(0, len(names))):
        one, other = sorted(drawn.sample(names, 2))
        links.add((one, other))
    pairs = [pair for one, other in sorted(links) for pair in ((one, other), (other, one))]
    ruled = pairs if drawn.random() < 0.3 else []
    rules = {pair: drawn_rules(drawn) for pair in ruled if drawn.random() < 0.3}
    sites = WorkingFederation(links, drawn.randrange(2**32), rules=rules, has_receipts=drawn.random() < 0.3)
    sites.begin_news()
    after(sites)
    return sites


def drawn_rules(drawn: random.Random) -> PeerRules:
    allowed = drawn.choice(ALLOWED)
    return PeerRules(allow_in=allowed) if drawn.random() < 0.5 else PeerRules(allow_out=allowed)


def happens(sites: WorkingFederation, step: str, drawn: random.Random) -> None:
    site = drawn.choice(sites.names)
    attached = sites.attached()
    match step:
        case "attach":
            credit, durable = drawn.choice(CREDITS), drawn.random() < 0.7
            sites.attach(site, drawn.choice(CHANNELS), drawn.choice(TOPICS), credit=credit, durable=durable)
        case "leave" if attached:
            sites.leave(*drawn.choice(attached), lost=drawn.random() < 0.5)
        case "link":
            link = drawn.choice(sites.all_links)
            (sites.join if link in sites.down else sites.cut)(*link)
        case "work":
            sites.work(site)
        case "wait":
            sites.pass_time(drawn.choice(WAITS_S))

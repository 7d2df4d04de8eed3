"""Who has what a way that is left can bring, in any federation, whatever has failed meanwhile."""

import random
from typing import Final

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.examples import examples
from tests.support.lossy import LossyFederation
from tests.support.wants import after

DEPTHS: Final = (-1, 2, 3, 3, 4, 4, 5)
CARRIED: Final = (0, 1, 3, 10, 40, 1_000_000, 1_000_000)
WAITS_S: Final = (0.01, 0.2, 3.0, 3.0)
STEPS: Final = {"publish": 4, "cut": 2, "silence": 2, "die": 1, "notice": 1, "join": 3, "wait": 3}
"""And how often each is drawn, beside the others."""


@settings(max_examples=examples(400))
@given(st.integers(0, 2**32))
def test_what_a_way_that_is_left_can_bring_has_come_once(seed: int) -> None:
    """As soon as it is known which links are lost; and all ends when these are back."""
    drawn = random.Random(seed)
    sites = federation(drawn)
    receipt = drawn.choice(("NONE", "ALL"))
    for _ in range(drawn.randint(3, 25)):
        [step] = drawn.choices([*STEPS], [*STEPS.values()])
        if step == "publish":
            sites.publish_copy(drawn.choice(sites.names), drawn.choice(DEPTHS), receipt)
        else:
            happens(sites, step, drawn)
        sites.settle(drawn.choice(CARRIED))

    sites.notice()
    for link in sorted(sites.down):
        if drawn.random() < 0.5:
            sites.join(*link)
    for _ in range(3):
        after(sites)
    for name in sites.published:
        assert sites.due(name) <= sites.come(name).keys(), name

    for link in sorted(sites.down):
        sites.join(*link)
    after(sites)
    for name in sites.published:
        assert sites.come(name) == dict.fromkeys(sites.due(name), 1), name
        for site in sites.due(name):
            sites.commit(site, name)
    after(sites)
    assert len(sites.receipts) == (len(sites.published) if receipt == "ALL" else 0)
    assert not any(router.federation.outlook.copies for router in sites.routers.values())


def federation(drawn: random.Random) -> LossyFederation:
    """Of four to nine sites that know of each other, with more links than they need."""
    names = [f"s{number}" for number in range(drawn.randint(4, 9))]
    links = {(names[drawn.randint(max(0, at - 3), at - 1)], names[at]) for at in range(1, len(names))}
    for _ in range(drawn.randint(1, len(names))):
        one, other = sorted(drawn.sample(names, 2))
        links.add((one, other))
    sites = LossyFederation(links, drawn.randrange(2**32))
    sites.want(drawn.sample(names, drawn.randint(1, len(names))))
    for site in names:
        sites.subscribe(site, f"x:publisher@{site}", "publisher", lock_s=1e9)
    sites.begin_news()
    after(sites)
    after(sites)
    return sites


def happens(sites: LossyFederation, step: str, drawn: random.Random) -> None:
    link = drawn.choice(sites.all_links)
    match step:
        case "cut" if link not in sites.down:
            sites.cut(*link)
        case "silence":
            sites.silence(link)
        case "die":
            sites.silence(*sites.links_of(drawn.choice(sites.names)))
        case "notice":
            sites.notice()
        case "join" if link in sites.down:
            sites.join(*link)
        case "wait":
            sites.pass_time(drawn.choice(WAITS_S))

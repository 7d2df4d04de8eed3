"""Who is known to want what: it comes to all, once over a link, is checked, hidden, bounded and forgotten."""

import random
from collections import Counter
from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from routing.errors import Refusal
from routing.federation import known_wants
from routing.federation.known_wants import KnownWants
from routing.federation.own_leaves import OwnLeaves
from routing.patterns import is_pattern, subscription_takes
from routing.peering.leaves import (
    BUCKETS,
    HELD_BYTES_MAX,
    Bucket,
    Leaf,
    LeafKind,
    bucket_of,
    hash_of,
    read_bucket,
    told,
    write_bucket,
    write_digest,
)
from routing.peering.news import LinkNews, SiteNews
from tests.support.examples import examples
from tests.support.wants import wanting


class Wanting:
    """A site that says what it wants, to `KnownWants` alone."""

    def __init__(self, name: str, *leaves: tuple[LeafKind, str], links: tuple[LinkNews, ...] = ()) -> None:
        self.name = name
        self._links = links
        self._number = 0
        self.set(*leaves)

    def set(self, *leaves: tuple[LeafKind, str]) -> None:
        """From now on it wants these."""
        self._number += 1
        by_bucket: dict[int, list[Leaf]] = {}
        for kind, name in leaves:
            by_bucket.setdefault(bucket_of(name), []).append(Leaf(kind, name, f"{kind} {name}".encode()[:8]))
        self.buckets = {index: Bucket(tuple(some)) for index, some in by_bucket.items()}

    @property
    def statement(self) -> SiteNews:
        hashes = {index: hash_of(bucket.hashes) for index, bucket in self.buckets.items()}
        return SiteNews(self.name, 1, self._number, self._links, write_digest(hashes))

    def tell(self, wants: KnownWants, hide: str = "") -> list[str]:
        """Say all of it; what became of each bucket."""
        wants.say(self.statement)
        return [
            wants.take(self.name, index, write_bucket(told(bucket, lambda leaf: leaf.name != hide)))
            for index, bucket in sorted(self.buckets.items())
        ]


def test_who_wants_a_topic_is_known_by_topic_by_pattern_and_by_mode() -> None:
    wants = KnownWants("a")
    Wanting("b", ("ALL", "weather.oslo"), ("ONE", "work")).tell(wants)
    Wanting("c", ("BOTH", "weather.oslo"), ("ALL", "weather.*")).tell(wants)
    Wanting("d", ("BOTH", "#")).tell(wants)
    assert wanting(wants, "weather.oslo") == {"b", "c", "d"}
    assert wanting(wants, "weather.oslo", "ONE") == {"c", "d"}
    assert wanting(wants, "weather.rome") == {"c", "d"}
    assert wanting(wants, "work") == {"d"}
    assert wanting(wants, "work", "ONE") == {"b", "d"}
    assert wanting(wants, "dead.work") == set()
    assert (wants.count("b"), wants.count("c"), wants.count("x")) == (2, 2, None)


def test_what_changes_is_known_at_once() -> None:
    wants, b, c = KnownWants("a"), Wanting("b", ("ALL", "t")), Wanting("c", ("ALL", "t"))
    assert wanting(wants, "t") == set()
    b.tell(wants)
    c.tell(wants)
    assert wanting(wants, "t") == {"b", "c"}
    b.set(("ALL", "t.*"))
    b.tell(wants)
    assert (wanting(wants, "t"), wanting(wants, "t.u")) == ({"c"}, {"b"})
    c.set()
    c.tell(wants)
    b.set()
    b.tell(wants)
    assert (wanting(wants, "t"), wanting(wants, "t.u")) == (set(), set())


def test_it_is_not_known_who_wants_what_while_a_bucket_is_on_its_way() -> None:
    wants, b = KnownWants("a"), Wanting("b", ("ALL", "t"))
    wants.say(b.statement)
    assert (wanting(wants, "t"), wants.unsure("t")) == (None, {"b"})
    other = next(f"t{number}" for number in range(100) if bucket_of(f"t{number}") != bucket_of("t"))
    assert wanting(wants, other) == set()
    b.tell(wants)
    assert wanting(wants, "t") == {"b"}
    b.set(("ALL", "t"), ("ALL", "t.#"))
    wants.say(b.statement)
    assert (wanting(wants, "t"), wanting(wants, other)) == (None, None)
    assert wants.unsure("t") == wants.unsure(other) == {"b"}
    b.tell(wants)
    assert wanting(wants, "t.u") == {"b"}


def test_a_bucket_that_the_site_has_not_signed_is_not_taken() -> None:
    wants, b = KnownWants("a"), Wanting("b", ("ALL", "t"))
    b.tell(wants)
    forged = write_bucket(Bucket((Leaf("ALL", "t", b"other"),)))
    assert wants.take("b", bucket_of("t"), forged) == "unsigned"
    more = write_bucket(Bucket((*b.buckets[bucket_of("t")].leaves, Leaf("ALL", "u", b""))))
    assert wants.take("b", bucket_of("t"), more) == "unsigned"
    assert (
        wants.take("b", (bucket_of("t") + 1) % BUCKETS, write_bucket(b.buckets[bucket_of("t")])) == "unsigned"
    )
    assert wants.take("x", bucket_of("t"), forged) == "unsigned"
    assert wanting(wants, "t") == {"b"}


def test_what_is_hidden_is_not_wanted_until_another_tells_it() -> None:
    wants, b = KnownWants("a"), Wanting("b", ("ALL", "t"))
    assert b.tell(wants, hide="t") == ["new"]
    assert wanting(wants, "t") == set()
    assert b.tell(wants) == ["more"]
    assert wanting(wants, "t") == {"b"}
    assert b.tell(wants, hide="t") == ["known"]
    assert wanting(wants, "t") == {"b"}


def test_what_was_known_is_known_still_where_another_bucket_hides_it() -> None:
    names = [name for name in map("t{}".format, range(1_000)) if bucket_of(name) == bucket_of("t0")]
    wants, b = KnownWants("a"), Wanting("b", ("ALL", names[0]))
    b.tell(wants)
    b.set(("ALL", names[0]), ("ALL", names[1]))
    b.tell(wants, hide=names[0])
    assert wanting(wants, names[0]) == wanting(wants, names[1]) == {"b"}


def test_a_site_that_does_not_say_what_it_wants_wants_nothing_and_is_known_for_it() -> None:
    wants, b = KnownWants("a"), Wanting("b", ("ALL", "t"))
    assert not wants.tells("b")
    b.tell(wants)
    assert wants.tells("b")
    assert wants.say(SiteNews("b", 1, 9, ())) == [bucket_of("t")]
    assert (wants.tells("b"), wanting(wants, "t")) == (False, set())


def test_what_a_later_version_says_of_a_name_counts_as_a_want_and_is_passed_on() -> None:
    wants, index = KnownWants("a"), bucket_of("t")
    said = Bucket((Leaf("LATER", "t", b"1"), Leaf("ALL", "t", b"2"), Leaf("LIMIT", "t", b"3", "c")))
    wants.say(SiteNews("b", 1, 1, (), write_digest({index: hash_of(said.hashes)})))
    assert wants.take("b", index, write_bucket(said)) == "new"
    assert wanting(wants, "t") == wanting(wants, "t", "ONE") == {"b"}
    assert wants.may_cross("b", "c", "u")
    assert read_bucket(wants.bucket("b", index)) == said
    wants.say(SiteNews("b", 1, 2, (), write_digest({})))
    assert wanting(wants, "t") == wanting(wants, "t", "ONE") == set()


@pytest.mark.parametrize(
    "leaf",
    [Leaf("", "t", b""), Leaf("A\0LL", "t", b""), Leaf("LATER", "no topic", b""), Leaf("IN", "t", b"")],
)
def test_what_cannot_be_said_of_a_name_is_refused(leaf: Leaf) -> None:
    with pytest.raises(Refusal):
        read_bucket(write_bucket(Bucket((leaf,))))


def test_what_this_site_wants_is_no_matter_of_the_others() -> None:
    wants = KnownWants("a")
    Wanting("a", ("ALL", "t")).tell(wants)
    assert (wanting(wants, "t"), wants.tells("a")) == (set(), False)


def test_the_rules_of_both_ends_of_a_link_say_what_may_cross_it() -> None:
    wants = KnownWants("a")
    link = LinkNews("c", up=True, limits_in=True)
    b = Wanting("b", links=(link,))
    index = bucket_of("weather.#")
    b.buckets[index] = Bucket((Leaf("IN", "weather.#", b"", "c"),))
    assert wants.may_cross("c", "b", "sport")
    b.tell(wants)
    Wanting("c").tell(wants)
    assert wants.may_cross("c", "b", "weather.oslo")
    assert not wants.may_cross("c", "b", "sport")
    assert wants.may_cross("b", "c", "sport")
    assert wanting(wants, "weather.oslo") == set()


class TestBounds:
    def test_of_a_site(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(known_wants, "SITE_LEAVES_MAX", 3)
        wants, b = KnownWants("a"), Wanting("b", *(("ALL", f"t{number}") for number in range(5)))
        assert Counter(b.tell(wants)) == {"new": 3, "too much": 2}
        assert [wanting(wants, f"t{number}") for number in range(5)].count(None) == 2
        assert Wanting("c", ("ALL", "u")).tell(wants) == ["new"]

    @pytest.mark.parametrize(
        ("bound", "at_most"), [("LEAVES_MAX", 2), ("BYTES_MAX", 50), ("PATTERNS_MAX", 1)]
    )
    def test_of_all(self, bound: str, at_most: int, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(known_wants, bound, at_most)
        wants = KnownWants("a")
        became = [Wanting(f"s{number}", ("ALL", f"t{number}.*")).tell(wants)[0] for number in range(5)]
        assert became[0] == "new"
        assert became[-1] == "too much"
        wants.forget("s0")
        wants.forget("s1")
        assert Wanting("s4", ("ALL", "t4.*")).tell(wants) == ["new"]

    @pytest.mark.parametrize("bound", ["LEAVES_MAX", "SITE_LEAVES_MAX", "PATTERNS_MAX", "SITE_PATTERNS_MAX"])
    def test_who_wants_no_more_than_before_is_heard_though_a_bound_is_reached(
        self, bound: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        same = [name for name in map("g{}.*".format, range(500)) if bucket_of(name) == BUCKETS - 1]
        wants, b = KnownWants("a"), Wanting("b", *(("ALL", name) for name in same[:5]))
        b.tell(wants)
        monkeypatch.setattr(known_wants, bound, 1)
        for names in (same[:4], same[4:8], same[:3]):
            b.set(*(("ALL", name) for name in names))
            assert b.tell(wants) == ["new"]
            assert wanting(wants, names[0].replace("*", "x")) == {"b"}
        b.set(*(("ALL", name) for name in same[:4]))
        assert b.tell(wants) == ["too much"]

    def test_patterns_that_others_want_too_count_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(known_wants, "PATTERNS_MAX", 4)  # of mode ONE somebody may be attached
        wants = KnownWants("a")
        for name in "bcdefg":
            assert set(Wanting(name, ("ALL", "x.#"), ("BOTH", "y.#")).tell(wants)) == {"new"}
        assert Wanting("h", ("ALL", "z.#")).tell(wants) == ["too much"]

    def test_one_site_fills_no_more_than_its_share_of_the_patterns(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(known_wants, "SITE_PATTERNS_MAX", 300)
        monkeypatch.setattr(known_wants, "PATTERNS_MAX", 500)
        wants = KnownWants("a")
        Wanting("liar", *(("ALL", f"t{number}.*") for number in range(1_000))).tell(wants)
        assert wants.count("liar") in range(100, 301)
        assert Wanting("b", ("ALL", "x.#")).tell(wants) == ["new"]


class TestLiars:
    """Sites that sign what no honest one would, and whoever passes that on."""

    @staticmethod
    def sign(wants: KnownWants, number: int, buckets: Mapping[int, Bucket]) -> None:
        hashes = {index: hash_of(bucket.hashes) for index, bucket in buckets.items()}
        wants.say(SiteNews("liar", 1, number, (), write_digest(hashes)))

    @pytest.mark.parametrize(
        "leaf", [Leaf("ALL", "t", b""), Leaf("BOTH", "t.*", b""), Leaf("IN", "t", b"", "b")]
    )
    def test_a_name_is_wanted_once_whatever_buckets_it_is_put_into(self, leaf: Leaf) -> None:
        wants, bucket = KnownWants("a"), Bucket((leaf,))
        own = bucket_of(leaf.name)
        other = (own + 1) % BUCKETS
        self.sign(wants, 1, {own: bucket, other: bucket})
        assert wants.take("liar", own, write_bucket(bucket)) == "new"
        assert wants.take("liar", other, write_bucket(bucket)) == "misplaced"
        self.sign(wants, 2, {})
        assert wanting(wants, "t") == set()
        wants.forget("liar")

    def test_a_bucket_stays_small_enough_to_be_passed_on(self) -> None:
        names = (f"{number}.{'x' * 230}" for number in range(100_000))
        leaves = [Leaf("ALL", name, b"") for name in names if bucket_of(name) == 0][:1_700]
        hashes = [leaf.hash for leaf in leaves]
        wants = KnownWants("a")
        self.sign(wants, 1, {0: Bucket(tuple(leaves))})
        became = set()
        for at in range(0, len(leaves), 200):
            shown = tuple(leaves[at : at + 200])
            data = write_bucket(Bucket(shown, b"".join(hashes[:at] + hashes[at + 200 :])))
            became.add(wants.take("liar", 0, data))
            assert len(wants.bucket("liar", 0)) <= HELD_BYTES_MAX
        assert became == {"new", "more", "too much"}

    def test_patterns_of_many_levels_count_for_what_they_take(self) -> None:
        names = (f"{number}.{'x.' * 120}#" for number in range(100_000))
        leaves = tuple(Leaf("ALL", name, b"") for name in names if bucket_of(name) == BUCKETS - 1)[:1_000]
        wants = KnownWants("a")
        self.sign(wants, 1, {BUCKETS - 1: Bucket(leaves)})
        assert wants.take("liar", BUCKETS - 1, write_bucket(Bucket(leaves))) == "too much"


@pytest.mark.parametrize("name", ["t{}", "t{}.*", "t{}." + "x." * 100 + "*"])
def test_what_a_site_tells_others_keep_however_much_it_wants(name: str) -> None:
    leaves, wants, count = OwnLeaves(), KnownWants("a"), 1
    leaves.set_secret(b"secret")
    while True:
        wants.say(SiteNews("b", 1, count, (), leaves.seal()))
        told = [leaves.bucket(index) for index in wants.lacks("b")]
        assert {wants.take("b", each.index, each.data) for each in told if each.data} <= {"new"}
        if not all(each.data for each in told):
            break
        for number in range(count, 2 * count):
            leaves.set_want(("ALL", name.format(number)), True)
        count *= 2
    assert count > 500
    assert len(wants.lacks("b")) < BUCKETS


@settings(max_examples=examples(100), deadline=None)
@given(seed=st.integers(0, 2**32))
def test_it_is_the_same_as_looking_at_each_want_of_each_site(seed: int) -> None:
    chance = random.Random(seed)
    levels = ("a", "b", "c")
    names = [".".join(chance.choices((*levels, "*"), k=chance.randint(1, 3))) for _ in range(12)]
    names += [f"{name}.#" for name in names[:4]] + ["#"]
    kinds: tuple[LeafKind, ...] = ("ALL", "ONE", "BOTH")
    sites = {name: Wanting(name) for name in ("b", "c", "d")}
    wanted: dict[str, list[tuple[LeafKind, str]]] = {name: [] for name in sites}
    wants = KnownWants("a")
    for _ in range(10):
        name = chance.choice(sorted(sites))
        of_names = chance.sample(sorted(set(names)), chance.randint(0, 6))
        wanted[name] = [(chance.choice(kinds), each) for each in of_names]
        sites[name].set(*wanted[name])
        if chance.random() < 0.2:
            wants.forget(name)
            wanted[name] = []
        else:
            sites[name].tell(wants)
        for _ in range(3):
            topic = ".".join(chance.choices(levels, k=chance.randint(1, 3)))
            for mode in ("ALL", "ONE"):
                expected = {
                    site
                    for site, leaves in wanted.items()
                    for kind, each in leaves
                    if kind in (mode, "BOTH")
                    and (subscription_takes(each, topic) if is_pattern(each) else each == topic)
                }
                assert wanting(wants, topic, mode) == expected
    for name in sites:
        wants.forget(name)
    assert (wants._weight, wants._bytes, wants._lacking) == (0, 0, [set()] * BUCKETS)

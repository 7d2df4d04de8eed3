"""Destinations: each has its copy, once, whatever way breaks, and nobody keeps it too short."""

from tests.mutants.mutation import Mutation

DESTINATIONS = "routing/federation/destinations.py"
TESTS = "tests/routing/federation/test_destinations.py"

MUTATIONS = [
    Mutation(
        name="a destination is forgotten where a copy is split",
        file=DESTINATIONS,
        old="        self._destine(copy, new, (peer,))\n",
        new="        del new[:1]\n        self._destine(copy, new, (peer,))\n",
        tests=(f"{TESTS}::test_it_goes_over_shortest_ways_once",),
    ),
    Mutation(
        name="a destination is given to two peers",
        file="routing/federation/ways.py",
        old="            chosen = max(",
        new="            assigned |= {self.peers[0]: sorted(choices)}\n            chosen = max(",
        tests=(f"{TESTS}::test_it_goes_over_shortest_ways_once",),
    ),
    Mutation(
        name="a copy with destinations keeps its depth",
        file="routing/federation/forwarding.py",
        old="        depth = onward(copy.depth)\n        assert depth is not None\n        self._transfer(",
        new="        depth = copy.depth\n        self._transfer(",
        tests=(f"{TESTS}::test_a_copy_has_one_hop_less_with_each_link",),
    ),
    Mutation(
        name="a copy is kept until the next site has it, and no longer",
        file=DESTINATIONS,
        old="if open.via == peer and not knows]",
        new="if open.via == peer]",
        tests=(f"{TESTS}::test_a_broken_way_is_gone_round",),
    ),
    Mutation(
        name="a way that is broken is not gone round",
        file=DESTINATIONS,
        old="            if not open.via or (best and not best & ways.bit(open.via)):",
        new="            if not open.via:",
        tests=(f"{TESTS}::test_a_broken_way_is_gone_round",),
    ),
    Mutation(
        name="nobody is asked whether it still sees to a destination",
        file=DESTINATIONS,
        old='                        self._note(peer, "still", copy.smuid, site)',
        new="                        pass",
        tests=(f"{TESTS}::test_whatever_fails_it_arrives_once",),
    ),
]

"""Destinations: each has its copy, once, whatever way breaks, and nobody keeps it too short."""

from tests.mutants.mutation import Mutation

DESTINATIONS = "routing/federation/destinations.py"
TESTS = "tests/routing/federation/test_destinations.py"

MUTATIONS = [
    Mutation(
        name="a destination is forgotten where a copy is split",
        file=DESTINATIONS,
        old="        self._destine(copy, new, (peer,), is_late=not counted)\n",
        new="        del new[:1]\n        self._destine(copy, new, (peer,), is_late=not counted)\n",
        tests=(f"{TESTS}::test_it_goes_over_shortest_ways_once",),
    ),
    Mutation(
        name="a destination is given to two peers",
        file="routing/federation/ways.py",
        old="        return assigned\n",
        new="        return assigned | {self.peers[0]: sorted(choices)}\n",
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
        old="        has = [] if known is not None and known.knows_destinations else copy.via(peer)\n",
        new="        has = copy.via(peer)\n",
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
        old='                self._words.note(peer, "still", copy.smuid, site)',
        new="                pass",
        tests=(
            "tests/routing/federation/test_destinations_told.py::test_a_copy_that_a_site_has_dropped_comes_again",
        ),
    ),
    Mutation(
        name="a question that is repeated is begun anew",
        file="routing/federation/arriving.py",
        old="return bool(arrival.query) and not self._receipts.is_known(arrival.peer, arrival.query)",
        new="return bool(arrival.query)",
        tests=(
            "tests/routing/federation/test_destinations_counted.py::test_a_question_that_is_repeated_is_answered_once",
        ),
    ),
    Mutation(
        name="a peer that will not have a copy is offered it with each change",
        file="routing/federation/rerouting.py",
        old="            if open.refused and self._minutes % (1 << min(open.refusals, DOUBLED_MAX)) == 0:",
        new="            if open.refused:",
        tests=(f"{TESTS}::test_who_will_not_have_a_copy_is_not_offered_it_with_each_change",),
    ),
    Mutation(
        name="a site whose store fails goes round without end",
        file="routing/federation/rerouting.py",
        old="        return 0.0 if self._is_due else math.inf\n",
        new="        return 0.0 if self._todo or self._unwanted or self._is_behind else math.inf\n",
        tests=("tests/routing/federation/test_store_failing.py",),
    ),
    Mutation(
        name="a copy that has ended is taken up again for who has it",
        file="routing/federation/arriving.py",
        old="        if copy is None and self._destinations.is_seen_through(",
        new="        if False and self._destinations.is_seen_through(",
        tests=("tests/routing/federation/test_destinations_late.py",),
    ),
    Mutation(
        name="where it began and has ended, who has a copy is forgotten",
        file=DESTINATIONS,
        old='            self._words.note(peer, "arrived" if site in have_it else "no-way", smuid, site)\n',
        new='            self._words.note(peer, "no-way", smuid, site)\n',
        tests=("tests/routing/federation/test_destinations_late.py",),
    ),
    Mutation(
        name="a copy that came back and goes on names its site in Hops twice",
        file="routing/federation/arriving.py",
        old="        state, hops = self._state, self._hops_of(arrival)\n",
        new="        state, hops = self._state, arrival.hops\n",
        tests=("tests/routing/federation/test_destinations_told.py",),
    ),
    Mutation(
        name="a copy that is held, and came back with more depth, names its site in Hops twice",
        file="routing/federation/arriving.py",
        old="copy.depth, copy.hops = arrival.depth, self._hops_of(arrival)\n",
        new="copy.depth, copy.hops = arrival.depth, arrival.hops\n",
        tests=("tests/routing/federation/test_destinations_told.py",),
    ),
    Mutation(
        name="who has it first of a copy that asks for no receipt is not counted",
        file="routing/federation/arriving.py",
        old='and arrival.mode == "ALL" and self._destinations.is_on\n',
        new='and arrival.mode == "ONE"\n',
        tests=("tests/routing/federation/test_destinations_counted.py",),
    ),
    Mutation(
        name="a count that nobody has asked for is told to whoever sent the copy",
        file="routing/receipts.py",
        old="        if receipt.is_unasked:\n            return\n        due, have = receipt.counts\n",
        new="        due, have = receipt.counts\n",
        tests=("tests/routing/federation/test_destinations_counted.py",),
    ),
    Mutation(
        name="a site that was asked for others without a receipt answers for them",
        file="routing/federation/arriving.py",
        old="            known -= copy.uncounted\n",
        new="            pass\n",
        tests=("tests/routing/federation/test_destinations_counted.py",),
    ),
    Mutation(
        name="a site that had it for others without a receipt answers for them",
        file="routing/federation/destinations.py",
        old="(through.counted_by(smuid) if counted else through.by(smuid))",
        new="through.by(smuid)",
        tests=("tests/routing/federation/test_destinations_counted.py",),
    ),
    Mutation(
        name="all that peers have ever named is remembered",
        file="routing/link/remembered.py",
        old="            if self._characters > CHARACTERS_MAX:\n",
        new="            if False:\n",
        tests=("tests/routing/link/test_remembered.py",),
    ),
    Mutation(
        name="a copy is held for sites that only others say there are",
        file=DESTINATIONS,
        old="filter(self._topology.exists, sites)",
        new="filter(self._topology.ways.__contains__, sites)",
        tests=("tests/routing/federation/test_destinations_forgotten.py",),
    ),
    Mutation(
        name="a copy waits for a site that nobody has heard of for long",
        file="routing/federation/rerouting.py",
        old=" or not exists(site))",
        new=")",
        tests=("tests/routing/federation/test_destinations_forgotten.py",),
    ),
    Mutation(
        name="a new subscriber behind another on the same link is missed",
        file="routing/federation/arriving.py",
        old="            sent += self._destinations.send_to_late(copy, counted=counted)\n",
        new="",
        tests=("tests/routing/federation/test_destinations_late.py",),
    ),
    Mutation(
        name="each arrival of a copy that others are still to have is written",
        file="routing/federation/destinations.py",
        old="            copy.is_stale = True\n        elif",
        new="            self.keep(copy)\n        elif",
        tests=("tests/routing/federation/test_destinations_stored.py",),
    ),
    Mutation(
        name="who wanted a message all along is taken for a late subscriber",
        file="routing/federation/rerouting.py",
        old=" - (itineraries.wanted_long(topic) or _NOBODY)",
        new="",
        tests=(
            "tests/routing/federation/test_destinations_late.py::test_who_comes_nearer_later_is_no_late_subscriber",
        ),
    ),
]

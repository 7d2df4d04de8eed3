"""Destinations later: what peers say of them, ways that break or rules that change, and who counts them."""

from tests.mutants.mutation import Mutation

TESTS = "tests/routing/federation/test_destinations.py"

MUTATIONS = [
    Mutation(
        name="whatever link comes up or goes down, all that is held is looked at",
        file="routing/federation/topology.py",
        old="        self.version += 1\n        self._ways = None\n",
        new="        self.version += 1\n        self.graph += 1\n        self._ways = None\n",
        tests=("tests/routing/federation/test_destinations_looked_at.py::test_a_link_that_only_goes_down",),
    ),
    Mutation(
        name="a late subscriber waits for a site that cannot be reached any more",
        file="routing/federation/rerouting.py",
        old="            self._turns.wait(copy)\n",
        new="",
        tests=(
            "tests/routing/federation/test_destinations_late.py"
            "::test_who_wants_it_before_the_site_where_it_began_is_missed_has_it_of_whoever_holds_it",
        ),
    ),
    Mutation(
        name="who may not have a message for rules that are known too late is waited for",
        file="routing/federation/rerouting.py",
        old="(reached is not None and open.is_late and site not in reached)",
        new="False",
        tests=(
            "tests/routing/federation/test_destinations_rules.py"
            "::test_a_late_subscriber_that_rules_put_out_of_reach_is_waited_for_no_more",
        ),
    ),
    Mutation(
        name="a peer that was not asked, or has not heard so, says that it looks for a way",
        file="routing/federation/heard.py",
        old="            elif open is None or peer not in open.asked_by:\n",
        new="            elif open is None:\n"
        '                self._words.note(peer, "no-way", copy.smuid, site)\n'
        "            elif peer not in open.asked_by:\n",
        tests=(
            "tests/routing/federation/test_destinations_told.py"
            "::test_a_peer_that_has_not_heard_what_it_was_asked_to_see_to_hears_it_again",
        ),
    ),
    Mutation(
        name="whoever says so has a copy sent again, as often as it says so",
        file="routing/federation/heard.py",
        old=" and open[site].still_asked == peer]",
        new="]",
        tests=(
            "tests/routing/federation/test_destinations_told.py"
            "::test_who_holds_no_copy_any_more_has_it_once_for_each_time_that_it_is_asked",
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
        name="a count that nobody has asked for is told to whoever sent the copy",
        file="routing/receipts.py",
        old="        if receipt.is_unasked:\n            return\n        due, have = receipt.counts\n",
        new="        due, have = receipt.counts\n",
        tests=("tests/routing/federation/test_destinations_counted.py",),
    ),
    Mutation(
        name="a count that nobody has asked for is lost with a start",
        file="routing/receipts.py",
        old="        if receipt.entry.flags & GUARANTEED and (receipt.stored",
        new="        if receipt.entry.flags & GUARANTEED and not receipt.is_unasked and (receipt.stored",
        tests=(
            "tests/daemon/broker/test_federation_restarts.py::test_who_had_a_message_without_a_question_is_counted_though_that_comes_after_a_restart",
        ),
    ),
    Mutation(
        name="a copy waits for a site that nobody has heard of for long",
        file="routing/federation/rerouting.py",
        old="                or not is_linked(site)\n",
        new="",
        tests=("tests/routing/federation/test_destinations_forgotten.py",),
    ),
    Mutation(
        name="nothing waits for a site whose news is not attested for a while",
        file="routing/federation/rerouting.py",
        old="            and not is_doubted(site)",
        new="",
        tests=("tests/routing/federation/test_destinations_distrusted.py",),
    ),
    Mutation(
        name="a late subscriber waits for another that is as late",
        file="routing/federation/itineraries.py",
        old="found.sites.intersection(self.wanted_long(topic) or ())",
        new="found.sites",
        tests=("tests/routing/federation/test_destinations_origin_lost.py",),
    ),
    Mutation(
        name="who does not say what it wants, and is out of reach for a moment, is forgotten",
        file="routing/federation/itineraries.py",
        old="{*are_within, *topology.sites}",
        new="are_within",
        tests=("tests/routing/federation/test_destinations_wants.py",),
    ),
    Mutation(
        name="a copy waits for a site that is nobody's peer any more",
        file="routing/federation/topology.py",
        old="self.exists(site) and (site in self.ways.links or not self._peers)",
        new="self.exists(site)",
        tests=("tests/routing/federation/test_destinations_forgotten.py",),
    ),
    Mutation(
        name="a site that has no peers for a while waits for nobody",
        file="routing/federation/topology.py",
        old="(site in self.ways.links or not self._peers)",
        new="site in self.ways.links",
        tests=("tests/routing/federation/test_destinations_forgotten.py",),
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
    Mutation(
        name="what goes wherever it is wanted overtakes a backlog that is given to another peer",
        file="routing/federation/turns.py",
        old="        if not self.is_behind(copy):\n            return False\n        if copy",
        new="        if True:\n            return False\n        if copy",
        tests=("tests/routing/federation/test_destinations_order.py",),
    ),
    Mutation(
        name="a backlog whose way breaks while it is given to a peer goes on from where it is",
        file="routing/federation/turns.py",
        old="        if self._topic in self._topics and not self.is_minutely:\n",
        new="        if False:\n",
        tests=("tests/routing/federation/test_destinations_order.py",),
    ),
    Mutation(
        name="all that waits is compared with a peer at once when its link comes up",
        file="routing/federation/rerouting.py",
        old="                left -= 1\n",
        new="",
        tests=("tests/routing/federation/test_destinations_order.py",),
    ),
    Mutation(
        name="to empty a topic takes from others what the site has passed on",
        file="routing/emptying.py",
        old=" or self._is_for_others(entry)",
        new="",
        tests=("tests/routing/federation/test_destinations_held.py",),
    ),
    Mutation(
        name="after a start all that others have taken over counts",
        file="routing/restore.py",
        old="            self._state.crossing.weigh(copy.entry)\n",
        new="            pass\n",
        tests=("tests/routing/federation/test_destinations_held.py",),
    ),
    Mutation(
        name="what others have taken over counts though the last subscriber has had it",
        file="routing/lifecycle.py",
        old="            self._state.crossing.weigh(entry)\n",
        new="            pass\n",
        tests=("tests/routing/federation/test_destinations_held.py",),
    ),
    Mutation(
        name="a receipt waits for who is no peer any more",
        file="routing/receipts.py",
        old="self._state.asked_of.items() if asked == peer",
        new="self._state.asked_of.items() if False",
        tests=("tests/routing/federation/test_destinations_kept_back.py",),
    ),
    Mutation(
        name="who has asked for a site is believed that it has it, also for others who ask",
        file="routing/federation/heard.py",
        old="                copy.seen_to = (copy.seen_to or frozenset()).difference((site,))\n",
        new="",
        tests=("tests/routing/federation/test_destinations_lied_about.py",),
    ),
    Mutation(
        name="who asks again is not answered, as it has asked no more before",
        file="routing/federation/heard.py",
        old="        if peer in open.asked_again:",
        new="        if False:",
        tests=(
            "tests/routing/federation/test_destinations_asked_twice.py"
            "::test_that_a_peer_asks_no_more_may_be_older_than_the_last_time_that_it_has_asked",
        ),
    ),
    Mutation(
        name="whether a peer that has asked again asks no more is not found out",
        file="routing/federation/heard.py",
        old='            self._words.note(peer, "no-way", copy.smuid, site)\n            return False\n',
        new="            return False\n",
        tests=(
            "tests/routing/federation/test_destinations_asked_twice.py"
            "::test_who_had_to_ask_again_on_another_link_is_believed_that_it_asks_no_more",
        ),
    ),
]

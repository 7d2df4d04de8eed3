"""Contract 4: depth, interest, tombstones."""

from typing import Final

from tests.mutants.mutation import Mutation

BEYOND_RULES: Final = "tests/routing/federation/test_wants_beyond_rules.py"

MUTATIONS: Final = [
    Mutation(
        name="depth is not counted down",
        file="routing/peering/copies.py",
        old="return depth - 1 if depth > 0 else None",
        new="return depth if depth > 0 else None",
        tests=("tests/daemon/broker/test_federation.py::test_depth_says_how_far_a_message_goes",),
    ),
    Mutation(
        name="a copy that may go further is a duplicate",
        file="routing/federation/arriving.py",
        old="elif wider(arrival.depth, seen.depth):",
        new="elif False:",
        tests=(
            "tests/routing/federation/test_receipts.py",
            "tests/routing/federation/test_radius.py",
        ),
    ),
    Mutation(
        name="a copy that was here before is delivered again",
        file="routing/federation/arriving.py",
        old="elif seen is None:",
        new="elif True:",
        tests=("tests/routing/federation/test_turned_away.py::test_a_copy_that_comes_again_is_a_duplicate",),
    ),
    Mutation(
        name="a message goes back to where it came from",
        file="routing/federation/forwarding.py",
        old="if depth is None or peer.name in copy.hops:",
        new="if depth is None:",
        tests=(
            "tests/daemon/broker/test_federation.py::test_a_message_goes_only_where_it_is_wanted_and_not_back_to_where_it_came_from",
        ),
    ),
    Mutation(
        name="the memory of Smuids is not on disk",
        file="daemon/store/tables/seen.py",
        old="self._put[d.smuid] = (d.smuid",
        new="{}[d.smuid] = (d.smuid",
        seed=0,
    ),
    Mutation(
        name="a message crosses links to where nobody wants it",
        file="routing/federation/forwarding.py",
        old="distance = 0 if peer.rules.flood else",
        new="distance = 0 if True else",
        tests=(
            "tests/daemon/broker/test_federation.py::test_a_message_goes_only_where_it_is_wanted_and_not_back_to_where_it_came_from",
        ),
    ),
    Mutation(
        name="who wants a message later does not get what is still alive",
        file="routing/federation/forwarding.py",
        old="            if is_kept(copy.entry):",
        new="            if False:",
        tests=("tests/routing/federation/test_rules.py::test_what_may_go_from_now_on_goes",),
    ),
    Mutation(
        name="interest is told back to whom it came from",
        file="routing/federation/telling.py",
        old="            if other != peer\n            and distance < bound\n",
        new="            if distance < bound\n",
        tests=(
            "tests/routing/federation/test_interest.py::test_in_a_tree_every_distance_is_the_true_one",
            "tests/routing/federation/test_interest.py",
        ),
    ),
    Mutation(
        name="a want that has gone is never forgotten",
        file="routing/federation/interest.py",
        old="if distance is None or not 0 <= distance < DISTANCE_MAX:",
        new="if False:",
        tests=(
            "tests/routing/federation/test_interest.py::test_what_nobody_wants_any_more_is_forgotten_everywhere",
        ),
    ),
    Mutation(
        name="what was removed comes back with a late copy",
        file="routing/federation/arriving.py",
        old="if arrival.message.smuid in state.removed:",
        new="if False:",
        tests=(
            "tests/routing/federation/test_turned_away.py::test_a_copy_of_what_was_removed_is_a_duplicate",
        ),
    ),
    Mutation(
        name="a loop goes on",
        file="routing/federation/arriving.py",
        old="            if state.server in arrival.hops:\n",
        new="            if False:\n",
        tests=(
            "tests/routing/federation/test_turned_away.py::test_a_copy_that_has_been_here_by_its_own_word_has_looped",
        ),
    ),
    Mutation(
        name="a removal is not told when the link is back",
        file="routing/federation/removing.py",
        old="for removal in self._state.removed.after(peer.has_removals):",
        new="for removal in ():",
        tests=("tests/daemon/broker/test_federation.py::test_a_removal_reaches_a_site_that_was_cut_off",),
    ),
    Mutation(
        name="a tombstone is not on disk",
        file="daemon/store/tables/removals.py",
        old="self._put.append(",
        new="list().append(",
        tests=(
            "tests/daemon/store/test_memory.py::test_removals_are_forgotten_with_those_that_the_router_has_forgotten",
        ),
        seed=14,
    ),
    Mutation(
        name="to many sites a link that bounds depth is no further than others",
        file="routing/federation/ways.py",
        old="            coming = self.links.coming(left, site, other)",
        new="            coming = left",
        tests=(f"{BEYOND_RULES}::test_it_is_as_far_by_news_as_a_message_would_go",),
    ),
    Mutation(
        name="a way is no longer where the shortest is bounded",
        file="routing/federation/ways.py",
        old="if other in shunned or (site, other) in shut:",
        new="if other in found or other in shunned or (site, other) in shut:",
        tests=(f"{BEYOND_RULES}::test_a_longer_way_counts_where_the_shortest_ends",),
    ),
    Mutation(
        name="to a few sites a link that bounds depth is no further than others",
        file="routing/federation/ways.py",
        old="if not is_bounded or within(found[site], ",
        new="if not is_bounded or within(0, ",
        tests=(f"{BEYOND_RULES}::test_it_is_as_far_by_news_as_a_message_would_go",),
    ),
    Mutation(
        name="the bound of the link with a peer does not count",
        file="routing/federation/nearest.py",
        old="or not is_bounded or ways.may_go_on(peer, distance)",
        new="or is_bounded is not None",
        tests=(f"{BEYOND_RULES}::test_it_is_as_far_by_news_as_a_message_would_go",),
    ),
    Mutation(
        name="a peer is told of what it cannot reach by what peers tell",
        file="routing/federation/telling.py",
        old="and link.may_reach(want, distance + 1)",
        new="and link.may_reach(want)",
        tests=(f"{BEYOND_RULES}::test_what_an_earlier_site_wants_is_told_no_further_than_messages_may_go",),
    ),
    Mutation(
        name="a peer is told of what it cannot reach by what news says",
        file="routing/federation/telling.py",
        old="is not None and link.may_reach(want, by_news):",
        new="is not None:",
        tests=(f"{BEYOND_RULES}::test_an_earlier_peer_is_told_of_what_its_messages_may_reach",),
    ),
    Mutation(
        name="what a peer may reach is as before when the bound of its link is another",
        file="routing/federation/interest_peer.py",
        old="        self._may_come, self._depth_max = may_come, depth_max",
        new="        self._may_come = may_come",
        tests=(f"{BEYOND_RULES}::test_an_earlier_peer_is_told_of_what_its_messages_may_reach",),
    ),
    Mutation(
        name="links that let no topic pass hide who is late",
        file="routing/federation/itineraries.py",
        old="ways.links.shut(topic) if is_exact else",
        new="OPEN if is_exact else",
        tests=(f"{BEYOND_RULES}::test_who_may_not_have_it_by_rules_hides_nobody_that_is_as_far",),
    ),
    Mutation(
        name="what is explained by a way that its topic may not take stays so",
        file="routing/federation/nearest.py",
        old="        if had_rules or self._had_rules:",
        new="        if False:",
        tests=(
            f"{BEYOND_RULES}::test_who_is_cut_off_for_a_topic_hides_nobody_any_more_though_other_topics_reach_it",
        ),
    ),
    Mutation(
        name="what is told round a circle passes for somebody else",
        file="routing/federation/itineraries.py",
        old="up=False, over_here=True)",
        new="up=False)",
        tests=(f"{BEYOND_RULES}::test_what_earlier_peers_tell_round_a_circle_is_nobody_else_who_wants_it",),
    ),
    Mutation(
        name="a peer is told of topics that may not come from it",
        file="routing/federation/telling.py",
        old="if link.may_reach(want) else ()",
        new="",
        tests=(
            f"{BEYOND_RULES}::test_an_earlier_peer_is_told_of_no_topic_that_a_pattern_takes_and_it_may_not_send",
        ),
    ),
    Mutation(
        name="peers are told of topics that may not go on",
        file="routing/federation/peer.py",
        old="        return some_allowed(self.rules.allow_out, name)\n",
        new="        return True\n",
        tests=(f"{BEYOND_RULES}::test_nobody_is_told_of_a_topic_over_a_link_that_is_closed_for_it",),
    ),
    Mutation(
        name="peers are told by the rules that other links had",
        file="routing/federation/telling.py",
        old="            if peer in heard:\n                self.mark(want)\n        if (link",
        new="            pass\n        if (link",
        tests=(f"{BEYOND_RULES}::test_peers_are_told_of_a_topic_once_the_rules_of_a_link_let_it_pass",),
    ),
    Mutation(
        name="what goes round what links stop is too far",
        file="routing/federation/nearest.py",
        old="            farthest = max(farthest, *round_about.values())",
        new="            pass",
        tests=(f"{BEYOND_RULES}::test_what_peers_tell_is_not_too_far_where_links_stop_some_messages",),
    ),
    Mutation(
        name="that a link far away bounds depth is told to nobody",
        file="routing/federation/nearest.py",
        old="self._beyond(self._server, kind, OPEN, without, up=up)",
        new='self._beyond(self._server, "SERVER", OPEN, without, up=up)',
        tests=(
            f"{BEYOND_RULES}::test_an_earlier_peer_is_told_when_a_link_further_away_ends_the_way_or_does_no_more",
        ),
    ),
    Mutation(
        name="a pattern that may pass in part makes news late for what may not",
        file="routing/federation/itineraries.py",
        old="ways.links.shut(topic) if is_exact else OPEN",
        new="ways.links.shut(topic)",
        tests=(f"{BEYOND_RULES}::test_a_pattern_that_may_not_pass_in_whole_makes_no_news_late",),
    ),
    Mutation(
        name="a topic that was told by name is told as it was when a pattern comes",
        file="routing/federation/interest_peer.py",
        old="for topics in (self._topics, self._told_topics):",
        new="for topics in (self._topics,):",
        tests=(
            f"{BEYOND_RULES}::test_an_earlier_peer_is_told_of_a_topic_anew_when_a_pattern_that_takes_it_comes_or_goes",
        ),
    ),
    Mutation(
        name="who wants a pattern that may not come to it makes news late",
        file="routing/federation/itineraries.py",
        old="for site in found.wanting):\n                yield",
        new="for site in found.destinations):\n                yield",
        tests=(
            f"{BEYOND_RULES}::test_a_pattern_over_a_closed_link_sends_nothing_where_there_is_no_other_way",
        ),
    ),
    Mutation(
        name="a site is as far for its accounts as for others",
        file="routing/federation/ways.py",
        old="key = target, shut, up, is_bounded and self.links.has_bounds",
        new="key = target, shut, up, False",
        tests=(
            f"{BEYOND_RULES}::test_a_site_is_in_reach_of_its_accounts_messages_where_it_is_not_of_others",
        ),
    ),
]

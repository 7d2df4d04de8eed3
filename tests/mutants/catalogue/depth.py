"""Contract 4: depth, interest, tombstones."""

from tests.mutants.mutation import Mutation

MUTATIONS = [
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
        old="            if not copy.entry.flags & (ONE | GONE) and copy.entry.flags & STATED:",
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
        old="if distance is None or not 0 <= distance < self._distance_max:",
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
            "tests/daemon/store/test_store.py::test_removals_are_forgotten_with_those_that_the_router_has_forgotten",
        ),
        seed=0,
    ),
]

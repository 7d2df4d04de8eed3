"""Contract 6: receipts."""

from tests.mutants.mutation import Mutation

MUTATIONS = [
    Mutation(
        name="a receipt does not wait for the peers",
        file="routing/receipts.py",
        old="receipt.open or receipt.waiting or self._sees_to_some(receipt.entry)",
        new="receipt.open",
        tests=(
            "tests/daemon/broker/test_federation.py::test_a_receipt_counts_the_subscriptions_of_all_sites",
        ),
    ),
    Mutation(
        name="a receipt of the first waits for all",
        file="routing/receipts.py",
        old='(receipt.mode == "ONE" and have)',
        new="False",
        tests=(
            "tests/routing/test_router_receipts.py::test_one_is_told_as_soon_as_the_first_has_it_and_only_once",
        ),
    ),
    Mutation(
        name="a receipt is not told when the timeout ends",
        file="routing/receipts.py",
        old="            if receipt is not None:\n                self.close(",
        new="            if False:\n                self.close(",
        tests=(
            "tests/routing/test_router_receipts.py::test_of_a_state_message_it_is_told_after_the_default_timeout",
        ),
    ),
    Mutation(
        name="a receipt counts a dead letter as had",
        file="routing/lifecycle.py",
        old='self._receipts.progress(entry, subscription, now, has_it=event != "dead")',
        new="self._receipts.progress(entry, subscription, now, has_it=True)",
        tests=("tests/routing/test_router_receipts.py::test_a_dead_letter_is_had_by_nobody",),
    ),
    Mutation(
        name="a receipt counts those who came later",
        file="routing/receipts.py",
        old="if subscription.joined_after(entry) or not receipt.open:",
        new="if not receipt.open:",
        tests=("tests/routing/test_router_receipts.py::test_a_late_subscriber_does_not_count",),
    ),
    Mutation(
        name="a restart tells a receipt twice",
        file="daemon/store/tables/messages.py",
        old="self._receipted.append(",
        new="list().append(",
        tests=(
            "tests/daemon/broker/test_broker.py::test_a_receipt_that_was_told_is_not_told_again_after_a_kill",
        ),
    ),
    Mutation(
        name="any peer answers for another",
        file="routing/receipts.py",
        old="if receipt is None or self._state.asked_of.get(query, peer) != peer:",
        new="if receipt is None:",
        tests=("tests/routing/federation/test_receipts.py::test_nobody_answers_for_another_peer",),
    ),
    Mutation(
        name="an answer to a peer does not survive a restart",
        file="routing/receipts.py",
        old="self._state.out.append(StoreAnswer(peer, query, due, have))",
        new="pass",
        seed=3,
    ),
    Mutation(
        name="a site forgets what it has counted once it has told its peer",
        file="routing/receipts.py",
        old="if receipt.query and receipt.due:",
        new="if False:",
        tests=(
            "tests/routing/federation/test_counting.py::test_what_was_counted_is_remembered_where_the_next_site_has_it_on_disk_and_is_lost",
        ),
    ),
    Mutation(
        name="what a site counts once more forgets what it has counted",
        file="routing/federation/forwarding.py",
        old="seen.due, seen.have = before.due, before.have",
        new="pass",
        tests=(
            "tests/routing/federation/test_counting.py::test_what_was_counted_is_remembered_though_the_copy_comes_again",
        ),
    ),
    Mutation(
        name="sites are not asked again who said that more is to come",
        file="routing/federation/counting.py",
        old="return said is not None and not said.open and bool(",
        new="return said is not None and bool(",
        tests=(
            "tests/routing/federation/test_counting.py::test_they_are_asked_again_until_they_have_said_their_last_word",
        ),
    ),
    Mutation(
        name="who says so by two ways is counted twice",
        file="routing/receipt.py",
        old="due = max(due, self.due + sum(",
        new="due = max(0, due + sum(",
        tests=(
            "tests/routing/federation/test_counting.py::test_each_site_is_counted_once_whichever_way_it_says_so",
        ),
    ),
    Mutation(
        name="a site that has handed a message of mode ONE on is not asked again",
        file="routing/federation/counting.py",
        old="bool(said.due or not receipt.entry.flags & ONE)",
        new="True",
        tests=(
            "tests/routing/federation/test_counting.py::test_one_that_has_come_back_is_counted_where_it_was_handed_on_before",
        ),
    ),
    Mutation(
        name="some sites that were asked are enough",
        file="routing/federation/counting.py",
        old="return bool(counted) and not _waited_for(receipt, counted)",
        new="return bool(counted) and len(_waited_for(receipt, counted)) < len(counted)",
        tests=(
            "tests/routing/federation/test_counting.py::test_who_cannot_be_asked_is_waited_for_though_nobody_has_told_of_it",
        ),
    ),
    Mutation(
        name="a site that counts some that the message was not known to be for is not waited for",
        file="routing/federation/counting.py",
        old="    if any(each.due and each.open for each in said.values()):\n",
        new="    if False:\n",
        tests=(
            "tests/routing/federation/test_counting.py::test_who_is_known_to_a_site_on_the_way_alone_is_waited_for_whoever_else_answers_after_it",
        ),
        seed=10620113,
        profile="ways",
    ),
    Mutation(
        name="a receipt waits for who came later, of whom it does not speak",
        file="routing/federation/counting.py",
        old="any(each.due and each.open for",
        new="any(each.open for",
        tests=(
            "tests/routing/federation/test_counting.py::test_who_came_later_is_not_waited_for_where_the_answers_of_others_are_lost",
        ),
    ),
    Mutation(
        name="any site is counted",
        file="routing/federation/counting.py",
        old="if site in receipt.asked and not _has_said_all(receipt, site):",
        new="if True:",
        tests=(
            "tests/routing/federation/test_counting_distrusted.py::test_what_is_told_of_others_than_were_asked_counts_for_nobody",
        ),
    ),
    Mutation(
        name="sites are asked of what links have not changed since",
        file="routing/federation/counting.py",
        old="if each.entry.id <= self._last_id]",
        new="if True]",
        tests=(
            "tests/routing/federation/test_counting.py::test_of_what_was_published_since_links_have_changed_nobody_is_asked",
        ),
    ),
    Mutation(
        name="sites that are asked count those who came later",
        file="routing/receipts.py",
        old="return SiteCounts(0, 0, open=True)",
        new="pass",
        tests=(
            "tests/routing/federation/test_counting.py::test_a_site_that_has_started_again_asks_all_and_takes_none_of_them_for_all",
        ),
    ),
    Mutation(
        name="sites are never asked how many have a message",
        file="routing/federation/counting.py",
        old="self._due_at = min(self._due_at, now + self._wait_s)",
        new="self._due_at = math.inf",
        tests=(
            "tests/routing/federation/test_counting.py::test_a_copy_that_has_gone_round_is_counted_there",
        ),
        seed=4100015,
        profile="ways",
    ),
    Mutation(
        name="what sites have said last is lost with a start",
        file="routing/receipts.py",
        old="receipt.children = {min(receipt.children): (due - receipt.due, have - receipt.have)}",
        new="pass",
        tests=(
            "tests/routing/federation/test_counting.py::test_what_sites_have_said_last_outlives_a_start_of_the_site_that_waits_for_one_of_its_own",
        ),
    ),
    Mutation(
        name="peers that count more than sites do are not waited for",
        file="routing/federation/counting.py",
        old="return False  # by a site",
        new="pass  # by a site",
        tests=(
            "tests/routing/federation/test_counting.py::test_who_is_known_to_a_site_on_the_way_alone_is_waited_for_where_a_link_goes_that_none_needs",
        ),
    ),
    Mutation(
        name="those that only peers have counted are never asked",
        file="routing/federation/counting.py",
        old="sites or _waited_for(receipt, self._others(receipt))",
        new="sites if self._counted(receipt) else _waited_for(receipt, self._others(receipt))",
        tests=(
            "tests/routing/federation/test_counting.py::test_who_is_known_to_a_site_on_the_way_alone_is_asked_where_the_answers_of_others_are_lost",
        ),
    ),
    Mutation(
        name="anybody may ask of any message",
        file="routing/federation/counting.py",
        old="if parse_smuid(smuid).server == asked.hops[0]",
        new="if True",
        tests=(
            "tests/routing/federation/test_counting_distrusted.py::test_of_a_message_that_another_has_published_a_site_is_told_nothing",
        ),
    ),
    Mutation(
        name="after a start those who were still to have it are all",
        file="routing/federation/counting.py",
        old=" or entry.id >> COUNTER_BITS != self._state.boot:",
        new=":",
        tests=(
            "tests/routing/federation/test_counting.py::test_a_site_that_has_started_again_asks_all_and_takes_none_of_them_for_all",
        ),
    ),
    Mutation(
        name="peers are asked that know nothing of it",
        file="routing/federation/counting.py",
        old="peer.up and peer.knows_counts and",
        new="peer.up and",
        tests=(
            "tests/routing/federation/test_counting.py::test_a_peer_that_knows_nothing_of_it_is_not_asked_or_told",
        ),
    ),
    Mutation(
        name="a last word ends what nobody waits for",
        file="routing/receipts.py",
        old="if is_all and receipt.waiting:",
        new="if is_all:",
        tests=(
            "tests/routing/federation/test_counting.py::test_an_answer_that_comes_when_no_peer_owes_one_any_more_closes_nothing",
        ),
    ),
    Mutation(
        name="a run of pub takes the receipts of another in its channel",
        file="plugins/smqp/pub.py",
        old="return not given or cmuid == given or",
        new="return not given or cmuid != given or",
        tests=("tests/plugins/smqp/test_pub.py::test_two_runs_in_one_channel_get_their_receipts",),
    ),
]

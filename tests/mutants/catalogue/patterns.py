"""Contract 5: subscriptions to patterns of topics."""

from tests.mutants.mutation import Mutation

MUTATIONS = [
    Mutation(
        name="who subscribes to # gets dead letters",
        file="routing/patterns.py",
        old="        by_wildcard = not topic.startswith(DEAD_LETTER_PREFIX)  #",
        new="        by_wildcard = True  #",
        tests=(
            "tests/routing/test_router_patterns.py::test_replies_and_dead_letters_come_only_to_who_names_them",
        ),
    ),
    Mutation(
        name="who subscribes to # gets the replies of an account",
        file="routing/patterns.py",
        old="        if is_system_topic(topic):\n            return out\n",
        new="",
        tests=(
            "tests/routing/test_router_patterns.py::test_replies_and_dead_letters_come_only_to_who_names_them",
        ),
    ),
    Mutation(
        name="a pattern takes what its account may not have",
        file="routing/matching.py",
        old="if self._rights.may_subscribe(each.account, topic.name)",
        new="",
        tests=(
            "tests/routing/test_router_patterns.py::test_only_what_rights_allow_comes_and_waits_and_is_counted",
        ),
    ),
    Mutation(
        name="a message that two of ones own take comes twice",
        file="routing/matching.py",
        old="(passed_over if whose(each) in had_by else due).append(each)",
        new="due.append(each)",
        tests=("tests/routing/test_router_patterns.py::test_a_receipt_counts_it_once",),
    ),
    Mutation(
        name="a message that two of ones own take comes again after a restart",
        file="routing/delivery.py",
        old="                if passed_over.options.durable:",
        new="                if False:",
        tests=(
            "tests/routing/test_router_patterns.py::test_a_message_that_two_of_ones_own_take_comes_once_also_after_a_restart",
        ),
    ),
    Mutation(
        name="what a topic keeps comes to two of ones own",
        file="routing/joining.py",
        old="        if entry.topic.name in self._had_by_another:",
        new="        if False:",
        tests=(
            "tests/routing/test_router_patterns.py::test_a_message_that_two_of_ones_own_take_comes_once_also_after_a_restart",
        ),
    ),
    Mutation(
        name="a pattern that comes is not seen by topics that are there",
        file="routing/matching.py",
        old="            self._changes += 1\n\n    def may_have",
        new="            pass\n\n    def may_have",
        tests=(
            "tests/routing/test_router_patterns.py::test_a_message_to_one_goes_in_turn_to_who_takes_its_topic_by_name_or_by_pattern",
        ),
    ),
    Mutation(
        name="a pattern does not hear of what begins to wait",
        file="routing/takers.py",
        old="                pattern.shared.note(topic.name, entry)",
        new="                pass",
        tests=(
            "tests/routing/test_router_patterns.py::test_what_waits_in_many_topics_comes_to_one_after_the_other_though_some_of_it_ends",
        ),
    ),
    Mutation(
        name="rights that are lost leave what waits",
        file="routing/changed_rights.py",
        old="        waiting = self._give_up_forbidden(subscription, now)\n",
        new="        waiting: list[Entry] = []\n",
        tests=(
            "tests/routing/test_router_patterns.py::test_rights_that_change_take_topics_away_and_add_others",
        ),
    ),
    Mutation(
        name="what was kept before a pattern came is not offered to it",
        file="routing/matching.py",
        old="        return self.waiting_for(subscription.target)",
        new="        return iter(())",
        tests=(
            "tests/routing/test_router_patterns.py::test_what_was_published_before_comes_within_its_timeout_in_order_over_all_topics",
        ),
    ),
    Mutation(
        name="what was published before a right came is due to a pattern after a restart",
        file="routing/subscription.py",
        old="            since = self.target.since(entry.topic.name)",
        new="            pass",
        tests=(
            "tests/routing/test_router_patterns.py::test_what_came_before_a_right_and_is_kept_for_nobody_comes_not_even_after_a_restart",
        ),
    ),
    Mutation(
        name="it is not stored since when an account has had a right",
        file="routing/changed_rights.py",
        old="            self._state.out.append(StoreSubscription(subscription))\n        waiting = ",
        new="            pass\n        waiting = ",
        tests=(
            "tests/routing/test_router_patterns.py::test_what_was_given_up_with_a_right_does_not_come_back_with_it_and_a_restart",
        ),
    ),
    Mutation(
        name="a peer is told of patterns whole",
        file="routing/federation/interest_peer.py",
        old="            shared = (overlap(pattern, each) for each in self._may_come)",
        new="            shared = (pattern for each in self._may_come)",
        tests=(
            "tests/routing/federation/test_patterns.py::test_what_is_told_is_what_may_come_over_the_link",
        ),
    ),
    Mutation(
        name="a peer of an earlier version is told nothing in the place of patterns",
        file="routing/federation/interest_peer.py",
        old="for topics in (self._topics, self._told_topics):",
        new="for topics in (self._told_topics,):",
        tests=(
            "tests/routing/federation/test_patterns.py"
            "::test_a_peer_that_knows_no_patterns_is_told_a_topic_again_once_the_way_to_who_takes_it_is_up_again",
        ),
    ),
    Mutation(
        name="interest in a pattern that comes later pulls nothing",
        file="routing/federation/pulling.py",
        old="            return list(self._crossing.topics.under(name))",
        new="            return []",
        tests=(
            "tests/routing/federation/test_patterns.py::test_a_message_reaches_exactly_who_wants_its_topic_by_a_pattern_within_its_depth",
        ),
    ),
    Mutation(
        name="the trace takes what came by a pattern for what came by the topic",
        file="routing/trace/coded.py",
        old='subscribed = f.concat("subscription", f.lit(" "), "pattern")',
        new='subscribed = f.concat("subscription", f.lit(" "))',
        tests=("tests/routing/trace/test_patterns.py::test_the_table_of_deliveries_names_the_pattern",),
    ),
    Mutation(
        name="a verdict does not say by which pattern a message was delivered",
        file="routing/fate.py",
        old="(by {self.pattern})",
        new="",
        tests=("tests/routing/test_fate.py",),
    ),
    Mutation(
        name="a peer may want patterns without end",
        file="routing/federation/interest.py",
        old="(of_pattern and patterns_room <= 0)",
        new="False",
        tests=("tests/routing/federation/test_patterns.py::test_a_peer_wants_no_more_patterns_than_it_may",),
    ),
    Mutation(
        name="what is kept comes twice to who joins by a second subscription",
        file="routing/matching.py",
        old="            if target is topic or found.id < subscription.id:\n",
        new="            if False:\n",
        tests=(
            "tests/routing/test_router_patterns.py"
            "::test_what_several_of_ones_own_gain_with_a_right_comes_once",
            "tests/routing/test_router_patterns.py"
            "::test_a_message_that_two_of_ones_own_take_comes_once_also_after_a_restart",
        ),
    ),
    Mutation(
        name="a pattern of which nothing is allowed since a start goes on with a change of rights",
        file="routing/matching.py",
        old="if allowed != pattern.allowed or not allowed}",
        new="if allowed != pattern.allowed}",
        tests=(
            "tests/routing/test_router_patterns.py"
            "::test_a_start_ends_nothing_and_the_next_change_of_rights_what_an_account_may_not_have_any_more",
        ),
    ),
    Mutation(
        name="an account that is added anew has the subscriptions of the one before",
        file="daemon/cli/account.py",
        old="                end_subscriptions(state / STORE, name)",
        new="                pass",
        tests=(
            "tests/daemon/cli/test_account_rights.py"
            "::test_with_an_account_its_subscriptions_go_also_while_the_site_does_not_run",
        ),
    ),
    Mutation(
        name="a right that changes is nothing to one that is still joining",
        file="routing/changed_rights.py",
        old="            joining.offer_only(before[pattern], pattern.allowed)",
        new="            pass",
        tests=(
            "tests/routing/test_router_patterns.py"
            "::test_a_right_that_changes_while_it_is_joining_holds_for_what_it_is_still_offered",
        ),
    ),
    Mutation(
        name="what very many topics keep is looked for at once",
        file="routing/joining.py",
        old="in islice(self._topics, TOPICS_MAX):",
        new="in self._topics:",
        tests=(
            "tests/routing/test_router_gathering.py"
            "::test_who_subscribes_to_very_many_topics_keeps_nobody_waiting",
        ),
    ),
    Mutation(
        name="what waits in very many topics is looked for at once",
        file="routing/gathering.py",
        old="in islice(self._topics, LOOKED_AT_MAX):",
        new="in self._topics:",
        tests=(
            "tests/routing/test_router_gathering.py"
            "::test_who_comes_back_to_it_keeps_nobody_waiting_and_gets_what_waits_in_order",
        ),
    ),
    Mutation(
        name="who takes a pattern gets something while what waits for it is still looked for",
        file="routing/subscription.py",
        old="            and not (self.target.is_gathering and self.accepts_one)\n",
        new="",
        tests=("tests/routing/test_router_gathering.py::test_what_comes_meanwhile_comes_in_its_order",),
    ),
    Mutation(
        name="what a subscription takes is gathered on after another has begun anew",
        file="routing/gathering.py",
        old="        if pattern.shared is not self._shared:",
        new="        if False:",
        tests=(
            "tests/routing/test_router_gathering.py"
            "::test_who_leaves_and_comes_back_in_the_middle_gets_it_all",
            "tests/routing/test_router_gathering.py::test_whatever_happens_meanwhile_each_comes_once",
        ),
    ),
    Mutation(
        name="what a subscription had failed in is new to it once a right has gone and come again",
        file="routing/lifecycle.py",
        old="        if not is_kept(entry):\n            had_come_back",
        new="        if True:\n            had_come_back",
        tests=(
            "tests/routing/test_router_patterns.py"
            "::test_what_had_failed_before_a_right_went_has_failed_when_it_comes_again",
        ),
    ),
    Mutation(
        name="what two patterns gain with a right comes by neither, as the other one is to have it",
        file="routing/matching.py",
        old="            if target is topic or found.id < subscription.id:\n",
        new="            if True:\n",
        tests=(
            "tests/routing/test_router_patterns.py"
            "::test_what_several_of_ones_own_gain_with_a_right_comes_once",
        ),
    ),
    Mutation(
        name="what is kept and was committed comes again when a right does",
        file="routing/joining.py",
        old=" or (had_before is not None and had_before.includes(entry))",
        new="",
        tests=(
            "tests/routing/test_router_rights_again.py::test_what_is_kept_and_was_committed_does_not_come_again_with_the_right",
        ),
    ),
    Mutation(
        name="what waited as a right went does not come with it",
        file="routing/had_before.py",
        old="        then._unfinished.update(entry.id for entry in unfinished if is_kept(entry))\n",
        new="",
        tests=(
            "tests/routing/test_router_rights_again.py::test_what_is_kept_and_was_committed_does_not_come_again_with_the_right",
        ),
    ),
    Mutation(
        name="what was had before a second right is forgotten",
        file="routing/had_before.py",
        old=(
            "        until |= {each: before for each, before in "
            "reversed(self._until.items()) if each not in until}\n"
        ),
        new="",
        tests=(
            "tests/routing/test_router_rights_again.py::test_what_is_kept_and_committed_while_the_right_is_away_does_not_come_again_with_it",
        ),
    ),
    Mutation(
        name="a restart forgets what was committed of what an account may not have for now",
        file="routing/restore.py",
        old="                self._note_had_before(subscription, entry)\n",
        new="                pass\n",
        tests=(
            "tests/routing/test_router_rights_again.py"
            "::test_what_is_kept_and_was_committed_does_not_come_again_with_the_right[while it is away]",
        ),
    ),
    Mutation(
        name="what is given back while a right is away does not come when it is back",
        file="routing/delivery.py",
        old="                    whole.had_before.lack(entry.id)\n",
        new="                    pass\n",
        tests=(
            "tests/routing/test_router_rights_again.py::test_what_is_kept_and_committed_while_the_right_is_away_does_not_come_again_with_it",
        ),
    ),
    Mutation(
        name="what is delayed until a right is away does not come when it is back",
        file="routing/publishing.py",
        old="                each.had_before.lack(entry.id)",
        new="                pass",
        tests=(
            "tests/routing/test_router_rights_again.py::test_a_delayed_message_that_comes_while_the_right_is_away_comes_with_it",
        ),
    ),
    Mutation(
        name="what another of one's own ended without counts as had",
        file="routing/changed_rights.py",
        old="                    subscription.had_before = None\n            except",
        new="                    pass\n            except",
        tests=(
            "tests/routing/test_router_rights_again.py::test_what_another_of_ones_own_had_not_taken_as_it_ended_comes_with_the_right",
        ),
    ),
    Mutation(
        name="while something is still offered all counts as had",
        file="routing/changed_rights.py",
        old="        if len(subscription.joining) > 1:\n",
        new="        if not state:\n",
        tests=(
            "tests/routing/test_router_rights_again.py::test_all_that_is_new_comes_though_the_right_goes_again_before_all_is_offered",
        ),
    ),
    Mutation(
        name="what is in hand when a right goes and comes is not noted as due",
        file="routing/changed_rights.py",
        old="                    self._state.out.append(MarkDue(entry.id, subscription.id))",
        new="                    pass",
        tests=(
            "tests/routing/test_router_rights_again.py"
            "::test_what_it_has_locked_when_the_right_goes_is_due_to_it_still[when it is back]",
        ),
    ),
    Mutation(
        name="what was given up with a right comes back with it and a restart, where it had been given back",
        file="routing/lifecycle.py",
        old="            if is_stored and not ended and subscription.id in self._state.subscriptions:\n",
        new="            if not is_stored and not ended:\n",
        tests=(
            "tests/routing/test_router_rights_again.py::test_what_was_given_back_and_given_up_with_a_right_comes_not_even_after_a_restart",
        ),
    ),
    Mutation(
        name="what several of one's own gain with a right while the site is down comes by each",
        file="routing/restore.py",
        old="        if of_topic.some_are_passed_over:\n",
        new="        if not entry:\n",
        tests=(
            "tests/routing/test_router_rights_again.py::test_what_several_of_ones_own_gain_with_a_right_while_the_site_is_down_comes_once",
        ),
    ),
    Mutation(
        name="what one has committed comes to another of its own that was joining in a crash",
        file="routing/restore.py",
        old="            elif own in has_it or came_late:\n",
        new="            elif own in has_it:\n",
        tests=(
            "tests/routing/test_router_rights_again.py::test_what_one_has_committed_does_not_come_to_another_of_its_own_that_was_joining_in_a_crash",
        ),
    ),
    Mutation(
        name="a receipt does not speak of who had it in hand over a crash",
        file="routing/restore.py",
        old="                    self._note_in_time(subscription, entry)",
        new="                    pass",
        tests=(
            "tests/routing/test_router_rights_again.py::test_a_receipt_counts_who_had_it_in_hand_over_changes_of_rights_and_a_crash",
        ),
    ),
    Mutation(
        name="who is still joining leaves what is kept to who began since",
        file="routing/joining.py",
        old=", topic, self._newest_id):",
        new=", topic, 1 << 62):",
        tests=(
            "tests/routing/test_router_gathering.py::test_what_is_kept_comes_once_where_another_of_ones_own_begins_before_all_of_it_is_found",
        ),
    ),
    Mutation(
        name="who subscribes to few topics waits for all who subscribe to very many",
        file="routing/steps.py",
        old="(self.large if task.in_turn or task.taken >= STEPS_AT_FIRST else self.begun)",
        new="self.large",
        tests=(
            "tests/routing/test_router_gathering.py"
            "::test_who_subscribes_to_few_topics_does_not_wait_for_all_who_subscribe_to_very_many",
        ),
    ),
    Mutation(
        name="what is large waits for as long as others begin",
        file="routing/steps.py",
        old="bool(self.large) and not (self._was_large and self.begun)",
        new="not self.begun",
        tests=(
            "tests/routing/test_router_gathering.py::test_what_is_large_goes_on_however_many_others_begin",
        ),
    ),
    Mutation(
        name="what was given back since a right went and came has come late",
        file="routing/changed_rights.py",
        old="        in_time.update(id for id in subscription.in_time if id in entries)",
        new="        assert entries is not None",
        tests=(
            "tests/routing/test_router_rights_again.py"
            "::test_a_receipt_counts_who_gave_it_back_since_a_right_went_and_came",
        ),
    ),
]

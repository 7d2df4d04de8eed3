"""Contract 5: who gets a message, when, how often, in which order."""

from tests.mutants.mutation import Mutation

MUTATIONS = [
    Mutation(
        name="a group goes on while something of it is still in another hand",
        file="routing/groups.py",
        old="        return self.owner is None and not self.out",
        new="        return self.owner is None",
        tests=(
            "tests/routing/test_router_groups.py::test_while_one_is_in_a_pause_nobody_gets_more_of_its_group",
        ),
    ),
    Mutation(
        name="whoever comes takes what waits of a group that is another's",
        file="routing/groups.py",
        old="        return group.waiting if group is not None and group.is_free else None",
        new="        return group.waiting if group is not None else None",
        tests=(
            "tests/routing/test_router_groups.py"
            "::test_whoever_comes_and_goes_a_group_is_worked_on_in_order_by_one_at_a_time",
        ),
    ),
    Mutation(
        name="while one of a group is in a pause the next is handed out",
        file="routing/groups.py",
        old="        group.paused.add(entry.id)\n",
        new="",
        tests=(
            "tests/routing/test_router_groups.py::test_while_one_is_in_a_pause_nobody_gets_more_of_its_group",
        ),
    ),
    Mutation(
        name="a group is remembered for ever",
        file="routing/groups.py",
        old="if len(self._idle) > IDLE_MAX:",
        new="if not self._idle:",
        tests=(
            "tests/routing/test_router_groups.py::test_groups_that_are_idle_are_forgotten_the_oldest_first",
        ),
    ),
    Mutation(
        name="a start forgets whose group it is",
        file="routing/restore.py",
        old="            if entry.flags & GROUPED:\n                self._state.hold_group",
        new="            if not entry.flags:\n                self._state.hold_group",
        tests=("tests/routing/test_router_groups.py::test_what_was_received_stays_and_its_group_with_it",),
    ),
    Mutation(
        name="a group stays with who has left when what that had received of it has ended",
        file="routing/groups.py",
        old="(group.is_ended or not group.owner.attached)",
        new="group.is_ended",
        tests=(
            "tests/routing/test_router_groups.py"
            "::test_what_was_received_holds_its_group_no_longer_once_it_has_ended",
        ),
    ),
    Mutation(
        name="of a group that was kept for who has left nobody is offered the rest",
        file="routing/groups.py",
        old="            group.is_ended = group.is_open = False\n",
        new="            group.is_ended = False\n",
        tests=(
            "tests/routing/test_router_groups.py"
            "::test_what_was_received_holds_its_group_no_longer_once_it_has_ended",
        ),
    ),
    Mutation(
        name="a group leaves a site where one session takes the place of another",
        file="routing/subscription.py",
        old="        self.is_taken_over = True\n",
        new="",
        tests=(
            "tests/routing/federation/test_groups.py"
            "::test_a_group_stays_while_a_session_takes_the_place_of_another",
        ),
    ),
    Mutation(
        name="a subscription of which one session took the place of another is attached for ever",
        file="routing/subscription.py",
        old="            self.is_taken_over = False\n",
        new="",
        tests=(
            "tests/routing/test_router_takers_counted.py::test_who_takes_what_is_counted_whatever_changes",
        ),
    ),
    Mutation(
        name="a group leaves a site that is busy with it",
        file="routing/federation/custody.py",
        old="if entry.flags & GROUPED and not",
        new="if not entry.flags and not",
        tests=(
            "tests/plugins/stomp/test_groups.py"
            "::test_a_group_is_sent_on_to_where_it_is_taken_and_stays_at_a_site_that_takes_it",
        ),
    ),
    Mutation(
        name="a delayed message is offered at once",
        file="routing/publishing.py",
        old="            self._deliveries.hold_back(entry, now)\n            return\n",
        new="            self._deliveries.hold_back(entry, now)\n",
        tests=("tests/routing/test_router_delays.py::test_nobody_gets_it_before_its_time",),
    ),
    Mutation(
        name="what was delayed is kept for nobody who joins",
        file="routing/copy_events.py",
        old="entry.flags & ~DELAYED | (STATED if is_stated else 0)",
        new="entry.flags & ~DELAYED",
        tests=("tests/routing/test_lifecycle.py::test_what_was_delayed_is_as_if_it_came_when_that_ends",),
    ),
    Mutation(
        name="a start forgets the delay of a message",
        file="routing/restore.py",
        old="        if is_delayed:\n",
        new="        if not entry.flags:\n",
        tests=("tests/routing/test_router_delays.py::test_it_outlasts_a_restart",),
    ),
    Mutation(
        name="who subscribed during a delay is taken for one who gave the message back, after a start",
        file="routing/restore.py",
        old="            if mark is None or mark.attempts == NOT_YET:\n",
        new="            if mark is None:\n",
        tests=(
            "tests/routing/test_router_delays.py"
            "::test_who_subscribed_during_the_delay_is_due_to_have_it_also_after_a_restart",
        ),
    ),
    Mutation(
        name="a start forgets who subscribed during a delay",
        file="routing/publishing.py",
        old="if each.options.durable and each.joined_after(entry)]",
        new="if not each.options.durable and each.joined_after(entry)]",
        tests=(
            "tests/routing/test_router_delays.py"
            "::test_who_subscribed_during_the_delay_is_due_to_have_it_also_after_a_restart",
        ),
    ),
    Mutation(
        name="what was delayed and crosses links does not after a restart",
        file="routing/publishing.py",
        old="if entry.flags & CROSSES and entry.flags & GUARANTEED:",
        new="if entry.flags & CROSSES and not entry.flags & GUARANTEED:",
        tests=(
            "tests/daemon/broker/test_federation_restarts.py"
            "::test_what_was_delayed_is_due_to_a_peer_that_is_not_there_after_a_restart",
        ),
    ),
    Mutation(
        name="credit is not counted",
        file="routing/subscription.py",
        old="and len(self.locks) + len(self.received) < self.options.credit",
        new="and True",
        tests=(
            "tests/routing/test_router_delivery.py::test_credit_bounds_what_is_unfinished_and_received_counts",
        ),
    ),
    Mutation(
        name="what was received takes no credit",
        file="routing/subscription.py",
        old="len(self.locks) + len(self.received)",
        new="len(self.locks)",
        tests=(
            "tests/routing/test_router_delivery.py::test_credit_bounds_what_is_unfinished_and_received_counts",
        ),
    ),
    Mutation(
        name="a lock never times out",
        file="routing/delivery.py",
        old="ends_at = now + (",
        new="ends_at = 1e18 + (",
        tests=(
            "tests/routing/test_router_locks.py::test_a_lock_that_times_out_passes_the_message_to_the_next",
        ),
    ),
    Mutation(
        name="a lock ends what was received, too",
        file="routing/acknowledging.py",
        old="                lock.received = True\n",
        new="                lock.received = False\n",
        tests=("tests/routing/test_router_locks.py::test_what_was_received_does_not_time_out",),
    ),
    Mutation(
        name="the count of deliveries is not raised",
        file="routing/delivery.py",
        old="else (failed + 1, True)",
        new="else (failed or 1, True)",
        tests=(
            "tests/routing/test_router_returns.py::test_what_is_given_back_goes_to_the_next_with_its_count",
        ),
    ),
    Mutation(
        name="what was only prefetched has failed",
        file="routing/locks.py",
        old="begun = subscription.reach if lost else 0",
        new="begun = REACH_MAX",
        tests=("tests/routing/test_router_returns.py::test_who_leaves_in_good_order_has_failed_in_nothing",),
    ),
    Mutation(
        name="what waited after a return comes in any order",
        file="routing/timing.py",
        old="for lock in sorted(again, key=standing):",
        new="for lock in reversed(again):",
        tests=("tests/routing/test_router_returns.py::test_what_comes_back_stands_where_it_stood",),
    ),
    Mutation(
        name="mode ONE: a handover that comes again is taken again",
        file="routing/federation/arriving.py",
        old="len(arrival.hops) <= seen.custody",
        new="False",
        tests=(
            "tests/routing/federation/test_homecoming.py::test_what_comes_home_before_its_leaving_is_acknowledged_comes_home_once",
        ),
        seed=3,
    ),
    Mutation(
        name="mode ONE: it is offered here while a peer may have it",
        file="routing/federation/custody.py",
        old="        self._state.crossing.leave(copy, peer.name)\n",
        new="",
        seed=0,
    ),
    Mutation(
        name="mode ONE: a restart forgets that a peer may have it",
        file="routing/federation/federation.py",
        old="            self._crossing.leave(copy, waits_for[0])\n        return not waits_for\n",
        new="            pass\n        return True\n",
        seed=3,
    ),
    Mutation(
        name="mode ONE: what a peer denied is lost",
        file="routing/federation/custody.py",
        old='handed = answered.outcome in ("accepted", "duplicate")',
        new="handed = True",
        tests=(
            "tests/routing/federation/test_order_of_custody.py::test_what_a_peer_would_not_have_waits_where_it_was",
        ),
    ),
    Mutation(
        name="mode ONE goes to every subscription",
        file="routing/lifecycle.py",
        old="            flags |= ONE\n",
        new="            pass\n",
        tests=("tests/routing/test_router_delivery.py::test_a_message_of_mode_one_reaches_one_subscription",),
    ),
    Mutation(
        name="a subscription to ONE gets messages to ALL",
        file="routing/subscription.py",
        old='self.accepts_all = options.accepts != "ONE"',
        new="self.accepts_all = True",
        tests=(
            "tests/routing/test_router_delivery.py::test_a_subscription_takes_part_only_in_the_modes_that_it_accepts",
        ),
    ),
    Mutation(
        name="a durable subscription ends with its session",
        file="routing/subscribing.py",
        old="        if not held.options.durable and len(subscription.members) < 2:\n            self.end",
        new="        if True:\n            self.end",
        tests=(
            "tests/routing/test_router_delivery.py::test_a_durable_subscription_gathers_while_nobody_is_there",
        ),
    ),
    Mutation(
        name="who shares a subscription takes it over",
        file="routing/subscribing.py",
        old="if not (options.shared and subscription.members):",
        new="if True:",
        tests=("tests/routing/test_router_sharing.py::test_each_message_goes_to_one_of_them_in_turn",),
    ),
    Mutation(
        name="those who share a subscription do not take turns",
        file="routing/subscription.py",
        old="                members.append(members.pop(place))\n",
        new="",
        tests=("tests/routing/test_router_sharing.py::test_each_message_goes_to_one_of_them_in_turn",),
    ),
    Mutation(
        name="what one of several had received waits for it",
        file="routing/delivery.py",
        old="        if whole.members:\n            self.locks.hand_again(whole)\n",
        new="",
        tests=(
            "tests/routing/test_router_sharing.py::test_what_one_had_received_when_it_leaves_goes_to_the_others_marked_so",
        ),
    ),
    Mutation(
        name="one of several that leaves ends what they share",
        file="routing/subscribing.py",
        old=" and len(subscription.members) < 2:",
        new=":",
        tests=(
            "tests/routing/test_router_sharing.py::test_one_bound_to_sessions_ends_with_the_last_of_them",
        ),
    ),
    Mutation(
        name="a late subscriber does not get a state message",
        file="routing/subscribing.py",
        old="        self._steps.begin(Joining(state, self._deliveries, subscription, topics), now)",
        new="        pass",
        tests=(
            "tests/routing/test_router_timeouts.py::test_a_state_message_is_offered_to_everyone_who_comes_until_it_is_removed",
        ),
    ),
    Mutation(
        name="a stated timeout never ends",
        file="routing/timing.py",
        old="for entry in self._state.deadlines.expired(now):",
        new="for entry in ():",
        tests=("tests/routing/test_router_timeouts.py::test_what_expires_while_it_waits_is_never_delivered",),
    ),
    Mutation(
        name="what is kept for late subscribers ends with the first ones",
        file="routing/copy_states.py",
        old='    "kept": "kept",\n',
        new='    "kept": "ended",\n',
        tests=("tests/routing/test_lifecycle.py",),
    ),
    Mutation(
        name="whoever gives back what has expired may still finish it",
        file="routing/copy_states.py",
        old='"returned": ("left", -1)',
        new='"returned": ("left", 0)',
        tests=(
            "tests/routing/test_lifecycle.py::"
            "test_whoever_gives_back_what_has_expired_is_not_to_finish_it_any_more",
        ),
    ),
    Mutation(
        name="what has expired goes on to peers",
        file="routing/federation/forwarding.py",
        old="if depth is None or has_timed_out(copy.entry):",
        new="if depth is None:",
        tests=("tests/routing/federation/test_expired.py",),
    ),
    Mutation(
        name="a timeout begins anew with a restart",
        file="daemon/system/clock.py",
        old="self._offset = site_time + max(gone, 0.0) - machine_now",
        new="self._offset = site_time - machine_now",
        tests=("tests/daemon/system/test_clock.py::test_it_goes_on_from_its_mark",),
    ),
    Mutation(
        name="a timeout begins anew at each hop",
        file="routing/federation/arriving.py",
        old="            arrival.timeout_left_s,\n            due,",
        new="            message.timeout_s or arrival.timeout_left_s,\n            due,",
        tests=("tests/daemon/broker/test_federation.py::test_a_timeout_is_counted_down_over_the_hops",),
    ),
    Mutation(
        name="the time before a link is not counted",
        file="daemon/broker/federating.py",
        old="left_s = max(entry.deadline - self._clock.now(), 0.0) if entry.flags & STATED",
        new="left_s = (self._bodies.find(entry.id).message.timeout_s or 0.0) if entry.flags & STATED",
        tests=("tests/daemon/broker/test_federation.py::test_a_timeout_is_counted_down_over_the_hops",),
    ),
    Mutation(
        name="the time before a link's turn is not counted",
        file="routing/link/sender.py",
        old="left_s = max(left_s - (now - waiting.put_at), 0.0)",
        new="left_s = max(left_s, 0.0)",
        tests=(
            "tests/routing/link/test_conversation.py::test_the_time_left_is_counted_down_while_a_copy_waits_and_never_below_nothing",
        ),
    ),
    Mutation(
        name="the time in the waiting room is not counted",
        file="daemon/broker/deferred_copies.py",
        old="arrival.timeout_left_s - (now - one.since)",
        new="arrival.timeout_left_s",
        tests=(
            "tests/daemon/broker/test_deferred_copies.py::test_the_time_that_a_copy_waits_is_counted_down",
        ),
    ),
    Mutation(
        name="a page of a queue ends at what was removed",
        file="routing/queue.py",
        old="            later = islice(lane, bisect_right(lane, id, key=_id), None)\n",
        new="            later = islice(lane, (first := bisect_right(lane, id, key=_id)), first + count)\n",
        tests=("tests/daemon/broker/test_browse.py::test_what_was_removed_between_two_messages_hides_none",),
    ),
    Mutation(
        name="what comes back goes behind what came later",
        file="routing/queue.py",
        old="        elif entry.id < lane[0].id:\n            lane.appendleft(entry)",
        new="        elif entry.id < lane[0].id:\n            lane.append(entry)",
        tests=(
            "tests/routing/test_router_delivery.py::test_a_returned_message_goes_before_those_that_came_after_it",
        ),
    ),
    Mutation(
        name="a Sequence is not waited for",
        file="routing/ordering.py",
        old="if sequence > state.next:",
        new="if False:",
        tests=(
            "tests/routing/test_router_order.py::test_messages_that_come_out_of_order_are_delivered_in_order",
        ),
    ),
    Mutation(
        name="the topics of a pattern share a Sequence",
        file="routing/ordering.py",
        old="        publisher = entry.topic.name, address\n",
        new='        publisher = "", address\n',
        tests=("tests/routing/test_router_order.py::test_each_topic_of_a_pattern_has_its_own_order",),
    ),
    Mutation(
        name="a Sequence that never comes is waited for without an end",
        file="routing/ordering.py",
        old="return next((state.since + WAIT_S for state in self._early.values()), None)",
        new="return None",
        tests=(
            "tests/routing/test_router_order.py::test_a_number_that_never_comes_holds_the_others_up_for_a_short_time_only",
        ),
    ),
    Mutation(
        name="a copy whose timeout has ended goes to a peer whose link comes back",
        file="routing/federation/forwarding.py",
        old="        if has_timed_out(copy.entry):\n            return  # whoever",
        new="        if False:\n            return  # whoever",
        tests=(
            "tests/routing/federation/test_expired.py::"
            "test_it_does_not_go_to_a_peer_whose_link_comes_back_after_its_timeout",
        ),
    ),
    Mutation(
        name="who looks passes over all that has gone from the beginning of what is kept",
        file="routing/queue.py",
        old="        while self._ids[self._first] not in self._by_id:\n",
        new="        while False:\n",
        tests=("tests/routing/test_queue.py::test_what_has_gone_from_an_end_is_not_looked_at",),
    ),
    Mutation(
        name="who looks passes over all that has gone from the end of what is kept",
        file="routing/queue.py",
        old="        while self._ids[-1] not in self._by_id:\n",
        new="        while False:\n",
        tests=("tests/routing/test_queue.py::test_what_has_gone_from_an_end_is_not_looked_at",),
    ),
    Mutation(
        name="what is kept again is behind the first that is",
        file="routing/queue.py",
        old="        self._first = min(self._first, at)\n",
        new="",
        tests=("tests/routing/test_queue.py::test_what_comes_and_goes_in_any_order_is_found_by_its_place",),
    ),
]

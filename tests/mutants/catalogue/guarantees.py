"""Contract 3: what is answered is on disk, and what that promises."""

from tests.mutants.mutation import Mutation

LIFETIME = "tests/daemon/broker/test_lifetime.py::"

MUTATIONS = [
    Mutation(
        name="a copy that was here in this boot is taken for a new one, once it is only on disk",
        file="daemon/store/store.py",
        old="        self._recollection.note(batch.seen)\n",
        new="",
        tests=("tests/daemon/store/test_memory.py::test_smuids_are_recalled_in_whatever_order_they_come",),
    ),
    Mutation(
        name="a processor that is busy passes for a disk that stalls",
        file="daemon/broker/committing.py",
        old=" and preempted == self._preempted()",
        new="",
        tests=(
            "tests/daemon/broker/test_committing.py::"
            "test_a_commit_in_which_the_processor_was_taken_away_says_nothing_of_the_disk",
        ),
    ),
    Mutation(
        name="one damaged row keeps a site from starting",
        file="daemon/store/table.py",
        old="except msgspec.ValidationError:\n                rows = ",
        new="except KeyError:\n                rows = ",
        tests=("tests/daemon/store/test_damage.py::test_nobody_is_told_a_receipt_that_is_damaged",),
    ),
    Mutation(
        name="a message that is damaged in the store is held for ever",
        file="routing/restore.py",
        old="for entry, damage in self._damaged:",
        new="for entry, damage in self._damaged[:0]:",
        tests=(
            "tests/daemon/store/test_damage.py::test_a_message_that_may_be_another_sites_already_is_set_aside",
        ),
    ),
    Mutation(
        name="a mark that is damaged is forgotten whole",
        file="daemon/store/table.py",
        old="if any(self._fields[column].required for column in damaged):",
        new="if damaged:",
        tests=(
            "tests/daemon/store/test_damage.py::test_a_mark_whose_count_is_damaged_still_says_that_it_was_done",
        ),
    ),
    Mutation(
        name="a subscription is unused while nobody can use it",
        file="daemon/store/tables/subscriptions.py",
        old="min(row.used_at + stopped_s, now)",
        new="min(row.used_at, now)",
        tests=(LIFETIME + "test_while_the_site_does_not_run_nobody_leaves_a_subscription_unused",),
    ),
    Mutation(
        name="a subscription is unused while nobody can use it, where there are several stops",
        file="daemon/store/store.py",
        old="self.stopped_s += max(now",
        new="self.stopped_s = max(now",
        tests=(LIFETIME + "test_while_the_site_does_not_run_nobody_leaves_a_subscription_unused",),
    ),
    Mutation(
        name="a subscription that nobody uses stays for ever where the site is stopped now and then",
        file="daemon/store/store.py",
        old="max(now - self.site.clock[0], 0.0)",
        new="now",
        tests=(
            LIFETIME
            + "test_a_subscription_that_nobody_uses_while_the_site_runs_ends_however_often_it_is_stopped",
        ),
    ),
    Mutation(
        name="a copy that was here is forgotten where a clock says that hours have gone",
        file="daemon/store/tables/seen.py",
        old="self._now() - self._stopped_s()",
        new="self._now()",
        tests=(
            "tests/daemon/store/test_memory.py::"
            "test_what_has_been_here_is_remembered_whatever_the_clock_says_of_a_stop",
        ),
    ),
    Mutation(
        name="a Cmuid is forgotten where a clock says that hours have gone",
        file="daemon/store/tables/publications.py",
        old="(after - stopped_s,)",
        new="(after,)",
        tests=(LIFETIME + "test_what_was_published_is_published_once_whatever_the_clock_says_of_a_stop",),
    ),
    Mutation(
        name="a store that is half made is there",
        file="daemon/store/schema.py",
        old='    connection.execute("BEGIN IMMEDIATE")\n',
        new="",
        tests=("tests/daemon/site/test_state_mark.py::test_a_first_start_that_is_cut_short_has_not_begun",),
    ),
    Mutation(
        name="the store waits for no disk (synchronous = OFF)",
        file="daemon/store/store.py",
        old="synchronous = FULL",
        new="synchronous = OFF",
        seed=0,
    ),
    Mutation(
        name="the store syncs at checkpoints only (synchronous = NORMAL)",
        file="daemon/store/store.py",
        old="synchronous = FULL",
        new="synchronous = NORMAL",
        seed=0,
    ),
    Mutation(
        name="answers leave before the transaction is on disk",
        file="daemon/broker/executor.py",
        old="Bury: self._bury,",
        new="Bury: self._bury,\n            decisions.AnswerRequest: self._answer,",
        tests=("tests/daemon/broker/test_broker.py::test_an_answer_means_that_the_message_is_on_disk",),
    ),
    Mutation(
        name="a message that a full disk refuses is answered as accepted",
        file="daemon/broker/telling.py",
        old="frontend.Answer(d.request, error=refusal)",
        new="frontend.Answer(d.request, smuid=d.smuid)",
        tests=(
            "tests/daemon/broker/test_full_store.py::test_with_a_full_disk_publishers_are_refused_and_nothing_is_lost",
        ),
    ),
    Mutation(
        name="an attempt to deliver is not stored",
        file="daemon/store/tables/marks.py",
        old="self._returned.append(",
        new="list().append(",
        tests=("tests/daemon/broker/test_broker.py::test_the_count_of_deliveries_goes_on_through_a_kill",),
    ),
    Mutation(
        name="what was received is not stored",
        file="daemon/store/tables/marks.py",
        old="self._received.append(",
        new="list().append(",
        tests=(
            "tests/daemon/broker/test_broker.py::test_what_was_answered_survives_a_kill_and_what_was_committed_stays_so",
        ),
    ),
    Mutation(
        name="what one of several has finished is not stored",
        file="daemon/store/tables/marks.py",
        old="self._done.append(",
        new="list().append(",
        tests=(
            "tests/daemon/broker/test_broker.py::test_what_one_of_several_has_committed_comes_to_the_others_only_after_a_kill",
        ),
    ),
    Mutation(
        name="a dead letter without room holds up what follows",
        file="daemon/broker/giving_way.py",
        old="return _unbury(router, every, now)",
        new="return Undone()",
        tests=(
            "tests/daemon/broker/test_giving_way.py::test_a_dead_letter_that_finds_no_room_holds_up_nobody_and_is_there_once_there_is_room",
        ),
    ),
    Mutation(
        name="a dead letter without room is forgotten",
        file="daemon/broker/executor.py",
        old="self._burials.hold(kept.burials, now)",
        new="pass",
        tests=(
            "tests/daemon/broker/test_giving_way.py::test_a_dead_letter_that_finds_no_room_holds_up_nobody_and_is_there_once_there_is_room",
        ),
    ),
    Mutation(
        name="a copy that found no room is taken for one that came",
        file="daemon/broker/giving_way.py",
        old="federation.arriving.not_held(stored.entry, answer.arrival, before.get(smuid), now)",
        new="pass",
        tests=(
            "tests/daemon/broker/test_giving_way.py::test_a_copy_that_finds_no_room_stays_the_peers_and_holds_up_nobody[ALL]",
        ),
    ),
    Mutation(
        name="what is committed comes again",
        file="routing/acknowledging.py",
        old='self._lifecycle.finished(lock.entry, subscription, "committed", now, lock.attempt)',
        new="self._deliveries.take_back(lock, 'failed', '', now)",
        tests=("tests/routing/test_router_returns.py::test_what_is_committed_never_comes_again",),
    ),
    Mutation(
        name="what came again as received does not say so",
        file="daemon/broker/telling.py",
        old="received=lock is not None and lock.received",
        new="received=False",
        tests=(
            "tests/daemon/broker/test_broker.py::test_what_was_answered_survives_a_kill_and_what_was_committed_stays_so",
        ),
    ),
    Mutation(
        name="an unguaranteed message is stored",
        file="routing/state.py",
        old="if entry.flags & GUARANTEED:\n            self.out.append(StoreMessage",
        new="if True:\n            self.out.append(StoreMessage",
        tests=("tests/routing/test_router_publishing.py",),
    ),
    Mutation(
        name="unguaranteed messages take what memory they like",
        file="routing/delivery.py",
        old="while state.unguaranteed_bytes > state.settings.unguaranteed_bytes_max:",
        new="while False:",
        tests=(
            "tests/routing/test_router_publishing.py::test_under_pressure_the_oldest_unguaranteed_messages_are_dropped_and_on_record",
        ),
    ),
    Mutation(
        name="whoever acknowledges is done with an unguaranteed message when it comes",
        file="routing/delivery.py",
        old="if not guaranteed and not subscription.acknowledges_all:",
        new="if not guaranteed:",
        tests=(
            "tests/routing/test_router_unguaranteed.py::test_what_a_worker_had_that_left_goes_to_the_next_with_its_count",
        ),
    ),
    Mutation(
        name="what a worker has is dropped like what waits",
        file="routing/state.py",
        old="        self.unguaranteed.pop(entry.id, None)\n\n",
        new="\n",
        tests=(
            "tests/routing/test_router_publishing.py::test_under_pressure_what_a_worker_has_in_hand_is_dropped_last",
        ),
    ),
    Mutation(
        name="a drop is not on record",
        file="routing/delivery.py",
        old='self._end(oldest, holders, "dropped"',
        new='self._end(oldest, holders, "expired"',
        tests=(
            "tests/routing/test_router_publishing.py::test_under_pressure_the_oldest_unguaranteed_messages_are_dropped_and_on_record",
        ),
    ),
    Mutation(
        name="no message is ever a dead letter",
        file="routing/lifecycle.py",
        old="(failed and lock.attempt >= state.settings.max_deliveries)",
        new="False",
        tests=(
            "tests/routing/test_router_returns.py::test_a_message_that_failed_too_often_goes_to_the_dead_letter_topic_with_the_reason",
        ),
    ),
    Mutation(
        name="a dead letter does not say why",
        file="routing/publishing.py",
        old='("Dead-Reason", bury.reason)',
        new='("Dead-Reason", "")',
        tests=(
            "tests/routing/test_router_returns.py::test_a_message_that_failed_too_often_goes_to_the_dead_letter_topic_with_the_reason",
        ),
    ),
    Mutation(
        name="a full queue takes more",
        file="routing/room.py",
        old="return messages >= settings.queue_messages_max or bytes",
        new="return bytes",
        tests=("tests/routing/test_router_publishing.py::test_a_full_queue_refuses_and_loses_nothing",),
    ),
    Mutation(
        name="a file is replaced and its folder not synced",
        file="daemon/system/private_files.py",
        old="        new.unlink(missing_ok=True)\n    sync_directory(path.parent)",
        new="        new.unlink(missing_ok=True)",
        tests=(
            "tests/power/test_disk.py::test_a_file_that_is_replaced_is_the_old_one_or_the_new_one_and_the_new_one_in_the_end",
        ),
    ),
    Mutation(
        name="a file is replaced by what is not synced",
        file="daemon/system/private_files.py",
        old="            file.flush()\n            os.fsync(descriptor)",
        new="            file.flush()",
        tests=(
            "tests/power/test_disk.py::test_a_file_that_is_replaced_is_the_old_one_or_the_new_one_and_the_new_one_in_the_end",
        ),
    ),
    Mutation(
        name="who looks at a message before it is stored takes it for lost",
        file="daemon/broker/browsing.py",
        old=" if each[0].id <= newest]",
        new="]",
        tests=(
            "tests/daemon/broker/test_browse.py::test_what_has_just_been_published_is_not_lost_to_who_looks_before_it_is_stored",
        ),
    ),
    Mutation(
        name="a transaction of STOMP succeeds though what its ACK covers is another's by now",
        file="plugins/stomp/consuming.py",
        old="if strict and (lost := subscription.covered_lost(number)) is not None:",
        new="if strict and (lost := subscription.covered_lost(number)) == number:",
        tests=(
            "tests/plugins/stomp/test_atomic.py::test_what_an_ack_covers_undoes_the_whole_transaction_where_its_lock_was_lost",
        ),
    ),
    Mutation(
        name="a transaction of STOMP succeeds though UNSUBSCRIBE has given back what it acknowledges",
        file="plugins/stomp/consuming.py",
        old="if in_transaction or had_it:",
        new="if had_it:",
        tests=(
            "tests/plugins/stomp/test_atomic.py::test_a_subscription_that_ends_before_commit_undoes_the_acks_of_what_it_held",
            "tests/plugins/stomp/test_atomic.py::test_an_ack_of_what_an_ended_subscription_has_given_back_undoes_the_whole_transaction",
        ),
    ),
    Mutation(
        name="a lock that is stated shorter meanwhile ends with those that began earlier",
        file="routing/delivery.py",
        old="            subscription.locks_cross = True\n",
        new="            pass\n",
        tests=(
            "tests/routing/test_router_locks.py::"
            "test_a_lock_that_is_stated_shorter_meanwhile_ends_before_those_that_began_earlier",
        ),
    ),
    Mutation(
        name="all locks of a busy subscription are looked at for ever, once they last shorter",
        file="routing/subscription.py",
        old="        self.locks_cross = any(earlier > later for earlier, later in pairwise(others))\n",
        new="",
        tests=(
            "tests/routing/test_router_locks.py::"
            "test_all_locks_are_looked_at_only_while_one_ends_before_others_that_began_earlier",
        ),
    ),
    Mutation(
        name="a lock that lasts shorter ends late where another one has just ended",
        file="routing/subscription.py",
        old="        self.locks_cross = any(earlier > later for earlier, later in pairwise(others))\n",
        new="        self.locks_cross = False\n",
        tests=(
            "tests/routing/test_router_locks.py::"
            "test_all_locks_are_looked_at_only_while_one_ends_before_others_that_began_earlier",
        ),
    ),
    Mutation(
        name="what has ended in a pause takes room until that is over",
        file="routing/state.py",
        old="            self._sweep_parked()\n",
        new="            pass\n",
        tests=(
            "tests/routing/test_router_returns.py::"
            "test_what_has_ended_while_it_was_to_come_again_later_takes_no_room",
        ),
    ),
    Mutation(
        name="a sweep of pauses takes what is still to come again",
        file="routing/state.py",
        old="is_known = lock.entry.flags & ONE or",
        new="is_known =",
        tests=(
            "tests/routing/test_router_returns.py::"
            "test_what_has_ended_while_it_was_to_come_again_later_takes_no_room",
        ),
    ),
    Mutation(
        name="a subscription that asks for order remembers publishers without end",
        file="routing/ordering.py",
        old="            self._publishers.popitem(last=False)\n",
        new="            pass\n",
        tests=(
            "tests/routing/test_router_order.py::"
            "test_it_remembers_the_latest_publishers_whatever_is_held_back_of_others",
        ),
    ),
    Mutation(
        name="who is not heard from is remembered before those who publish",
        file="routing/ordering.py",
        old="expected = self._publishers.pop(publisher, 1)",
        new="expected = self._publishers.get(publisher, 1)",
        tests=(
            "tests/routing/test_router_order.py::"
            "test_it_remembers_the_latest_publishers_whatever_is_held_back_of_others",
        ),
    ),
    Mutation(
        name="something of ever more publishers is held back",
        file="routing/ordering.py",
        old="                return self._make_room()\n",
        new="                return []\n",
        tests=(
            "tests/routing/test_router_order.py::"
            "test_of_too_many_publishers_something_is_held_back_and_whoever_waits_longest_waits_no_more",
        ),
    ),
    Mutation(
        name="what has waited for a number of very many publishers goes on at once",
        file="routing/ordering.py",
        old="list(islice(late, RELEASED_MAX))",
        new="list(late)",
        tests=(
            "tests/routing/test_router_order.py::"
            "test_of_many_publishers_what_has_waited_long_enough_goes_on_in_parts",
        ),
    ),
    Mutation(
        name="what has ended while it was held back is waited for",
        file="routing/ordering.py",
        old="waiting = (number for number, entry in state.early.items() if is_on_offer(entry))",
        new="waiting = iter(state.early)",
        tests=(
            "tests/routing/test_router_order.py::"
            "test_what_has_ended_while_it_was_held_back_is_not_waited_for",
        ),
    ),
    Mutation(
        name="a wait for what has ended begins anew",
        file="routing/ordering.py",
        old="default=state.last + 1)",
        new="default=state.next)",
        tests=(
            "tests/routing/test_router_order.py::"
            "test_what_has_ended_while_it_was_held_back_is_not_waited_for",
        ),
    ),
    Mutation(
        name="what has ended while it was held back is kept",
        file="routing/ordering.py",
        old="each for number, each in state.early.items() if is_on_offer(each)}",
        new="each for number, each in state.early.items()}",
        tests=(
            "tests/routing/test_router_order.py::test_what_has_ended_while_it_was_held_back_takes_no_room",
        ),
    ),
    Mutation(
        name="what is still held back of a publisher keeps its place before others that wait longer",
        file="routing/ordering.py",
        old="            self._early.move_to_end(publisher)\n",
        new="            pass\n",
        tests=(
            "tests/routing/test_router_order.py::"
            "test_of_several_publishers_each_is_held_up_for_as_long_as_it_is_to_be",
        ),
    ),
    Mutation(
        name="what is left to one subscriber waits in the queues of the others without end",
        file="routing/lifecycle.py",
        old="        if not entry.flags & ONE:\n            self._wait_no_more(entry)",
        new="        if False:\n            self._wait_no_more(entry)",
        tests=("tests/routing/test_router_returns.py::test_what_is_left_to_another_waits_for_nobody_else",),
    ),
    Mutation(
        name="what has expired and is left to others still waits",
        file="routing/queue.py",
        old="WAITS_NO_MORE: Final = GONE | EXPIRED",
        new="WAITS_NO_MORE: Final = GONE",
        tests=(
            "tests/routing/test_queue.py::test_what_waits_no_more_is_passed_over",
            "tests/routing/test_router_returns.py::test_what_is_left_to_another_waits_for_nobody_else",
        ),
    ),
    Mutation(
        name="what is left to one subscriber is given up by another that may not have it now",
        file="routing/delivery.py",
        old="        if not is_on_offer(entry):\n            return\n        if entry.flags & ONE:",
        new="        if entry.flags & GONE:\n            return\n        if entry.flags & ONE:",
        tests=(
            "tests/routing/test_router_patterns.py::test_what_is_left_to_another_is_not_given_up_with_a_right",
        ),
    ),
]

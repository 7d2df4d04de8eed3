"""Contract 7: what is told of the records of the hop log, in words, trees and pages."""

from tests.mutants.mutation import Mutation

MUTATIONS = [
    Mutation(
        name="a message hangs where it came again, as only later Hops tell that it came before",
        file="routing/trace/arrivals.py",
        old="""level = passed[link]["level"] if level is None else level""",
        new="""level = level or None""",
        tests=(
            "tests/routing/trace/test_journal.py::"
            "test_that_it_came_first_is_told_by_later_hops_where_nothing_tells_how_it_left",
        ),
    ),
    Mutation(
        name="a server has a message first from who had it only from there",
        file="routing/trace/arrivals.py",
        old="first[server] = ways[server][rank]",
        new="first[server] = ways[server][0]",
        tests=(
            "tests/routing/trace/test_journal.py::"
            "test_one_that_comes_again_hangs_where_it_came_first_though_that_record_is_missing",
        ),
    ),
    Mutation(
        name="that it may have come another way before is not said",
        file="routing/trace/arrivals.py",
        old="return NOT_ALONE if any(",
        new="return NOT_ALONE if () == (",
        tests=("tests/routing/trace/test_journal.py::test_another_way_before_that_is_said_to_be_possible",),
    ),
    Mutation(
        name="a copy is still held though its log has ended",
        file="routing/trace/proof.py",
        old=", log_ends=moment(ends_us))",
        new=")",
        tests=(
            "tests/routing/trace/test_proof.py::"
            "test_what_is_held_is_so_at_the_end_of_its_log_for_others_may_know_more",
        ),
    ),
    Mutation(
        name="attempts of days of which no loss is known make the loss of the others less",
        file="routing/trace/report.py",
        old="""f.sum(f.when(is_known, f.col("attempts")))""",
        new="""f.sum(f.col("attempts"))""",
        tests=("tests/routing/trace/test_report.py::test_loss_is_that_of_the_days_of_which_it_is_known",),
    ),
    Mutation(
        name="what comes before the damage of a packed file is believed",
        file="routing/trace/files.py",
        old="""unread = unreadable(session, paths) if session.conf.get(_PASSES_OVER) == "true" else []""",
        new="unread: list[str] = []",
        tests=(
            "tests/routing/trace/test_unreadable.py::"
            "test_files_that_cannot_be_read_to_their_end_are_named_and_all_others_are_read",
        ),
    ),
    Mutation(
        name="a run that has read nothing has succeeded",
        file="routing/trace/command.py",
        old="if not records_read(found):",
        new="if found is None:",
        tests=("tests/routing/trace/test_unreadable.py::test_of_nothing_it_is_not_said_that_it_closes",),
    ),
    Mutation(
        name="a log that may not be read is passed over",
        file="routing/trace/command_line.py",
        old="if not os.access(os.path.join(where, each), os.R_OK):",
        new="if not where:",
        tests=(
            "tests/routing/trace/test_unreadable.py::"
            "test_what_may_not_be_read_is_named_before_spark_is_started",
        ),
    ),
    Mutation(
        name="of a copy that is proven to be lost it is said that nothing is known",
        file="routing/trace/journal.py",
        old="""lost = {copy["server"] for copy in route["copies"] if copy["state"] == "lost"}""",
        new="""lost: set[str] = set()""",
        tests=(
            "tests/routing/trace/test_journal.py::test_what_is_proven_to_be_lost_is_not_said_to_be_unknown",
        ),
    ),
    Mutation(
        name="sub writes what is withdrawn before its turn has come",
        file="plugins/smqp/sub.py",
        old="some = [delivery for delivery in batch if delivery.withdrawn is None]",
        new="some = batch",
        tests=(
            "tests/plugins/smqp/sub/test_withdrawn.py::test_what_is_withdrawn_before_it_is_written_is_not_written_and_does_not_count",
            "tests/plugins/smqp/sub/test_withdrawn.py::test_what_is_withdrawn_while_what_came_with_it_is_committed_is_not_written",
        ),
    ),
    Mutation(
        name="sub commits what is written only in part",
        file="daemon/terminal/output.py",
        old="left = left[os.write(descriptor, left) :]",
        new="left = left[os.write(descriptor, left) * len(left) :]",
        tests=(
            "tests/plugins/smqp/commands/test_output.py::test_what_is_written_only_in_part_is_not_committed_either",
        ),
    ),
    Mutation(
        name="an interrupt of sub cuts a message that it has just begun",
        file="plugins/smqp/standard_output.py",
        old="                if stopped:\n                    return\n",
        new="",
        tests=(
            "tests/plugins/smqp/test_standard_output.py::test_what_is_interrupted_ends_at_the_border_of_the_piece_that_was_begun",
        ),
    ),
    Mutation(
        name="a second signal waits for whoever reads, too",
        file="plugins/smqp/signals.py",
        old="                        output.hurry()\n",
        new="                        pass\n",
        tests=(
            "tests/plugins/smqp/test_standard_output.py::test_a_second_signal_ends_at_once_what_a_first_one_leaves_time",
        ),
    ),
    Mutation(
        name="what a session refuses as it is to end is no lost connection",
        file="plugins/smqp/client.py",
        old="        if refusal.code != Refusal.NOT_AVAILABLE:\n            raise\n        raise",
        new="        raise\n        raise",
        tests=(
            "tests/plugins/smqp/sub/test_sub.py::test_sub_goes_on_over_another_connection_where_its_session_is_to_end",
            "tests/plugins/smqp/test_pub.py::test_a_stored_message_is_named_where_its_session_is_to_end_before_its_receipt",
        ),
    ),
    Mutation(
        name="sub takes back a subscription that another has meanwhile",
        file="plugins/smqp/sub.py",
        old="if wanted == credit or client.has_ended:",
        new="if wanted == credit:",
        tests=(
            "tests/plugins/smqp/sub/test_sub.py::test_a_subscription_that_another_has_meanwhile_is_not_taken_back",
        ),
    ),
    Mutation(
        name="a server that takes a large message slowly is called silent",
        file="plugins/smqp/connection.py",
        old="await send_in_parts(self._stream, data, self._is_alive)",
        new="await self._stream.send_all(data)",
        tests=(
            "tests/plugins/smqp/test_connection.py::test_a_server_that_takes_a_large_message_slowly_is_not_silent",
        ),
    ),
    Mutation(
        name="a server whose large message comes slowly is called silent",
        file="plugins/smqp/connection.py",
        old="            self._is_alive()\n            self._frames.feed",
        new="            self._frames.feed",
        tests=(
            "tests/plugins/smqp/test_connection.py::test_a_server_whose_large_message_comes_slowly_is_not_silent",
        ),
    ),
    Mutation(
        name="pub does not name what is stored after a line that is refused",
        file="plugins/smqp/pub.py",
        old="        results.failed(number, error)\n        return\n    if",
        new="        results.failed(number, error)\n        raise\n    if",
        tests=("tests/plugins/smqp/test_pub.py::test_a_refused_line_is_named_and_so_is_all_that_is_stored",),
    ),
    Mutation(
        name="an interrupt of pub leaves what is stored unsaid where the output has failed",
        file="plugins/smqp/pub.py",
        old="                    results.tell_unwritten()\n                    raise\n",
        new="                    raise\n",
        tests=(
            "tests/plugins/smqp/test_pub.py::test_an_interrupt_leaves_on_stderr_what_is_stored_and_could_not_be_written",
        ),
    ),
    Mutation(
        name="a signal leaves unsaid that a site was replaced, and where the old one is",
        file="daemon/cli/restore.py",
        old="        ignore_signals()  # from here",
        new="        # from here",
        tests=(
            "tests/daemon/cli/backups/test_restore.py::test_a_signal_once_the_sites_change_places_does_not_keep_that_from_being_done_and_said",
        ),
    ),
    Mutation(
        name="of a message that a peer was sent and has not answered it is not said when",
        file="routing/link/sender.py",
        old="                return one.unit.attempt, one.sent_us\n",
        new="                return 0, 0\n",
        tests=("tests/daemon/control/test_why.py::TestWhy",),
    ),
    Mutation(
        name="of a message that has come home it is not said who has still to answer for it",
        file="routing/federation/removing.py",
        old="(*self._state.crossing.leaving.get(smuid, ()), self.entry_id(smuid) or 0)",
        new="[self.entry_id(smuid) or 0]",
        tests=(
            "tests/routing/federation/test_homecoming.py::test_of_what_comes_home_each_peer_that_has_not_answered_is_known",
        ),
    ),
    Mutation(
        name="what was removed is offered once the peer that it was handed to would not have it",
        file="routing/federation/removing.py",
        old="for id in self.entry_ids(smuid)]",
        new="for id in [self.entry_id(smuid) or 0]]",
        tests=(
            "tests/routing/federation/test_homecoming.py::test_a_message_that_has_come_home_is_removed_though_its_leaving_is_not_answered",
        ),
    ),
    Mutation(
        name="of what was sent before the link was lost it is not said that the peer may have it",
        file="daemon/broker/federating.py",
        old="one.may_have or attempt > 0",
        new="attempt > 0",
        tests=("tests/daemon/control/test_why.py::TestWhy",),
    ),
    Mutation(
        name="of what a peer was sent before the link was lost nothing is known once the link is back",
        file="routing/federation/forwarding.py",
        old="        return earlier > 0, earlier\n",
        new="        return False, 0\n",
        tests=("tests/routing/federation/test_unanswered.py",),
    ),
    Mutation(
        name="of what a peer was sent before nothing is known while it waits for its turn",
        file="routing/federation/forwarding.py",
        old="known is None or not known.up or copy.entry.id in self._put_off.get(peer, ())",
        new="known is None or not known.up",
        tests=("tests/routing/federation/test_destinations_order.py",),
    ),
    Mutation(
        name="a peer may have what it was never sent, as it has answered for less",
        file="routing/federation/forwarding.py",
        old="if forward.unacknowledged <= len(copy.kept_back.get(peer, ())):",
        new="if not forward.attempts:",
        tests=("tests/routing/federation/test_unanswered.py",),
    ),
    Mutation(
        name="who waits for a link is not told by why",
        file="daemon/cli/why.py",
        old="report = with_awaited(report, _awaited(state, smuid))",
        new="report = with_awaited(report, [])",
        tests=(
            "tests/daemon/control/test_asking_sites.py::test_the_commands_tell_of_sites_that_are_no_neighbours",
        ),
    ),
    Mutation(
        name="bench counts what is of another run",
        file="plugins/smqp/bench.py",
        old="return self.zero_ns + since_ns if run == self.run else None",
        new="return self.zero_ns + since_ns",
        tests=("tests/plugins/smqp/test_bench.py::test_two_runs_on_one_topic_count_each_their_own",),
    ),
]

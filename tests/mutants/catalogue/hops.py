"""Contract 7: the hop log."""

from tests.mutants.mutation import Mutation

MUTATIONS = [
    Mutation(
        name="a heartbeat counts what is decided and not on record yet",
        file="daemon/hops/service.py",
        old="                    log.owes_heartbeat = True\n                if idle():",
        new="                    log.beat(held())\n                if idle():",
        tests=(
            "tests/daemon/hops/test_service.py"
            "::test_while_there_is_a_batch_a_heartbeat_is_left_to_who_has_its_decisions_on_record",
        ),
        seed=7,
        profile="ways",
    ),
    Mutation(
        name="a site tells of a message before it has written what it knows of it",
        file="daemon/hops/writer.py",
        old="            await self._flushes.wait()",
        new="            break",
        tests=("tests/daemon/control/test_why.py::TestWhy",),
    ),
    Mutation(
        name="a site whose log cannot be written tells its peers that it never had a message",
        file="daemon/control/enquiring.py",
        old="is_behind=not is_written)",
        new="is_behind=False)",
        tests=("tests/daemon/control/test_why.py::TestWhy",),
    ),
    Mutation(
        name="a log that a full disk keeps from being written is all that there is to know",
        file="daemon/hops/examine.py",
        old="if last is not None and is_behind(last) and",
        new="if last is not None and last is None and",
        tests=("tests/daemon/cli/test_why.py",),
    ),
    Mutation(
        name="a log whose records wait for the disk is not behind",
        file="daemon/hops/writer.py",
        old="            self.is_behind = True",
        new="            pass",
        tests=("tests/daemon/hops/test_writer_on_a_bad_disk.py",),
    ),
    Mutation(
        name="all that a daemon wrote before it was killed has come true",
        file="daemon/hops/examine.py",
        old='            verdict += f" {_NOT_CLOSED}"',
        new="            pass",
        tests=("tests/daemon/cli/test_why.py",),
    ),
    Mutation(
        name="a file of the hop log that cannot be closed ends the stop of a site",
        file="daemon/hops/open_file.py",
        old="            with _left_to_the_next_start():\n                close_file(finished)",
        new="            close_file(finished)",
        tests=("tests/daemon/hops/test_writer_on_a_bad_disk.py",),
    ),
    Mutation(
        name="a file of the hop log without records that cannot be removed ends the stop of a site",
        file="daemon/hops/open_file.py",
        old="            with _left_to_the_next_start():\n                self._drop()",
        new="            self._drop()",
        tests=("tests/daemon/hops/test_writer_on_a_bad_disk.py",),
    ),
    Mutation(
        name="tables without a name are made at the root of the machine",
        file="routing/trace/command_line.py",
        old="    if not out.strip():",
        new="    if out is None:",
        tests=(
            "tests/routing/trace/test_commands.py::"
            "test_tables_without_a_name_are_not_made_at_the_root_of_the_machine",
        ),
    ),
    Mutation(
        name="of a message nothing is unknown though a site does not know what became of it",
        file="daemon/control/journey.py",
        old='if findings.fate is not None and findings.fate.state == "unknown":',
        new="if findings.fate is None:",
        tests=("tests/daemon/hops/test_journey.py",),
    ),
    Mutation(
        name="a way over thousands of sites is nested as deep",
        file="daemon/control/journey.py",
        old="other if depth + 1 < NESTED_MAX else above",
        new="other",
        tests=("tests/daemon/hops/test_journey.py",),
    ),
    Mutation(
        name="the age of a file of the hop log is what the clock said, whatever stands before it",
        file="daemon/hops/retention.py",
        old="max(newest_s, file.written_s)",
        new="file.written_s",
        tests=("tests/daemon/hops/test_retention.py",),
    ),
    Mutation(
        name="a file of the hop log that could not be closed stays, and what is around it goes",
        file="daemon/hops/retention.py",
        old="        if not (too_old or",
        new="        if file.is_open or not (too_old or",
        tests=("tests/daemon/hops/test_retention.py",),
    ),
    Mutation(
        name="what a start closes is as new as the start",
        file="daemon/hops/recovery.py",
        old="        os.utime(opened.fileno(), ns=(status.st_atime_ns, status.st_mtime_ns))\n",
        new="",
        tests=("tests/daemon/hops/test_writer.py::test_what_a_start_closes_is_as_old_as_it_was",),
    ),
    Mutation(
        name="a file of the hop log is kept for as long as the clock was ahead",
        file="daemon/hops/retention.py",
        old="is_to_come = file.written_s > now_s",
        new="is_to_come = False",
        tests=("tests/daemon/hops/test_retention.py",),
    ),
    Mutation(
        name="a directory of the hop log that changes as it is listed is listed once",
        file="daemon/hops/files.py",
        old="if names == {file.path.name for file in found}:",
        new="if found:",
        tests=("tests/daemon/hops/test_reader.py",),
    ),
    Mutation(
        name="what is deleted for its age while a log is read is missing in it",
        file="daemon/hops/reader.py",
        old="self.gaps = gaps(self._still_kept(files), held)",
        new="self.gaps = gaps(files, held)",
        tests=("tests/daemon/hops/test_reader.py",),
    ),
    Mutation(
        name="an old file that could not be closed is passed over, and so missing",
        file="daemon/hops/reader.py",
        old="if at >= first or file.is_open)",
        new="if at >= first)",
        tests=("tests/daemon/hops/test_reader.py",),
    ),
    Mutation(
        name="of a line that names a message and cannot be read `why` takes no notice",
        file="daemon/hops/examine.py",
        old="sum(_matters(number, records) for number in reader.unreadable)",
        new="0",
        tests=("tests/daemon/hops/test_coverage.py",),
    ),
    Mutation(
        name="a log that ends in the middle of a record lacks nothing",
        file="daemon/hops/examine.py",
        old="is_cut_off = has_ended and",
        new="is_cut_off = False and",
        tests=("tests/daemon/hops/test_coverage.py",),
    ),
    Mutation(
        name="a file of long ago that is cut off is the end of the log",
        file="daemon/hops/examine.py",
        old="has_ended and reader.is_cut_off and",
        new="has_ended and reader.unread.torn > 0 and",
        tests=("tests/daemon/hops/test_coverage.py",),
    ),
    Mutation(
        name="a file of the hop log is closed without a sync",
        file="daemon/hops/open_file.py",
        old="        os.fsync(finished.descriptor)",
        new="        pass",
        tests=("tests/power/test_disk.py::test_a_closed_file_of_a_hop_log_is_there_and_whole",),
        seed=0,
    ),
    Mutation(
        name="records of what did not come true stay",
        file="daemon/hops/recovery.py",
        old='if record.record > true_until or not line.endswith(b"\\n"):',
        new='if not line.endswith(b"\\n"):',
        tests=(
            "tests/daemon/hops/test_writer.py::test_after_a_kill_what_the_store_did_not_commit_is_cut_away",
        ),
    ),
    Mutation(
        name="a torn line is left in the log",
        file="daemon/hops/recovery.py",
        old="opened.truncate(part.size_bytes)",
        new="pass",
        tests=(
            "tests/daemon/hops/test_writer.py::test_a_torn_last_line_is_cut_away_even_where_the_store_committed_it",
        ),
    ),
    Mutation(
        name="a file that a start closes is not synced",
        file="daemon/hops/recovery.py",
        old="os.fsync(opened.fileno())",
        new="pass",
        tests=("tests/power/test_disk.py::test_a_closed_file_of_a_hop_log_is_there_and_whole",),
    ),
    Mutation(
        name="a directory that a start makes is not synced",
        file="daemon/system/private_files.py",
        old="        sync_directory(made.parent)",
        new="        pass",
        tests=("tests/power/test_disk.py",),
    ),
    Mutation(
        name="the first record of a boot does not name the last of the boot before",
        file="daemon/hops/writer.py",
        old="gathered[0].previous = self._start",
        new="pass",
        tests=(
            "tests/daemon/hops/test_writer.py::test_the_first_record_of_a_boot_and_no_other_names_the_last_of_the_boot_before",
        ),
    ),
    Mutation(
        name="records of a failed transaction stay",
        file="daemon/hops/writer.py",
        old="self._gathered = self._take_confirmed()\n        self._tell",
        new="self._tell",
        tests=("tests/daemon/hops/test_writer.py::test_a_commit_that_failed_leaves_no_record_of_its_batch",),
    ),
    Mutation(
        name="a quiet log has no heartbeat",
        file="daemon/hops/service.py",
        old="                    log.owes_heartbeat = True\n",
        new="",
        tests=(
            "tests/daemon/hops/test_service.py::test_a_heartbeat_opens_the_log_and_one_a_minute_says_what_is_held",
        ),
    ),
    Mutation(
        name="a commit has no final record",
        file="routing/lifecycle.py",
        old="final=ended, reason=reason",
        new="reason=reason",
        tests=(
            "tests/routing/test_router_machine.py",
            "tests/daemon/broker/test_broker.py::test_after_a_kill_the_hop_log_has_no_gap_and_ends_each_copy_once",
        ),
    ),
    Mutation(
        name="an expiry has no record",
        file="routing/lifecycle.py",
        old="self._state.out.append(Record(event, entry, final=True, reason=reason))",
        new="pass",
        tests=(
            "tests/routing/test_router_machine.py",
            "tests/routing/test_router_timeouts.py",
        ),
    ),
    Mutation(
        name="a duplicate has no record",
        file="routing/federation/arriving.py",
        old="        self._state.out.append(\n            Refused(\n                outcome,",
        new="        list().append(\n            Refused(\n                outcome,",
        tests=("tests/routing/federation/test_turned_away.py::test_a_copy_that_comes_again_is_a_duplicate",),
    ),
    Mutation(
        name="the open file of the hop log is deleted for its age",
        file="daemon/hops/retention.py",
        old="files[: closed + 1]",
        new="files",
        tests=("tests/daemon/hops/test_retention.py::test_the_open_file_is_never_deleted",),
    ),
    Mutation(
        name="the acknowledgement of a forward has no stamps of the peer",
        file="daemon/broker/recording.py",
        old='fields["peer_received_us"] = answered.peer_received_us',
        new="pass",
        tests=("tests/daemon/broker/test_federation.py::test_a_message_crosses_a_link_and_its_copies_end",),
    ),
    Mutation(
        name="the median clock is that of all federations",
        file="routing/trace/clockfit.py",
        old="        middle = median(offsets.values())",
        new="        middle = median([*offsets.values(), *(ahead_us for ahead_us, _ in answer.values())])",
        tests=(
            "tests/routing/trace/test_simulated_logs.py::test_of_federations_that_never_meet_the_same_is_said_together_as_of_each_alone",
        ),
    ),
    Mutation(
        name="any crossing of a link stands for each",
        file="routing/trace/coded.py",
        old="return f.when(~unnumbered, f.greatest(f.abs(_crossing(level)), f.lit(1)))",
        new="return f.lit(1)",
        tests=("tests/routing/trace/test_suspects.py::test_a_copy_is_lost_where_that_is_proven_alone",),
    ),
    Mutation(
        name="neighbours that disagree leave no doubt about a clock",
        file="routing/trace/epochs.py",
        old="max(run.doubt_us, *(abs(value - each) for each in told[number])),",
        new="run.doubt_us,",
        tests=(
            "tests/routing/trace/test_epochs.py::"
            "test_of_one_whose_neighbours_saw_it_before_and_after_it_was_set_a_little_the_doubt_holds_both",
        ),
    ),
    Mutation(
        name="a server is said to hold another number by the first and last beginnings and ends alone",
        file="routing/trace/balance.py",
        old="""    if found.where("verdict = 'differs'").isEmpty():
""",
        new="""    if found is not None:
""",
        tests=(
            "tests/routing/trace/test_promises.py::"
            "test_a_copy_that_begins_again_is_held_at_a_heartbeat_as_often_as_it_may_be",
        ),
    ),
    Mutation(
        name="what comes again with more depth counts as begun, whether it had ended or not",
        file="routing/trace/balance.py",
        old="    begun = f.when(begins | (widens & had_ended), 1).otherwise(0)\n",
        new="    begun = f.when(begins | widens, 1).otherwise(0)\n",
        tests=(
            "tests/routing/trace/test_promises.py::"
            "test_a_copy_that_begins_again_is_held_at_a_heartbeat_as_often_as_it_may_be",
        ),
    ),
    Mutation(
        name="a peer that would not take a message is said to have it",
        file="routing/fate.py",
        old="taken = [record for record in answers if record.outcome in HAD]",
        new="taken = answers",
        tests=("tests/routing/test_fate.py::test_only_those_who_have_taken_it_are_said_to_have_it",),
    ),
    Mutation(
        name="a duplicate is told as a message that was never taken",
        file="routing/fate.py",
        old='    if again:\n        return "unknown"',
        new='    if not again:\n        return "unknown"',
        tests=("tests/routing/test_fate.py::test_the_verdict_says_what_the_records_say",),
    ),
    Mutation(
        name="a message that came while the clock was behind was never here",
        file="daemon/hops/reader.py",
        old="behind_s += leap_s if leap_s > LEAP_S else 0.0",
        new="behind_s += 0.0",
        tests=("tests/daemon/hops/test_coverage.py::test_what_came_while_the_clock_was_behind_is_found",),
    ),
    Mutation(
        name="boots that follow later ones are looked for from word to word alone",
        file="routing/trace/coverage.py",
        old=' | (f.col("first_boot") < f.col("last_boot"))',
        new="",
        tests=("tests/routing/trace/test_suspects.py::test_a_copy_is_lost_where_that_is_proven_alone",),
    ),
    Mutation(
        name="a copy is lost between two others in whatever order their records are",
        file="routing/trace/brackets.py",
        old='where("before < after")',
        new='where("before is not null and after is not null")',
        tests=("tests/routing/trace/test_suspects.py::test_a_copy_is_lost_where_that_is_proven_alone",),
    ),
    Mutation(
        name="a clock that was behind hides that a message was here before the log begins",
        file="daemon/hops/examine.py",
        old="if born_us < first.time_us + CLOCK_DOUBT_S * 1_000_000:",
        new="if born_us < first.time_us:",
        tests=(
            "tests/daemon/hops/test_coverage.py::"
            "test_where_older_records_are_no_longer_kept_a_clock_that_was_behind_may_hide_that_it_was_here",
        ),
    ),
    Mutation(
        name="who turned away what was removed never had it, whatever of its log was read",
        file="routing/trace/facts.py",
        old="only_turned_away() & ~unsure,",
        new="only_turned_away(),",
        tests=(
            "tests/routing/trace/test_promises.py::"
            "test_who_turned_away_what_was_removed_may_have_had_it_in_records_that_were_not_read",
        ),
    ),
    Mutation(
        name="a clock that was set back cuts no receipt short",
        file="routing/trace/custody.py",
        old="sorted(jumps.set_back(records, origins))",
        new="[]",
        tests=("tests/routing/trace/test_promises.py::test_a_receipt_is_held_to_what_it_was_asked_for",),
    ),
    Mutation(
        name="a clock is seen to be set back in less than two minutes",
        file="routing/trace/routes.py",
        old="lasts_us * IN_TIME_SHARE + SILENCE_US_MAX",
        new="lasts_us * IN_TIME_SHARE",
        tests=("tests/routing/trace/test_promises.py::test_a_receipt_is_held_to_what_it_was_asked_for",),
    ),
]

"""Contract 7: what the trace jobs say of others is proven."""

from tests.mutants.mutation import Mutation

MUTATIONS = [
    Mutation(
        name="a number that an earlier run has read tells a record",
        file="routing/trace/ingest.py",
        old='.join(before, [*identity, "content"], "left_anti")',
        new='.join(before, identity, "left_anti")',
        tests=(
            "tests/routing/trace/test_late_logs.py::"
            "test_the_records_of_a_server_that_numbers_anew_are_all_read_in_whatever_runs",
        ),
    ),
    Mutation(
        name="answers of a sender that numbers anew are in the order of their numbers",
        file="routing/trace/brackets.py",
        old='answers.join(broadcast(twice.select(f.col("server").alias("from"))), "from", "left_anti")',
        new="answers",
        tests=("tests/routing/trace/test_suspects.py::test_a_copy_is_lost_where_that_is_proven_alone",),
    ),
    Mutation(
        name="a copy that a receipt counts is lost",
        file="routing/trace/brackets.py",
        old='.where("x > had")',
        new='.where("x < 0")',
        tests=("tests/routing/trace/test_suspects.py::test_a_copy_is_lost_where_that_is_proven_alone",),
    ),
    Mutation(
        name="a site that is restored again gives the boot numbers of the one that it replaces",
        file="daemon/cli/restore.py",
        old="_state_of(site) / STORE if is_there else None)",
        new="None)",
        tests=(
            "tests/daemon/cli/backups/test_restore.py"
            "::test_a_site_that_was_restored_a_moment_ago_and_is_restored_again_begins_beyond_it",
        ),
    ),
    Mutation(
        name="a site that is made of a backup gives numbers that were given since",
        file="daemon/store/backup.py",
        old="max(last_record + iif(last_record > ?4, ?5, 1), ?4)",
        new="max(last_record, ?5)",
        tests=(
            "tests/daemon/store/test_copied_numbers.py::"
            "test_nobody_who_goes_on_with_a_copy_gives_a_number_again",
        ),
    ),
    Mutation(
        name="a route is complete though who sent a copy on is not known to have had it",
        file="routing/trace/routes.py",
        old='f.concat("unsure", silent, unseen)',
        new='f.concat("unsure", silent)',
        tests=(
            "tests/routing/trace/test_fetched_early.py::"
            "test_whoever_sent_a_copy_has_had_it_and_is_missing_where_no_log_tells_of_that",
        ),
    ),
    Mutation(
        name="a receipt is wrong though copies that it may count were still held as the log ends",
        file="routing/trace/custody.py",
        old='f.col("settled") & (f.col("x") > f.col("had"))',
        new='(f.col("x") > f.col("had"))',
        tests=(
            "tests/routing/trace/test_fetched_early.py::"
            "test_a_receipt_is_not_wrong_while_more_may_have_come_of_a_copy",
        ),
    ),
    Mutation(
        name="a copy came with more depth after its end, and nothing more was to become of it",
        file="routing/trace/ends.py",
        old="& ~f.coalesce(widened_since, f.lit(False))",
        new="",
        tests=(
            "tests/routing/trace/test_fetched_early.py::"
            "test_a_receipt_is_not_wrong_while_more_may_have_come_of_a_copy",
        ),
    ),
    Mutation(
        name="a copy has looped though the log of its sender ends before that is answered",
        file="routing/trace/anomalies.py",
        old='known = hop["sent_logged"] & f.array_contains',
        new="known = f.array_contains",
        tests=(
            "tests/routing/trace/test_fetched_early.py::"
            "test_a_copy_that_came_back_has_looped_only_where_the_log_of_its_sender_goes_on",
        ),
    ),
    Mutation(
        name="one crossing of a link that its sender has logged stands for all",
        file="routing/trace/custody.py",
        old='link & other["sent_logged"] & (_crossing(other) == _crossing(hop))',
        new='link & other["sent_logged"]',
        tests=(
            "tests/routing/trace/test_fetched_early.py::"
            "test_who_may_have_had_a_message_back_has_made_no_second_custodian",
        ),
    ),
    Mutation(
        name="the two lives of a server that numbers anew tell that its clock was set",
        file="routing/trace/coverage.py",
        old='records.join(broadcast(twice), "server", "left_anti")',
        new="records",
        tests=(
            "tests/routing/trace/test_jumps.py::"
            "test_of_a_server_that_numbers_anew_no_record_tells_that_its_clock_was_set",
        ),
    ),
    Mutation(
        name="what may be answered after the end of a log was not answered",
        file="routing/trace/links.py",
        old='f.bit_count(f.col("silent").bitwiseAND(answered_bit - 1))',
        new='f.bit_count(f.col("silent"))',
        tests=(
            "tests/routing/trace/test_lost_on_links.py::"
            "test_an_attempt_that_came_is_unanswered_where_a_later_one_was_answered",
        ),
    ),
    Mutation(
        name="whose record it is that tells of a copy is not minded",
        file="routing/trace/slots.py",
        old="f.when(by_itself, OWN_FIRST).otherwise(0)",
        new="f.when(by_itself, 0).otherwise(0)",
        tests=(
            "tests/routing/trace/test_whose_words.py::test_whether_a_copy_has_a_guarantee_its_own_server_says",
        ),
    ),
    Mutation(
        name="any site's log says what a message was",
        file="routing/trace/routes.py",
        old='f.col("told_by_itself") & (f.col("server") == _origin())',
        new='f.col("told_by_itself")',
        tests=(
            "tests/routing/trace/test_whose_words.py::"
            "test_a_broadcast_stays_one_though_a_site_calls_it_a_message_for_one",
        ),
    ),
    Mutation(
        name="any site's log says which receipt was sent",
        file="routing/trace/routes.py",
        old='*(f.when(by_origin, said[name]).alias(name) for name in ("asked", "receipt_x", "receipt_y"))',
        new='*(said[name].alias(name) for name in ("asked", "receipt_x", "receipt_y"))',
        tests=("tests/routing/trace/test_whose_words.py::test_a_receipt_is_what_its_origin_has_sent",),
    ),
    Mutation(
        name="from one heartbeat to the next a site always runs as long as usual",
        file="routing/trace/overdue.py",
        old='f.when(f.col("since_us") > 0, least_us).otherwise(0)',
        new='f.when(f.col("since_us") > 0, f.col("usual_us")).otherwise(0)',
        tests=(
            "tests/routing/trace/test_suspects.py::"
            "test_a_copy_is_stuck_where_its_server_ran_on_beyond_its_timeout_alone",
        ),
    ),
    Mutation(
        name="of a copy it is enough that its own log tells how it came",
        file="routing/trace/custody.py",
        old="return whole & brought & (f.size(f.array_except(_links(came), _links(sent))) == 0)",
        new="return whole & brought",
        tests=(
            "tests/routing/trace/test_whose_words.py::test_a_copy_that_nobody_sent_makes_no_receipt_wrong",
        ),
    ),
    Mutation(
        name="what times out ends at once",
        file="routing/trace/overdue.py",
        old="f.lit(MARGIN_US) + lasts_us / LATE_SHARE",
        new="f.lit(MARGIN_US) + lasts_us * 0",
        tests=(
            "tests/routing/trace/test_suspects.py::"
            "test_a_copy_is_stuck_where_its_server_ran_on_beyond_its_timeout_alone",
        ),
    ),
    Mutation(
        name="a copy that is home again before its second leaving is answered has left",
        file="routing/trace/homecoming.py",
        old='is_forward & (f.col("crossing") <= times_left)',
        new="f.lit(False)",
        tests=(
            "tests/routing/trace/test_promises.py::"
            "test_what_left_twice_and_is_home_before_the_second_is_answered_is_held",
        ),
    ),
    Mutation(
        name="a copy that left for a second site is here since the first answers later",
        file="routing/trace/homecoming.py",
        old='times_crossed("home", "server", "peer")',
        new='f.size("home")',
        tests=(
            "tests/routing/trace/test_promises.py::"
            "test_what_ended_at_home_has_ended_though_the_answer_to_its_leaving_comes_later",
        ),
    ),
    Mutation(
        name="why says of what is home again, where records are missing, that it has left",
        file="routing/fate.py",
        old="return all(_is_leaving_before(begins[-1], end) for end in since)",
        new="return not since",
        tests=(
            "tests/routing/test_fate.py::"
            "test_by_which_way_it_left_tells_what_came_home_where_records_are_missing",
        ),
    ),
    Mutation(
        name="why says of what was read at home that it is held, since its leaving is answered later",
        file="routing/fate.py",
        old="return end.crossing <= list(pairwise",
        new="return end.crossing > 0 or 0 <= list(pairwise",
        tests=(
            "tests/routing/test_fate.py::"
            "test_what_ended_at_home_has_ended_though_the_answer_to_its_leaving_comes_later",
        ),
    ),
    Mutation(
        name="a clock that others move was before as far ahead as one neighbour alone had told",
        file="routing/trace/clockfit.py",
        old=" and not _is_moved(clock, segments[name], others.get(name, 0))",
        new="",
        tests=(
            "tests/routing/trace/test_clockfit.py::"
            "test_a_stretch_of_a_clock_that_others_move_is_unknown_where_these_do_not_tell_of_it",
        ),
    ),
    Mutation(
        name="others tell that the clock at one end of a torn link was set",
        file="routing/trace/jumps.py",
        old="others = 0 if clock.is_torn else clock.others",
        new="others = clock.others",
        tests=(
            "tests/routing/trace/test_jumps.py::"
            "test_a_jump_is_where_a_clock_goes_on_elsewhere_and_not_where_it_is_known_again",
        ),
    ),
]

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
]

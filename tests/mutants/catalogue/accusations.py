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
]

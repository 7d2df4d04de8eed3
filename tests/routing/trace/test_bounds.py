"""What one message may do to a job."""

from typing import Any

from tests.support.crowded import HUGE, SMALL, SMALL_HOPS, crowded_records, nested_sizes


def test_a_message_with_five_thousand_hops_is_cut_and_others_are_whole(spark: Any) -> None:
    found = nested_sizes(crowded_records(spark, 5_000), most=500)
    kept, truncated = found[HUGE]
    assert truncated
    assert 0 < kept <= 500
    assert found[SMALL] == (SMALL_HOPS, False)

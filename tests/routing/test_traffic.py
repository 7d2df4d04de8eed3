"""What is counted is added up, whatever it is."""

from daemon.operating.overview import Totals
from daemon.operating.topics import TopicSummary
from routing.traffic import COUNTERS, TOPIC_COUNTERS, Traffic


def traffic(first: int) -> Traffic:
    """With another count of each."""
    found = Traffic()
    for number, name in enumerate(COUNTERS, start=first):
        setattr(found, name, number)
    return found


def test_each_count_is_added_to_its_like() -> None:
    totals = Totals()
    totals.add(traffic(1))
    totals.add_all([traffic(10), traffic(100)])
    assert [getattr(totals, name) for name in COUNTERS] == [3 * n + 111 for n in range(len(COUNTERS))]
    totals.add_all([])
    assert totals.came == 111


def test_what_has_a_metric_of_topics_is_told_of_each_topic_in_the_same_order() -> None:
    told = [name for name in TopicSummary.__struct_fields__ if name in COUNTERS]
    assert told == list(TOPIC_COUNTERS)

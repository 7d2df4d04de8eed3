"""Listing topics for an account, however many there are: others run meanwhile."""

from collections.abc import Callable
from contextlib import aclosing
from heapq import merge

from daemon.system.stepping import in_steps
from routing.view import SiteView, TopicInfo


async def list_topics(
    view: SiteView, after: str, count: int, begins: str, may_see: Callable[[str], bool]
) -> list[TopicInfo]:
    """The first `count` topics after a name that begin so and may be seen, by name; no system topics.

    All are of the call's beginning, and as they are now; those that have gone meanwhile are left out.
    """
    parts = []
    async for some in in_steps(view.every_topic()):
        names = [each.name for each in some if each.name > after and not each.is_system]
        parts.append(sorted(name for name in names if name.startswith(begins)))
    found: list[TopicInfo] = []
    async with aclosing(in_steps(merge(*parts))) as steps:
        async for wanted in steps:
            for name in filter(may_see, wanted):
                if len(found) == count:
                    return found
                if (topic := view.topic(name)) is not None:
                    found.append(topic)
    return found

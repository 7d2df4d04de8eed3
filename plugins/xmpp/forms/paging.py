"""Pages of what is listed. Source: XEP-0059."""

from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeVar
from xml.etree.ElementTree import Element, SubElement

import msgspec

from plugins.xmpp.forms.stanzas import StanzaError
from plugins.xmpp.wire.namespaces import RESULT_SET
from plugins.xmpp.wire.serializer import serialize

PAGE_MAX: Final = 100
"""Of one answer, whatever is asked for."""

INDEX_MAX: Final = 10_000
"""Up to there what is listed is counted from its beginning; further on pages go by `after`."""

_Listed = TypeVar("_Listed")
_SET: Final = f"{{{RESULT_SET}}}set"


class Page(msgspec.Struct):
    """What of a result set is asked for.

    Attributes:
        after: "" for its beginning.
        before: None where it is paged through forwards; "" for its end.
        index: how many to pass over; None where pages go by `after` or `before`.
    """

    max: int = PAGE_MAX
    after: str = ""
    before: str | None = None
    index: int | None = None

    @classmethod
    def read(cls, parent: Element, *, backwards: bool = False) -> "Page":
        """The page that the `<set/>` in `parent` asks for, if there is one. Raises StanzaError."""
        asked = parent.find(_SET)
        if asked is None:
            return cls()
        page = cls(after=asked.findtext(f"{{{RESULT_SET}}}after") or "")
        if (index := asked.findtext(f"{{{RESULT_SET}}}index")) is not None:
            page.index = _read_index(index)
        before = asked.find(f"{{{RESULT_SET}}}before")
        if page.index is not None and (page.after or before is not None):
            raise StanzaError("bad-request", "modify", "by index, or by after or before")
        if before is not None:
            if not backwards:
                raise StanzaError("feature-not-implemented", "cancel", "only forwards")
            page.before = before.text or ""
        if most := asked.findtext(f"{{{RESULT_SET}}}max"):
            page.max = read_max(most)
        return page


def read_max(text: str) -> int:
    """Raises StanzaError."""
    if not (text.isascii() and text.isdecimal()):
        raise StanzaError("bad-request", "modify", "not a number of items")
    # a number of a million digits is a large number too
    return min(int(text[:10]), PAGE_MAX)


def _read_index(text: str) -> int:
    if not (text.isascii() and text.isdecimal()):
        raise StanzaError("bad-request", "modify", "an index is a number")
    if len(text) > 9 or int(text) > INDEX_MAX:
        # Source: XEP-0059 2.6
        raise StanzaError("feature-not-implemented", "cancel", f"no index above {INDEX_MAX}: go by <after/>")
    return int(text)


def page_end(first: str, last: str, count: int | None = None, index: int | None = None) -> Element:
    """What is told of the page that was given; `count` of all, `index` of its first, where known."""
    end = Element(_SET)
    if first:
        begun = SubElement(end, f"{{{RESULT_SET}}}first", {} if index is None else {"index": str(index)})
        begun.text = first
        SubElement(end, f"{{{RESULT_SET}}}last").text = last
    if count is not None:
        SubElement(end, f"{{{RESULT_SET}}}count").text = str(count)
    return end


def page_of(
    found: Mapping[str, _Listed], page: Page, write: Callable[[_Listed], Element], bytes_max: int
) -> tuple[list[Element], list[Element]]:
    """What of a list is on a page, as it is written; and what is told of the page where that is not all.

    `found` is what is listed, by its place, in the order of which it comes. Raises UnsendableError.
    """
    places = sorted(found)
    begin = page.index or 0
    rest = [place for place in places if place > page.after][begin : begin + page.max]
    elements = _fitting((write(found[place]) for place in rest), bytes_max)
    if len(elements) == len(places):
        return elements, []
    first, last = (rest[0], rest[len(elements) - 1]) if elements else ("", "")
    return elements, [page_end(first, last, len(places), page.index)]


def _fitting(elements: Iterable[Element], bytes_max: int) -> list[Element]:
    """As many, from the first, as fit as they are written; one in any case, lest there be no next page."""
    fitting: list[Element] = []
    for element in elements:
        bytes_max -= len(serialize(element, "").encode())
        if bytes_max < 0 and fitting:
            break
        fitting.append(element)
    return fitting

"""Pages of what is listed. Source: XEP-0059."""

from typing import Final
from xml.etree.ElementTree import Element, SubElement

import msgspec

from plugins.xmpp.forms.stanzas import StanzaError
from plugins.xmpp.wire.namespaces import RESULT_SET

PAGE_MAX: Final = 100
"""Of one answer, whatever is asked for."""

_SET: Final = f"{{{RESULT_SET}}}set"


class Page(msgspec.Struct):
    """What of a result set is asked for.

    Attributes:
        after: "" for its beginning.
        before: None where it is paged through forwards; "" for its end.
    """

    max: int = PAGE_MAX
    after: str = ""
    before: str | None = None

    @classmethod
    def read(cls, parent: Element, *, backwards: bool = False) -> "Page":
        """From the `<set/>` in `parent`, if there is one. Raises StanzaError."""
        asked = parent.find(_SET)
        if asked is None:
            return cls()
        if asked.find(f"{{{RESULT_SET}}}index") is not None:
            # what is at a place changes with every item that comes or goes. Source: XEP-0059 2.6
            raise StanzaError("feature-not-implemented", "cancel", "no pages by index")
        page = cls(after=asked.findtext(f"{{{RESULT_SET}}}after") or "")
        before = asked.find(f"{{{RESULT_SET}}}before")
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


def page_end(first: str, last: str, count: int | None = None) -> Element:
    """What is told of the page that was given; `count` of the whole set, where it is known."""
    end = Element(_SET)
    if first:
        SubElement(end, f"{{{RESULT_SET}}}first").text = first
        SubElement(end, f"{{{RESULT_SET}}}last").text = last
    if count is not None:
        SubElement(end, f"{{{RESULT_SET}}}count").text = str(count)
    return end

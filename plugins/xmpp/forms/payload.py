"""Items to messages and back.

    <item id='...'>
      <entry xmlns='...'>...</entry>                        the content, where it is one XML element
    </item>

    <headers xmlns='http://jabber.org/protocol/shim'>       SMQP's headers, where there are any: outside the
      <header name='Priority'>5</header>                    item, which has one child by its schema; where it
    </headers>                                              is published they may be in it
    <delay xmlns='urn:xmpp:delay' stamp='...'/>             Created

Text (`text/...` and JSON in UTF-8) of characters that XML can carry is `<text type='text/plain'>` as it is,
other content `<data type='image/png'>base64</data>`; a message of several sections, or with headers in its
section, is a `<section type='...'>` for each, with its headers and one `<text>` or `<data>`. Content is sent
as XML or as text only where the bytes that come of it are the very bytes that were published, and servers
pass them on as they are, so it arrives unchanged through every front end. The item's id travels as the
header Item-Id; a message without one has its Smuid.
"""

import base64
import binascii
import re
from typing import Final
from xml.etree.ElementTree import Element

from daemon.frontend import Limits
from plugins.xmpp.forms.stanzas import StanzaError
from plugins.xmpp.wire.namespaces import DELAY, SHIM, SMQP, XML, namespace_of
from plugins.xmpp.wire.parser import ParserLimits, StreamBroken, parse_fragment
from plugins.xmpp.wire.serializer import UnsendableError, escape_attribute, escape_text, serialize
from routing.errors import HeaderRefusal, Refusal
from routing.headers import check_writable, is_header_name, parse_headers, write_headers
from routing.message import Message, Section
from routing.sections import write_section_head

ITEM_ID: Final = "Item-Id"
PUBLISHER: Final = "Xmpp-Publisher"
"""The JID, where a node's items name theirs; to be believed where the header Account bears it out."""

ITEM_ID_CHARACTERS_MAX: Final = 255
XML_TYPE: Final = "application/xml"
TEXT_TYPE: Final = "text/plain; charset=utf-8"
_UTF_8: Final = frozenset({"charset=utf-8", "charset=us-ascii"})
_UTF_8_BYTES_MAX: Final = 4
"""Of a character."""
_LINES_CHARACTERS_MAX: Final = len("Content-Type: \r\nContent-Length: 999999999999\r\n\r\n")
"""Of the two lines that each section has in any case, without its type."""

FRAGMENT_LIMITS: Final = ParserLimits(stanza_bytes_max=2**20, depth_max=40, tag_bytes_max=2**20)
"""For content to be sent as XML; what is beyond them is sent as bytes.

A tag may be longer than it was on its way in: there `>` need not be escaped.
"""

_SAID_ELSEWHERE: Final = rf"{PUBLISHER}|(?i:Collection|SubID)"
"""Headers of what an item says without them, and of what the service alone says. Source: XEP-0060 16.5."""
_IS_SAID: Final = re.compile(f"(?:{_SAID_ELSEWHERE}): ").match
_IS_SAID_WITH_CREATED: Final = re.compile(f"(?:{_SAID_ELSEWHERE}|Created): ").match

_HEADERS: Final = frozenset({f"{{{SMQP}}}headers", f"{{{SHIM}}}headers"})
_HEADER: Final = frozenset({f"{{{SMQP}}}header", f"{{{SHIM}}}header"})
_DATA: Final = f"{{{SMQP}}}data"
_TEXT: Final = f"{{{SMQP}}}text"
_SECTION: Final = f"{{{SMQP}}}section"
_DELAY: Final = f"{{{DELAY}}}delay"
_XML_ATTRIBUTES: Final = frozenset(f"{{{XML}}}{name}" for name in ("base", "id", "lang", "space"))


class _WrittenXml(bytes):
    """What this front end has written of an element that names its namespace: the same comes of reading it.

    Only bytes in memory are known to be so; what comes back from disk is looked at again.
    """

    __slots__ = ()


class Item:
    """What an `<item>` says."""

    __slots__ = ("id", "message")

    def __init__(self, id: str, message: Message) -> None:
        self.id = id
        self.message = message


def read_item(item: Element, limits: Limits, beside: Element | None = None) -> Item:
    """An item to the message that it publishes; its id is "" where it has none.

    `beside` it may be headers, of all items of a publication. Raises Refusal, and StanzaError for what is no
    item.
    """
    headers = [] if beside is None else _read_headers(beside)
    sections: list[Section] = []
    created = ""
    _check_one_payload(item)
    for child in item:
        if child.tag in _HEADERS:
            headers += _read_headers(child)
        elif child.tag == _DELAY:
            created = child.get("stamp", "")
        elif child.tag in (_DATA, _TEXT):
            sections.append(Section(_content_type(child), _bytes(child)))
        elif child.tag == _SECTION:
            sections.append(_read_section(child))
        else:
            sections.append(xml_section(child))
    if created:
        headers.append(("Created", created))
    id = item.get("id", "")
    if id:
        if len(id) > ITEM_ID_CHARACTERS_MAX:
            raise HeaderRefusal(ITEM_ID, id, f"at most {ITEM_ID_CHARACTERS_MAX} characters")
        headers.append((ITEM_ID, id))
    check_bounds(headers, sections, limits)
    for name, value in headers:
        if not is_header_name(name):
            raise HeaderRefusal(name, value, "named with 1 to 128 visible ASCII characters and no colon")
    check_writable([f"{name}: {value}" for name, value in headers])
    return Item(id, Message(sections=tuple(sections), **parse_headers(headers)))


def _check_one_payload(item: Element) -> None:
    """Raises StanzaError. Source: XEP-0060 7.1.3.6."""
    if len(item) == 1 and not item.text and not item[0].tail:  # as nearly all are written
        return
    elements = [child for child in item if child.tag not in _HEADERS and child.tag != _DELAY]
    if any(text.strip() for text in (item.text or "", *(child.tail or "" for child in item))):
        raise StanzaError("bad-request", "modify", "text that is in no element", pubsub="invalid-payload")
    if len(elements) > 1 and any(child.tag != _SECTION for child in elements):
        raise StanzaError("bad-request", "modify", "more than one payload", pubsub="invalid-payload")


def check_bounds(headers: list[tuple[str, str]], sections: list[Section], limits: Limits) -> None:
    """Check the bounds that SMQP has for a frame, lest another front end or a link cannot take the message.

    Those of headers are for all of them together, with those of its sections. Raises Refusal.
    """
    if len(sections) > limits.sections_max:
        raise Refusal(Refusal.TOO_MANY, f"more than {limits.sections_max} sections")
    lines = [*headers, *(header for section in sections for header in section.headers)]
    if len(lines) > limits.frame_headers_max:
        raise Refusal(Refusal.TOO_MANY, f"more than {limits.frame_headers_max} header lines")
    characters = sum(_LINES_CHARACTERS_MAX + len(section.content_type) for section in sections)
    for name, value in lines:
        characters += len(name) + len(value) + len(": \r\n")
    if characters * _UTF_8_BYTES_MAX <= limits.frame_header_bytes_max:
        return
    size = sum(len(f"{name}: {value}\r\n".encode()) for name, value in headers)
    size += sum(len(write_section_head(section)) for section in sections)
    if size > limits.frame_header_bytes_max:
        text = f"the header lines are longer than {limits.frame_header_bytes_max} bytes"
        raise Refusal(Refusal.TOO_LARGE, text)


def xml_section(element: Element) -> Section:
    """An element as content; what follows it is not part of it."""
    element.tail = None
    body = serialize(element, "").encode()
    as_it_is = element.tag[:1] == "{" and not _is_own(element) and (b"xml:" not in body or _is_kept(element))
    return Section(XML_TYPE, _WrittenXml(body) if as_it_is else body)


def _is_kept(element: Element) -> bool:
    """Whether servers pass it on as it is: of XML's own namespace, they know four attributes alone.

    Of another name in it they make XML that is none, which would end the streams of subscribers.
    """
    return not any(
        namespace_of(each.tag) == XML
        or any(namespace_of(name) == XML and name not in _XML_ATTRIBUTES for name in each.attrib)
        for each in element.iter()
    )


def _is_own(element: Element) -> bool:
    """Whether it would be taken for something else than content."""
    return namespace_of(element.tag) == SMQP or element.tag in _HEADERS or element.tag == _DELAY


def _read_headers(element: Element) -> list[tuple[str, str]]:
    return [
        (child.get("name", ""), child.text or "")
        for child in element
        if child.tag in _HEADER and child.get("name", "").lower() != ITEM_ID.lower()
    ]


def _content_type(element: Element) -> str:
    return element.get("type") or (TEXT_TYPE if element.tag == _TEXT else "application/octet-stream")


def _bytes(element: Element) -> bytes:
    if element.tag == _TEXT:
        return (element.text or "").encode()
    try:
        return base64.b64decode("".join((element.text or "").split()), validate=True)
    except binascii.Error:
        raise Refusal(Refusal.BAD_HEADER, "<data/> holds something else than base64") from None


def _read_section(element: Element) -> Section:
    body = b""
    for child in element:
        if child.tag in (_DATA, _TEXT):
            body = _bytes(child)
    return Section(_content_type(element), body, tuple(_read_headers(element)))


def item_id(message: Message) -> str:
    """The id under which the message is an item.

    A header that XMPP would refuse, of other front ends, is none: ids are remembered, many at a time.
    """
    for name, value in message.others:
        if name == ITEM_ID and 0 < len(value) <= ITEM_ID_CHARACTERS_MAX:
            return value
    return message.smuid


def item_start(message: Message, publisher: str) -> str:
    """The tag that begins it; `publisher` is a JID, or ""."""
    who = f" publisher='{escape_attribute(publisher)}'" if publisher else ""
    return f"<item id='{escape_attribute(item_id(message))}'{who}>"


def item_text(message: Message, namespace: str, publisher: str = "") -> str:
    """The message as an `<item>` inside of `namespace`; its headers are not in it. Raises UnsendableError."""
    return f"{item_start(message, publisher)}{_content(message.sections, namespace)}</item>"


def headers_text(message: Message, attributes: str = "", *, created: bool = False) -> str:
    """The message's headers, to stand outside the item; "" for none.

    Without what is the item's id, and with Created only where nothing else says that. Raises UnsendableError.
    Source: XEP-0131, XEP-0060 12.16.
    """
    headers, is_said = "", _IS_SAID if created else _IS_SAID_WITH_CREATED
    id_line = f"{ITEM_ID}: {item_id(message)}"
    for line in write_headers(message):
        if line != id_line and not is_said(line):
            # at once: what is good for an attribute is good for a text
            name, _, value = escape_attribute(line).partition(": ")
            headers += f"<header name='{name}'>{value}</header>"
    return f"<headers xmlns='{SHIM}'{attributes}>{headers}</headers>" if headers else ""


def delay_text(message: Message) -> str:
    """Created, as XEP-0203 says it."""
    return f"<delay xmlns='{DELAY}' stamp='{escape_attribute(message.created)}'/>"


def _header_text(name: str, value: str) -> str:
    return f"<header name='{escape_attribute(name)}'>{escape_text(value)}</header>"


def _content(sections: tuple[Section, ...], namespace: str) -> str:
    if len(sections) == 1 and not sections[0].headers:
        [section] = sections
        if section.content_type == XML_TYPE and (xml := _as_xml(section.body, namespace)) is not None:
            return xml
        return _data(section, f" xmlns='{SMQP}' type='{escape_attribute(section.content_type)}'")
    return "".join(
        f"<section xmlns='{SMQP}' type='{escape_attribute(section.content_type)}'>"
        f"{''.join(_header_text(name, value) for name, value in section.headers)}{_data(section)}</section>"
        for section in sections
    )


def _data(section: Section, attributes: str = "") -> str:
    if (text := _as_text(section)) is not None:
        return f"<text{attributes}>{text}</text>"
    return f"<data{attributes}>{base64.b64encode(section.body).decode()}</data>"


def _as_text(section: Section) -> str | None:
    """The body between tags; None where it is no text, or none that XML can carry."""
    kind, _, parameters = section.content_type.lower().partition(";")
    kind, parameters = kind.strip(), parameters.strip()
    if not (kind.startswith("text/") or kind == "application/json" or kind.endswith("+json")):
        return None
    if parameters and parameters.replace('"', "").replace(" ", "") not in _UTF_8:
        return None
    try:
        return escape_text(section.body.decode())
    except (UnicodeDecodeError, UnsendableError):
        return None


def _as_xml(body: bytes, namespace: str) -> str | None:
    """The body as an element of which exactly these bytes are written again, by servers too; else None."""
    if isinstance(body, _WrittenXml):
        return body.decode()
    try:
        element = parse_fragment(body, FRAGMENT_LIMITS)
        text = serialize(element, "")
    except (StreamBroken, ValueError):
        return None
    if text.encode() != body or _is_own(element) or not _is_kept(element):
        return None
    # an element that names its namespace means the same anywhere
    return text if element.tag[:1] == "{" else serialize(element, namespace)

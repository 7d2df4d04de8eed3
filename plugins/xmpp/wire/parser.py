"""Cuts the bytes of an XML stream into its header, the stanzas under it, and its end.

What XMPP forbids ends the stream: a document type (and with it every entity but the five), comments,
processing instructions. A stanza that is too large, too deep, or has too many attributes or too long a
namespace does not, since a client would end everyone's stream with it: the rest of it is passed over, and it
comes as a `StanzaTooMuch`.
Nothing of it is kept meanwhile. Only what the parser itself would have to keep ends the stream: a tag
without an end, or thousands of open elements.

Nor does a stanza of which nothing but a namespace is wrong. Servers themselves write such, of what a client
may send: Prosody and ejabberd pass `<xml:a/>` on as `<a xmlns='http://www.w3.org/XML/1998/namespace'/>`, at
which expat ends, as Namespaces in XML has it. The rest of the stanza is passed over by a parser that knows of
no namespaces; and behind a namespace that is too long, as any other gives it out with each name.

The parser keeps each name that it has read for as long as it lives, also those of what is passed over, and a
component's stream lives for months. So a new one goes on with the stream, from one stanza to the next, once
the one before it has read much.

Source: RFC 6120 4.9.3, 11.1 and 11.6.
"""

import re
from typing import Final
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

import msgspec

OPEN_ELEMENTS_MAX: Final = 100_000
"""The parser remembers each, also of what is passed over; a stanza of 256 KiB, which is what servers let
through, has no more.
"""

FEED_BYTES: Final = 65_536
"""Given to the parser at a time, so that a limit is looked at this often."""

PARSER_BYTES_MAX: Final = 2**20
"""Read by one parser before the next stanza goes to a new one: the names in it can take 22 times as much."""

NAMESPACE_CHARACTERS_MAX: Final = 256
"""Each name that takes it has it once more, in as little as four bytes of a stanza."""

NAMES_CHARACTERS_MAX: Final = 2**18
"""Of all different names in one stanza, each with its namespace, which may be 200 times what it has.

Those that are known from stanzas before it take nothing more.
"""

NAMES_KEPT: Final = 2**16
"""Characters of names that stay known from one stanza to the next."""

_SEPARATOR: Final = "\x01"
"""Between namespace and name. Expat refuses namespaces that hold it, and no document can hold this one."""

_OF_NAMESPACES: Final = frozenset(
    expat.errors.codes[message]
    for message in (
        expat.errors.XML_ERROR_RESERVED_NAMESPACE_URI,
        expat.errors.XML_ERROR_RESERVED_PREFIX_XML,
        expat.errors.XML_ERROR_RESERVED_PREFIX_XMLNS,
        expat.errors.XML_ERROR_UNBOUND_PREFIX,
        expat.errors.XML_ERROR_UNDECLARING_PREFIX,
    )
)
"""Errors of start tags that are none where nobody asks for namespaces."""

_START_TAG: Final = re.compile(rb"""(?:"[^"]*"|'[^']*'|[^"'>])*>""")

_DEFAULT_NAMESPACE: Final = re.compile(rb"""\sxmlns=["']([^"']*)""")

_HEAD: Final = ("from", "to", "id", "type")


class ParserLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The bounds of one stanza.

    Attributes:
        stanza_bytes_max: from its `<` to its last `>`.
        depth_max: of nested elements, the stanza itself being the first. XEPs come near 10.
        attributes_max: of one element.
        elements_max: of one stanza, and attributes: each takes some 120 bytes of memory beside its name, and
            as little as four of the stanza's.
        tag_bytes_max: of one tag, about: what is read of it is a multiple, before its attributes are counted.
    """

    stanza_bytes_max: int
    depth_max: int = 64
    attributes_max: int = 64
    elements_max: int = 50_000
    tag_bytes_max: int = 2**17


class StreamBroken(Exception):
    """The stream cannot go on; `condition` is the stream error of RFC 6120 4.9.3 that says why."""

    def __init__(self, condition: str, text: str) -> None:
        super().__init__(text)
        self.condition = condition
        self.text = text


class StanzaTooMuch(msgspec.Struct):
    """A stanza that was passed over: its element alone, without content, and what was too much or wrong."""

    head: Element
    text: str


class StreamHeader(msgspec.Struct):
    """`<stream:stream>` has been opened."""

    tag: str
    attributes: dict[str, str]


class StreamEnd(msgspec.Struct):
    """`</stream:stream>`."""


ParsedEvent = StreamHeader | Element | StanzaTooMuch | StreamEnd


class _NewParser(Exception):
    """A stanza, or an element of one that is passed over, goes to a new parser.

    Attributes:
        unread: its bytes, and all behind them.
    """

    def __init__(self, unread: bytes) -> None:
        self.unread = unread


class StreamParser:
    """One stream from its first byte to its last."""

    def __init__(self, limits: ParserLimits, *, passes_over: bool = True) -> None:
        """Without `passes_over`, a stanza whose namespaces alone are wrong ends the stream."""
        self._limits = limits
        self._passes_over = passes_over
        self._events: list[ParsedEvent] = []
        self._open: list[str] = []
        """Elements, as expat names them."""
        self._begun = bytearray()
        """Of a tag whose end has not come."""
        self._elements = 0
        self._builder = TreeBuilder()
        self._stanza: tuple[str, dict[str, str]] = ("", {})
        self._too_much = ""
        self._header = b""
        self._begin()

    def _begin(self) -> None:
        """Let a new parser go on behind the header, if there was one, and in the elements that are open.

        Where these are passed over, it knows of no namespaces.
        """
        self._namespaces = not self._too_much
        separator = _SEPARATOR if self._namespaces else None
        # names are kept in `_names`, which is bounded, and not with all namespaces for as long as the parser
        parser = self._parser = expat.ParserCreate("UTF-8", namespace_separator=separator, intern=None)
        parser.namespace_prefixes = True
        parser.buffer_text = True
        if hasattr(parser, "SetReparseDeferralEnabled"):
            # else a stanza could wait in the parser for bytes that come much later
            parser.SetReparseDeferralEnabled(False)
        before = self._header + "".join(f"<{_written(each)}>" for each in self._open[1:]).encode()
        parser.Parse(before, False)
        self._fed = self._stanza_from = len(before)
        self._begun.clear()
        self._names: dict[str, str] = {}
        self._names_characters = self._names_before = 0
        parser.StartNamespaceDeclHandler = self._declares
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._text
        parser.StartDoctypeDeclHandler = self._doctype
        parser.EntityDeclHandler = self._doctype
        parser.ProcessingInstructionHandler = self._instruction
        parser.CommentHandler = self._comment

    def feed(self, data: bytes | bytearray) -> list[ParsedEvent]:
        """The next bytes to what they complete. Raises StreamBroken; then nothing more may be fed."""
        for start in range(0, len(data), FEED_BYTES):
            unread = data[start : start + FEED_BYTES]
            while unread:
                # a new parser has to read what the one before it kept of a tag, which may be long
                unread = self._feed(unread[:FEED_BYTES]) + unread[FEED_BYTES:]
        events, self._events = self._events, []
        return events

    def _feed(self, chunk: bytes | bytearray) -> bytes | bytearray:
        """Gives what a new parser has to read: of the chunk, and of the tag that was begun before it.

        The chunk has at most FEED_BYTES, as expat tells what is unread of 1 MiB alone.
        """
        try:
            self._parser.Parse(chunk, False)
        except _NewParser as new:
            self._begin()
            return new.unread
        except expat.ExpatError as error:
            text = expat.ErrorString(error.code)
            if error.code not in _OF_NAMESPACES or not self._header or not self._passes_over:
                raise StreamBroken("not-well-formed", text) from None
            unread = self._begun + chunk
            del unread[: len(unread) - (self._fed + len(chunk) - self._parser.ErrorByteIndex)]
            self._pass_over(text)
            self._begin()
            return unread
        self._fed += len(chunk)
        self._begun += chunk
        del self._begun[: len(self._begun) - (self._fed - self._parser.CurrentByteIndex)]
        if self._fed - self._stanza_from > self._limits.stanza_bytes_max:
            self._check_size()
        if self._namespaces and len(self._begun) > self._limits.tag_bytes_max and self._header:
            return self._pass_over_tag()
        return b""

    def _pass_over_tag(self) -> bytes:
        """Have a long tag be read by a parser that does not put a namespace before each name in it."""
        text, unread = f"a tag of over {self._limits.tag_bytes_max} bytes", bytes(self._begun)
        if not self._passes_over:
            raise StreamBroken("policy-violation", text)
        self._pass_over(text)
        self._begin()
        return unread

    def _check_size(self) -> None:
        most = self._limits.stanza_bytes_max
        if len(self._open) <= 1 or self._fed - self._parser.CurrentByteIndex > most + FEED_BYTES:
            raise StreamBroken("policy-violation", f"a tag of over {most} bytes")
        self._pass_over(f"a stanza of over {most} bytes")

    def _pass_over(self, text: str) -> None:
        if not self._too_much:
            self._too_much = text
            self._builder = TreeBuilder()

    def _name(self, expat_name: str) -> str:
        if not self._namespaces:
            return self._name_of_stanza(expat_name)
        name = self._names.get(expat_name)
        if name is None:
            # namespace, name and prefix; or the name alone
            namespace, _, name = expat_name.partition(_SEPARATOR)
            name = f"{{{namespace}}}{name.partition(_SEPARATOR)[0]}" if name else namespace
            self._names[expat_name] = name
            self._names_characters += len(name)
            if self._names_characters - self._names_before > NAMES_CHARACTERS_MAX:
                self._pass_over(f"names of over {NAMES_CHARACTERS_MAX} characters in all")
        return name

    def _name_of_stanza(self, name: str) -> str:
        """Of one whose own tag is wrong; no server gives it a prefix."""
        default = _DEFAULT_NAMESPACE.search(self._header)
        if ":" in name or default is None:
            raise StreamBroken("invalid-namespace", "a stanza in another namespace")
        return f"{{{default[1].decode()}}}{name}"

    def _declares(self, _: str | None, namespace: str | None) -> None:
        if namespace and len(namespace) > NAMESPACE_CHARACTERS_MAX and self._header:
            text = f"a namespace of over {NAMESPACE_CHARACTERS_MAX} characters"
            if not self._passes_over:
                raise StreamBroken("policy-violation", text)
            self._pass_over(text)
            raise _NewParser(self._unread())

    def _start(self, expat_name: str, attributes: dict[str, str]) -> None:
        limits, depth = self._limits, len(self._open)
        if depth == 1:
            self._check_parser()
        if depth > 1:
            self._elements += 1 + len(attributes)
            if (
                self._too_much
                or depth > limits.depth_max
                or len(attributes) > limits.attributes_max
                or self._elements > limits.elements_max
            ):
                self._start_too_much(expat_name, attributes)
                return
        if depth == 1 and len(attributes) > limits.attributes_max:
            self._pass_over(f"an element with over {limits.attributes_max} attributes")
            attributes = _of_head(attributes)
        if attributes and _SEPARATOR in "".join(attributes):
            attributes = {self._names.get(key) or self._name(key): each for key, each in attributes.items()}
        tag = self._names.get(expat_name) or self._name(expat_name)
        self._open.append(expat_name)
        if depth > 1:
            if not self._too_much:  # as of the names that were new in this tag
                self._builder.start(tag, attributes)
            return
        self._stanza_from = self._parser.CurrentByteIndex
        if depth == 0:
            if (header := _START_TAG.match(self._unread())) is not None:
                self._header = header[0]
            self._events.append(StreamHeader(tag, attributes))
            return
        self._elements = 0
        self._stanza = (tag, attributes)
        self._builder = TreeBuilder()
        if not self._too_much:
            self._builder.start(tag, attributes)

    def _check_parser(self) -> None:
        """Raises _NewParser where this one has read enough, or was only for the stanza before."""
        if self._too_much:
            # the stanza whose own tag is wrong
            return
        has_read_much = self._parser.CurrentByteIndex - len(self._header) > PARSER_BYTES_MAX
        if not self._namespaces or (self._header and has_read_much):
            raise _NewParser(self._unread())
        if self._names_characters > NAMES_KEPT:
            self._names.clear()
            self._names_characters = 0
        self._names_before = self._names_characters

    def _unread(self) -> bytes:
        """From the tag that is being looked at on; b"" where an expat was built that does not tell."""
        return self._parser.GetInputContext() or b""

    def _start_too_much(self, expat_name: str, attributes: dict[str, str]) -> None:
        limits = self._limits
        if len(self._open) > OPEN_ELEMENTS_MAX:
            raise StreamBroken("policy-violation", f"over {OPEN_ELEMENTS_MAX} open elements")
        if len(attributes) > limits.attributes_max:
            self._pass_over(f"an element with over {limits.attributes_max} attributes")
        elif len(self._open) > limits.depth_max:
            self._pass_over(f"elements nested over {limits.depth_max} deep")
        elif self._elements > limits.elements_max:
            self._pass_over(f"over {limits.elements_max} elements and attributes")
        self._open.append(expat_name)

    def _end(self, expat_name: str) -> None:
        self._open.pop()
        depth = len(self._open)
        if depth == 0:
            self._events.append(StreamEnd())
            return
        if not self._too_much:
            self._builder.end(self._names.get(expat_name) or self._name(expat_name))
        if depth == 1:
            if self._parser.CurrentByteIndex - self._stanza_from > self._limits.stanza_bytes_max:
                self._pass_over(f"a stanza of over {self._limits.stanza_bytes_max} bytes")
            if self._too_much:
                tag, attributes = self._stanza
                self._events.append(StanzaTooMuch(Element(tag, _of_head(attributes)), self._too_much))
                self._too_much = ""
            else:
                self._events.append(self._builder.close())
            self._stanza_from = self._parser.CurrentByteIndex

    def _text(self, text: str) -> None:
        if len(self._open) > 1:
            if not self._too_much:
                self._builder.data(text)
        elif text.strip():
            raise StreamBroken("bad-format", "text between stanzas")
        else:
            self._stanza_from = self._parser.CurrentByteIndex

    def _doctype(self, *_: object) -> None:
        raise StreamBroken("restricted-xml", "a document type")

    def _instruction(self, *_: object) -> None:
        raise StreamBroken("restricted-xml", "a processing instruction")

    def _comment(self, _: str) -> None:
        raise StreamBroken("restricted-xml", "a comment")


def _of_head(attributes: dict[str, str]) -> dict[str, str]:
    """What is kept of the attributes of a stanza that is passed over."""
    return {key: attributes[key] for key in _HEAD if key in attributes}


def _written(expat_name: str) -> str:
    """The name as it stands in a tag."""
    _, *name = expat_name.split(_SEPARATOR)
    return ":".join(reversed(name)) or expat_name


def parse_fragment(data: bytes, limits: ParserLimits) -> Element:
    """One element and nothing else, from a document of its own. Raises StreamBroken."""
    parser = StreamParser(limits, passes_over=False)
    events = parser.feed(b"<_>" + data + b"</_>")
    if len(events) != 3 or not isinstance(events[1], Element):
        raise StreamBroken("bad-format", "not one element")
    return events[1]

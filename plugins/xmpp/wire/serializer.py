"""Elements to text, for a stream whose default namespace the caller names.

An element whose namespace is not its parent's gets an `xmlns` of its own; prefixes are used for
attributes only. Characters that XML cannot carry are refused here, before they are sent: one of them
would end the whole component stream. CR is escaped everywhere, LF and TAB in attributes, since a parser
normalises them otherwise.
"""

import re
from typing import Final
from xml.etree.ElementTree import Element

from plugins.xmpp.wire.namespaces import XML

_FORBIDDEN_CHARACTERS: Final = "\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff"
_FORBIDDEN: Final = re.compile(f"[{_FORBIDDEN_CHARACTERS}]").search
_IN_TEXT: Final = re.compile("[&<>\r]")
_IN_ATTRIBUTE: Final = re.compile("[&<>'\r\n\t]")
_NOT_PLAIN_TEXT: Final = re.compile(f"[&<>\r{_FORBIDDEN_CHARACTERS}]").search
_NOT_PLAIN_ATTRIBUTE: Final = re.compile(f"[&<>'\r\n\t{_FORBIDDEN_CHARACTERS}]").search
_ESCAPES: Final = {
    "&": "&amp;",
    "<": "&lt;",
    ">": "&gt;",
    "'": "&apos;",
    "\r": "&#13;",
    "\n": "&#10;",
    "\t": "&#9;",
}


class UnsendableError(ValueError):
    """It has a character that XML cannot carry. Nothing was written."""


def _escape(match: re.Match[str]) -> str:
    return _ESCAPES[match[0]]


def escape_text(text: str) -> str:
    """The text as it stands between tags. Raises UnsendableError."""
    if not _NOT_PLAIN_TEXT(text):
        return text
    if _FORBIDDEN(text):
        raise UnsendableError("a character that XML forbids")
    return _IN_TEXT.sub(_escape, text)


def escape_attribute(text: str) -> str:
    """The text as it stands between single quotes. Raises UnsendableError."""
    if not _NOT_PLAIN_ATTRIBUTE(text):
        return text
    if _FORBIDDEN(text):
        raise UnsendableError("a character that XML forbids")
    return _IN_ATTRIBUTE.sub(_escape, text)


def is_sendable(text: str) -> bool:
    """Whether XML can carry every character."""
    return _FORBIDDEN(text) is None


def serialize(element: Element, namespace: str) -> str:
    """The element as it stands where `namespace` is the default one. Raises UnsendableError."""
    out: list[str] = []
    _write(element, namespace, out)
    return "".join(out)


def _write(element: Element, default: str, out: list[str]) -> None:
    # a namespace may hold braces, a name none
    namespace, _, name = element.tag.rpartition("}")
    namespace = namespace[1:]
    if namespace == XML:
        # it may be bound to no other prefix, nor be the default
        namespace, name = default, "xml:" + name
    out.append("<" + name)
    if namespace != default:
        out.append(f" xmlns='{escape_attribute(namespace)}'")
    for number, (attribute, value) in enumerate(element.items()):
        if attribute[:1] == "{":
            attribute_namespace, _, attribute = attribute[1:].rpartition("}")
            if attribute_namespace == XML:
                attribute = "xml:" + attribute
            else:
                out.append(f" xmlns:a{number}='{escape_attribute(attribute_namespace)}'")
                attribute = f"a{number}:{attribute}"
        out.append(f" {attribute}='{escape_attribute(value)}'")
    if not len(element) and not element.text:
        out.append("/>")
        return
    out.append(">")
    if element.text:
        out.append(escape_text(element.text))
    for child in element:
        _write(child, namespace, out)
        if child.tail:
            out.append(escape_text(child.tail))
    out.append(f"</{name}>")

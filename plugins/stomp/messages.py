"""MESSAGE frames: what all subscribers of a message share is written once, and kept with the message.

prefix      MESSAGE, subscription, destination        once a subscription
between     ack or message-id, count, timeout         each delivery
shared      all other headers, the body, NUL          once a message and version
"""

import hashlib

from daemon.frontend import StoredMessage
from plugins.stomp.codec import Version, escape, escape_name
from plugins.stomp.headers import write_message
from routing.message import Message, Section


class Shared:
    """The part of a MESSAGE that is the same for all subscribers that speak one version.

    Attributes:
        smuid: escaped, for the parts that differ.
        bytes: the other headers, the empty line, the body and the NUL.
    """

    __slots__ = ("bytes", "smuid")

    def __init__(self, message: Message, version: Version) -> None:
        self.smuid = escape(message.smuid, version)
        section = one_section(message)
        lines = write_message(message, version)
        for name, value in section.headers:
            lines.append(f"{escape_name(name, version)}:{escape(value, version)}")
        if version == "1.2":
            # The ack header names the delivery, so the message's own id can be its message-id.
            lines.insert(0, "message-id:" + self.smuid)
        lines.append(f"content-type:{escape(section.content_type, version)}")
        lines.append(f"content-length:{len(section.body)}\n\n")
        self.bytes = b"".join(("\n".join(lines).encode(), section.body, b"\0"))


class _SharedVersions(dict[Version, Shared]):
    """What `StoredMessage.shared` holds once STOMP has written the message."""


def shared_part(stored: StoredMessage, version: Version) -> Shared:
    """The shared part of a message, written if nobody has needed it yet."""
    versions = stored.shared
    if type(versions) is not _SharedVersions:
        # Another front end may have kept something of its own there; then the two take turns.
        versions = stored.shared = _SharedVersions()
    shared = versions.get(version)
    if shared is None:
        shared = versions[version] = Shared(stored.message, version)
    return shared


def one_section(message: Message) -> Section:
    """A message's content as the one body that STOMP has: several sections become multipart/mixed."""
    sections = message.sections
    if len(sections) == 1:
        return sections[0]
    if not sections:
        return Section("application/octet-stream", b"")
    boundary = _boundary(sections)
    parts = []
    for section in sections:
        lines = [f"--{boundary}", f"Content-Type: {section.content_type}"]
        lines += [f"{name}: {value}" for name, value in section.headers]
        parts.append("\r\n".join((*lines, "", "")).encode() + section.body + b"\r\n")
    body = b"".join((*parts, f"--{boundary}--\r\n".encode()))
    return Section(f'multipart/mixed; boundary="{boundary}"', body)


def _boundary(sections: tuple[Section, ...]) -> str:
    """A line that none of the bodies can hold: no text contains its own digest."""
    digest = hashlib.blake2b(digest_size=16)
    for section in sections:
        digest.update(section.body)
    return digest.hexdigest()

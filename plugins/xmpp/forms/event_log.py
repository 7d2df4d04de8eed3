"""Entries of an event log. Source: XEP-0337."""

from datetime import UTC, datetime
from xml.etree.ElementTree import Element, SubElement

from plugins.xmpp.forms.stanzas import MESSAGE
from plugins.xmpp.wire.namespaces import EVENT_LOG, QOS


def misuse(service: str, log: str, id: str, jid: str, text: str) -> Element:
    """A message to `log`: somebody should look into what `jid` does. Source: urn:xmpp:qos Memory attacks."""
    stanza = Element(MESSAGE, {"from": service, "to": log, "id": id})
    attributes = {
        "timestamp": datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "id": "QosMisuse",
        "type": "Warning",
        "subject": jid,
        "object": QOS,
    }
    entry = SubElement(stanza, f"{{{EVENT_LOG}}}log", attributes)
    SubElement(entry, f"{{{EVENT_LOG}}}message").text = text
    return stanza

"""The examples of the two documents: sent as they stand there, and found again in what is answered.

Only the names of hosts and users are those of the servers here. An answer shows a listing where every
element of the listing, with its attributes and its text, is in it; more may be there. What no document can
foresee is not compared: the ids of messages, and what a `subid` is.
"""

from xml.etree.ElementTree import Element

from plugins.xmpp.wire.namespaces import COMPONENT
from plugins.xmpp.wire.parser import parse_fragment
from tests.support.xmpp import LIMITS
from tests.support.xmpp_servers import COMPONENT_NAME

NAMES = {
    # XEP-0254; the document itself writes the service's name in two ways
    "workflows.shakespeare.lit": COMPONENT_NAME,
    "workflow.shakespeare.lit": COMPONENT_NAME,
    "workerbee237@shakespeare.lit": "bob@localhost",
    "engine.shakespeare.lit": "ada@localhost/engine",
    # urn:xmpp:qos
    "user@example.org/938089023": f"readings@{COMPONENT_NAME}",
    "lightswitch@example.org/938089023": f"lightswitch@{COMPONENT_NAME}",
    "counter@example.org/938089023": f"counter@{COMPONENT_NAME}",
    "temperaturesensor@example.org": "ada@localhost",
    "controller@example.org": "ada@localhost",
    "entrance@example.org": "ada@localhost",
    "exit@example.org": "bob@localhost",
}


def here(listing: str) -> str:
    """A listing with the names of the servers here."""
    for theirs, ours in NAMES.items():
        listing = listing.replace(theirs, ours)
    return listing.strip()


def parsed(text: str) -> Element:
    element = parse_fragment(text.encode(), LIMITS)
    for each in element.iter():
        each.tag = each.tag.replace("{jabber:client}", f"{{{COMPONENT}}}")
        if each.tag[:1] != "{":
            each.tag = f"{{{COMPONENT}}}{each.tag}"
    return element


def missing(stanza: Element, listing: str) -> list[str]:
    """What of a listing is not in the stanza; nothing where the stanza shows it."""
    out: list[str] = []
    _compare(parsed(here(listing)), stanza, "", out)
    return out


def _compare(expected: Element, actual: Element, path: str, out: list[str]) -> None:
    path = f"{path}/{expected.tag.rpartition('}')[2]}"
    if expected.tag != actual.tag:
        out.append(f"{path}: {actual.tag}")
        return
    for name, value in expected.items():
        if name == "subid" or (name == "id" and expected.tag == f"{{{COMPONENT}}}message"):
            if not actual.get(name):
                out.append(f"{path}@{name}")
        elif actual.get(name) != value:
            out.append(f"{path}@{name}: {actual.get(name)} for {value}")
    if (expected.text or "").strip() != (actual.text or "").strip():
        out.append(f"{path}: {actual.text!r} for {expected.text!r}")
    rest = list(actual)
    for child in expected:
        found = [_tried(child, other, path) for other in rest]
        if [] in found:
            del rest[found.index([])]
        else:
            nearest: list[str] = min(found, key=len, default=[f"{path}/{child.tag}"])
            out.extend(nearest)


def _tried(expected: Element, actual: Element, path: str) -> list[str]:
    out: list[str] = []
    _compare(expected, actual, path, out)
    return out

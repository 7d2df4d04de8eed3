"""Data forms (XEP-0004), by slixmpp's stanza objects; what a client fills in is hostile until read here."""

from collections.abc import Mapping
from typing import Final
from xml.etree.ElementTree import Element

from slixmpp.plugins.xep_0004.stanza import FieldOption, Form, FormField
from slixmpp.xmlstream import register_stanza_plugin

from plugins.xmpp.forms.stanzas import StanzaError
from plugins.xmpp.wire.namespaces import DATA_FORM

register_stanza_plugin(FormField, FieldOption, iterable=True)
register_stanza_plugin(Form, FormField, iterable=True)

FORM: Final = f"{{{DATA_FORM}}}x"
FIELDS_MAX: Final = 100

SUBSCRIBE_OPTIONS: Final = "http://jabber.org/protocol/pubsub#subscribe_options"
NODE_CONFIG: Final = "http://jabber.org/protocol/pubsub#node_config"
META_DATA: Final = "http://jabber.org/protocol/pubsub#meta-data"
PUBLISH_OPTIONS: Final = "http://jabber.org/protocol/pubsub#publish-options"


class Field:
    """One field of a form that is sent.

    Args:
        kind: of XEP-0004 3.3.
        options: value to label, of a list.
    """

    def __init__(
        self,
        var: str,
        kind: str,
        label: str,
        value: str | None,
        options: Mapping[str, str] | None = None,
        *,
        required: bool = False,
    ) -> None:
        self.var = var
        self.kind = kind
        self.label = label
        self.value = value
        self.options = options
        self.required = required


def form(form_type: str, fields: list[Field]) -> Element:
    """A form to be filled in."""
    out = Form()
    out["type"] = "form"
    out.add_field(var="FORM_TYPE", ftype="hidden", value=form_type)
    for field in fields:
        out.add_field(
            var=field.var,
            ftype=field.kind,
            label=field.label,
            value=field.value,
            required=field.required,
            options=[{"value": value, "label": label} for value, label in (field.options or {}).items()],
        )
    return _element(out)


def result_form(form_type: str, values: Mapping[str, str]) -> Element:
    """What holds, as a form of type `result`."""
    out = Form()
    out["type"] = "result"
    out.add_field(var="FORM_TYPE", ftype="hidden", value=form_type)
    for var, value in values.items():
        out.add_field(var=var, value=value)
    return _element(out)


def _element(stanza: Form) -> Element:
    element: Element = stanza.xml
    return element


def submitted(parent: Element, form_type: str) -> dict[str, str] | None:
    """The first values of the form under `parent`, by field; None where there is none, or one of type cancel.

    Raises StanzaError for a form of another type.
    """
    found = parent.find(FORM)
    if found is None or found.get("type") == "cancel":
        return None
    if len(found) > FIELDS_MAX:
        raise StanzaError("bad-request", "modify", f"a form of more than {FIELDS_MAX} fields")
    stanza = Form(xml=found)
    values: dict[str, str] = {}
    for var, field in stanza.get_fields().items():
        value = field.get_value(convert=False)
        values[var] = value[0] if isinstance(value, list) and value else str(value or "")
    # a label without a name of its own (XEP-0004 3.3, fixed) says nothing
    values.pop("", None)
    if values.pop("FORM_TYPE", form_type) != form_type:
        raise StanzaError("bad-request", "modify", f"a form of another type than {form_type}")
    return values


def boolean(value: str) -> bool | None:
    """XEP-0004 3.3: 1 or true, 0 or false; None for anything else."""
    return {"1": True, "true": True, "0": False, "false": False}.get(value.strip().lower())

"""What the stream parser makes of bytes, whole, one at a time, and hostile."""

import tracemalloc
from collections.abc import Callable
from typing import Any
from xml.etree.ElementTree import Element

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugins.xmpp.wire.parser import (
    NAMESPACE_CHARACTERS_MAX,
    OPEN_ELEMENTS_MAX,
    PARSER_BYTES_MAX,
    ParserLimits,
    StanzaTooMuch,
    StreamBroken,
    StreamEnd,
    StreamHeader,
    StreamParser,
    parse_fragment,
)
from plugins.xmpp.wire.serializer import UnsendableError, escape_text, is_sendable, serialize
from tests.support.remembered import bytes_kept

HEADER = (
    b"<stream:stream xmlns='jabber:component:accept' xmlns:stream='http://etherx.jabber.org/streams' id='3'>"
)
LIMITS = ParserLimits(stanza_bytes_max=10_000, depth_max=10, attributes_max=8, elements_max=1_000)


def feed(*chunks: bytes) -> list[Any]:
    parser = StreamParser(LIMITS)
    return [event for chunk in chunks for event in parser.feed(chunk)]


def test_a_stream_is_a_header_stanzas_and_an_end() -> None:
    events = feed(HEADER + b"<message to='a'><body>hi</body></message> \n<presence/></stream:stream>")
    assert isinstance(events[0], StreamHeader)
    assert events[0].attributes["id"] == "3"
    assert [event.tag for event in events[1:3]] == [
        "{jabber:component:accept}message",
        "{jabber:component:accept}presence",
    ]
    assert events[1][0].text == "hi"
    assert isinstance(events[3], StreamEnd)


def test_the_same_comes_of_single_bytes() -> None:
    whole = HEADER + "<iq id='1'><a xmlns='urn:x'>ü&amp;<b xml:lang='de'/></a></iq>".encode()
    at_once = feed(whole)
    bytewise = feed(*(whole[i : i + 1] for i in range(len(whole))))
    assert serialize(at_once[1], "") == serialize(bytewise[1], "")
    assert len(at_once) == len(bytewise) == 2


@pytest.mark.parametrize(
    ("data", "condition"),
    [
        (b"<!DOCTYPE x [<!ENTITY a 'aaaa'><!ENTITY b '&a;&a;'>]>", "restricted-xml"),
        (HEADER + b"<!-- hidden -->", "restricted-xml"),
        (HEADER + b"<?php evil ?>", "restricted-xml"),
        (HEADER + b"<message><body>&b;</body></message>", "not-well-formed"),
        (HEADER + b"<message><body>\x00</body></message>", "not-well-formed"),
        (HEADER + b"<message><body>\xff</body></message>", "not-well-formed"),
        (HEADER + b"<message></presence>", "not-well-formed"),
        (HEADER + b"text", "bad-format"),
        (HEADER + b"<a>" * (OPEN_ELEMENTS_MAX + 1), "policy-violation"),
        (HEADER + b"<a b='" + b"x" * 20_000, "policy-violation"),
        (HEADER + b"<a><b c='" + b"x" * 100_000, "policy-violation"),
        (HEADER + b"<a" + b"x" * 20_000, "policy-violation"),
    ],
)
def test_what_xmpp_forbids_and_what_is_too_much_ends_the_stream(data: bytes, condition: str) -> None:
    for chunks in ([data], [data[i : i + 100] for i in range(0, len(data), 100)]):
        with pytest.raises(StreamBroken) as broken:
            feed(*chunks)
        assert broken.value.condition == condition


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"<a>" * 11 + b"</a>" * 11, "nested"),
        (b"<a>" * 9_000 + b"</a>" * 9_000, "nested"),
        (b"<a " + b" ".join(b"a%d=''" % n for n in range(9)) + b"/>", "attributes"),
        (b"x" * 20_000, "bytes"),
        (b"x" * 1_000_000, "bytes"),
        (b"<b/>" * 1_001, "over 1000 elements"),
        (b"<b/>" * 5_000, "over 1000 elements"),
        (b"<b c='' d=''/>" * 400, "over 1000 elements and attributes"),
        (b"<b c='" + b"x" * 20_000 + b"'/>", "bytes"),
    ],
)
def test_a_stanza_that_is_too_much_is_passed_over_and_the_next_one_comes(content: bytes, text: str) -> None:
    data = HEADER + b"<iq from='a' id='1' other='b'>" + content + b"</iq><iq id='2'><c/></iq>"
    for step in (len(data), 1_000):
        _, too_much, after = feed(*(data[i : i + step] for i in range(0, len(data), step)))
        assert isinstance(too_much, StanzaTooMuch)
        assert text in too_much.text
        assert too_much.head.attrib == {"from": "a", "id": "1"}
        assert len(too_much.head) == 0
        assert after[0].tag.endswith("c")


XML_OWN = b"http://www.w3.org/XML/1998/namespace"
AS_SERVERS_WRITE = [
    b"<iq from='a' id='1' other='b'><a xmlns='" + XML_OWN + b"'><b>c</b><d/></a></iq>",
    b"<iq from='a' id='1'><o:a xmlns:o='urn:o'><b xmlns:n='" + XML_OWN + b"' n:c='d'/></o:a></iq>",
    b"<iq xmlns:n='" + XML_OWN + b"' n:c='d' from='a' id='1'><b/></iq>",
    b"<iq from='a' id='1'><b xmlns='http://www.w3.org/2000/xmlns/'/></iq>",
    b"<iq from='a' id='1'><o:b/></iq>",
    b"<iq from='a' id='1'>" + b"<b/>" * 2_000 + b"<c xmlns='" + XML_OWN + b"'/></iq>",
    b"<iq from='a' id='1'><c xmlns='" + XML_OWN + b"'/>" + b"x" * 20_000 + b"</iq>",
]


@pytest.mark.parametrize("stanza", AS_SERVERS_WRITE)
def test_a_stanza_whose_namespaces_alone_are_wrong_is_passed_over_and_the_next_one_comes(
    stanza: bytes,
) -> None:
    data = HEADER + (stanza + b"\n<iq id='2'><c/></iq>") * 2 + b"</stream:stream>"
    for step in (len(data), 7, 1):
        events = feed(*(data[i : i + step] for i in range(0, len(data), step)))
        assert isinstance(events[-1], StreamEnd)
        for passed_over, after in (events[1:3], events[3:5]):
            assert isinstance(passed_over, StanzaTooMuch)
            assert passed_over.head.tag == "{jabber:component:accept}iq"
            assert passed_over.head.attrib == {"from": "a", "id": "1"}
            assert after[0].tag == "{jabber:component:accept}c"


def test_however_many_such_stanzas_come_at_once_each_is_passed_over() -> None:
    _, *passed_over, after = feed(HEADER + b"<iq from='a'><o:b/></iq>" * 2_000 + b"<iq id='2'/>")
    assert [each.text for each in passed_over] == ["unbound prefix"] * 2_000
    assert after.get("id") == "2"


@pytest.mark.parametrize("over", range(-80_000, 20_000, 10_000))
def test_what_comes_behind_a_long_tag_that_is_wrong_stays_in_its_own_stanza(over: int) -> None:
    parser = StreamParser(ParserLimits(stanza_bytes_max=2**24))
    # expat tells of 1 MiB at a time what is unread
    tag = b"<o:a b='" + b"y" * (2**20 + over) + b"'/>"
    inner = b"<p>" + b"z" * 30_000 + b"</p><iq xmlns='jabber:component:accept' from='ada'/>"
    data = HEADER + b"<iq from='bob'>" + tag + b"</iq><iq xmlns='e' from='bob'>" + inner + b"</iq>"
    _, passed_over, one = parser.feed(data[:40_000]) + parser.feed(data[40_000:])
    assert isinstance(passed_over, StanzaTooMuch)
    assert isinstance(one, Element)
    assert (passed_over.head.get("from"), one.get("from")) == ("bob", "bob")
    assert [each.tag for each in one] == ["{e}p", "{jabber:component:accept}iq"]


@pytest.mark.parametrize(
    ("end", "condition", "text"),
    [
        (b"<a b='", "policy-violation", "a tag of over 10000 bytes"),
        (b"</other>", "not-well-formed", "mismatched tag"),
        (b"<!-- hidden -->", "restricted-xml", "a comment"),
        (b"\x00", "not-well-formed", "not well-formed (invalid token)"),
        (b"<a>" * 110_000, "policy-violation", "over 100000 open elements"),
    ],
)
def test_what_is_passed_over_for_its_namespaces_ends_the_stream_where_another_stanza_would(
    end: bytes, condition: str, text: str
) -> None:
    begin = HEADER + b"<iq><a xmlns='" + XML_OWN + b"'>"
    with pytest.raises(StreamBroken) as broken:
        feed(begin + end + b"x" * 100_000)
    assert (broken.value.condition, broken.value.text) == (condition, text)


def test_what_is_as_deep_as_a_server_lets_through_is_passed_over_and_what_follows_is_read() -> None:
    deep = b"<iq from='bob'>" + b"<a>" * 50_000 + b"</a>" * 50_000 + b"</iq>"
    _, passed_over, one = feed(HEADER + deep + b"<iq from='ada'/>")
    assert isinstance(passed_over, StanzaTooMuch)
    assert isinstance(one, Element)
    assert (passed_over.head.get("from"), one.get("from")) == ("bob", "ada")


def test_elements_are_counted_in_each_stanza_alone() -> None:
    stanza = b"<iq>" + b"<b/>" * 999 + b"</iq>"
    _, *stanzas = feed(HEADER + stanza * 3)
    assert [len(one) for one in stanzas] == [999, 999, 999]


def test_so_is_one_whose_own_element_has_too_many_attributes() -> None:
    attributes = b" ".join(b"a%d=''" % n for n in range(9))
    _, too_much, after = feed(HEADER + b"<iq id='1' " + attributes + b"><b/></iq><iq id='2'/>")
    assert too_much.head.attrib == {"id": "1"}
    assert after.get("id") == "2"


def test_the_limit_is_of_one_stanza_not_of_the_stream() -> None:
    stanza = b"<message><body>" + b"x" * 5_000 + b"</body></message>"
    assert len(feed(HEADER, stanza * 20)) == 21


LONG_NAME = b"x" * 200


def new_elements(number: int) -> bytes:
    return b"".join(b"<%s%d-%d/>" % (LONG_NAME, number, each) for each in range(100))


def new_attributes(number: int) -> bytes:
    return b"".join(b"<a %s%d-%d=''/>" % (LONG_NAME, number, each) for each in range(100))


def new_prefixes(number: int) -> bytes:
    return b"".join(b"<a xmlns:%s%d-%d='u'/>" % (LONG_NAME, number, each) for each in range(100))


@pytest.mark.parametrize("content", [new_elements, new_attributes, new_prefixes])
def test_however_many_names_a_stream_has_named_little_is_kept(content: Callable[[int], bytes]) -> None:
    parser = StreamParser(LIMITS)
    parser.feed(HEADER)
    # each is over the limits, which does not keep the parser from remembering the names in it
    kept = bytes_kept(lambda number: parser.feed(b"<iq>" + content(number) + b"</iq>"), 200)
    assert kept < 4 * PARSER_BYTES_MAX


LONG_NAMESPACE = b"u" * (NAMESPACE_CHARACTERS_MAX + 1)


@pytest.mark.parametrize(
    "content",
    [
        b"<a xmlns='" + LONG_NAMESPACE + b"'><b><c/></b></a>",
        b"<a xmlns:p='" + LONG_NAMESPACE + b"'><b p:c=''/></a>",
        b"<a>" * 11 + b"<a xmlns='" + LONG_NAMESPACE + b"'/>" + b"</a>" * 11,
    ],
)
def test_a_stanza_with_a_long_namespace_is_passed_over_and_alone_is_refused(content: bytes) -> None:
    data = HEADER + b"<iq from='a'>" + content + b"</iq><iq id='2'/>"
    for step in (len(data), 7, 1):
        _, too_much, after = feed(*(data[i : i + step] for i in range(0, len(data), step)))
        assert isinstance(too_much, StanzaTooMuch)
        assert too_much.head.get("from") == "a"
        assert after.get("id") == "2"
    with pytest.raises(StreamBroken):
        parse_fragment(content, LIMITS)


def test_a_long_namespace_is_not_kept_with_each_name_in_it() -> None:
    parser = StreamParser(ParserLimits(stanza_bytes_max=2**20))
    parser.feed(HEADER)
    begin = b"<iq><a xmlns='" + b"u" * 20_000 + b"'>"

    def new_names(call: int) -> None:
        names = b"".join(b"<b%d-%d/>" % (call, number) for number in range(1_000))
        parser.feed(begin + names + b"</a></iq>")

    assert bytes_kept(new_names, 2) < PARSER_BYTES_MAX


AS_SERVERS_LET_THROUGH = ParserLimits(stanza_bytes_max=2**18)
NAMESPACE = "\U0001f600".encode() * NAMESPACE_CHARACTERS_MAX


def in_long_namespace(content: bytes) -> bytes:
    return b"<a xmlns='" + NAMESPACE + b"' xmlns:p='" + NAMESPACE + b"'>" + content + b"</a>"


def many_attributes(first: int = 0, count: int = 22_000) -> bytes:
    return b"".join(b" p:a%d=''" % number for number in range(first, first + count))


OF_MANY_NAMES = [
    in_long_namespace(b"".join(b"<b%d/>" % number for number in range(20_000))),
    in_long_namespace(b"".join(b"<b%s/>" % many_attributes(50 * n, 50) for n in range(400))),
]
WITH_A_LONG_TAG = in_long_namespace(b"<b" + many_attributes() + b"/>")


@pytest.mark.parametrize(
    ("content", "text"),
    [
        *((each, "names of over 262144 characters") for each in OF_MANY_NAMES),
        (WITH_A_LONG_TAG, "a tag of over"),
    ],
)
def test_what_would_take_many_times_its_bytes_is_passed_over_and_alone_is_refused(
    content: bytes, text: str
) -> None:
    data = HEADER + b"<iq from='a'>" + content + b"</iq><iq id='2'/>"
    for step in (len(data), 1_000):
        parser = StreamParser(AS_SERVERS_LET_THROUGH)
        chunks = (data[i : i + step] for i in range(0, len(data), step))
        _, too_much, after = [event for chunk in chunks for event in parser.feed(chunk)]
        assert isinstance(too_much, StanzaTooMuch)
        assert text in too_much.text
        assert isinstance(after, Element)
        assert (too_much.head.get("from"), after.get("id")) == ("a", "2")
    with pytest.raises(StreamBroken):
        parse_fragment(content, AS_SERVERS_LET_THROUGH)


def test_so_is_one_whose_own_tag_is_long() -> None:
    parser = StreamParser(AS_SERVERS_LET_THROUGH)
    own = b"<iq id='1' xmlns:p='" + NAMESPACE + b"'" + many_attributes() + b"/>"
    _, too_much, after = parser.feed(HEADER + own + b"<iq id='2'/>")
    assert isinstance(too_much, StanzaTooMuch)
    assert isinstance(after, Element)
    assert (too_much.head.tag, too_much.head.attrib) == ("{jabber:component:accept}iq", {"id": "1"})
    assert after.get("id") == "2"


@pytest.mark.parametrize("content", [*OF_MANY_NAMES, WITH_A_LONG_TAG])
def test_no_stanza_takes_hundreds_of_times_its_bytes(content: bytes) -> None:
    parser = StreamParser(AS_SERVERS_LET_THROUGH)
    parser.feed(HEADER)
    tracemalloc.start()
    try:
        parser.feed(b"<iq>" + content + b"</iq>")
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 8 * PARSER_BYTES_MAX


def test_a_name_counts_once_however_often_it_comes_and_what_came_before_does_not() -> None:
    parser = StreamParser(AS_SERVERS_LET_THROUGH)
    parser.feed(HEADER)
    for number in range(3):
        names = b"".join(b"<b%d-%d/>" % (number, each) for each in range(900))
        parsed = parser.feed(b"<iq>" + in_long_namespace(names + b"<b/>" * 5_000) + b"</iq>")
        assert [type(each) for each in parsed] == [Element]


def test_a_stanza_may_have_as_many_names_though_others_are_known() -> None:
    parser = StreamParser(AS_SERVERS_LET_THROUGH)
    parser.feed(HEADER)
    few, many = (b"".join(map(new_elements, each)) for each in (range(2), range(2, 12)))
    for names in (few, many):
        assert [type(each) for each in parser.feed(b"<iq>" + names + b"</iq>")] == [Element]


def test_names_in_a_namespace_stay_known_for_few_stanzas() -> None:
    parser = StreamParser(AS_SERVERS_LET_THROUGH)
    parser.feed(HEADER)

    def new_names(number: int) -> None:
        names = b"".join(b"<b%d-%d/>" % (number, each) for each in range(900))
        parser.feed(b"<iq>" + in_long_namespace(names) + b"</iq>")

    assert bytes_kept(new_names, 20) < 4 * PARSER_BYTES_MAX


@pytest.mark.parametrize("step", [3_000, 65_536, 10_000_000])
@pytest.mark.parametrize("space", [b"", b" \n "])
def test_a_long_stream_is_the_same_to_its_end(step: int, space: bytes) -> None:
    header = b"<?xml version='1.0'?>" + HEADER[:-1] + b" xmlns:other='urn:other' name='>'>"
    stanza = "<iq id='>%d' a=\"'\"><other:b/><stream:c>ü%s</stream:c></iq>"
    data = b"".join((stanza % (number, "x" * 5_000)).encode() + space for number in range(800))
    data = header + data + b"<iq id='800'>" + b"<b/>" * 1_001 + b"</iq><message/></stream:stream>"
    first, *stanzas, too_much, empty, end = feed(*(data[i : i + step] for i in range(0, len(data), step)))
    assert isinstance(first, StreamHeader)
    assert [each.get("id") for each in stanzas] == [f">{number}" for number in range(800)]
    tags = ["{urn:other}b", "{http://etherx.jabber.org/streams}c"]
    assert all([each.tag for each in one] == tags and len(one[1].text) == 5_001 for one in stanzas)
    assert isinstance(too_much, StanzaTooMuch)
    assert empty.tag == "{jabber:component:accept}message"
    assert isinstance(end, StreamEnd)


@pytest.mark.parametrize(
    ("data", "condition"),
    [
        (b"<!DOCTYPE x [<!ENTITY a 'aaaa'>]>", "not-well-formed"),
        (b"<a>&b;</a>", "not-well-formed"),
        (b"<!-- hidden -->", "restricted-xml"),
        (b"</other>", "not-well-formed"),
        (b"text", "bad-format"),
        (b"<a b='" + b"x" * 100_000, "policy-violation"),
    ],
)
def test_what_xmpp_forbids_is_forbidden_in_a_long_stream_too(data: bytes, condition: str) -> None:
    stanza = b"<message><body>" + b"x" * 5_000 + b"</body></message>"
    before = HEADER + stanza * (PARSER_BYTES_MAX // len(stanza) + 5)
    with pytest.raises(StreamBroken) as broken:
        feed(before, data)
    assert broken.value.condition == condition


text = st.text(st.characters(exclude_categories=["Cs"]), max_size=50).filter(is_sendable)


@given(text, text)
def test_what_is_serialized_is_parsed_to_the_same(content: str, value: str) -> None:
    element = parse_fragment(b"<a xmlns='urn:a'><b xmlns='urn:b' c=''><d xmlns=''/></b></a>", LIMITS)
    element[0].set("c", value)
    element[0].set("{urn:other}e", value)
    element[0].text = content
    element[0][0].tail = content
    back = parse_fragment(serialize(element, "").encode(), LIMITS)
    assert back[0].get("c") == back[0].get("{urn:other}e") == value
    assert (back[0].text or "") == (back[0][0].tail or "") == content
    assert back[0][0].tag == "d"


@given(text.filter(bool))
def test_a_namespace_may_hold_any_character(namespace: str) -> None:
    element = Element(f"{{{namespace}}}a", {f"{{{namespace}}}b": "c"})
    back = parse_fragment(serialize(element, "").encode(), LIMITS)
    assert (back.tag, back.attrib) == (element.tag, element.attrib)


def test_what_is_xmls_own_is_written_by_its_prefix() -> None:
    written = "<a xmlns='urn:a'><xml:b xml:lang='de'><c/><d xmlns='urn:d'/></xml:b></a>"
    assert serialize(parse_fragment(written.encode(), LIMITS), "") == written


@pytest.mark.parametrize("character", ["\x00", "\x0b", "\x1f", "\ud800", "\ufffe", "\uffff"])
def test_what_xml_forbids_is_never_written(character: str) -> None:
    with pytest.raises(UnsendableError):
        escape_text("a" + character)

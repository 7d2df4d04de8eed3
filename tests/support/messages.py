"""Hypothesis strategies for messages: every header, every kind of body, unknown headers, several sections."""

from hypothesis import strategies as st

from routing.headers import is_reserved
from routing.message import INFINITE, Message, Section

token = st.text("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.", min_size=1, max_size=20)
line = st.text(
    st.characters(exclude_categories=["Cc", "Cs"]) | st.just("\t"),
    max_size=60,
)
server = st.sampled_from(["smqp.example", "a.example:1720", "[::1]:720", "b"])
header_name = st.text(
    st.characters(min_codepoint=0x21, max_codepoint=0x7E, exclude_characters=":"), min_size=1, max_size=30
)
unknown_header = st.tuples(header_name.filter(lambda name: not is_reserved(name)), line)
media_type = st.builds("{}/{}".format, token, token) | st.sampled_from(
    ["text/plain", 'text/plain; charset="ISO-8859-4"', "application/x-rft"]
)
content_headers = st.lists(
    st.sampled_from(
        [
            ("Content-Description", "Satellite image"),
            ("Content-ID", "image1"),
            ("Content-Encoding", "gzip, br"),
            ("Content-Encryption", "pgp/2"),
            ("Content-Language", "nb"),
        ]
    ),
    unique_by=lambda header: header[0],
).map(tuple)
section = st.builds(Section, media_type, st.binary(max_size=200), content_headers)
timeout_s = st.none() | st.just(INFINITE) | st.integers(0, 10**9 * 5).map(lambda number: number / 1000)
created = st.datetimes().map(lambda when: when.isoformat(timespec="microseconds") + "Z")
smuid = st.builds(
    "{}/{:012x}-{:x}-{:x}".format,
    server,
    st.integers(0, 2**47),
    st.integers(0, 2**31),
    st.integers(0, 2**60 - 1),
)
cmuid = st.text(
    st.characters(exclude_categories=["Cc", "Cs", "Zs", "Zl", "Zp"]), min_size=1, max_size=40
).filter(lambda text: not any(character.isspace() for character in text))
name = line.filter(lambda text: "charset" not in text)

messages = st.builds(
    Message,
    name=name,
    charset=st.none() | st.just("iso-8859-4"),
    priority=st.integers(0, 2**31 - 1),
    created=st.just("") | created,
    receipt=st.sampled_from(["NONE", "ONE", "ALL"]),
    reply=st.booleans(),
    timeout_s=timeout_s,
    depth=st.integers(-1, 2**31 - 1),
    sequence=st.none() | st.integers(1, 2**63 - 1),
    guarantee=st.booleans(),
    delivery=st.sampled_from([None, "ONE", "ALL"]),
    hops=st.lists(server, max_size=4).map(tuple),
    mime_version=st.none() | st.just("1.0"),
    smuid=st.just("") | smuid,
    cmuid=st.just("") | cmuid,
    account=st.just("") | st.just("ada:desk@smqp.example"),
    others=st.lists(unknown_header, max_size=4).map(tuple),
    sections=st.lists(section, max_size=3).map(tuple),
) | st.builds(Message)


UNWRITABLE = Message(others=(("X-Forged", "two\r\nlines"),), delivery="ONE")
"""No front end lets it through: `Session.publish` refuses it, so that tests of it go around that."""

TOO_GREAT = Message(sequence=2**63, delivery="ONE")

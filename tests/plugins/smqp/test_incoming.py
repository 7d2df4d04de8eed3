"""What a client makes of what its server sends."""

import pytest

from plugins.smqp.incoming import read_receipt
from routing.message import Message, Section

SMUID = "alpha.example/01a1fdb36cb1-3-6"


def receipt(
    counts: bytes = b"1/2", *, account: str = "smqpd:system@alpha.example", smuid: str = SMUID
) -> Message:
    return Message(
        name="Receipt",
        account=account,
        others=(("Receipt-Smuid", smuid), ("Receipt-Topic", "t")),
        sections=(Section("text/plain", counts),),
    )


def test_a_receipt_of_the_site_that_published_the_message() -> None:
    found = read_receipt(receipt())
    assert found is not None
    assert (found.smuid, found.have, found.due, str(found)) == (SMUID, 1, 2, "1/2")


@pytest.mark.parametrize(
    "message",
    [
        receipt(account="smqpd:system@beta.example"),
        receipt(account="smqpd:desk@alpha.example"),
        receipt(account="ada:system@alpha.example"),
        receipt(account=""),
        receipt(smuid="beta.example/01a1fdb36cb1-3-6"),
        receipt(smuid=""),
        receipt(b"3/2"),
        receipt(b"99/-7"),
        receipt(b"1"),
        receipt(b"1/2\n\x1b[2J"),
        receipt("\u0661/\u0662".encode()),
        Message(account="smqpd:system@alpha.example"),
    ],
)
def test_what_only_looks_like_a_receipt_is_none(message: Message) -> None:
    assert read_receipt(message) is None

"""RECEIPT and ERROR: what a client is told of its frames. Source: STOMP 1.2 "Server Frames"."""

from plugins.stomp.codec import NEVER_ESCAPED, VERSIONS, Version, encode, escape
from plugins.stomp.connect import NoCommonVersion
from routing.errors import Refusal


def write_receipt(receipt: str, version: Version, smuid: str = "") -> bytes:
    """RECEIPT, with the Smuid of the SEND that it answers."""
    of_message = f"smuid:{escape(smuid, version)}\n" if smuid else ""
    return f"RECEIPT\nreceipt-id:{escape(receipt, version)}\n{of_message}\n\0".encode()


def command_word(command: str) -> str:
    """A command as it is told; of a login on a single line its first word alone, as a passcode follows."""
    word = (command.split(maxsplit=1) or [""])[0]
    return word if word in NEVER_ESCAPED else command


def write_error(
    refusal: Refusal, version: Version, receipt: str | None = None, command: str | None = None
) -> bytes:
    """ERROR; `receipt` and `command` are of the frame at fault, None where there is none."""
    body = (f"{command_word(command)}: {refusal.text}\n" if command else f"{refusal.text}\n").encode(
        errors="replace"
    )
    headers = {
        "message": refusal.code,
        "content-type": "text/plain;charset=utf-8",
        "content-length": str(len(body)),
    }
    if receipt is not None:
        headers["receipt-id"] = receipt
    if isinstance(refusal, NoCommonVersion):
        headers["version"] = ",".join(VERSIONS)
    return encode("ERROR", headers, body, version=version)

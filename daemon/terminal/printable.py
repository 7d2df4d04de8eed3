"""What came from others, made fit for a terminal: nothing in it moves the cursor, colours or hides."""

import unicodedata


def printable(text: str) -> str:
    """`text` with control, format, private and unassigned characters, and odd spaces, as escapes.

    What is left is one line; the bidirectional overrides that let text read as something else are gone.
    """
    return "".join(
        character
        if character == " " or unicodedata.category(character)[0] not in "CZ"
        else character.encode("unicode_escape").decode()
        for character in text
    )

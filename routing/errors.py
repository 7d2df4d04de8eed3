"""Every error that the core can raise, as one tree.

    Refusal                 somebody else's fault: told to whoever asked; the connection lives on
      HeaderRefusal         a header that cannot be read: names header, value, expectation
      FramingLost           the byte stream can no longer be cut into frames: the connection ends

An error of ours (a broken promise of the core) is a plain `AssertionError` or `KeyError` and ends
what met it, see `SiteState.mishap`; it is never shown to a peer.
"""

from typing import Final

SUBSCRIPTIONS: Final = "subscriptions"
"""What there may be too many of, as the subject of a refusal."""


class Refusal(Exception):
    """What was asked for is not done, and nothing of it was.

    Attributes:
        code: one of the words below.
        text: for people; programs look at the code, and at `subject` where one code has several.
        subject: what there is too much of: `SUBSCRIPTIONS`, or the name of a quota, by which the metrics
            count it; "" where nobody has to tell it apart.
        counted: whether the metrics have it: it may pass several places that count.
    """

    BAD_COMMAND: Final = "bad-command"
    BAD_FRAME: Final = "bad-frame"
    BAD_HEADER: Final = "bad-header"
    BAD_LOGIN: Final = "bad-login"
    BAD_TOPIC: Final = "bad-topic"
    FORBIDDEN: Final = "forbidden"
    LOCK_LOST: Final = "lock-lost"
    NOT_FOUND: Final = "not-found"
    NOT_LOGGED_IN: Final = "not-logged-in"
    NOT_SUBSCRIBED: Final = "not-subscribed"
    NOT_AVAILABLE: Final = "not-available"
    QUEUE_FULL: Final = "queue-full"
    STORE_FAILED: Final = "store-failed"
    TOO_LARGE: Final = "too-large"
    TOO_MANY: Final = "too-many"

    def __init__(self, code: str, text: str, *, subject: str = "") -> None:
        super().__init__(text)
        self.code = code
        self.text = text
        self.subject = subject
        self.counted = False


def not_all_done() -> Refusal:
    """A refusal which says that an error of ours met a part of what was asked."""
    return Refusal(Refusal.STORE_FAILED, "the site could not do all of this; its log says why")


class HeaderRefusal(Refusal):
    """A header that cannot be read or may not be sent. Source: routing contract 2."""

    def __init__(self, header: str, value: str, expected: str) -> None:
        shown = value if len(value) <= 80 else value[:77] + "..."
        super().__init__(Refusal.BAD_HEADER, f"{header}: {shown!r} is not {expected}")
        self.header = header
        self.value = value
        self.expected = expected


class FramingLost(Refusal):
    """Where the next frame begins is no longer known; the connection must be closed."""

    def __init__(self, text: str, code: str = Refusal.BAD_FRAME) -> None:
        super().__init__(code, text)

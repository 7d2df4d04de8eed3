"""Which message a decision is about: each kind says so as `about`, the id of a message of this site, or None.

One that does not is found by the checks of types, where `routing.decisions.message_of` asks for it. These are
for those that hold the message under one of these names, or none; what has it otherwise has an `about` of its
own.
"""

from routing.queue import Entry


class OfEntry:
    """A decision about the message of its `entry`."""

    __slots__ = ()
    entry: Entry

    @property
    def about(self) -> int:
        """The id of the message."""
        return self.entry.id


class OfEntryId:
    """A decision about the message with its `entry_id`; 0 for none."""

    __slots__ = ()
    entry_id: int

    @property
    def about(self) -> int:
        """The id of the message."""
        return self.entry_id


class OfNoMessage:
    """A decision about no message, or about more than the copy that is held here."""

    __slots__ = ()

    @property
    def about(self) -> None:
        """None."""
        return None

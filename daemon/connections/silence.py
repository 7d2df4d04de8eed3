"""How long a client has sent nothing, and for how long no whole frame; each has its end."""

import math

from daemon.connections.conversation import Conversation
from daemon.frontend import Site


class SilentError(Exception):
    """The client has sent nothing for longer than it said it would."""


class Silence:
    """Of one client; times are those of the loop's clock.

    Attributes:
        heard_at: when anything came, or the wait for that began.
        frame_at: when the latest frame did, or the client last said nothing with good reason.
    """

    def __init__(self, site: Site, conversation: Conversation) -> None:
        self.heard_at = 0.0
        self.frame_at = 0.0
        self._frames = 0  # that had come by then
        self._site = site
        self._conversation = conversation

    def until(self, *, rests: bool) -> float:
        """When it is too long that the client has sent nothing, or no whole frame."""
        return min(self._idle_at(rests=rests), self._dead_at())

    def _idle_at(self, *, rests: bool) -> float:
        conversation = self._conversation
        if conversation.frames != self._frames:
            self._frames, self.frame_at = conversation.frames, self.heard_at
        return math.inf if rests else self.frame_at + self._site.limits.idle_timeout_s

    def _dead_at(self) -> float:
        silence_s = self._conversation.silence_max_s
        return math.inf if silence_s is None else self.heard_at + silence_s

    def is_idle(self, now: float) -> bool:
        """Whether no whole frame has come for too long. Raises SilentError where no heart-beat came."""
        dead_at = self._dead_at()
        idle_at = self._idle_at(rests=self._conversation.rests)
        if dead_at <= now and dead_at < idle_at:
            raise SilentError("no heart-beat came")
        return idle_at <= now

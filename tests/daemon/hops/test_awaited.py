"""What `why` says of a peer that has not answered."""

import pytest

from daemon.hops.examine import Awaited, Findings, with_awaited
from daemon.hops.reader import Skipped


@pytest.mark.parametrize(
    ("awaited", "words"),
    [
        (Awaited("beta", is_up=False), "To be sent to beta when there is a link with it."),
        (Awaited("beta", is_up=True), "To be sent to beta when its turn comes on the link."),
        (
            Awaited("beta", is_up=True, may_have=True, attempt=2, sent_us=1_000_000),
            "Sent to beta at 1970-01-01 00:00:01.000000, attempt 2: its answer is awaited.",
        ),
        (
            Awaited("beta", is_up=False, may_have=True, attempt=2),
            "Perhaps beta has it, from attempt 2 that it has not answered:"
            " it is sent again when there is a link with it.",
        ),
        (
            Awaited("beta", is_up=True, may_have=True, attempt=1),
            "Perhaps beta has it, from attempt 1 that it has not answered:"
            " it is sent again when its turn comes on the link.",
        ),
        (
            Awaited("beta", is_up=False, may_have=True),
            "To be sent to beta when there is a link with it;"
            " whether it was before the last start of this site is not known.",
        ),
    ],
)
def test_it_is_said_whether_a_peer_may_have_a_message(awaited: Awaited, words: str) -> None:
    held = Findings(
        smuid="alpha/01a1fe3aed21-1-1",
        state="held",
        verdict="Still held.",
        covered=True,
        fate=None,
        records=[],
        unread=Skipped(),
    )
    assert with_awaited(held, [awaited]).verdict == f"Still held. {words}"

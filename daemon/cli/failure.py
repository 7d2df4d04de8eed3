"""How a command says that it failed: one line on stderr, and an exit code that scripts can rely on.

0  done            2  wrong usage                    4  refused: login or rights
1  it failed       3  the daemon cannot be reached
"""

import sys
from typing import Final, NoReturn

FAILED: Final = 1
USAGE: Final = 2
UNREACHABLE: Final = 3
REFUSED: Final = 4


class Failure(Exception):
    """Ends the command. The text says what went wrong and, where it helps, what to do: `what; what to do`."""

    def __init__(self, text: str, exit_code: int = FAILED) -> None:
        super().__init__(text)
        self.exit_code = exit_code


def fail(text: str, exit_code: int = FAILED) -> NoReturn:
    """Print `text` as one line, and exit."""
    print("smqpd: " + " ".join(text.split()), file=sys.stderr)
    sys.exit(exit_code)

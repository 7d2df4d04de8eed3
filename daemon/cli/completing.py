"""What the shell completes: names of topics, accounts and peers, asked of the site or read from its files.

A shell that completes is told nothing of what fails. What only some names need is imported for these: every
command imports this, and somebody waits for each Tab.
"""

import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import msgspec
import typer

from daemon.cli.options import DEFAULT_CONFIG, read_settings, state_directory
from daemon.control.client import ask
from daemon.control.operators import AskSessions, AskTopics
from daemon.operating.sessions import SessionStatus
from daemon.operating.topics import TopicPage

COMPLETED_MAX = 100

PATIENCE_S = 3.0
"""Of somebody who has pressed Tab."""

SAFE = re.compile(r"[\w.:@+~/,%=-]+")
"""Names that mean themselves to every shell. zsh evaluates what is completed, bash inserts it as it is: in a
topic's name, which any publisher chooses, a Tab or the Enter after it would run what stands in `$(...)`."""


def _site(context: typer.Context) -> Path:
    named = context.params.get("config")
    return Path(named or os.environ.get("SMQPD_SITE") or os.environ.get("SMQPD_CONFIG") or DEFAULT_CONFIG)


def _completes(names: Callable[[Path, str], Iterable[str]]) -> Callable[[typer.Context, str], list[str]]:
    def complete(ctx: typer.Context, incomplete: str) -> list[str]:
        try:
            found = names(_site(ctx), incomplete)
            return [name for name in found if name.startswith(incomplete) and SAFE.fullmatch(name)]
        except Exception:  # whatever it is, there is nothing to complete
            return []

    return complete


def _asked(site: Path, question: Any, expected: Any) -> Any:
    return msgspec.json.decode(ask(state_directory(site), question, PATIENCE_S), type=expected)


@_completes
def complete_topic(site: Path, incomplete: str) -> Iterable[str]:
    """Topics that begin so."""
    search = AskTopics(search=incomplete, count=COMPLETED_MAX)
    return [topic.name for topic in _asked(site, search, TopicPage).topics]


@_completes
def complete_session(site: Path, incomplete: str) -> Iterable[str]:
    """Ids of sessions."""
    return [str(session.id) for session in _asked(site, AskSessions(), list[SessionStatus])]


@_completes
def complete_account(site: Path, incomplete: str) -> Iterable[str]:
    """Accounts in the file."""
    from daemon.accounts.accounts_file import read_accounts

    return read_accounts(read_settings(site).site.accounts_file)


@_completes
def complete_peer(site: Path, incomplete: str) -> Iterable[str]:
    """Peers in the file."""
    from daemon.link.peers_file import load_peers

    return load_peers(read_settings(site).links.peers_file)

"""peers.toml: what it says, what it refuses, and that editing it keeps what people wrote."""

import os
import threading
from pathlib import Path

import pytest

from daemon.link.peers_editor import add_peer, remove_peer
from daemon.link.peers_file import PEERS_MAX, PeerEntry, load_peers
from daemon.settings import ConfigError
from tests.support.required import needs_root


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "peers.toml"


def test_no_file_means_no_peers(path: Path) -> None:
    assert load_peers(path) == {}


def test_a_peer_with_a_name_alone_is_waited_for_and_may_send_everything(path: Path) -> None:
    path.write_text('[[peers]]\nname = "beta"\n')
    peer = load_peers(path)["beta"]
    assert peer == PeerEntry(
        name="beta", address=None, allow_in=("#",), allow_out=("#",), depth_max=-1, flood=False
    )


def test_patterns_bound_each_direction(path: Path) -> None:
    path.write_text('[[peers]]\nname = "beta"\nallow_in = ["weather.#"]\nallow_out = []\n')
    peer = load_peers(path)["beta"]
    assert (peer.allow_in, peer.allow_out) == (("weather.#",), ())


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('name = "Beta"', "is not a server name"),
        ('name = "beta"\naddress = "beta"', "peers[0].address: expected `host:port` or `[v6]:port`"),
        ('name = "beta"\naddress = "beta:99999999"', "expected"),
        ('name = "beta"\naddress = "beta:65536"', "peers[0]: address: 'beta:65536' has a host or a port"),
        ('name = "beta"\naddress = "beta..example:721"', "has a host or a port that cannot be"),
        (f'name = "beta"\naddress = "{"x" * 64}:721"', "has a host or a port that cannot be"),
        ('name = "beta"\naddress = "[::1::2]:721"', "has a host or a port that cannot be"),
        ('name = "beta"\nallow_in = ["a.#.b"]', "is not a topic pattern"),
        ('name = "beta"\ndepth_max = -2', "depth_max"),
        ('name = "beta"\nflod = true', "did you mean flood"),
        ('address = "beta:720"', "is required"),
        ('name = "beta"\n[[peers]]\nname = "beta"', "beta is there twice"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_the_file_and_the_reason(
    path: Path, line: str, problem: str
) -> None:
    path.write_text(f"[[peers]]\n{line}\n")
    with pytest.raises(ConfigError) as refused:
        load_peers(path)
    assert str(path) in str(refused.value)
    assert problem in str(refused.value)


def test_adding_and_removing_keep_comments_and_other_peers(path: Path) -> None:
    path.write_text('# ours since 2019\n[[peers]]\nname = "beta"  # the old one\n')
    gamma = PeerEntry(
        name="gamma:720", address="[2001:db8::7]:721", allow_in=("a.*",), depth_max=4, flood=True
    )
    add_peer(path, gamma)
    assert load_peers(path) == {"beta": PeerEntry(name="beta"), "gamma:720": gamma}
    remove_peer(path, "gamma:720")
    text = path.read_text()
    assert "# ours since 2019" in text
    assert "# the old one" in text
    assert "gamma" not in text


def test_a_peer_can_be_added_where_there_is_no_file_and_the_last_removed(path: Path) -> None:
    add_peer(path, PeerEntry(name="beta"))
    remove_peer(path, "beta")
    assert load_peers(path) == {}
    add_peer(path, PeerEntry(name="beta", address="beta.example:721"))
    assert load_peers(path)["beta"].address == "beta.example:721"


def test_a_peer_is_not_added_twice_nor_removed_when_it_is_none(path: Path) -> None:
    add_peer(path, PeerEntry(name="beta"))
    with pytest.raises(ConfigError, match="beta is already a peer"):
        add_peer(path, PeerEntry(name="beta"))
    with pytest.raises(ConfigError, match="gamma is not a peer"):
        remove_peer(path, "gamma")


@pytest.mark.parametrize(
    ("text", "there"),
    [
        ("# none yet\npeers = []\n", []),
        ('# ours\npeers = [{name = "beta"}, {name = "gamma", flood = true}]\n', ["beta", "gamma"]),
        ('# ours\n[[peers]]\nname = "beta"', ["beta"]),
    ],
    ids=["none", "one-list", "no-last-newline"],
)
def test_peers_that_are_written_in_another_way_can_be_changed(
    path: Path, text: str, there: list[str]
) -> None:
    path.write_text(text)
    before = load_peers(path)
    delta = PeerEntry(name="delta", address="delta.example:721", allow_in=("a.*",))
    add_peer(path, delta)
    assert load_peers(path) == {**before, "delta": delta}
    assert path.read_text().startswith(text.splitlines()[0])
    for name in there:
        path.write_text(text)
        changed = PeerEntry(name=name, depth_max=3)
        add_peer(path, changed, replace=True)
        assert load_peers(path) == {**before, name: changed}
        path.write_text(text)
        remove_peer(path, name)
        assert list(load_peers(path)) == [other for other in there if other != name]


def test_no_more_peers_are_added_than_a_site_starts_with(path: Path) -> None:
    path.write_text("".join(f'[[peers]]\nname = "site{number}"\n' for number in range(PEERS_MAX)))
    with pytest.raises(ConfigError, match="there are 1,000 already, and no more may be"):
        add_peer(path, PeerEntry(name="beta"))
    add_peer(path, PeerEntry(name="site7", flood=True), replace=True)
    assert len(load_peers(path)) == PEERS_MAX


@needs_root
@pytest.mark.parametrize("is_there", [True, False])
def test_what_root_writes_is_readable_for_whoever_runs_the_daemon(path: Path, is_there: bool) -> None:
    nobody = 65_534
    if is_there:
        add_peer(path, PeerEntry(name="beta"))
        os.chown(path, nobody, nobody)
    else:
        os.chown(path.parent, nobody, nobody)
    add_peer(path, PeerEntry(name="gamma"))
    assert (path.stat().st_uid, path.stat().st_gid) == (nobody, nobody)


def test_of_peers_that_are_added_at_once_none_is_lost(path: Path) -> None:
    names = [f"site{number}" for number in range(20)]
    adding = [threading.Thread(target=add_peer, args=(path, PeerEntry(name=name))) for name in names]
    for one in adding:
        one.start()
    for one in adding:
        one.join()
    assert sorted(load_peers(path)) == sorted(names)

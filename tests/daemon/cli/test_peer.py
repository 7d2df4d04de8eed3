"""`smqpd peer`, as an operator uses it."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from daemon.cli.peer import app
from daemon.link.peers_file import PeerEntry, load_peers
from daemon.settings import ConfigError
from daemon.terminal.failure import USAGE, Failure


@pytest.fixture(autouse=True)
def _in_a_site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "smqpd.toml").write_text('[site]\nserver_name = "alpha"\n')
    monkeypatch.chdir(tmp_path)


def peer(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def done(*arguments: str) -> str:
    result = peer(*arguments)
    assert result.exit_code == 0, result.exception
    return result.stdout


def test_a_peer_is_added_with_its_rules_listed_and_removed() -> None:
    done(
        "add",
        "beta:720",
        "192.0.2.7:721",
        "--allow-in",
        "a.#",
        "--allow-in",
        "b",
        "--depth-max",
        "4",
        "--flood",
    )
    done("add", "gamma", "--allow-out", "none")
    assert load_peers(Path("peers.toml")) == {
        "beta:720": PeerEntry(
            name="beta:720", address="192.0.2.7:721", allow_in=("a.#", "b"), depth_max=4, flood=True
        ),
        "gamma": PeerEntry(name="gamma", allow_out=()),
    }
    listed = json.loads(done("list", "--json"))
    assert [(one["name"], one["address"]) for one in listed] == [
        ("beta:720", "192.0.2.7:721"),
        ("gamma", None),
    ]
    assert "(dials us)" in done("list")
    done("remove", "beta:720")
    assert list(load_peers(Path("peers.toml"))) == ["gamma"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("Beta!",), "is not a server name"),
        (("alpha",), "alpha is this site itself"),
        (("beta", "beta.example:70000"), "address: 'beta.example:70000' has a host or a port"),
        (("beta", "nowhere"), "address: expected `host:port` or `[v6]:port`"),
        (("beta", "--depth-max", "2147483648"), "depth_max"),
        (("beta", "--allow-in", "a.#.b"), "is not a topic pattern"),
    ],
)
def test_what_is_no_peer_is_explained(arguments: tuple[str, ...], said: str) -> None:
    failure = peer("add", *arguments).exception
    assert isinstance(failure, Failure)
    assert failure.exit_code == USAGE
    assert said in str(failure)
    assert not Path("peers.toml").exists()


def test_a_peer_is_not_added_twice() -> None:
    done("add", "beta")
    failure = peer("add", "beta").exception
    assert isinstance(failure, ConfigError)
    assert "beta is already a peer; --replace changes it" in str(failure)


def test_the_rules_of_a_peer_are_replaced_as_a_whole_and_where_they_stand() -> None:
    done("add", "beta", "192.0.2.7:721", "--depth-max", "3")
    done("add", "gamma")
    path = Path("peers.toml")
    path.write_text(path.read_text().replace("depth_max = 3", "depth_max = 3  # they asked for it"))
    assert done("add", "beta", "--allow-in", "a.#", "--replace").startswith("Changed beta. ")
    assert "# they asked for it" in path.read_text()
    assert load_peers(path)["beta"] == PeerEntry(name="beta", allow_in=("a.#",))
    assert list(load_peers(path)) == ["beta", "gamma"]
    assert done("add", "delta", "--replace").startswith("Added delta. ")
    assert list(load_peers(path)) == ["beta", "gamma", "delta"]

"""What a configuration file may say, and how it is told what it may not."""

import tomllib
from pathlib import Path
from typing import Annotated, Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon.configuration.config import load
from daemon.configuration.discovery import Installed
from daemon.configuration.template import render, toml_value
from daemon.settings import ConfigError, Settings, SiteSettings

SITE = '[site]\nserver_name = "a.example"\n'


class EchoSettings(msgspec.Struct, frozen=True):
    """A front end for tests."""

    listen: Annotated[tuple[str, ...], msgspec.Meta(description="Where.")] = ("localhost:1",)
    secret_file: Path | None = None
    listen_tls: tuple[str, ...] = ()
    listen_websocket_tls: tuple[str, ...] = ()


class Echo:
    name = "echo"
    settings = EchoSettings

    def __init__(self, enabled_by_default: bool) -> None:
        self.enabled_by_default = enabled_by_default

    def check(self, settings: Any, accounts: Any) -> Any:
        raise AssertionError("a configuration is read without its accounts")

    async def serve(self, site: Any, settings: Any, task_status: Any = None) -> None:
        raise AssertionError("a configuration starts nothing")


ECHOES: dict[str, Any] = {"echo": Echo(True), "quiet": Echo(False)}
INSTALLED = Installed(ECHOES, {"xmpp": "No module named 'slixmpp'"})


@pytest.fixture
def read(tmp_path: Path) -> Any:
    def read(text: str) -> Settings:
        file = tmp_path / "smqpd.toml"
        file.write_text(text)
        return load(file, INSTALLED)

    return read


def test_a_server_name_is_all_that_must_be_said(read: Any, tmp_path: Path) -> None:
    settings = read(SITE)
    assert settings.site.server_name == "a.example"
    assert settings.queues.max_deliveries == 16
    assert settings.limits.message_bytes_max == 16 * 1024 * 1024
    assert settings.plugins == {"echo": EchoSettings()}


def test_paths_are_relative_to_the_file(read: Any, tmp_path: Path) -> None:
    settings = read(SITE + 'accounts_file = "/etc/accounts"\n[plugins.quiet]\nsecret_file = "s"')
    assert settings.site.state_directory == tmp_path / "state"
    assert settings.site.accounts_file == Path("/etc/accounts")
    assert settings.plugins["quiet"].secret_file == tmp_path / "s"


def test_a_table_runs_a_front_end_unless_it_says_otherwise(read: Any) -> None:
    assert set(read(SITE + "[plugins.quiet]").plugins) == {"echo", "quiet"}
    assert set(read(SITE + "[plugins.echo]\nenabled = false\nlisten = []").plugins) == set()
    assert set(read(SITE + "[plugins.xmpp]\nenabled = false").plugins) == {"echo"}


def test_whole_numbers_are_seconds_too(read: Any) -> None:
    assert read(SITE + "[queues]\nlock_s = 5").queues.lock_s == 5.0


@pytest.mark.parametrize(
    ("text", "key", "problem"),
    [
        ("", "site", "is required"),
        ("[site]", "site.server_name", "is required"),
        ("site = 3", "site", "expected a table"),
        ('[site]\nserver_name = "a b"', "site.server_name", "a lower-case host"),
        ("[site]\nserver_name = 3", "site.server_name", "a lower-case host"),
        (f'[site]\nserver_name = "{191 * "a"}"', "site.server_name", "of at most 190 characters"),
        ('[site]\nserver_nam = "a"', "site.server_nam", "did you mean server_name?"),
        (SITE + "[queue]", "queue", "did you mean queues?"),
        (SITE + '[queues]\nlock_s = "60"', "queues.lock_s", "expected a number, got text in quotes"),
        (SITE + "[queues]\nlock_s = -1", "queues.lock_s", ">= 0.1"),
        (SITE + "[queues]\nlock_s = nan", "queues.lock_s", "finite"),
        (SITE + "[queues]\nlock_s = inf", "queues.lock_s", "finite"),
        (
            SITE + "[queues]\nmax_deliveries = 1.5",
            "queues.max_deliveries",
            "expected a whole number, got a number",
        ),
        (
            SITE + "[queues]\nmax_deliveries = true",
            "queues.max_deliveries",
            "expected a whole number, got true or false",
        ),
        (SITE + '[log]\nlevel = "loud"', "log.level", "one of debug, error, info, warning"),
        (SITE + '[tls]\nkey = "k"', "tls", "both be given"),
        (SITE + "state_directory = 1", "site.state_directory", "path of a file"),
        (SITE + '[plugins.echo]\nlisten = "a"', "plugins.echo.listen", "expected a list, got text"),
        (SITE + "[plugins.echo]\nlisten = [1]", "plugins.echo.listen[0]", "expected text in quotes"),
        (SITE + '[links]\nlisten = ["a:1", "b"]', "links.listen[1]", "expected `host:port`, `[v6]:port`"),
        (SITE + '[links]\nlisten = ["a:65536"]', "links.listen[0]", "expected `host:port`"),
        (SITE + "[plugins.echo]\nlistens = []", "plugins.echo.listens", "did you mean listen?"),
        (SITE + "[plugins.echo]\nenabled = 1", "plugins.echo.enabled", "true or false"),
        (SITE + "[plugins.ecko]", "plugins.ecko", "did you mean echo?"),
        (SITE + "[plugins.xmpp]", "plugins.xmpp", "slixmpp"),
        (SITE + "[plugins]\necho = 1", "plugins.echo", "expected a table"),
        ("plugins = 1", "plugins", "expected tables"),
        ("[site", "", "is not TOML"),
        (f"{SITE}drain_s = {5_000 * '1'}", "", "a number of too many digits"),
        (f"x = {3_000 * '['}", "", "too deep in each other"),
    ],
)
def test_what_cannot_be_is_refused_with_file_key_and_expectation(
    read: Any, tmp_path: Path, text: str, key: str, problem: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        read(text)
    assert caught.value.key == key
    assert problem in caught.value.problem
    assert str(caught.value).startswith(str(tmp_path / "smqpd.toml"))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("setting", ["listen_tls", "listen_websocket_tls"])
def test_tls_without_a_certificate_is_refused_before_anything_listens(tmp_path: Path, setting: str) -> None:
    file = tmp_path / "smqpd.toml"
    file.write_text(SITE + f'[plugins.echo]\n{setting} = ["localhost:2"]\n')
    with pytest.raises(ConfigError, match=rf"plugins\.echo\.{setting}: needs certificate and key"):
        load(file, INSTALLED)


def test_a_file_that_is_absent_binary_or_huge_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "x.toml"
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        load(file, INSTALLED)
    file.write_bytes(b"# \xff")
    with pytest.raises(ConfigError, match="not UTF-8 at byte 2"):
        load(file, INSTALLED)
    file.write_bytes(b"#" * 2_000_000)
    with pytest.raises(ConfigError, match="larger than"):
        load(file, INSTALLED)


def test_defaults_keep_their_own_bounds(read: Any) -> None:
    """A default is never checked when it is left out, so check all of them once."""
    settings = Settings(site=SiteSettings(server_name="a"))
    assert read(render(settings, all_keys=True)).queues == settings.queues


@pytest.mark.parametrize("all_keys", [False, True])
def test_what_is_rendered_reads_back_as_the_same(read: Any, all_keys: bool) -> None:
    before = read(
        SITE + '[queues]\nlock_s = 7.5\n[log]\nlevel = "debug"\n[plugins.quiet]\nlisten = ["x", "y"]'
    )
    assert read(render(before, all_keys=all_keys)) == before


def test_a_rendered_default_is_a_comment_with_its_meaning(read: Any) -> None:
    lines = render(read(SITE)).splitlines()
    at = lines.index("# max_deliveries = 16")
    assert lines[at - 1] == "# Failed deliveries after which a message goes to the dead-letter topic."


values = st.recursive(
    st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)


@given(values)
def test_any_value_is_written_as_toml_that_reads_back(value: Any) -> None:
    assert tomllib.loads(f"x = {toml_value(value)}")["x"] == value

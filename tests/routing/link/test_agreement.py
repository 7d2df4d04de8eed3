"""What two sites agree on, and which connection is their link."""

import msgspec
import pytest

from routing.link.agreement import agree, is_arbiter, judge, refusal
from routing.link.forgery import forged
from routing.link.units import Hello
from routing.message import DeliveryMode, Message

ALPHA = Hello(server="alpha", site="s1", boot=5, features=("custody", "flood"), version=(1, 1))
BETA = Hello(server="beta", site="s2", boot=9, features=("flood", "shiny"), window_units=7, window_bytes=70)


def changed(hello: Hello, **fields: object) -> Hello:
    return msgspec.structs.replace(hello, **fields)


def test_the_lower_version_the_common_features_and_the_peers_window_hold() -> None:
    agreed = agree(ALPHA, BETA)
    assert (agreed.version, agreed.features) == ((1, 0), ("flood",))
    assert (agreed.window_units, agreed.window_bytes) == (7, 70)


def test_an_old_peer_without_features_is_understood() -> None:
    old = Hello(server="beta", boot=1)
    assert refusal(ALPHA, old, "beta") is None
    assert agree(ALPHA, old).features == ()


def test_another_major_version_is_refused() -> None:
    assert (
        refusal(ALPHA, changed(BETA, version=(2, 0)), "beta")
        == "beta speaks smqp-link/2.0, alpha smqp-link/1.0"
    )


def test_a_name_other_than_the_certificates_is_refused() -> None:
    said = refusal(ALPHA, BETA, "gamma")
    assert said == "who says that it is beta has the certificate of gamma"


def test_a_peer_with_this_sites_own_name_is_refused() -> None:
    assert refusal(ALPHA, changed(ALPHA, site="s9"), "alpha") == "there is another site of the name alpha"


def test_exactly_one_of_two_sites_decides() -> None:
    assert is_arbiter("alpha", "beta")
    assert not is_arbiter("beta", "alpha")


@pytest.mark.parametrize(
    ("current", "verdict"),
    [
        (None, "welcome"),
        (changed(BETA, boot=8), "welcome"),
        (changed(BETA, boot=10), "welcome"),
        (BETA, "linked"),
        (changed(BETA, site="other"), "name-claimed"),
    ],
)
def test_the_arbiter_judges_by_what_it_holds(current: Hello | None, verdict: str) -> None:
    assert judge(current, BETA) == verdict


SMUID = "alpha/0123456789ab-1-2"


@pytest.mark.parametrize(
    ("hops", "mode", "smuid", "said"),
    [
        (("alpha", "beta"), "ALL", SMUID, None),
        (("alpha",), "ALL", SMUID, "Hops does not end with beta, which sent it"),
        ((), "ALL", SMUID, "Hops does not end with beta, which sent it"),
        (("alpha", "beta", "alpha", "beta"), "ALL", SMUID, "Hops names a server twice"),
        (("alpha", "beta", "alpha", "beta"), "ONE", SMUID, None),
        (("gamma", "beta"), "ALL", SMUID, "Smuid is of alpha, but Hops begins with gamma"),
        (("alpha", "beta"), "ALL", "", "Smuid is missing"),
    ],
)
def test_a_forged_route_or_id_is_noticed(
    hops: tuple[str, ...], mode: DeliveryMode, smuid: str, said: str | None
) -> None:
    assert forged("beta", hops, Message(smuid=smuid, account="ada:desk@alpha"), mode) == said

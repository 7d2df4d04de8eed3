"""A site starts again: before it has its peers, it decides nothing over what it is to see to."""

from pathlib import Path

import pytest

from routing.federation import own_leaves
from tests.support.stored_sites import StoredFederation


@pytest.mark.parametrize("says_what_it_wants", [True, False])
def test_what_waits_for_others_is_kept_over_a_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, says_what_it_wants: bool
) -> None:
    """Also for a site that wants too much to say what, and so passes for one that wants everything."""
    sites = StoredFederation(tmp_path, {("a", "b"), ("b", "x")})
    sites.subscribe("x")
    if not says_what_it_wants:
        monkeypatch.setattr(own_leaves, "SITE_LEAVES_MAX", 0)
    sites.begin_news()
    for _ in range(2):
        sites.settle()
        sites.pass_time(3.0)
    sites.settle()
    sites.cut("a", "b")
    sites.settle()
    sites.publish("a", depth=-1)
    sites.kill("a")
    sites._begin("a")
    sites.take("a")  # as the broker does, before the links have begun
    sites.routers["a"].timing.tick(sites.now)
    sites.take("a")
    sites.stores["a"].close()
    sites.start("a", "b")
    for _ in range(3):
        sites.settle()
        sites.pass_time(3.0)
    sites.settle()
    try:
        assert sites.delivered["x", "m"] == 1
    finally:
        sites.close()

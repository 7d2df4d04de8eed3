"""Receipts where a transfer is repeated whose question has been answered."""

from pathlib import Path

import pytest

from tests.support.stored_sites import StoredFederation


@pytest.mark.parametrize("seed", range(4))
def test_an_answered_question_takes_nobody_on(tmp_path: Path, seed: int) -> None:
    """What b answered is on disk at a, and that b has acknowledged the copy is not, and both are killed.

    So a repeats the copy for e, and sends b another for d, which it cannot reach by itself any more.
    """
    sites = StoredFederation(tmp_path, {("o", "a"), ("a", "b"), ("b", "e"), ("b", "d"), ("a", "d")}, seed)
    sites.subscribe("e")
    sites.subscribe("d")
    sites.subscribe("o", "x:publisher@o", channel="publisher")
    sites.begin_news()
    for _ in range(2):
        sites.settle()
        sites.pass_time(3.0)
    sites.settle()
    sites.publish("o", depth=-1, receipt="ALL")
    while not sites.bulk["a", "d"]:
        sites.settle(1)
    sites.bulk["a", "d"].clear()
    sites.settle()
    assert sites.delivered == {("e", "m"): 1}
    sites.commit("e", "m")
    sites.settle()
    [answered] = sites.routers["b"].receipts.answers["a"]
    sites.routers["b"].receipts.answered("a", answered)
    sites.take("b")
    sites.kill("b")
    sites.start("b", "e", "d")
    sites.settle()
    sites.kill("a")
    sites.start("a", "o", "b")
    for _ in range(2):
        sites.settle()
        sites.pass_time(3.0)
    sites.settle()
    assert sites.delivered["d", "m"] == 1
    sites.commit("d", "m")
    sites.settle()
    sites.join("a", "d")
    sites.settle()
    try:
        assert sites.receipts == ["2/2"]
    finally:
        sites.close()

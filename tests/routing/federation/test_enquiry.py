"""Questions over links: what is asked on, what is answered at once, and how much of it."""

import pytest

from routing.errors import Refusal
from routing.federation import enquiry
from routing.federation.allowance import Allowance
from routing.federation.enquiry import About, Ask, Enquiries, Ping, Trace, Why, check_ask, kind
from routing.peering.counts import HOPS_MAX

KEY = "alpha/1-1"
SMUID = "alpha/01a1fe3aed21-1-1"


PING = Ping("delta")


def ask(about: About = PING, *, key: str = KEY, hops: tuple[str, ...] = ("alpha",)) -> Ask:
    return Ask(key, about, hops, 5.0)


def trace(depth: int) -> Ask:
    return ask(Trace("weather", depth=depth))


class TestHearing:
    def test_a_question_is_new_once_and_whoever_brought_it_first_hears_the_answers(self) -> None:
        beta = Enquiries("beta")
        assert beta.hear(ask(), "alpha", 0.0) == "first"
        assert beta.hear(ask(hops=("alpha", "gamma")), "gamma", 0.0) == "duplicate"
        beta.asking(KEY, "delta")
        assert beta.answered(KEY, "delta", 100, 1.0) == "alpha"

    def test_the_site_that_asks_first_hears_the_answers_itself(self) -> None:
        alpha = Enquiries("alpha")
        assert alpha.hear(ask(hops=()), "", 0.0) == "first"
        alpha.asking(KEY, "beta")
        assert alpha.answered(KEY, "beta", 100, 1.0) == ""

    def test_a_trace_goes_on_again_where_it_comes_with_more_depth(self) -> None:
        beta = Enquiries("beta")
        depths = [2, 2, 1, 3, -1, 100, -1]
        verdicts = [beta.hear(trace(depth), "alpha", 0.0) for depth in depths]
        assert verdicts == ["first", "duplicate", "duplicate", "wider", "wider", "duplicate", "duplicate"]

    def test_a_question_that_has_been_here_is_a_loop(self) -> None:
        beta = Enquiries("beta")
        assert beta.hear(ask(hops=("alpha", "beta", "gamma")), "gamma", 0.0) == "loop"

    def test_an_answer_that_nobody_was_asked_for_is_dropped(self) -> None:
        beta = Enquiries("beta")
        assert beta.answered(KEY, "gamma", 100, 0.0) is None
        beta.hear(ask(), "alpha", 0.0)
        beta.asking(KEY, "delta")
        assert beta.answered(KEY, "gamma", 100, 0.0) is None

    def test_an_answer_that_comes_too_late_is_dropped(self) -> None:
        beta = Enquiries("beta")
        beta.hear(ask(), "alpha", 0.0)
        beta.asking(KEY, "delta")
        assert beta.left_s(KEY, 3.0) == 2.0
        assert beta.answered(KEY, "delta", 100, 5.0) is None
        assert beta.left_s(KEY, 6.0) == 0.0

    def test_no_question_lives_longer_than_any_may(self) -> None:
        beta = Enquiries("beta")
        beta.hear(Ask(KEY, Ping("x"), ("alpha",), 1e12), "alpha", 0.0)
        assert beta.left_s(KEY, 0.0) == enquiry.LEFT_S_MAX

    def test_what_is_forgotten_is_answered_no_more(self) -> None:
        alpha = Enquiries("alpha")
        alpha.hear(ask(hops=()), "", 0.0)
        alpha.asking(KEY, "beta")
        alpha.forget(KEY)
        assert alpha.answered(KEY, "beta", 1, 0.0) is None


class TestBounds:
    def test_a_peer_may_ask_so_much_at_once_and_then_so_much_a_second(self) -> None:
        beta = Enquiries("beta")
        for _ in range(int(enquiry.ASKS_AT_ONCE)):
            assert beta.hear(ask(), "alpha", 10.0) != "busy"
        assert beta.hear(ask(), "alpha", 10.0) == "busy"
        assert beta.hear(ask(), "gamma", 10.0) != "busy"
        assert beta.hear(ask(), "alpha", 10.0 + 1.5 / enquiry.ASKS_PER_S) != "busy"

    def test_a_peer_may_have_the_log_read_less_often(self) -> None:
        beta = Enquiries("beta")
        heard = [beta.hear(ask(Why(SMUID), key=f"alpha/1-{n:x}"), "alpha", 0.0) for n in range(20)]
        assert heard.count("first") == enquiry.LOG_READS_AT_ONCE
        assert beta.hear(ask(key="alpha/2-1"), "alpha", 0.0) == "first"

    def test_the_same_question_by_many_ways_has_the_log_read_once(self) -> None:
        beta = Enquiries("beta")
        assert beta.hear(ask(Why(SMUID)), "alpha", 0.0) == "first"
        assert {beta.hear(ask(Why(SMUID)), "alpha", 0.0) for _ in range(50)} == {"duplicate"}

    def test_only_so_many_questions_are_remembered_and_old_ones_make_room(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(enquiry, "QUESTIONS_MAX", 3)
        beta = Enquiries("beta")
        heard = [beta.hear(ask(key=f"alpha/1-{n}"), "alpha", 0.0) for n in range(4)]
        assert heard == ["first"] * 3 + ["busy"]
        assert beta.hear(ask(key="gamma/1-1"), "gamma", 0.0) == "first"
        assert beta.hear(ask(key="beta/1-1", hops=()), "", 0.0) == "first"
        assert beta.hear(ask(key="alpha/1-9"), "alpha", 5.0) == "first"

    def test_only_so_many_answers_are_passed_on(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(enquiry, "ANSWERS_MAX", 2)
        beta = Enquiries("beta")
        beta.hear(ask(), "alpha", 0.0)
        beta.asking(KEY, "delta")
        assert [beta.answered(KEY, "delta", 1, 0.0) for _ in range(3)] == ["alpha", "alpha", None]

    def test_only_so_many_bytes_are_passed_on(self) -> None:
        beta = Enquiries("beta")
        beta.hear(ask(), "alpha", 0.0)
        beta.asking(KEY, "delta")
        assert beta.answered(KEY, "delta", enquiry.ANSWER_BYTES_MAX, 0.0) == "alpha"
        assert beta.answered(KEY, "delta", 1, 0.0) is None

    def test_an_allowance_is_never_more_than_what_is_allowed_at_once(self) -> None:
        allowance = Allowance(1.0, 2.0)
        assert [allowance.take(1_000.0) for _ in range(3)] == [True, True, False]
        assert [allowance.take(2_000.0) for _ in range(3)] == [True, True, False]


class TestChecking:
    @pytest.mark.parametrize("about", [Ping("delta:720"), Trace("weather"), Why(SMUID)])
    def test_what_an_honest_peer_asks_is_taken(self, about: About) -> None:
        check_ask(ask(about, hops=("alpha", "beta")), "beta")

    @pytest.mark.parametrize(
        "wrong",
        [
            ask(key="alpha"),
            ask(key="alpha/1-1 "),
            ask(key=f"{'a' * 250}.{'a' * 60}/1-1"),
            ask(hops=()),
            ask(hops=("beta",)),
            ask(hops=("Not A Server", "alpha")),
            ask(hops=("x",) * HOPS_MAX + ("alpha",)),
            ask(Ping("Not A Server")),
            ask(Trace("not a topic")),
            ask(Why("no smuid")),
        ],
    )
    def test_what_no_honest_peer_asks_is_refused(self, wrong: Ask) -> None:
        with pytest.raises(Refusal):
            check_ask(wrong, "alpha")

    def test_each_kind_has_a_word_among_the_features(self) -> None:
        assert {kind(Ping("x")), kind(Trace("t")), kind(Why(SMUID))} == set(enquiry.FEATURES)

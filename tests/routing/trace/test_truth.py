"""What the jobs say about a federation whose truth is known."""

from collections import Counter
from statistics import median
from typing import Any

from tests.support.traced import TracedLogs


def accepted(route: dict[str, Any]) -> set[tuple[str, str]]:
    return {(hop["from"], hop["to"]) for hop in route["hops"] if hop["kind"] == "accepted"}


def true_edges(message: dict[str, Any]) -> set[tuple[str, str]]:
    return {(a, b) for a, b, _ in message["accepted"]}


def delay_errors(traced: TracedLogs, which: str) -> list[int]:
    return [
        abs(hop[which] - traced.delays[smuid, hop["from"], hop["to"]])
        for smuid, route in traced.routes.items()
        for hop in route["hops"]
        if hop["kind"] == "accepted" and hop["delay_us"] is not None
    ]


class TestWithAllLogs:
    def test_every_route_is_exactly_right(self, whole: TracedLogs) -> None:
        assert whole.routes.keys() == whole.messages.keys()
        for smuid, message in whole.messages.items():
            route = whole.routes[smuid]
            assert accepted(route) == true_edges(message)
            again = {(h["from"], h["to"]) for h in route["hops"] if h["kind"] == "depth"}
            assert again == {tuple(edge) for edge in message["widened"]}
            assert route["state"] == "complete"
            assert route["origin"] == message["origin"]
            assert (route["topic"], route["mode"]) == (message["topic"], message["mode"])
            assert route["committed"] == message["committed"]
            assert {c["server"]: c["state"] for c in route["copies"]} == message["states"]

    def test_every_link_count_is_exactly_right(self, whole: TracedLogs) -> None:
        names = {
            "messages": "accepted",
            "attempts": "sent",
            "lost": "lost",
            "unanswered": "unanswered",
            "duplicates": "duplicate",
            "loops": "loop",
            "widened": "depth",
        }
        found: dict[tuple[str, str], Counter[str]] = {}
        for row in whole.table("links").collect():
            counts = found.setdefault((row["from"], row["to"]), Counter())
            counts.update({name: row[name] for name in names})
        assert found.keys() == whole.links.keys()
        for link, truth in whole.links.items():
            assert {name: found[link][name] for name in names} == {
                name: truth.get(true, 0) for name, true in names.items()
            }

    def test_a_message_that_crosses_midnight_is_one_route_of_its_day_of_birth(
        self, whole: TracedLogs
    ) -> None:
        assert whole.summary["days"] == ["2025-11-21", "2025-11-22"]

    def test_the_balance_closes_and_the_servers_agree(self, whole: TracedLogs) -> None:
        balance = whole.summary["balance"]
        begun = balance["published"] + balance["received"]
        assert begun == sum(len(message["states"]) for message in whole.messages.values())
        assert begun == balance["finished"] + balance["held"]
        assert balance["held"] > 0
        assert balance["closes"]
        assert whole.summary["holdings"] == {"agrees": 12}

    def test_delays_are_right_within_two_milliseconds_although_the_clocks_are_not(
        self, whole: TracedLogs
    ) -> None:
        corrected = delay_errors(whole, "delay_us")
        assert len(corrected) > 0.9 * len(whole.delays)
        assert median(corrected) <= 2_000 < median(delay_errors(whole, "delay_raw_us"))

    def test_every_receipt_is_found_right(self, whole: TracedLogs) -> None:
        verdicts = {row.smuid: row.verdict for row in whole.table("receipts").collect()}
        assert verdicts.keys() == {smuid for smuid, m in whole.messages.items() if m["receipt"]}
        assert set(verdicts.values()) == {"right"}

    def test_nothing_is_reported_but_the_loops_that_were(self, whole: TracedLogs) -> None:
        assert whole.summary["anomalies"].keys() <= {"looped"}


class TestWithLogsMissing:
    def test_no_edge_is_reported_that_was_not_travelled(self, torn: TracedLogs) -> None:
        for smuid, route in torn.routes.items():
            message = torn.messages[smuid]
            true = true_edges(message)
            assert accepted(route) <= true
            passed = {(h["from"], h["to"]) for h in route["hops"] if h["kind"] == "passed"}
            assert passed <= true | {tuple(edge) for edge in message["widened"]}

    def test_nearly_all_edges_are_found(self, torn: TracedLogs) -> None:
        found = 0
        for smuid, message in torn.messages.items():
            hops = torn.routes.get(smuid, {"hops": []})["hops"]
            edges = {(h["from"], h["to"]) for h in hops if h["kind"] in ("accepted", "passed")}
            found += len(true_edges(message) & edges)
        assert found / len(torn.delays) >= 0.97

    def test_what_is_not_known_is_called_so_and_nothing_is_called_lost(self, torn: TracedLogs) -> None:
        for smuid, route in torn.routes.items():
            true = torn.messages[smuid]["states"]
            for copy in route["copies"]:
                assert copy["state"] != "lost"
                if copy["state"] in ("finished", "held"):
                    assert copy["state"] == true[copy["server"]]
                assert copy["server"] in true

    def test_every_gap_is_named(self, torn: TracedLogs) -> None:
        absent = {name for name, site in torn.sites.items() if site["absent"]}
        assert set(torn.summary["logs"]["absent"]) == absent
        assert set(torn.summary["logs"]["gaps"]) == torn.sites.keys() - absent
        there: dict[str, set[int]] = {}
        claimed: dict[str, set[int]] = {}
        for path in torn.logs.glob("*/hops-*.jsonl"):
            there.setdefault(path.parent.name, set()).update(
                int(line.partition('"record":')[2].partition(",")[0])
                for line in path.read_text().splitlines()
            )
            # what its name claims
            claimed.setdefault(path.parent.name, set()).update(map(int, path.stem.split("-")[-2:]))
        missing = {
            (server, number)
            for server, ends in claimed.items()
            for number in range(min(ends), max(ends) + 1)
            if number not in there[server]
        }
        named = {
            (row.server, number)
            for row in torn.table("gaps").collect()
            for number in range(row.first_missing, row.last_missing + 1)
        }
        assert named == missing

    def test_the_balance_tells_log_missing_from_lost(self, torn: TracedLogs) -> None:
        balance = torn.summary["balance"]
        begun = balance["published"] + balance["received"] + balance["begin_missing"]
        ends = ("finished", "held", "gone", "lost", "log_missing", "unknown")
        assert begun == sum(balance[name] for name in ends)
        assert balance["lost"] == 0 < balance["log_missing"]
        assert not balance["closes"]

    def test_no_corrected_delay_is_off_by_the_jump_of_a_clock(self, torn: TracedLogs) -> None:
        errors = delay_errors(torn, "delay_us")
        assert median(errors) <= 2_000
        assert max(errors) < 100_000


class TestBrokenPromises:
    def planted(self, faulty: TracedLogs, fault: str) -> set[str]:
        found = {smuid for smuid, message in faulty.messages.items() if fault in message["faults"]}
        assert found
        return found

    def found(self, faulty: TracedLogs, kind: str) -> set[str]:
        return {row.smuid for row in faulty.table("anomalies").where(f"kind = '{kind}'").collect()}

    def test_lost_copies_are_found_and_nothing_else_is_called_lost(self, faulty: TracedLogs) -> None:
        assert self.found(faulty, "lost") == self.planted(faulty, "lost")
        assert faulty.summary["balance"]["lost"] == len(self.planted(faulty, "lost"))
        assert not faulty.summary["balance"]["closes"]

    def test_of_a_lost_copy_it_is_said_who_had_acknowledged_it(self, faulty: TracedLogs) -> None:
        for row in faulty.table("anomalies").where("kind = 'lost'").collect():
            assert row.detail.startswith(f"acknowledged to {row.peer}, 2025-11-2")
            assert (row.peer, row.server) in faulty.links

    def test_the_gravest_come_first(self, faulty: TracedLogs) -> None:
        from routing.trace.anomalies import KINDS, by_gravity

        kinds = [row.kind for row in faulty.table("anomalies").orderBy(*by_gravity()).collect()]
        assert kinds == sorted(kinds, key=KINDS.index)
        assert kinds[0] == "lost"

    def test_wrong_receipts_are_found(self, faulty: TracedLogs) -> None:
        assert self.found(faulty, "wrong receipt") == self.planted(faulty, "receipt")

    def test_a_message_of_mode_one_with_two_custodians_is_found(self, faulty: TracedLogs) -> None:
        assert self.found(faulty, "two custodians") == self.planted(faulty, "custody")

    def test_a_message_that_went_too_far_is_found(self, faulty: TracedLogs) -> None:
        assert self.found(faulty, "over depth") == self.planted(faulty, "deep")

    def test_loops_are_found_but_where_a_deeper_copy_overtook(self, faulty: TracedLogs) -> None:
        def looped(route: dict[str, Any]) -> bool:
            widened = {copy["server"] for copy in route["copies"] if copy["widened"]}
            return any(
                hop["kind"] == "loop" and hop["from"] not in widened and hop["sent_logged"]
                for hop in route["hops"]
            )

        expected = {smuid for smuid, route in faulty.routes.items() if looped(route)}
        assert expected
        assert self.found(faulty, "looped") == expected

    def test_a_clock_that_jumps_is_named(self, faulty: TracedLogs) -> None:
        jumped = {name for name, site in faulty.sites.items() if site["jump_us"]}
        named = {row.server for row in faulty.table("anomalies").where("kind = 'clock jump'").collect()}
        assert named == jumped

    def test_links_that_become_slow_are_named_and_no_others(self, faulty: TracedLogs) -> None:
        rows = faulty.table("anomalies").where("kind = 'degraded link'").collect()
        assert rows
        assert {(row.server, row.peer) for row in rows} <= faulty.bad_links


def test_the_summary_is_that_of_the_tables(spark: Any, torn: TracedLogs, faulty: TracedLogs) -> None:
    from routing.trace import batch

    for traced in (torn, faulty):
        of_this_run = ("added", "earlier", "aside")
        said = {name: value for name, value in traced.summary.items() if name not in of_this_run}
        assert batch.summarize(spark, traced.out) == said

"""One of mode ONE goes where news or peers say that somebody takes it, and not to and fro."""

from typing import Final

from tests.mutants.mutation import Mutation

TESTS: Final = "tests/routing/federation/test_wants_from_news.py"
CUSTODY: Final = "tests/routing/federation/test_ways_of_custody_by_news.py"
HOMECOMING: Final = "tests/routing/federation/test_homecoming.py"
BEFORE: Final = "before_it_goes_there_again"
DRAWN: Final = "tests/routing/federation/test_jobs_drawn.py"
ATTACHED: Final = "tests/routing/federation/test_ways_to_attached.py"
TOLD: Final = "tests/routing/federation/test_ways_to_attached_told.py"

MUTATIONS: Final = [
    Mutation(
        name="what comes home goes to a peer again that has not answered for the last time",
        file="routing/federation/custody.py",
        old="if may_go and self._state.crossing.is_leaving_to(copy.smuid, nearest.name):",
        new="if False:",
        tests=(f"{HOMECOMING}::test_what_comes_home_before_its_leaving_is_answered_waits_for_that_{BEFORE}",),
    ),
    Mutation(
        name="what waits for the answer of a peer waits on once that has come",
        file="routing/federation/custody.py",
        old="if seen is not None and seen.entry_id in self._awaiting:",
        new="if False:",
        tests=(f"{HOMECOMING}::test_what_comes_home_before_its_leaving_is_answered_waits_for_that_{BEFORE}",),
    ),
    Mutation(
        name="what waits for an answer waits for ever where none comes",
        file="routing/federation/custody.py",
        old="        self._offer_awaiting()\n",
        new="",
        tests=(f"{HOMECOMING}::test_what_waits_for_an_answer_goes_on_where_none_will_come",),
    ),
    Mutation(
        name="of copies that are being handed over the last alone counts",
        file="routing/peering/crossing.py",
        old="for id in self.leaving.get(smuid, ()))",
        new="for id in self.leaving.get(smuid, ())[-1:])",
        tests=(f"{HOMECOMING}::test_what_comes_home_once_more_waits_for_each_peer_that_has_not_answered",),
    ),
    Mutation(
        name="of ways back the nearest is taken again and again",
        file="routing/federation/custody.py",
        old="if had_it and not is_down:",
        new="if False:",
        tests=(
            f"{CUSTODY}::test_a_reply_goes_back_through_a_site_that_does_not_know_all_as_the_link_before_it_is_gone",
        ),
    ),
    Mutation(
        name="a message of mode ONE goes to and fro for ever",
        file="routing/federation/custody.py",
        old="(wait := self._wait(copy, name)):",
        new="(wait := 0):",
        tests=(
            f"{CUSTODY}::test_one_that_goes_to_and_fro_comes_to_rest_and_goes_on_after_ever_longer_waits",
        ),
    ),
    Mutation(
        name="what goes to and fro goes on each minute for ever",
        file="routing/federation/custody.py",
        old="return min(2 ** (more - 1), WAIT_MINUTES_MAX) if more > 0 else 0",
        new="return 1 if more > 0 else 0",
        tests=(
            f"{CUSTODY}::test_one_that_goes_to_and_fro_comes_to_rest_and_goes_on_after_ever_longer_waits",
        ),
    ),
    Mutation(
        name="what has come through many sites goes on at once",
        file="routing/federation/custody.py",
        old="        if len(copy.hops) >= HOPS_AT_ONCE_MAX:\n            return WAIT_MINUTES_MAX\n",
        new="",
        tests=(f"{CUSTODY}::test_one_that_has_come_through_many_sites_waits_long",),
    ),
    Mutation(
        name="what has come through more sites than can be told is handed over",
        file="routing/federation/custody.py",
        old="if depth is None or not are_hops((*copy.hops, self._state.server)):",
        new="if depth is None:",
        tests=(f"{CUSTODY}::test_one_that_can_tell_no_peer_of_more_sites_rests",),
    ),
    Mutation(
        name="what has gone to and fro waits for its time, though somebody has come",
        file="routing/federation/custody.py",
        old="would have it\n            if self.hand_over(entry, again=True):",
        new="would have it\n            if self.hand_over(entry):",
        tests=(f"{CUSTODY}::test_one_that_has_gone_to_and_fro_goes_on_at_once_when_somebody_comes",),
    ),
    Mutation(
        name="who is attached beyond its depth keeps a message from who is within it",
        file="routing/federation/ways_of_one.py",
        old="        return self.to_left\n",
        new="        return self.distances\n",
        tests=(
            f"{ATTACHED}::test_one_goes_to_a_subscription_within_its_depth_if_nobody_there_is_attached",
            DRAWN,
        ),
    ),
    Mutation(
        name="what waits as its depth is spent before who is attached is not looked at again",
        file="routing/federation/pulling.py",
        old="if waiting[topic] != self._custody.prospect(found):",
        new="if (waiting[topic] or ((),))[0] != self._custody.prospect(found)[0]:",
        tests=(f"{ATTACHED}::test_one_goes_to_a_subscription_within_its_depth_once_a_way_is_up",),
    ),
    Mutation(
        name="what a peer beyond a link that is down has told keeps a job from who is attached",
        file="routing/federation/ways_of_one.py",
        old="            if name in self._peers and self._peers[name].may_go_now(want)\n",
        new="            if name in self._peers\n",
        tests=(
            f"{TOLD}::test_what_a_peer_told_before_its_link_went_down_keeps_no_job_from_who_is_there",
            f"{TOLD}::test_what_a_peer_told_before_its_link_went_down_keeps_no_job",
        ),
    ),
    Mutation(
        name="what has gone to and fro for long rests for ever",
        file="routing/federation/custody.py",
        old="if entry is not None and self.hand_over(entry, again=True):",
        new="if entry is not None and self.hand_over(entry):",
        tests=(
            f"{CUSTODY}::test_one_that_goes_to_and_fro_comes_to_rest_and_goes_on_after_ever_longer_waits",
        ),
    ),
    Mutation(
        name="news of who takes a message that waits moves nothing",
        file="routing/federation/pulling.py",
        old="            for topic in self._held(name):\n                self._pull_one(topic)\n",
        new="            pass\n",
        tests=(f"{TESTS}::test_one_waits_for_somebody_who_takes_it_and_goes_there", DRAWN),
    ),
    Mutation(
        name="news of a link that is up moves nothing of mode ONE",
        file="routing/federation/pulling.py",
        old="in list(self._custody.waiting):\n            self._pull_one(topic)\n",
        new="in ():\n            pass\n",
        tests=(f"{TESTS}::test_one_waits_where_no_way_is_up_and_goes_when_one_comes_up_anywhere", DRAWN),
    ),
    Mutation(
        name="a copy that goes wherever it is wanted stays where news says that it is",
        file="routing/federation/pulling.py",
        old="                self._destinations.pull(peer, topic)\n\n    def _pull_again",
        new="                pass\n\n    def _pull_again",
        tests=(f"{TESTS}::test_what_goes_wherever_it_is_wanted_goes_to_who_comes_to_want_it",),
    ),
    Mutation(
        name="a site that takes a message of mode ONE no more passes it on while its news says otherwise",
        file="routing/federation/ways_of_one.py",
        old=" or self._still_says(topic.name)",
        new="",
        tests=(f"{CUSTODY}::test_one_rests_where_takers_leave_at_two_sites_whose_news_says_otherwise_still",),
    ),
    Mutation(
        name="what waits for an account waits for somebody who takes mode ONE",
        file="routing/federation/custody.py",
        old='want_of(topic, "ONE")',
        new='("ONE", topic.name)',
        tests=(f"{CUSTODY}::test_all_that_waits_for_accounts_of_a_server_goes_when_its_site_is_reached",),
    ),
    Mutation(
        name="topics of which nothing is held are looked at for ever",
        file="routing/federation/pulling.py",
        old="            waiting.pop(topic, None)",
        new="            pass",
        tests=(f"{CUSTODY}::test_topics_of_which_nothing_waits_any_more_are_not_looked_at_for_ever",),
    ),
    Mutation(
        name="what was known when something waited before is taken for what is known now",
        file="routing/federation/custody.py",
        old="            self.waiting[topic] = prospect if is_same else None\n",
        new="            self.waiting.setdefault(topic, prospect)\n",
        tests=(f"{CUSTODY}::test_one_goes_to_who_takes_it_again_after_having_left",),
    ),
    Mutation(
        name="what a peer had told on an earlier link brings back what it sends",
        file="routing/federation/custody.py",
        old="nearest.up and (nearest.has_told or nearest.name not in copy.hops)",
        new="nearest.up",
        tests=(
            f"{CUSTODY}::test_one_does_not_go_to_and_fro_while_a_link_that_has_come_up_is_not_told_yet_who_has_left",
        ),
    ),
]

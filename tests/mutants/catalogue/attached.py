"""A message of mode ONE goes to who is attached, before a subscription that has nobody."""

from typing import Final

from tests.mutants.mutation import Mutation

TESTS: Final = "tests/routing/federation/test_ways_to_attached.py"
TOLD: Final = "tests/routing/federation/test_ways_to_attached_told.py"
IN_NEWS: Final = "tests/routing/federation/test_attached_in_news.py"
DRAWN: Final = "tests/routing/federation/test_jobs_drawn.py"
ASKING: Final = "tests/daemon/control/test_enquiring.py"
COUNTED: Final = (
    "tests/routing/test_router_takers_counted.py::test_who_takes_what_is_counted_whatever_changes"
)
SUBSCRIPTION: Final = "routing/subscription.py"
WAYS: Final = "routing/federation/ways_of_one.py"
KNOWN: Final = "routing/federation/known_wants.py"

MUTATIONS: Final = [
    Mutation(
        name="a job goes by what is wanted, whoever is attached",
        file=WAYS,
        old="Prospect(to_attached or to_left, to_left, bool(by_news))",
        new="Prospect(to_left, to_left, bool(by_news))",
        tests=(f"{TESTS}::test_one_goes_past_a_subscription_that_nobody_is_attached_to",),
        seed=0,
        profile="ways",
    ),
    Mutation(
        name="a subscription that nobody is attached to passes for one that is merely busy",
        file=WAYS,
        old="        return not (self._tells_attached() and self._nearest.to_attached(topic.name))\n",
        new="        return True\n",
        tests=(
            f"{TESTS}::test_one_that_rests_with_a_subscription_that_nobody_is_attached_to_goes_to_who_is_there",
            DRAWN,
        ),
    ),
    Mutation(
        name="a job goes from one subscription that nobody is attached to to another",
        file=WAYS,
        old="to_left = {} if is_taken else",
        new="to_left = {} if False else",
        tests=(
            f"{TESTS}::test_one_rests_where_it_was_published_if_that_takes_it_and_nobody_is_there",
            f"{TESTS}::test_one_stays_with_who_is_busy_and_does_not_go_to_where_nobody_is",
        ),
    ),
    Mutation(
        name="a site where somebody is busy hands what it has back to who is attached",
        file=WAYS,
        old="if self._own_wants.is_attended(topic) or self._still_says",
        new="if self._still_says",
        tests=(f"{TESTS}::test_two_who_are_busy_do_not_pass_it_to_and_fro",),
    ),
    Mutation(
        name="a job goes back for what peers tell besides news",
        file=WAYS,
        old="return not (self._tells_attached() and self._nearest.to_attached(topic.name))",
        new="return not self.prospect(topic).distances",
        tests=(f"{TOLD}::test_among_sites_of_an_earlier_version_one_rests_and_is_not_lost",),
    ),
    Mutation(
        name="what rests is not looked at again when somebody comes who is no nearer than a peer has told",
        file=WAYS,
        old="Prospect(to_attached or to_left, to_left, bool(by_news))",
        new="Prospect(to_attached or to_left, to_left)",
        tests=(f"{TOLD}::test_one_that_rests_goes_back_by_a_peer_of_an_earlier_version_to_who_comes", DRAWN),
        seed=7500059,
        profile="ways",
    ),
    Mutation(
        name="what a peer tells of what may not go there hides who has left",
        file=WAYS,
        old="self._peers[name].may_go_now(want)",
        new="self._peers[name].up",
        tests=(f"{TOLD}::test_what_a_peer_tells_of_what_may_not_go_there_keeps_no_job_from_who_has_left",),
    ),
    Mutation(
        name="what waits is not looked at again when a peer takes back what it has told",
        file="routing/federation/wanting.py",
        old="        self._pulling.told_anew(changes, whole=whole)\n",
        new="",
        tests=(f"{TOLD}::test_one_that_a_peer_would_not_have_goes_to_who_has_left_once_the_peer_wants_none",),
    ),
    Mutation(
        name="what is told on in a circle passes for somebody who is attached",
        file=WAYS,
        old="if distance < known or (not distance and not self._says_wants(name))",
        new="if True",
        tests=(f"{TOLD}::test_what_is_told_on_in_a_circle_passes_for_nobody_who_is_attached",),
    ),
    Mutation(
        name="a worker of an earlier version waits behind a subscription that is as near",
        file=WAYS,
        old="if distance < known or (not distance and not self._says_wants(name))",
        new="if distance < known",
        tests=(f"{TOLD}::test_a_worker_at_a_peer_of_an_earlier_version_goes_before_a_subscription_as_near",),
    ),
    Mutation(
        name="what is told on passes for somebody who is attached at a site that takes it itself",
        file=WAYS,
        old="return min(known, 2) if",
        new="return 2 if",
        tests=(f"{TOLD}::test_what_is_told_on_takes_no_job_from_where_it_was_published",),
    ),
    Mutation(
        name="a site that does not say who is attached goes by that itself",
        file="routing/federation/saying.py",
        old="return self.is_heard and ATTACHED in self._features",
        new="return True",
        tests=(f"{TOLD}::test_among_sites_of_an_earlier_version_one_rests_and_is_not_lost",),
    ),
    Mutation(
        name="a site says of all that it wants that somebody is attached",
        file="routing/federation/own_wants.py",
        old="        if self._matching.is_attended(target):",
        new='        if "ONE" in kinds:',
        tests=(f"{TESTS}::test_one_goes_past_a_subscription_that_nobody_is_attached_to", DRAWN),
    ),
    Mutation(
        name="peers are told by interest that somebody is attached",
        file="routing/federation/own_wants.py",
        old='        if kind != "ATTACHED":\n',
        new="        if kind:\n",
        tests=(f"{IN_NEWS}::test_peers_of_an_earlier_version_are_told_nothing_of_who_is_attached",),
    ),
    Mutation(
        name="that a session has left is said to nobody",
        file="routing/subscribing.py",
        old="        if not subscription.attached:\n            self._target_changed",
        new="        if False:\n            self._target_changed",
        tests=(f"{TESTS}::test_one_goes_past_a_subscription_that_nobody_is_attached_to", DRAWN),
    ),
    Mutation(
        name="that a session is back is said to nobody",
        file="routing/subscribing.py",
        old="        if not was_attached:\n",
        new="        if False:\n",
        tests=(f"{TESTS}::test_one_rests_while_nobody_is_attached_and_goes_to_who_comes_first",),
    ),
    Mutation(
        name="a session that comes again at once costs news",
        file="routing/federation/own_leaves.py",
        old="        return bool(self.unsealed or self.gone) or",
        new="        return bool(self._stale) or",
        tests=(f"{IN_NEWS}::test_who_leaves_and_is_back_before_news_may_say_so_costs_nothing",),
    ),
    Mutation(
        name="a site hands on what its news brings back, as it says still that somebody is attached",
        file="routing/federation/own_leaves.py",
        old='_TO_ONE: Final = ("ONE", _ATTACHED)',
        new='_TO_ONE: Final = ("ONE",)',
        tests=(
            f"{TESTS}::test_one_that_waits_for_somebody_busy_goes_when_that_one_leaves_before_news_may_say_so",
        ),
    ),
    Mutation(
        name="what was kept as news said that somebody is attached stays when that is out",
        file="routing/federation/pulling.py",
        old='if kind in ("ONE", "ATTACHED") else ()',
        new='if kind == "ONE" else ()',
        tests=(
            f"{TESTS}::test_one_that_waits_for_somebody_busy_goes_when_that_one_leaves_before_news_may_say_so",
        ),
    ),
    Mutation(
        name="what waits for who has left stays where no news says so",
        file="routing/federation/custody.py",
        old="if topic is not None and not self._state.grouping.is_attended(topic):",
        new="if False:",
        tests=(
            f"{TESTS}::test_what_waits_for_somebody_busy_goes_when_that_one_leaves_where_there_is_no_news",
        ),
    ),
    Mutation(
        name="news of who is attached moves nothing",
        file="routing/federation/wants_by_name.py",
        old="        names = self.touched.names if",
        new='        if kind == "ATTACHED":\n            return\n        names = self.touched.names if',
        tests=(f"{TESTS}::test_one_rests_while_nobody_is_attached_and_goes_to_who_comes_first",),
    ),
    Mutation(
        name="a site that does not say who is attached passes for one where nobody is",
        file=KNOWN,
        old='if mode == "ONE" and not self.tells_attached:',
        new="if False:",
        tests=(f"{IN_NEWS}::test_a_site_that_tells_from_now_on_is_believed_at_once",),
    ),
    Mutation(
        name="a site that says from now on who is attached is taken as it was",
        file=KNOWN,
        old="        self._by_name.change(site, was, set(known.said(leaves)))\n",
        new="",
        tests=(f"{IN_NEWS}::test_a_site_that_tells_from_now_on_is_believed_at_once",),
    ),
    Mutation(
        name="what somebody is attached to counts as wanted twice",
        file=KNOWN,
        old=" - known.rules - known.attached if",
        new=" - known.rules if",
        tests=(f"{IN_NEWS}::test_what_is_wanted_is_counted_once_whoever_is_attached",),
    ),
    Mutation(
        name="who is asked where a job goes says so of all that is wanted",
        file="routing/federation/outlook.py",
        old="            distances = self._ways_of_one.prospect(",
        new="            self._ways_of_one.prospect(",
        tests=(f"{TESTS}::test_who_is_asked_where_it_goes_says_so",),
    ),
    Mutation(
        name="who is asked where a job goes says so whatever its depth",
        file="routing/federation/outlook.py",
        old=".within(onward(depth))\n",
        new=".distances\n",
        tests=(f"{TESTS}::test_who_is_asked_where_a_job_of_little_depth_goes_says_so",),
    ),
    Mutation(
        name="of a job that waits for a link it is said that nobody there is attached",
        file="routing/federation/outlook.py",
        old='"unattended" if peer.up else "down"',
        new='"unattended"',
        tests=(f"{TESTS}::test_who_is_asked_says_of_a_link_that_is_down_that_it_is",),
    ),
    Mutation(
        name="a trace ends at a subscription that nobody is attached to",
        file="daemon/control/enquiring.py",
        old="self._door.view.is_attended(trace.topic)):",
        new="count):",
        tests=(ASKING,),
    ),
    Mutation(
        name="who has left counts as attached",
        file=SUBSCRIPTION,
        old="self.consumer, None\n        self.target.count(self)\n",
        new="self.consumer, None\n",
        tests=(COUNTED, DRAWN),
    ),
    Mutation(
        name="the last one who shared a subscription counts as attached when it has left",
        file=SUBSCRIPTION,
        old="self.members.remove(member)\n        self.target.count(self)\n",
        new="self.members.remove(member)\n",
        tests=(COUNTED,),
    ),
    Mutation(
        name="who takes another mode now is counted as before",
        file=SUBSCRIPTION,
        old="            self.order = SequenceOrder()\n        self.target.count(self)\n",
        new="            self.order = SequenceOrder()\n",
        tests=(COUNTED,),
    ),
    Mutation(
        name="a subscription that has ended is counted",
        file=SUBSCRIPTION,
        old="        del self.subscriptions[subscription.id]\n        self.count(subscription)\n",
        new="        del self.subscriptions[subscription.id]\n",
        tests=(COUNTED,),
    ),
]

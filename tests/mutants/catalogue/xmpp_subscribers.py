"""XEP-0060 6 and 8: who subscribes, waits for an owner, is away, or may not; see `xmpp` for what they get."""

from tests.mutants.mutation import Mutation

_XMPP = "tests/plugins/xmpp"

MUTATIONS = [
    Mutation(
        name="what the server has read goes back where its subscriber unsubscribes in that moment",
        file="plugins/xmpp/delivery/sending.py",
        old="        self.finish()\n        self._disregard(released)\n",
        new="        self._disregard(released)\n",
        tests=(
            "tests/plugins/xmpp/test_subscribing_at_once.py"
            "::test_who_unsubscribes_before_an_item_is_answered_for_is_gone_once_it_is",
        ),
    ),
    Mutation(
        name="who unsubscribes before an item is answered for subscribes for ever",
        file="plugins/xmpp/delivery/sending.py",
        old="        self._forget(held, finished=finished)\n        self._leave_if_free(held.subscription)\n",
        new="        self._forget(held, finished=finished)\n",
        tests=(
            "tests/plugins/xmpp/test_subscribing_at_once.py"
            "::test_who_unsubscribes_before_an_item_is_answered_for_is_gone_once_it_is",
        ),
    ),
    Mutation(
        name="a subscription that only the broker knows goes on for ever",
        file="plugins/xmpp/delivery/client.py",
        old="            self.quietly(self.session.unsubscribe, name, delivered.subscription)\n",
        new="",
        tests=(
            f"{_XMPP}/test_subscribing_at_once.py"
            "::test_a_subscription_that_only_the_broker_knows_ends_with_its_first_item",
        ),
    ),
    Mutation(
        name="a subscription whose answer is lost with its session gathers unseen",
        file="plugins/xmpp/requests/beginning.py",
        old="        if answer.error is not None and not isinstance(answer.error, SessionEnded):\n",
        new="        if answer.error is not None:\n",
        tests=(
            f"{_XMPP}/test_subscribing_at_once.py"
            "::test_a_subscription_whose_answer_is_lost_with_its_session_goes_on",
        ),
    ),
    Mutation(
        name="who has all the subscriptions that it may cannot change one",
        file="plugins/xmpp/requests/beginning.py",
        old="        if refusal.subject != SUBSCRIPTIONS or previous not in replaced:\n            raise\n",
        new="        raise\n",
        tests=(
            f"{_XMPP}/test_subscribing_at_once.py"
            "::test_who_has_all_the_subscriptions_that_it_may_changes_one",
        ),
    ),
    Mutation(
        name="who subscribes again leaves what it had before to gather",
        file="plugins/xmpp/requests/beginning.py",
        old="            former.drop(each)",
        new="            pass",
        tests=(f"{_XMPP}/test_subscribing_at_once.py::test_subscriptions_in_quick_succession_are_one",),
    ),
    Mutation(
        name="a subscription that a crash has left beside another gathers for ever",
        file="plugins/xmpp/delivery/clients.py",
        old="                client.quietly(session.unsubscribe, each.node, each.name)\n",
        new="                pass\n",
        tests=(
            f"{_XMPP}/test_subscribing_at_once.py"
            "::test_of_two_subscriptions_that_a_crash_has_left_the_older_ends",
        ),
    ),
    Mutation(
        name="a bare JID subscribes with each of its resources",
        file="plugins/xmpp/requests/subscribing.py",
        old='        jid, level = written, "plain"',
        new='        jid, level = client.jid, "plain"',
        tests=(f"{_XMPP}/test_presence.py::test_a_bare_jid_subscribes_once_however_often_it_logs_in",),
    ),
    Mutation(
        name="an owner cannot end the subscription of a bare JID",
        file="plugins/xmpp/requests/owning.py",
        old="registry.of_subscriber(jid, node) or registry.of_bare_to(jid, node)",
        new="registry.of_subscriber(jid, node)",
        tests=(f"{_XMPP}/test_presence.py::test_an_owner_ends_a_subscription_by_bare_or_full_jid",),
    ),
    Mutation(
        name="a listener that was away stays deaf",
        file="plugins/xmpp/delivery/presence.py",
        old="            came_back(hub, each)",
        new="            pass",
        tests=(f"{_XMPP}/test_presence.py::test_any_sign_of_life_wakes_a_listener_that_was_away",),
    ),
    Mutation(
        name="who finds no room after a restart is never looked for again",
        file="plugins/xmpp/delivery/presence.py",
        old="    except (StanzaError, Refusal):\n        hub.ask_later(jid)\n",
        new="    except (StanzaError, Refusal):\n        pass\n",
        tests=(
            f"{_XMPP}/test_presence.py"
            "::test_who_finds_no_room_after_a_restart_is_looked_for_until_there_is_some",
        ),
    ),
    Mutation(
        name="who has no account any more is asked for ever",
        file="plugins/xmpp/delivery/presence.py",
        old="    except NoAccount:\n        hub.found(jid)\n",
        new="",
        tests=(f"{_XMPP}/test_presence.py::test_who_has_no_account_any_more_is_asked_once",),
    ),
    Mutation(
        name="who is kept out is not looked for as long as it talks",
        file="plugins/xmpp/delivery/presence.py",
        old="            came_back(hub, each)",
        new="            hub.found(each)\n            came_back(hub, each)",
        tests=(f"{_XMPP}/test_presence.py::test_who_is_kept_out_is_looked_for_however_much_it_says",),
    ),
    Mutation(
        name="a new subscriber gets all items that are kept",
        file="plugins/xmpp/requests/beginning.py",
        old="kept[-1] + (not is_sent) if kept else 0",
        new="0 if is_sent else 0",
        tests=(f"{_XMPP}/test_pubsub.py::test_a_new_subscriber_gets_the_last_item_and_what_comes",),
    ),
    Mutation(
        name="a node that becomes a queue leaves its subscribers silent",
        file="plugins/xmpp/requests/nodes.py",
        old="*(one for one in every if one.accepts == unserved)]",
        new="]",
        tests=(
            f"{_XMPP}/test_pubsub.py::test_who_would_get_nothing_any_more_is_told_that_its_subscription_has_ended",
        ),
    ),
    Mutation(
        name="misuse by who has no account is noted by nobody",
        file="plugins/xmpp/requests/routes.py",
        old='        await asked.service.log_misuse(asked.jid, "the sender has no account at this site")\n',
        new="",
        tests=(f"{_XMPP}/test_qos.py::test_the_untrusted_are_not_allowed_and_noted",),
    ),
    Mutation(
        name="a whitelist is for everybody",
        file="plugins/xmpp/known/access.py",
        old='            return rights - {"subscribe"}',
        new="            return rights",
        tests=(f"{_XMPP}/test_access.py::test_a_whitelist_is_for_those_on_it",),
    ),
    Mutation(
        name="an affiliation gives more than the rights of the account",
        file="plugins/xmpp/known/access.py",
        old="            return rights & _MAY[listed]",
        new="            return _MAY[listed]",
        tests=(f"{_XMPP}/test_access.py::test_an_affiliation_is_never_more_than_the_rights_of_the_account",),
    ),
    Mutation(
        name="who has to ask to subscribe does so unasked",
        file="plugins/xmpp/known/access.py",
        old='            return "to be asked"',
        new='            return "admitted"',
        tests=(f"{_XMPP}/test_authorizing.py::test_an_owner_lets_somebody_subscribe",),
    ),
    Mutation(
        name="anybody takes back what another has asked an owner for",
        file="plugins/xmpp/requests/subscribing.py",
        old="authorizing.take_back(request, node, _of_asker(request))",
        new='authorizing.take_back(request, node, request.action.get("jid", ""))',
        tests=(f"{_XMPP}/test_authorizing.py::test_nobody_takes_back_what_another_has_asked_for",),
    ),
    Mutation(
        name="who becomes an outcast while it is asked something subscribes",
        file="plugins/xmpp/requests/subscribing.py",
        old="    admission = _check_may_subscribe(request, node, written)\n    if options",
        new="    if options",
        tests=(
            f"{_XMPP}/test_subscribing_at_once.py::test_who_becomes_an_outcast_meanwhile_does_not_subscribe",
        ),
    ),
    Mutation(
        name="who cannot be let in now waits no longer",
        file="plugins/xmpp/requests/records.py",
        old="            put_back(session, node, before, after)\n            raise\n",
        new="            raise\n",
        tests=(f"{_XMPP}/test_authorizing.py::test_a_worker_that_finds_no_room_when_it_is_let_in_waits_on",),
    ),
    Mutation(
        name="who is let in by an owner that has too much to ask is no member, and waits on",
        file="plugins/xmpp/requests/records.py",
        old="    client.request(keep, done=reply.done)\n    if go_along is not None:\n",
        new=(
            "    if go_along is not None:\n        go_along()\n        go_along = None\n"
            "    client.request(keep, done=reply.done)\n    if go_along is not None:\n"
        ),
        tests=(f"{_XMPP}/test_subscribing_at_once.py::test_an_owner_with_too_much_to_ask_lets_nobody_in",),
    ),
    Mutation(
        name="who is away stays subscribed though it may not receive any more",
        file="plugins/xmpp/requests/ending.py",
        old="                request.client.session.end_subscription(info)\n",
        new="                pass\n",
        tests=(f"{_XMPP}/test_access.py::test_who_is_away_and_finds_no_room_is_unsubscribed_all_the_same",),
    ),
    Mutation(
        name="who is away and collects keeps what it may not receive any more",
        file="plugins/xmpp/requests/ending.py",
        old="        if info.topic == node:\n",
        new="        if True:\n",
        tests=(f"{_XMPP}/test_ending.py::test_who_is_away_and_collects_is_unsubscribed_from_the_node_alone",),
    ),
    Mutation(
        name="who is named twice is told twice that it is unsubscribed",
        file="plugins/xmpp/requests/ending.py",
        old="list({each.jid: each for each in subscriptions if registry.knows(each)}.values())",
        new="[each for each in subscriptions if registry.knows(each)]",
        tests=(f"{_XMPP}/test_ending.py::test_who_is_named_twice_is_unsubscribed_and_told_once",),
    ),
    Mutation(
        name="an owner whose session ends in the middle leaves those who may not receive any more",
        file="plugins/xmpp/requests/nodes.py",
        old="lambda _: record, go_along, settings=new)\n",
        new="lambda _: record, settings=new)\n            go_along()\n",
        tests=(
            f"{_XMPP}/test_ending.py"
            "::test_whoever_may_not_receive_is_unsubscribed_though_the_owners_session_ends_in_the_middle",
        ),
    ),
    Mutation(
        name="an ended subscription is answered for before that is on disk",
        file="plugins/xmpp/requests/ending.py",
        old="            await request.client.ask(request.client.session.commit, [])\n",
        new="            pass\n",
        tests=(
            f"{_XMPP}/test_access.py::test_an_owner_is_told_that_a_subscription_has_ended_once_that_is_on_disk",
        ),
    ),
    Mutation(
        name="anybody ends the subscriptions of others",
        file="daemon/broker/session.py",
        old='        self._check("administer", topic)\n        # as its own login would',
        new="        # as its own login would",
        tests=(
            "tests/daemon/broker/test_broker.py::test_who_may_not_administer_a_topic_ends_no_subscription_to_it",
        ),
    ),
    Mutation(
        name="a node that could not be configured is so until the next start",
        file="plugins/xmpp/requests/records.py",
        old="        put_back(session, node, before, after)\n        raise\n",
        new="        raise\n",
        tests=(f"{_XMPP}/test_own_errors.py::test_a_node_whose_mode_cannot_be_stored_is_as_it_was",),
    ),
    Mutation(
        name="what a second owner has configured goes with what the first could not",
        file="plugins/xmpp/requests/records.py",
        old="    if now == after and now.text is after.text:",
        new="    if now == after:",
        tests=(
            f"{_XMPP}/test_own_errors.py"
            "::test_what_a_second_owner_has_configured_stays_though_it_is_what_the_first_could_not",
        ),
    ),
    Mutation(
        name="a topic is set before what is together with it is refused",
        file="daemon/broker/session.py",
        old="            self._transaction.change(lambda: change(None))\n            return\n",
        new="            pass\n",
        tests=(
            "tests/daemon/broker/test_transaction.py"
            "::test_what_is_refused_together_with_a_topic_leaves_it_as_it_was",
        ),
    ),
    Mutation(
        name="who is not let in keeps the subscription that it has",
        file="plugins/xmpp/requests/authorizing.py",
        old="    ended = [] if allow else service.registry.of_subscriber(jid, node)\n",
        new="    ended: list[NodeSubscription] = []\n",
        tests=(f"{_XMPP}/test_subscribing_at_once.py::test_who_is_not_let_in_gets_nothing_more",),
    ),
    Mutation(
        name="a JID is another than its server vouches for",
        file="plugins/xmpp/known/identities.py",
        old="    if text in known:\n        return text\n",
        new="",
        tests=(f"{_XMPP}/test_access.py::test_a_jid_is_the_one_that_its_server_vouches_for",),
    ),
    Mutation(
        name="an owner's list leaves out who waits",
        file="plugins/xmpp/requests/owning.py",
        old='[ListedSubscription(node, jid, "pending") for jid in record.requests]',
        new="[]",
        tests=(f"{_XMPP}/test_pages.py::test_who_waits_for_an_owner_is_on_one_page_with_who_subscribes",),
    ),
    Mutation(
        name="one JID is all who wait for an owner",
        file="plugins/xmpp/requests/authorizing.py",
        old="for jid in record.requests) >= REQUESTS_OF_ONE_MAX:",
        new="for jid in record.requests) < 0:",
        tests=(f"{_XMPP}/test_bounds.py::test_one_jid_leaves_others_room_to_ask_for_a_subscription",),
    ),
    Mutation(
        name="more wait for an owner than can be kept",
        file="plugins/xmpp/requests/authorizing.py",
        old="if len(requests) > REQUESTS_MAX:",
        new="if False:",
        tests=(f"{_XMPP}/test_bounds.py::test_no_more_wait_for_an_owner_than_are_kept",),
    ),
    Mutation(
        name="one resource that is answered takes the others of its JID off the list of those who wait",
        file="plugins/xmpp/known/registry.py",
        old="        if not waiting:",
        new="        if True:",
        tests=(f"{_XMPP}/test_authorizing.py::test_one_resource_that_is_answered_leaves_the_other_waiting",),
    ),
    Mutation(
        name="a JID has any number of subscriptions by ever new resources",
        file="plugins/xmpp/requests/subscribing.py",
        old="    _check_count(request, written)",
        new="    pass",
        tests=(
            f"{_XMPP}/test_bounds.py::test_a_jid_has_a_bounded_number_of_subscriptions_over_all_of_its_resources",
        ),
    ),
    Mutation(
        name="one account has all sessions of XMPP",
        file="plugins/xmpp/delivery/clients.py",
        old=" or len(of_account) >= max(most // 2, 1)",
        new="",
        tests=(f"{_XMPP}/test_bounds.py::test_one_account_leaves_half_of_the_sessions_to_others",),
    ),
    Mutation(
        name="an owner's changes have no bound",
        file="plugins/xmpp/requests/owning.py",
        old="if len(changes) > CHANGES_MAX:",
        new="if False:",
        tests=(f"{_XMPP}/test_bounds.py::test_an_owner_changes_a_bounded_number_of_entries_at_a_time",),
    ),
]

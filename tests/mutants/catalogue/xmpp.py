"""XEP-0060, XEP-0248 and XEP-0254: what XMPP's subscribers, workers and owners are promised."""

from tests.mutants.mutation import Mutation

_XMPP = "tests/plugins/xmpp"

MUTATIONS = [
    Mutation(
        name="a worker that was quiet gets an item unasked",
        file="plugins/xmpp/delivery/attention.py",
        old="        if quiet_s > QUIET_S and not self._client.mute:",
        new="        if False:",
        tests=(f"{_XMPP}/test_presence.py::test_nothing_is_sent_to_a_worker_that_has_left_in_silence",),
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
        old="                came_back(hub, each)",
        new="                pass",
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
        old="                came_back(hub, each)",
        new="                hub.found(each)\n                came_back(hub, each)",
        tests=(f"{_XMPP}/test_presence.py::test_who_is_kept_out_is_looked_for_however_much_it_says",),
    ),
    Mutation(
        name="a question that is lost with the stream passes for the answer of a client without urn:xmpp:qos",
        file="plugins/xmpp/delivery/presence.py",
        old="        if hub.streams != stream or not hub.is_up:",
        new="        if False:",
        tests=(
            f"{_XMPP}/test_presence.py"
            "::test_a_worker_whose_answer_is_lost_with_the_stream_is_not_taken_for_one_without_urn_xmpp_qos",
        ),
    ),
    Mutation(
        name="presence is not answered",
        file="plugins/xmpp/delivery/presence.py",
        old='"subscribe": ("subscribed", "")',
        new='"subscribe": ()',
        tests=(f"{_XMPP}/test_presence.py::test_presence_is_answered_at_the_bare_jid",),
    ),
    Mutation(
        name="an item that another has replaced is shown",
        file="plugins/xmpp/known/item_index.py",
        old="            if numbers and numbers[-1] > each.message_id:",
        new="            if False:",
        tests=(f"{_XMPP}/test_pubsub.py::test_what_cannot_be_removed_yet_is_not_shown",),
    ),
    Mutation(
        name="an item has two payloads",
        file="plugins/xmpp/forms/payload.py",
        old="    _check_one_payload(item)\n",
        new="",
        tests=(f"{_XMPP}/test_refusals.py",),
    ),
    Mutation(
        name="text goes to XMPP as bytes",
        file="plugins/xmpp/forms/payload.py",
        old="    if (text := _as_text(section)) is not None:",
        new="    if (text := None) is not None:",
        tests=(f"{_XMPP}/test_content.py::test_text_that_xml_can_hold_is_text_in_both_directions",),
    ),
    Mutation(
        name="a new subscriber gets all items that are kept",
        file="plugins/xmpp/requests/beginning.py",
        old="kept[-1].message_id + (not is_sent) if kept else 0",
        new="0 if is_sent else 0",
        tests=(f"{_XMPP}/test_pubsub.py::test_a_new_subscriber_gets_the_last_item_and_what_comes",),
    ),
    Mutation(
        name="a node that becomes a queue leaves its subscribers silent",
        file="plugins/xmpp/requests/nodes.py",
        old="            await _end_unserved(request, node, queue=new.is_queue)",
        new="            pass",
        tests=(
            f"{_XMPP}/test_pubsub.py::test_who_would_get_nothing_any_more_is_told_that_its_subscription_has_ended",
        ),
    ),
    Mutation(
        name="a queue that is created says that it keeps nothing",
        file="plugins/xmpp/forms/node_settings.py",
        old='PERSIST_FIELD: "1" if self.is_queue or self.timeout_s is not None else "0"',
        new='PERSIST_FIELD: "1" if self.timeout_s is not None else "0"',
        tests=(f"{_XMPP}/test_pubsub.py::test_a_queue_keeps_its_items_and_says_so",),
    ),
    Mutation(
        name="pages begin at the first item whatever the index",
        file="plugins/xmpp/requests/items.py",
        old="        found += visible[index:]",
        new="        found += visible",
        tests=(f"{_XMPP}/test_pages.py::test_a_page_begins_where_it_is_asked_to",),
    ),
    Mutation(
        name="a retraction is told to nobody at another site",
        file="plugins/xmpp/delivery/client.py",
        old="                if id is not None:",
        new="                if False:",
        tests=(f"{_XMPP}/test_across_sites.py::test_a_retraction_is_told_at_the_other_site",),
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
        tests=(f"{_XMPP}/test_access.py::test_an_owner_lets_somebody_subscribe",),
    ),
    Mutation(
        name="anybody takes back what another has asked an owner for",
        file="plugins/xmpp/requests/subscribing.py",
        old="authorizing.take_back(request, node, _of_asker(request))",
        new='authorizing.take_back(request, node, request.action.get("jid", ""))',
        tests=(f"{_XMPP}/test_access.py::test_nobody_takes_back_what_another_has_asked_for",),
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
        old="                session.annotate(node, before)\n",
        new="                pass\n",
        tests=(f"{_XMPP}/test_access.py::test_a_worker_that_finds_no_room_when_it_is_let_in_waits_on",),
    ),
    Mutation(
        name="who is let in by an owner that has too much to ask is no member, and waits on",
        file="plugins/xmpp/requests/records.py",
        old=(
            "    client.request(session.annotate, node, written(new), done=reply.done)\n"
            "    if go_along is not None:\n"
        ),
        new=(
            "    if go_along is not None:\n        go_along()\n        go_along = None\n"
            "    client.request(session.annotate, node, written(new), done=reply.done)\n"
            "    if go_along is not None:\n"
        ),
        tests=(f"{_XMPP}/test_subscribing_at_once.py::test_an_owner_with_too_much_to_ask_lets_nobody_in",),
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
        name="that somebody types is a job",
        file="plugins/xmpp/requests/publishing.py",
        old="        elif namespace not in ANNOTATIONS:\n",
        new="        else:\n",
        tests=(f"{_XMPP}/test_content.py::test_what_a_chat_client_adds_to_a_message_is_not_published",),
    ),
    Mutation(
        name="items that others have fill the page",
        file="plugins/xmpp/requests/items.py",
        old="        if len(page) < at_a_time:\n",
        new="        if page:\n",
        tests=(f"{_XMPP}/test_pages.py::test_items_that_others_have_take_no_place_on_a_page",),
    ),
    Mutation(
        name="the loop reads all that others have locked for one page",
        file="plugins/xmpp/requests/items.py",
        old="min(READ_AT_A_TIME, most - looked_at)\n",
        new="READ_AT_A_TIME\n",
        tests=(f"{_XMPP}/test_pages.py::test_behind_many_items_that_others_have_a_client_pages_on",),
    ),
    Mutation(
        name="pages from the end of a node stop before items that others have",
        file="plugins/xmpp/requests/items.py",
        old="            return FoundItems(found, before)\n",
        new="            return FoundItems(found, None)\n",
        tests=(f"{_XMPP}/test_pages.py::test_behind_many_items_that_others_have_a_client_pages_on",),
    ),
    Mutation(
        name="an owner's list leaves out who waits",
        file="plugins/xmpp/requests/owning.py",
        old='[ListedSubscription(node, jid, "pending") for jid in record.requests]',
        new="[]",
        tests=(f"{_XMPP}/test_pages.py::test_who_waits_for_an_owner_is_on_one_page_with_who_subscribes",),
    ),
    Mutation(
        name="several items are published one by one",
        file="plugins/xmpp/requests/publishing.py",
        old="        for message in messages:\n            session.publish(node, message)\n",
        new="        session.publish(node, messages[0])\n",
        tests=(f"{_XMPP}/test_pubsub.py::test_several_items_are_published_together_or_not_at_all",),
    ),
    Mutation(
        name="a collection gives what the owners of a node do not",
        file="plugins/xmpp/delivery/collecting.py",
        old="        if not self.may_have(delivered.topic):\n            return False\n",
        new="",
        tests=(
            f"{_XMPP}/test_collection_subscriptions.py::test_nothing_comes_of_a_node_whose_owners_do_not_let_it",
            f"{_XMPP}/test_collection_subscriptions.py::test_an_outcast_gets_nothing_of_the_node",
        ),
    ),
    Mutation(
        name="a collection tells of retractions that the owners of a node do not",
        file="plugins/xmpp/delivery/client.py",
        old="        if removed.pattern and not self._collecting.may_have(removed.topic):",
        new="        if False:",
        tests=(
            f"{_XMPP}/test_collection_subscriptions.py::test_nothing_comes_of_a_node_whose_owners_do_not_let_it",
        ),
    ),
    Mutation(
        name="a collection tells everybody of a purge",
        file="plugins/xmpp/requests/nodes.py",
        old='            if subscription.jid not in jids and admission == "admitted":',
        new="            if subscription.jid not in jids:",
        tests=(
            f"{_XMPP}/test_collection_subscriptions.py::test_nothing_comes_of_nodes_that_the_account_may_not_have",
        ),
    ),
    Mutation(
        name="a collection gives all items that are kept",
        file="plugins/xmpp/delivery/collecting.py",
        old="            return delivered.message_id >= await self._last_kept(",
        new="            return -1 <= await self._last_kept(",
        tests=(
            f"{_XMPP}/test_collections.py::test_of_what_is_kept_the_last_item_of_each_node_comes_to_who_subscribes",
        ),
    ),
    Mutation(
        name="a delivery is never late",
        file="daemon/broker/telling.py",
        old="        late=d.subscription.joined_after(entry),",
        new="        late=False,",
        tests=(
            "tests/daemon/broker/test_patterns.py::test_what_was_kept_before_a_subscription_comes_late_and_says_so",
        ),
    ),
    Mutation(
        name="a notification does not name the collection that it came by",
        file="plugins/xmpp/forms/notifications.py",
        old="    if delivered.pattern:",
        new="    if False:",
        tests=(f"{_XMPP}/test_collections.py::test_each_notification_names_its_node_and_the_collection",),
    ),
    Mutation(
        name="an item that was sent already is sent as its node was configured then",
        file="plugins/xmpp/forms/notifications.py",
        old="        or (written.publisher, written.payload) != (publisher, payload)\n",
        new="",
        tests=(
            f"{_XMPP}/test_node_options.py::test_an_item_that_was_sent_already_is_sent_as_its_node_says_now",
        ),
    ),
    Mutation(
        name="a publisher says which collection a notification came by",
        file="plugins/xmpp/forms/payload.py",
        old="|(?i:Collection|SubID)",
        new="",
        tests=(f"{_XMPP}/test_collections.py::test_nobody_but_the_service_says_which_collection_it_is",),
    ),
    Mutation(
        name="a collection locks the items of queues",
        file="plugins/xmpp/requests/subscription_options.py",
        old="            if of_collection and field in _OF_QUEUES:",
        new="            if False:",
        tests=(
            f"{_XMPP}/test_collection_subscriptions.py::test_an_option_that_no_collection_has_is_refused",
        ),
    ),
    Mutation(
        name="a collection lists nodes that the asker may not see",
        file="daemon/broker/session.py",
        old="subscription_takes(pattern, topic)) and self._may_see(topic)",
        new="subscription_takes(pattern, topic))",
        tests=(f"{_XMPP}/test_collections.py::test_who_may_have_none_of_its_nodes_is_told_of_none",),
    ),
    Mutation(
        name="an owner's list names subscribers of collections",
        file="plugins/xmpp/requests/owning.py",
        old="each is not None and each.node == node and",
        new="each is not None and",
        tests=(f"{_XMPP}/test_collections.py::test_subscribers_of_collections_are_none_of_the_node",),
    ),
    Mutation(
        name="an item by a collection that was received is never delivered",
        file="plugins/xmpp/delivery/collecting.py",
        old="        if delivered.received:",
        new="        if False:",
        tests=(
            f"{_XMPP}/test_collections.py::test_an_item_that_was_received_is_delivered_though_it_is_the_last_one_no_more",
        ),
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
        tests=(f"{_XMPP}/test_access.py::test_one_resource_that_is_answered_leaves_the_other_waiting",),
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
        name="each publication begins a task of its own for its node",
        file="plugins/xmpp/known/replaced.py",
        old="is_first = node not in self._ids",
        new="is_first = True",
        tests=(f"{_XMPP}/test_bounds.py::test_one_task_sees_to_a_node_however_much_is_published_meanwhile",),
    ),
    Mutation(
        name="room is made for a hundred items alone",
        file="plugins/xmpp/requests/publishing.py",
        old="        if len(oldest) < ITEMS_MAX:",
        new="        if True:",
        tests=(f"{_XMPP}/test_bounds.py::test_room_is_made_for_as_many_items_as_have_to_go",),
    ),
    Mutation(
        name="all that have an id are looked at for the newest",
        file="plugins/xmpp/known/item_index.py",
        old="if most is not None and len(found) == most:",
        new="if False:",
        tests=(
            f"{_XMPP}/test_bounds.py::test_the_newest_item_of_an_id_is_found_at_once_however_many_have_it",
        ),
    ),
    Mutation(
        name="a worker that names its item twice has it no more",
        file="plugins/xmpp/requests/retracting.py",
        old="return list(dict.fromkeys(ids))",
        new="return ids",
        tests=(
            f"{_XMPP}/test_bounds.py::test_an_item_that_a_worker_has_is_its_own_also_where_it_is_named_twice",
        ),
    ),
    Mutation(
        name="an owner's changes have no bound",
        file="plugins/xmpp/requests/owning.py",
        old="if len(changes) > CHANGES_MAX:",
        new="if False:",
        tests=(f"{_XMPP}/test_bounds.py::test_an_owner_changes_a_bounded_number_of_entries_at_a_time",),
    ),
    Mutation(
        name="an error that cannot carry the request is none",
        file="plugins/xmpp/service.py",
        old="            if not error.children:",
        new="            if True:",
        tests=(f"{_XMPP}/test_bounds.py::test_an_error_that_cannot_carry_the_request_comes_without_it",),
    ),
    Mutation(
        name="a collection remembers the last item of each node for ever",
        file="plugins/xmpp/delivery/collecting.py",
        old="if len(known) >= NODES_MAX:",
        new="if False:",
        tests=(f"{_XMPP}/test_bounds.py::test_what_is_known_of_the_nodes_of_a_collection_is_bounded",),
    ),
    Mutation(
        name="the items of every node are remembered for ever",
        file="plugins/xmpp/known/item_index.py",
        old="if len(self._nodes) > NODES_MAX:",
        new="if False:",
        tests=(f"{_XMPP}/test_bounds.py::test_the_items_of_a_bounded_number_of_nodes_are_known",),
    ),
]

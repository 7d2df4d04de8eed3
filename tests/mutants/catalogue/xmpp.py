"""XEP-0060, XEP-0248 and XEP-0254: what XMPP's subscribers, workers and owners are promised."""

from tests.mutants.mutation import Mutation

_XMPP = "tests/plugins/xmpp"

MUTATIONS = [
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
        name="what waits for a subscriber takes the room of what is kept",
        file="routing/view.py",
        old="            len(topic.kept),\n",
        new="            topic.messages,\n",
        tests=(
            f"{_XMPP}/test_node_options.py"
            "::test_what_only_waits_for_subscribers_takes_no_room_of_what_is_kept",
        ),
    ),
    Mutation(
        name="the last item for a new subscriber is one that is on its way to others",
        file="plugins/xmpp/requests/beginning.py",
        old="session.kept(node, count=1, backwards=True)",
        new="[held.message_id for held in session.entries(node, count=1, backwards=True)]",
        tests=(f"{_XMPP}/test_node_options.py::test_what_is_on_its_way_is_not_removed_for_what_is_kept",),
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
        name="a queue that is created says that it keeps nothing",
        file="plugins/xmpp/forms/node_settings.py",
        old='PERSIST_FIELD: "1" if self.is_queue or self.timeout_s is not None else "0"',
        new='PERSIST_FIELD: "1" if self.timeout_s is not None else "0"',
        tests=(f"{_XMPP}/test_making_nodes.py::test_a_queue_keeps_its_items_and_says_so",),
    ),
    Mutation(
        name="a retraction is told to nobody at another site",
        file="plugins/xmpp/delivery/client.py",
        old="                if id is not None:",
        new="                if False:",
        tests=(f"{_XMPP}/test_across_sites.py::test_a_retraction_is_told_at_the_other_site",),
    ),
    Mutation(
        name="that somebody types is a job",
        file="plugins/xmpp/requests/publishing.py",
        old="        elif namespace not in ANNOTATIONS:\n",
        new="        else:\n",
        tests=(f"{_XMPP}/test_content.py::test_what_a_chat_client_adds_to_a_message_is_not_published",),
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
        old="            return delivered.message_id >= self._last_kept(",
        new="            return -1 <= self._last_kept(",
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
        file="daemon/broker/session_view.py",
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
        name="an Item-Id that is not the item's id is told to nobody",
        file="plugins/xmpp/forms/payload.py",
        old="        if line != id_line and not is_said(line):",
        new='        if not (line.startswith("Item-Id: ") or is_said(line)):',
        tests=(f"{_XMPP}/test_content.py::test_an_item_id_that_is_not_the_items_id_stays_a_header",),
    ),
    Mutation(
        name="a stanza has any number of names in a long namespace",
        file="plugins/xmpp/wire/parser.py",
        old="            if self._names_characters - self._names_before > NAMES_CHARACTERS_MAX:",
        new="            if False:",
        tests=(
            f"{_XMPP}/wire/test_parser.py"
            "::test_what_would_take_many_times_its_bytes_is_passed_over_and_alone_is_refused",
        ),
    ),
    Mutation(
        name="a tag has any number of attributes in a long namespace",
        file="plugins/xmpp/wire/parser.py",
        old="        if self._namespaces and len(self._begun) > self._limits.tag_bytes_max and self._header:",
        new="        if False:",
        tests=(
            f"{_XMPP}/wire/test_parser.py"
            "::test_what_would_take_many_times_its_bytes_is_passed_over_and_alone_is_refused",
        ),
    ),
    Mutation(
        name="what came with a long tag is bytes after a restart",
        file="plugins/xmpp/forms/payload.py",
        old="depth_max=40, tag_bytes_max=2**20)",
        new="depth_max=40)",
        tests=(f"{_XMPP}/test_content.py::test_what_came_with_a_long_tag_is_xml_also_after_a_restart",),
    ),
    Mutation(
        name="names that stay known count for every stanza",
        file="plugins/xmpp/wire/parser.py",
        old="        self._names_before = self._names_characters\n",
        new="",
        tests=(f"{_XMPP}/wire/test_parser.py::test_a_stanza_may_have_as_many_names_though_others_are_known",),
    ),
    Mutation(
        name="any number of names stays known",
        file="plugins/xmpp/wire/parser.py",
        old="        if self._names_characters > NAMES_KEPT:",
        new="        if False:",
        tests=(f"{_XMPP}/wire/test_parser.py::test_names_in_a_namespace_stay_known_for_few_stanzas",),
    ),
    Mutation(
        name="an item that is refused makes its node",
        file="plugins/xmpp/requests/publishing.py",
        old="            records.put(session, node, made, NodeState())\n",
        new="            pass\n    with session.transaction():\n        if made is not None:\n"
        "            records.put(session, node, made, NodeState())\n    with session.transaction(request):\n",
        tests=(f"{_XMPP}/test_making_nodes.py::test_a_node_is_not_made_by_an_item_that_is_too_large",),
    ),
    Mutation(
        name="whoever may publish makes nodes as it wants them, and closes them",
        file="plugins/xmpp/requests/publishing.py",
        old="        service.access.check_owner(request.asker, node, NodeRecord())\n",
        new="",
        tests=(
            f"{_XMPP}/test_making_nodes.py"
            "::test_only_who_may_administer_a_node_makes_it_as_it_wants_it_with_an_item",
        ),
    ),
    Mutation(
        name="an item that finds no room on the disk makes its node",
        file="plugins/xmpp/requests/publishing.py",
        old="    if answer.error is not None and not _is_used(session, node):",
        new="    if False:",
        tests=(
            f"{_XMPP}/test_making_nodes.py::test_a_node_is_not_made_by_an_item_that_finds_no_room_on_the_disk",
        ),
    ),
    Mutation(
        name="a node goes, with what another has published to it, as the item that made it is refused",
        file="plugins/xmpp/requests/publishing.py",
        old=" and not _is_used(session, node):",
        new=":",
        tests=(
            f"{_XMPP}/test_making_nodes.py"
            "::test_a_node_to_which_another_has_published_stays_without_the_item_that_made_it",
        ),
    ),
    Mutation(
        name="room is made for a hundred items alone",
        file="plugins/xmpp/requests/publishing.py",
        old="        if len(oldest) < ITEMS_MAX:",
        new="        if True:",
        tests=(f"{_XMPP}/test_bounds.py::test_room_is_made_for_as_many_items_as_have_to_go",),
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
        name="each publication begins a task of its own for its node",
        file="plugins/xmpp/known/replaced.py",
        old="is_first = node not in self._ids",
        new="is_first = True",
        tests=(f"{_XMPP}/test_bounds.py::test_one_task_sees_to_a_node_however_much_is_published_meanwhile",),
    ),
    Mutation(
        name="a worker that was quiet gets an item unasked",
        file="plugins/xmpp/delivery/attention.py",
        old="        if quiet_s > QUIET_S and not self._client.mute:",
        new="        if False:",
        tests=(f"{_XMPP}/test_presence.py::test_nothing_is_sent_to_a_worker_that_has_left_in_silence",),
    ),
]

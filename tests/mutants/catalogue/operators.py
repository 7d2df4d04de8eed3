"""What a site says to its operator."""

from tests.mutants.mutation import Mutation

RUNNING = "tests/daemon/cli/test_running_site.py::"
ACTING = "tests/daemon/operations/test_acting.py::"
CHECK = "tests/daemon/cli/test_check.py::"
RELOADED = "tests/daemon/site/test_reload.py::"

MUTATIONS = [
    Mutation(
        name="a part of an answer is taken for the whole where the site ends in the middle of it",
        file="daemon/control/client.py",
        old='if not line.endswith(b"\\n"):',
        new="if False:",
        tests=(
            "tests/daemon/control/test_control.py::"
            "test_a_daemon_that_ends_in_the_middle_of_a_line_has_not_answered",
        ),
    ),
    Mutation(
        name="nobody consumes from a topic that is empty, where it is consumed from by a pattern",
        file="daemon/cli/check.py",
        old="_asked_subscribed(state, name, max(ends_at - time.monotonic(), 0.1), subscribed)",
        new="()",
        tests=(CHECK + "test_who_consumes_by_a_pattern_and_keeps_up_consumes",),
    ),
    Mutation(
        name="a change that a site of another version was told of is not said to be made",
        file="daemon/cli/telling.py",
        old="raise Failure(text, failure.exit_code) from None",
        new="raise",
        tests=(
            RUNNING
            + "test_a_site_of_another_version_is_not_said_to_have_done_it_nor_the_change_to_be_undone",
        ),
    ),
    Mutation(
        name="an operator ends a subscription that somebody consumes from",
        file="daemon/operations/acting.py",
        old="            if ids:\n",
        new="            if False:\n",
        tests=(ACTING + "test_a_subscription_ends_unless_somebody_consumes_from_it",),
    ),
    Mutation(
        name="what a subscription holds is counted at once while nobody else gets on",
        file="daemon/operations/acting.py",
        old="[waiting] = await sums_in_steps([found.queue.count_in_steps()])",
        new="waiting = sum(found.queue.count_in_steps())",
        tests=(ACTING + "test_who_consumes_again_while_what_waits_is_counted_keeps_the_subscription",),
    ),
    Mutation(
        name="a site that stops lets others log in",
        file="daemon/broker/broker.py",
        old="        if self.draining or self._closing:\n",
        new="        if False:\n",
        tests=("tests/daemon/broker/test_broker.py::test_nobody_logs_in_at_a_site_that_stops",),
    ),
    Mutation(
        name="accounts are not taken on where a part of the files is refused",
        file="daemon/site/files.py",
        old="if accounts is not None:",
        new="if accounts is not None and not found.refused:",
        tests=(RUNNING + "test_eve_is_cut_off_although_the_links_cannot_be_as_the_files_say",),
    ),
    Mutation(
        name="a command says done where the site refused",
        file="daemon/cli/telling.py",
        old="    if own:\n",
        new="    if False:\n",
        tests=(RUNNING + "test_a_peer_that_cannot_be_linked_with_is_a_failure_until_that_is_mended",),
    ),
    Mutation(
        name="a command says done where the reload did not get so far",
        file="daemon/cli/telling.py",
        old='(*parts, "everything")',
        new="parts",
        tests=(
            RELOADED
            + "test_who_disables_eve_is_not_told_that_she_is_out_where_the_reload_did_not_get_so_far",
        ),
    ),
    Mutation(
        name="a reload that was refused is no failure",
        file="daemon/cli/status.py",
        old="    if refused:\n",
        new="    if False:\n",
        tests=(RUNNING + "test_a_peer_that_cannot_be_linked_with_is_a_failure_until_that_is_mended",),
    ),
    Mutation(
        name="a start does what the check calls an error",
        file="daemon/site/site.py",
        old="    if found.refused:\n        more",
        new="    if False:\n        more",
        tests=(
            "tests/daemon/cli/test_config_check.py::test_what_keeps_a_site_from_starting_is_an_error_of_the_check_in_the_same_words",
        ),
    ),
    Mutation(
        name="a state that is gone is begun anew",
        file="daemon/site/state_mark.py",
        old="    if owner is None:\n        raise",
        new="    if owner is None:\n        return\n        raise",
        tests=(
            "tests/daemon/site/test_state_mark.py::test_a_state_that_is_gone_is_refused_until_it_is_back",
        ),
    ),
    Mutation(
        name="a store takes another name",
        file="daemon/site/state_mark.py",
        old='if owner.server_name not in ("", site.server_name):',
        new="if False:",
        tests=(
            "tests/daemon/site/test_state_mark.py::test_another_name_over_an_old_store_is_refused_and_changes_nothing",
        ),
    ),
    Mutation(
        name="what expires is said once and never again",
        file="daemon/certificates/expiry.py",
        old="abs(now - said) >= SAID_EVERY",
        new="False",
        tests=(
            "tests/daemon/certificates/test_expiry.py::test_a_running_site_says_it_each_day_and_louder_once_it_is_over",
        ),
    ),
    Mutation(
        name="a dead letter that a client made up goes where it says",
        file="daemon/operations/acting.py",
        old="if not is_of_this_server(dead.account, self._broker.server_name):",
        new="if False:",
        tests=(ACTING + "test_a_dead_letter_that_a_client_made_up_is_not_believed",),
    ),
    Mutation(
        name="a dead letter goes back twice where a kill came between",
        file="daemon/operations/acting.py",
        old="cmuid=f\"replay:{smuid.rpartition('/')[2]}\"",
        new='cmuid=""',
        tests=(ACTING + "test_a_dead_letter_whose_way_back_a_kill_cut_short_comes_back_once",),
    ),
    Mutation(
        name="a dead letter that did not fit is gone",
        file="daemon/operations/acting.py",
        old="for held, _ in asked if held.smuid not in refused]",
        new="for held, _ in [(held, 0) for held in page]]",
        tests=(ACTING + "test_what_does_not_fit_stays_a_dead_letter",),
    ),
    Mutation(
        name="after a start nothing that is held counts for who published it",
        file="routing/lifecycle.py",
        old="entry.share = shares.charged(publisher, entry.topic.recipient) if share is None else share",
        new="pass",
        tests=("tests/daemon/broker/test_quotas.py::test_what_is_held_is_known_after_a_kill",),
    ),
    Mutation(
        name="a quota counts what has been taken",
        file="routing/state.py",
        old="            share.messages -= 1\n",
        new="",
        tests=(
            "tests/daemon/broker/test_quotas.py"
            "::test_what_an_account_has_held_is_bounded_over_all_topics_and_channels",
        ),
    ),
    Mutation(
        name="who comes back publishes as fast as it likes",
        file="daemon/broker/account_use.py",
        old="        if account not in self._paces:\n",
        new="        if True:\n",
        tests=(
            "tests/daemon/broker/test_quotas.py"
            "::test_all_sessions_of_an_account_share_its_rate_also_one_after_another",
        ),
    ),
    Mutation(
        name="a transaction passes the quota of its account",
        file="daemon/broker/transaction.py",
        old="            room.check_share(self._consumer.account, self.published, self.published_bytes)\n",
        new="            pass\n",
        tests=("tests/daemon/broker/test_quotas.py::test_a_transaction_is_taken_whole_or_not_at_all",),
    ),
    Mutation(
        name="a client that publishes too fast is refused, not slowed",
        file="plugins/smqp/conversation.py",
        old="                self.wait_s = session.publish_wait_s\n",
        new="",
        tests=(
            "tests/plugins/smqp/test_server_in_time.py"
            "::test_who_publishes_faster_than_it_may_is_read_no_faster_and_loses_nothing",
        ),
    ),
    Mutation(
        name="who is logged in keeps the limits of the login",
        file="daemon/connections/client_connection.py",
        old="self._conversation.limit(limits)",
        new="pass",
        tests=(
            "tests/plugins/smqp/test_logging_in.py::test_the_limits_of_a_configuration_that_is_read_anew_hold_for_who_is_logged_in",
            "tests/plugins/stomp/test_limits.py",
        ),
    ),
    Mutation(
        name="header lines before the login are not bounded as the configuration says",
        file="plugins/smqp/conversation.py",
        old="                sections_max=0,\n",
        new="                headers_max=200,\n                sections_max=0,\n",
        tests=(
            "tests/plugins/smqp/test_logging_in.py"
            "::test_the_limits_of_the_configuration_hold_before_the_login",
        ),
    ),
    Mutation(
        name="the log does not say that a session has ended",
        file="daemon/site/site.py",
        old="        session_ended=login_log.ended,\n",
        new="",
        tests=(
            "tests/daemon/site/test_audit.py::test_the_log_says_why_a_session_ended_and_what_went_through_it",
        ),
    ),
    Mutation(
        name="what waits for a link has no age",
        file="routing/view.py",
        old="        found += islice((copy.entry for copy in crossing",
        new="        found += islice((copy.entry for copy in ()",
        tests=(CHECK + "test_what_waits_for_a_link_that_is_down_is_seen_with_its_topic",),
    ),
    Mutation(
        name="who looks at what a topic holds does not see what waits for a link",
        file="routing/view.py",
        old="            found |= {entry.id: (entry, False) for entry in scattered}\n",
        new="",
        tests=(CHECK + "test_what_waits_for_a_link_that_is_down_is_seen_with_its_topic",),
    ),
    Mutation(
        name="a certificate that peers refuse is in order",
        file="daemon/cli/check.py",
        old='finding.level != "warning"',
        new='finding.level == "refused"',
        tests=(CHECK + "test_a_certificate_of_this_site_that_is_revoked_is_critical",),
    ),
    Mutation(
        name="a reload forgets the peers whose file has gone",
        file="daemon/site/files.py",
        old="has_peers=bool(self._links.peers) and not starts,",
        new="has_peers=False,",
        tests=(RUNNING + "test_peers_whose_file_has_gone_stay_until_it_is_back",),
    ),
    Mutation(
        name="a backup of a store that is begun meanwhile is taken for whole",
        file="daemon/store/read_only.py",
        old="            raise\n    _check_rested(path, before)",
        new="            raise",
        tests=(
            "tests/daemon/store/test_read_only.py::test_what_a_daemon_began_to_write_meanwhile_is_no_backup",
        ),
    ),
    Mutation(
        name="a store that is begun meanwhile is taken for damaged",
        file="daemon/store/read_only.py",
        old="            _check_rested(path, before)\n            raise",
        new="            raise",
        tests=(
            "tests/daemon/store/test_read_only.py::"
            "test_what_a_daemon_began_to_write_meanwhile_is_not_taken_for_damaged",
        ),
    ),
    Mutation(
        name="a stopped site that starts meanwhile is read without a snapshot",
        file="daemon/store/read_only.py",
        old="        if _can_guard(connection):",
        new="        if False and _can_guard(connection):",
        tests=(
            "tests/daemon/store/test_read_only.py::test_a_site_that_starts_meanwhile_is_backed_up_as_it_was",
        ),
    ),
    Mutation(
        name="a start that is refused since the port for peers is taken has served clients",
        file="daemon/site/links.py",
        old="        await transport.listen()\n        try:",
        new="        try:",
        tests=(
            "tests/daemon/site/test_ports.py::test_where_the_port_for_peers_is_taken_no_client_is_served",
        ),
    ),
    Mutation(
        name="a start that is refused since a port of a front end is taken has met peers",
        file="daemon/site/site.py",
        old="        async with trio.open_nursery() as nursery:\n            for name, plugin",
        new=(
            "        async with trio.open_nursery() as nursery:\n            await link()\n"
            "            for name, plugin"
        ),
        tests=(
            "tests/daemon/site/test_ports.py::"
            "test_where_the_port_of_a_front_end_is_taken_no_peer_is_dialled_or_accepted",
        ),
    ),
    Mutation(
        name="what sites tell each other counts among the messages for a peer that is removed",
        file="daemon/cli/peer.py",
        old="sum(link.messages for",
        new="sum(link.waiting + link.in_flight for",
        tests=(
            "tests/daemon/cli/test_peers.py::test_a_peer_that_goes_is_said_to_have_lacked_messages_and_not_what_sites_tell_each_other",
        ),
    ),
    Mutation(
        name="what somebody has is not there for who asks for it by its number",
        file="routing/view.py",
        old="if entry.id in topic.kept or entry.id in apart or entry in topic.shared",
        new="if entry.id in topic.kept or entry in topic.shared",
        tests=(
            "tests/daemon/broker/test_browse.py::test_what_is_asked_for_by_its_number_is_shown_as_it_is_among_all",
        ),
    ),
    Mutation(
        name="a large message is on a page with what is before it",
        file="daemon/broker/browsing.py",
        old="        if room < 0 and number >= at_least:",
        new="        if False:",
        tests=(
            "tests/daemon/broker/test_browse.py::test_a_page_ends_by_bytes_and_one_message_is_on_it_whatever_its_size",
        ),
    ),
    Mutation(
        name="a page is as large as the headers of its messages are",
        file="daemon/broker/browsing.py",
        old="load_some(missing, room)",
        new="load_some(missing, math.inf)",
        tests=(
            "tests/daemon/broker/test_browse.py::test_a_page_ends_by_headers_that_are_read_and_what_follows_is_on_the_next",
            "tests/daemon/broker/test_browse.py::test_of_what_is_read_a_page_is_held_at_once",
            "tests/plugins/xmpp/test_large_items.py::test_large_items_are_paged_through",
        ),
    ),
    Mutation(
        name="what was not read for a page is on none",
        file="daemon/broker/browsing.py",
        old="                if count_read < len(missing):",
        new="                if False:",
        tests=(
            "tests/daemon/broker/test_browse.py::test_a_page_ends_by_headers_that_are_read_and_what_follows_is_on_the_next",
        ),
    ),
    Mutation(
        name="a message that is larger than a page is in the way of those behind it",
        file="daemon/broker/browsing.py",
        old="at_least=0 if held else 1)",
        new="at_least=0)",
        tests=(
            "tests/daemon/broker/test_browse.py::test_a_page_ends_by_bytes_and_one_message_is_on_it_whatever_its_size",
        ),
    ),
    Mutation(
        name="who browses takes the first that were found of what waits for links for all",
        file="daemon/broker/browsing.py",
        old="        self._are_all = last == math.inf\n",
        new="        self._are_all = True\n",
        tests=(
            "tests/daemon/broker/test_browse.py::test_more_than_is_found_at_once_is_browsed_without_a_gap",
        ),
    ),
    Mutation(
        name="what waits for links is looked through for each page",
        file="daemon/broker/browsing.py",
        old="        while True:\n            later",
        new="        await self._find(id)\n        while True:\n            later",
        tests=(
            "tests/daemon/broker/test_browse.py::test_what_waits_for_links_is_looked_through_once_for_all_pages",
        ),
    ),
    Mutation(
        name="what was refused by a full disk counts as published",
        file="daemon/broker/outbox.py",
        old="self.published -= messages",
        new="pass",
        tests=("tests/daemon/broker/test_full_store.py::test_what_was_refused_was_not_published",),
    ),
    Mutation(
        name="a purge ends what came while it waited for its turn",
        file="routing/emptying.py",
        old="        if self._delete is None:\n            del ids",
        new="        if False:\n            del ids",
        tests=(
            "tests/routing/test_router_emptying.py::test_what_comes_while_a_purge_waits_for_its_turn_stays",
        ),
    ),
    Mutation(
        name="to empty a small topic takes long on a large site",
        file="routing/emptying.py",
        old="        if self._is_empty():\n            self._position",
        new="        if False:\n            self._position",
        tests=(
            "tests/routing/test_router_emptying.py::test_an_empty_topic_of_a_large_site_is_emptied_at_once",
        ),
    ),
]

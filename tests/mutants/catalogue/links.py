"""Contract 8: links."""

from tests.mutants.mutation import Mutation

MUTATIONS = [
    Mutation(
        name="a link passes for up after its peer has said goodbye",
        file="daemon/link/connection.py",
        old="                    self._note_goodbye()\n",
        new="",
        tests=(
            "tests/daemon/link/test_endings.py::test_a_peer_that_says_goodbye_and_stays_has_its_link_ended",
        ),
    ),
    Mutation(
        name="a site that was killed repeats a copy with the attempt that it had before",
        file="routing/federation/forwarding.py",
        old="        forward.attempts += 1\n        self._state.out.append(StoreCopy(copy.entry.id))\n",
        new="        forward.attempts += 1\n",
        tests=(
            "tests/routing/federation/test_unanswered.py"
            "::test_each_repetition_has_a_higher_attempt_whether_the_link_was_cut_or_the_site_was_killed",
        ),
    ),
    Mutation(
        name="heads over HTTP/2 of a peer are of any size",
        file="daemon/link/lanes.py",
        old="        bound(self._http, HEADER_LIST_BYTES_MAX)\n",
        new="",
        tests=("tests/daemon/link/bad_peers/test_http2.py",),
    ),
    Mutation(
        name="settings of HTTP/2 that nobody knows are kept",
        file="daemon/connections/http2.py",
        old="        if key in KNOWN:\n",
        new="        if True:\n",
        tests=("tests/daemon/connections/test_http2.py",),
    ),
    Mutation(
        name="whoever speaks HTTP/2 says how much of our headers we remember",
        file="daemon/connections/http2.py",
        old="min(value, TABLE_BYTES_MAX)",
        new="value",
        tests=("tests/daemon/connections/test_http2.py",),
    ),
    Mutation(
        name="64 messages are read at a time for a link, of any size",
        file="daemon/broker/federating.py",
        old="self._load_some(missing, LOAD_BYTES)",
        new="self._load_some(missing, 1e9)",
        tests=(
            "tests/daemon/broker/test_federating.py::test_no_more_is_read_for_a_link_than_it_has_room_for_and_a_little",
        ),
    ),
    Mutation(
        name="what a peer has not acknowledged is not repeated",
        file="routing/federation/forwarding.py",
        old="forward.attempts, earlier)\n            self._state.out.append(again)\n",
        new="forward.attempts, earlier)\n",
        tests=(
            "tests/daemon/broker/test_federation.py::test_what_a_peer_does_not_answer_before_the_link_is_cut_comes_again_with_a_higher_attempt",
        ),
    ),
    Mutation(
        name="the attempt of a repetition is not raised",
        file="routing/federation/forwarding.py",
        old="        forward.attempts += 1\n        self._state.out.append(StoreCopy(copy.entry.id))\n",
        new="        self._state.out.append(StoreCopy(copy.entry.id))\n",
        tests=(
            "tests/daemon/broker/test_federation.py::test_what_a_peer_does_not_answer_before_the_link_is_cut_comes_again_with_a_higher_attempt",
        ),
    ),
    Mutation(
        name="a copy is acknowledged before it is on disk",
        file="daemon/broker/executor.py",
        old="Bury: self._bury,",
        new="Bury: self._bury, **dict([*link_effects.items()][1:2]),",
        tests=("tests/daemon/broker/test_federation.py::test_a_copy_is_acknowledged_once_it_is_on_disk",),
    ),
    Mutation(
        name="an acknowledgement of an old connection is taken",
        file="routing/link/receiver.py",
        old="if connection != self.connection:",
        new="if False:",
        tests=(
            "tests/routing/link/test_conversation.py::test_an_answer_that_comes_after_the_connection_was_lost_is_not_sent_on_the_next_one",
            "tests/daemon/link/bad_peers/test_windows.py::test_an_answer_that_is_late_is_none_to_a_peer_that_was_removed_and_added_meanwhile",
        ),
    ),
    Mutation(
        name="numbers of copies begin anew with each link",
        file="routing/link/sender.py",
        old="        self._in_flight.clear()\n",
        new="        self._in_flight.clear()\n        self._next_number = 1\n",
        tests=(
            "tests/routing/link/test_conversation.py::test_what_a_lost_connection_leaves_is_forgotten_and_its_numbers_are_not_given_again",
        ),
    ),
    Mutation(
        name="a window is overrun",
        file="routing/link/sender.py",
        old="transfers < self._window_units and",
        new="",
        tests=(
            "tests/routing/link/test_conversation.py::test_the_window_holds_back_transfers_but_not_controls",
        ),
    ),
    Mutation(
        name="bulk fills the link before what is urgent",
        file="daemon/link/connection.py",
        old="min(self._lanes.capacity(lane), ROUND_BYTES)",
        new="self._lanes.capacity(lane)",
        tests=("tests/daemon/link/test_crossing.py::test_control_and_urgent_do_not_wait_behind_bulk",),
    ),
    Mutation(
        name="a link that answers no probe stays up",
        file="daemon/link/connection.py",
        old='                self.end(f"no answer to a probe',
        new='                str(f"no answer to a probe',
        tests=("tests/daemon/link/test_links.py::test_a_silent_link_is_ended_by_its_probe_and_made_again",),
    ),
    Mutation(
        name="a site that claims the name of another is a peer",
        file="routing/link/agreement.py",
        old='return f"there is another site of the name {own.server}"',
        new="return None",
        tests=("tests/routing/link/test_agreement.py::test_a_peer_with_this_sites_own_name_is_refused",),
    ),
    Mutation(
        name="a revoked certificate is trusted while its link is up",
        file="daemon/certificates/trust.py",
        old="if (certificate.issuer, certificate.serial_number) in self._revoked:",
        new="if False:",
        tests=(
            "tests/daemon/link/test_tls.py::test_a_reload_of_the_list_ends_the_link_of_who_was_revoked_and_no_other",
        ),
    ),
    Mutation(
        name="an expired certificate is trusted",
        file="daemon/certificates/trust.py",
        old="if now > certificate.not_valid_after_utc:",
        new="if False:",
        tests=(
            "tests/daemon/link/test_tls.py::test_a_certificate_that_expires_while_the_link_is_up_ends_it_and_a_renewed_one_links_again",
        ),
    ),
    Mutation(
        name="a peer shows no certificate",
        file="daemon/link/keys.py",
        old="context.verify_mode = ssl.CERT_REQUIRED",
        new="context.verify_mode = ssl.CERT_OPTIONAL",
        tests=(
            "tests/daemon/link/test_tls.py::test_a_stranger_without_a_certificate_or_with_old_tls_is_refused",
        ),
    ),
    Mutation(
        name="old TLS is spoken",
        file="daemon/link/keys.py",
        old="context.minimum_version = ssl.TLSVersion.TLSv1_3",
        new="context.minimum_version = ssl.TLSVersion.TLSv1_2",
        tests=(
            "tests/daemon/link/test_tls.py::test_a_stranger_without_a_certificate_or_with_old_tls_is_refused",
        ),
    ),
    Mutation(
        name="a forged Hops is believed",
        file="routing/link/forgery.py",
        old="if not hops or hops[-1] != peer:",
        new="if False:",
        tests=("tests/routing/link/test_agreement.py::test_a_forged_route_or_id_is_noticed",),
    ),
    Mutation(
        name="a forged Account is believed",
        file="routing/link/forgery.py",
        old='if message.account.rpartition("@")[2] != origin:',
        new="if False:",
        tests=("tests/daemon/link/bad_peers/test_units.py::test_forged_hops_smuids_and_accounts_are_denied",),
    ),
    Mutation(
        name="a link keeps the bound on messages with which it began",
        file="daemon/link/lane_input.py",
        old="self._reader.bound(self._message_bytes_max())",
        new="pass",
        tests=(
            "tests/daemon/link/test_links.py::test_how_much_a_message_may_be_holds_on_links_that_are_up_as_it_is_changed",
        ),
    ),
    Mutation(
        name="the links of a site keep the limits of its start",
        file="daemon/link/joining.py",
        old="lambda: _wire_bytes_max(broker.limits)",
        new="lambda limits=broker.limits: _wire_bytes_max(limits)",
        tests=(
            "tests/daemon/broker/test_federation.py::test_a_site_whose_limits_have_changed_takes_from_its_peers_what_they_allow",
        ),
    ),
    Mutation(
        name="one lane alone goes on once the broker is through",
        file="daemon/broker/federating.py",
        old="self._room.unpark_all()",
        new="self._room.unpark()",
        tests=(
            "tests/daemon/broker/test_federating.py::test_every_lane_that_waits_for_the_broker_goes_on_once_it_is_through",
        ),
    ),
    Mutation(
        name="what a peer cannot have meant ends its link",
        file="daemon/link/exchange.py",
        old="text = one_line(refusal.text, REASON_CHARACTERS_MAX)",
        new="text = refusal.text",
        tests=(
            "tests/daemon/link/bad_peers/test_units.py::test_what_a_peer_cannot_have_meant_is_quoted_so_that_it_can_be_sent_logged_and_recorded",
        ),
    ),
    Mutation(
        name="the window bounds the number of copies, and not their bytes",
        file="routing/link/receiver.py",
        old="        self._bytes_in_hand += size\n",
        new="",
        tests=("tests/daemon/link/bad_peers/test_windows.py::test_more_bytes_than_the_window_are_refused",),
    ),
    Mutation(
        name="copies that are answered count against the window",
        file="routing/link/receiver.py",
        old="self._bytes_in_hand -= size",
        new="pass",
        tests=(
            "tests/daemon/link/bad_peers/test_windows.py::test_a_copy_that_is_larger_than_the_window_is_taken_where_all_others_are_answered",
        ),
    ),
    Mutation(
        name="a peer that takes no answers is read on",
        file="daemon/link/connection.py",
        old="while self._owed > self._owed_max and",
        new="while False and",
        tests=(
            "tests/daemon/link/bad_peers/test_windows.py::test_a_peer_that_takes_no_answers_is_read_no_further_until_it_does",
        ),
    ),
    Mutation(
        name="a peer that takes answers late is read no more",
        file="daemon/link/connection.py",
        old="        self._answers_taken.set()\n",
        new="",
        tests=(
            "tests/daemon/link/bad_peers/test_windows.py::test_a_peer_that_takes_no_answers_is_read_no_further_until_it_does",
        ),
    ),
    Mutation(
        name="strangers who were refused stay without a place",
        file="daemon/link/tls.py",
        old="await _linger(tcp)\n        except OSError as error:\n            why = str(error)\n",
        new=(
            "pass\n        except OSError as error:\n            why = str(error)\n"
            "        await _linger(tcp)\n"
        ),
        tests=(
            "tests/daemon/link/test_tls.py::test_strangers_who_were_refused_and_stay_take_places_from_nobody_but_their_own_address",
        ),
    ),
    Mutation(
        name="who was revoked in its handshake is linked",
        file="daemon/link/manager.py",
        old="if connection.reason is None and (reason",
        new="if False and (reason",
        tests=(
            "tests/daemon/link/test_links.py::test_who_comes_to_be_revoked_in_its_handshake_gets_no_link",
        ),
    ),
    Mutation(
        name="an acknowledgement may name any numbers that ever were",
        file="daemon/link/exchange.py",
        old="                self._check_numbers(unit)\n",
        new="",
        tests=(
            "tests/daemon/link/test_exchange.py::test_an_acknowledgement_that_names_what_is_long_answered_is_no_work",
        ),
    ),
    Mutation(
        name="a site leaves a link with acknowledgements that it has not said",
        file="daemon/link/connection.py",
        old=" or receiver.has_answers)",
        new=")",
        tests=(
            "tests/daemon/link/test_endings.py::test_a_site_that_stops_has_said_goodbye_and_what_it_has_taken_before_it_ends_a_link",
        ),
    ),
    Mutation(
        name="of revocations at once some are lost",
        file="daemon/certificates/authority.py",
        old="with alone(self.directory):",
        new="if alone:",
        tests=("tests/daemon/certificates/test_authority.py::test_revocations_by_several_at_once_add_up",),
    ),
    Mutation(
        name="a peer that has said goodbye may stay for ever",
        file="daemon/link/connection.py",
        old="if trio.current_time() > self._peer_leaves_by:",
        new="if False:",
        tests=(
            "tests/daemon/link/test_endings.py::test_a_peer_that_says_goodbye_and_stays_has_its_link_ended",
        ),
    ),
    Mutation(
        name="what a peer is refused for is kept as long as it has written it",
        file="daemon/system/log.py",
        old='backslashreplace").decode()[:characters_max]',
        new='backslashreplace").decode()',
        tests=(
            "tests/daemon/link/bad_peers/test_units.py::test_of_what_is_refused_no_more_is_kept_than_the_peer_can_be_told",
        ),
    ),
    Mutation(
        name="who is revoked while it is renewed has a certificate again",
        file="daemon/certificates/authority.py",
        old="        with self._alone():\n            revoked = self.revoked_serials()\n",
        new="        if True:\n            revoked = self.revoked_serials()\n",
        tests=(
            "tests/daemon/certificates/test_authority.py::test_who_is_revoked_while_another_renews_it_stays_revoked",
        ),
    ),
    Mutation(
        name="two sites that owe each other answers wait for each other",
        file="daemon/link/connection.py",
        old="self._owed_max = 2 * settings.window_units_max + PROBES_MAX",
        new="self._owed_max = PROBES_MAX",
        tests=(
            "tests/daemon/link/test_crossing.py::test_two_sites_that_owe_each_other_all_answers_there_may_be_go_on",
        ),
    ),
]

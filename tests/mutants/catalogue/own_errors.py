"""Whatever error of ours something meets, the site goes on: what caused it is set aside, and nothing else."""

from tests.mutants.mutation import Mutation

MUTATIONS = [
    Mutation(
        name="a timeout whose end fails ends the site",
        file="daemon/broker/broker.py",
        old="            accounts,\n            self.mishaps.note,",
        new="            accounts,",
        tests=(
            "tests/daemon/broker/test_own_errors_in_tasks.py::test_a_timeout_whose_end_fails_ends_its_message_and_the_site_goes_on",
        ),
    ),
    Mutation(
        name="a copy that an error of ours met is held for ever",
        file="routing/setting_aside.py",
        old="self._lifecycle.end_anyhow(entry, MET_BY_ERROR)\n",
        new="pass\n",
        tests=(
            "tests/routing/test_router_own_errors.py::"
            "test_a_timeout_that_fails_ends_its_message_and_no_other",
        ),
    ),
    Mutation(
        name="what a broken subscription cannot be handed is all set aside",
        file="routing/delivery.py",
        old="                failed_before = True\n\n",
        new="                failed_before = False\n\n",
        tests=(
            "tests/routing/test_router_own_errors.py::"
            "test_whoever_cannot_be_handed_anything_leaves_the_queue_to_others",
        ),
    ),
    Mutation(
        name="who could not be offered what is kept gets nothing any more",
        file="routing/steps.py",
        old="            task.failed()\n",
        new="",
        tests=(
            "tests/routing/test_router_own_errors.py::"
            "test_who_joins_while_what_is_kept_cannot_be_looked_at_gets_what_comes",
        ),
    ),
    Mutation(
        name="what is set aside before it is stored is lost",
        file="daemon/store/batch.py",
        old="is_copied=self._quarantine.takes(entry.id)",
        new="is_copied=False",
        tests=(
            "tests/daemon/broker/test_own_errors_in_tasks.py::"
            "test_what_is_set_aside_before_it_is_stored_is_there_for_the_operator",
        ),
    ),
    Mutation(
        name="a record that cannot be encoded holds up all that is stored",
        file="daemon/hops/writer.py",
        old="lines = None  #",
        new="raise  #",
        tests=(
            "tests/daemon/hops/test_writer.py::"
            "test_a_record_that_cannot_be_encoded_is_missing_and_the_others_are_there",
        ),
    ),
    Mutation(
        name="a record that cannot be made leaves no gap",
        file="daemon/hops/writer.py",
        old="        self.last_record += 1\n        self.lost_records += 1",
        new="        self.lost_records += 1",
        tests=("tests/daemon/hops/test_writer.py::test_a_record_that_cannot_be_made_has_its_number",),
    ),
    Mutation(
        name="of what happens together all is stored but what cannot be",
        file="daemon/broker/taking_apart.py",
        old="if met and not decision.begins:",
        new="if met and decision.begins:",
        tests=(
            "tests/daemon/broker/test_own_errors.py::"
            "test_of_what_happens_together_nothing_happens_where_one_message_cannot_be_stored",
        ),
    ),
    Mutation(
        name="a refused transaction has finished what it took",
        file="daemon/broker/taking_apart.py",
        old="self._router.acknowledging.uncommit(commits, now)",
        new="pass",
        tests=(
            "tests/daemon/broker/test_own_errors.py::"
            "test_of_what_happens_together_nothing_happens_where_one_message_cannot_be_stored",
        ),
    ),
    Mutation(
        name="who asks next is refused what somebody else could not have stored",
        file="daemon/broker/taking_apart.py",
        old="for position in range(first, end):",
        new="for position in range(first, len(every)):",
        tests=(
            "tests/daemon/broker/test_taking_apart.py::"
            "test_who_gives_a_message_back_is_refused_where_that_cannot_be_stored_and_nobody_else",
        ),
    ),
    Mutation(
        name="who publishes is refused what is stored without its Cmuid",
        file="daemon/broker/taking_apart.py",
        old="if isinstance(decision, decisions.AnswerRequest) and decision.entry is None:",
        new="if isinstance(decision, decisions.AnswerRequest):",
        tests=(
            "tests/daemon/broker/test_taking_apart.py::"
            "test_who_publishes_is_not_refused_where_the_message_is_stored_and_its_cmuid_is_not",
        ),
    ),
    Mutation(
        name="a peer takes what could not be stored for heard",
        file="routing/door.py",
        old="self._untimed(federation.wanting.hear, end_input=_goes_on)",
        new="self._untimed(federation.wanting.hear)",
        tests=(
            "tests/daemon/broker/test_taking_apart.py::"
            "test_the_link_ends_over_which_a_peer_told_what_cannot_be_stored",
        ),
    ),
    Mutation(
        name="what is refused as the disk is full is not counted",
        file="daemon/broker/telling.py",
        old="        self._metrics.refuse(refusal)",
        new="",
        tests=(
            "tests/daemon/broker/test_full_store.py::test_with_a_full_disk_publishers_are_refused_and_nothing_is_lost",
        ),
    ),
    Mutation(
        name="the log does not say which question met an error",
        file="daemon/control/socket.py",
        old="except Exception as error:\n                    mishap(",
        new="except ZeroDivisionError as error:\n                    mishap(",
        tests=(
            "tests/daemon/control/test_control.py::"
            "test_a_question_that_meets_an_error_gets_no_answer_and_the_next_one_does",
        ),
    ),
    Mutation(
        name="a task that fails is not begun anew",
        file="daemon/system/mishaps.py",
        old="            await trio.sleep(AGAIN_S)",
        new="            return",
        tests=("tests/daemon/site/test_tasks_go_on.py::test_a_task_that_fails_begins_anew_a_moment_later",),
    ),
    Mutation(
        name="a message that an error of ours meets stays half accepted",
        file="routing/publishing.py",
        old="self._take_back(topic, untaken, last_id, now)\n",
        new="pass\n",
        tests=(
            "tests/routing/test_router_own_errors.py::"
            "test_a_message_that_cannot_be_offered_is_refused_and_nothing_of_it_is_left",
        ),
    ),
    Mutation(
        name="of a transaction that an error of ours meets the first part stays",
        file="daemon/broker/transaction.py",
        old="self._door.end_together(self._consumer, request, failed)",
        new="self._door.end_together(self._consumer, request)",
        tests=(
            "tests/daemon/broker/test_own_errors.py::"
            "test_a_transaction_that_an_error_of_ours_meets_is_refused_whole",
        ),
    ),
    Mutation(
        name="what is stored is refused where the store cannot be measured",
        file="daemon/store/store.py",
        old="        except sqlite3.Error as error:  # all of it",
        new="        except ZeroDivisionError as error:  # all of it",
        tests=(
            "tests/daemon/broker/test_own_errors.py::"
            "test_what_is_stored_counts_as_stored_where_the_store_cannot_be_measured_after_it",
        ),
    ),
    Mutation(
        name="what finds no room together holds up what would find some",
        file="daemon/broker/executor.py",
        old="max(inputs // 2, 1)",
        new="max(inputs, 1)",
        tests=(
            "tests/daemon/broker/test_full_store.py::"
            "test_what_finds_room_goes_through_though_all_that_waits_does_not",
        ),
    ),
    Mutation(
        name="half of what came together is stored",
        file="daemon/broker/inputs.py",
        old="elif decision is INPUT_END and not is_together:",
        new="elif decision is INPUT_END:",
        tests=("tests/daemon/broker/test_taking_apart.py",),
    ),
    Mutation(
        name="what takes the place of a message is refused once that is removed",
        file="daemon/broker/taking_apart.py",
        old="if begin.removes:",
        new="if False:",
        tests=(
            "tests/daemon/broker/test_transaction.py::"
            "test_one_that_removes_waits_for_room_and_nothing_is_removed_before",
        ),
    ),
    Mutation(
        name="a message that waits for room goes from memory",
        file="daemon/broker/bodies.py",
        old="        self._uncommitted.update(waiting)\n",
        new="",
        tests=("tests/daemon/broker/test_bodies.py",),
    ),
    Mutation(
        name="who reads slowly passes for who reads nothing",
        file="daemon/connections/output.py",
        old="sending.deadline = self._send_by()",
        new="self._send_by()",
        tests=(
            "tests/plugins/smqp/test_server_in_time.py::test_a_client_that_reads_slowly_is_sent_a_message_of_any_size",
        ),
    ),
    Mutation(
        name="a damaged publisher of a message on a system topic keeps the site from starting",
        file="routing/system_topics.py",
        old="        if not address:\n",
        new="        if False:\n",
        tests=(
            "tests/daemon/store/test_damage.py::"
            "test_a_message_on_a_system_topic_whose_publisher_is_damaged_is_set_aside",
            "tests/routing/test_router_own_errors.py::"
            "test_what_a_commit_had_ended_of_a_system_topic_waits_there_again_where_it_does_not_come_true",
        ),
    ),
]

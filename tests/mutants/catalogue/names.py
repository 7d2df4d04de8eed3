"""Contract 1: names, and publishing once."""

from tests.mutants.mutation import Mutation

MUTATIONS = [
    Mutation(
        name="a start takes the boot number of the one before",
        file="daemon/store/store.py",
        old="SET boot = boot + 1",
        new="SET boot = max(boot, 1)",
        tests=(
            "tests/daemon/store/test_store.py::test_each_start_has_a_greater_boot_number_also_after_a_kill",
        ),
    ),
    Mutation(
        name="a Smuid does not begin with its birth",
        file="routing/names.py",
        old="{server}/{birth_ms:012x}-",
        new="{server}/{0:012x}-",
        tests=("tests/routing/test_names.py::test_smuids_of_one_server_sort_by_age_as_text",),
    ),
    Mutation(
        name="two messages of one site get one Smuid",
        file="routing/names.py",
        old="-{boot:x}-{counter:x}",
        new="-{boot:x}-{0:x}",
        tests=(
            "tests/routing/test_names.py",
            "tests/routing/test_router_publishing.py::test_smuids_differ_and_sort_by_age_over_restarts",
        ),
    ),
    Mutation(
        name="a Cmuid that comes again is routed again",
        file="routing/dedupe.py",
        old="return found.smuid if found else None",
        new="return None",
        tests=("tests/routing/test_dedupe.py::test_a_cmuid_is_known_with_the_smuid_it_was_given",),
    ),
    Mutation(
        name="a Cmuid that comes again is answered without its Smuid",
        file="routing/publishing.py",
        old="smuid=smuid, repeated=True",
        new="repeated=True",
        tests=(
            "tests/routing/test_router_publishing.py::test_a_cmuid_again_is_answered_with_the_first_smuid_and_routed_no_second_time",
        ),
    ),
    Mutation(
        name="a Cmuid is forgotten by a restart",
        file="daemon/store/tables/publications.py",
        old="self._new.append(",
        new="list().append(",
        tests=("tests/daemon/broker/test_broker.py", "tests/daemon/broker/test_full_store.py"),
    ),
    Mutation(
        name="a Cmuid is known outside its channel",
        file="daemon/broker/session.py",
        old="message, self.system_topic, request,",
        new="message, self.account, request,",
        tests=(
            "tests/daemon/broker/test_broker.py",
            "tests/daemon/broker/test_full_store.py",
            "tests/daemon/broker/test_broker_machine.py",
        ),
    ),
    Mutation(
        name="the window of Cmuids has no end",
        file="routing/router.py",
        old="self._state.publications.expire(",
        new="(lambda _: None)(",
        tests=(
            "tests/routing/test_router_publishing.py::test_a_cmuid_is_known_after_a_restart_and_forgotten_after_the_window",
        ),
    ),
    Mutation(
        name="a client writes the Smuid, Hops and Account of its message",
        file="daemon/broker/session.py",
        old="if message.smuid or message.hops or message.account:",
        new="if False:",
        tests=(
            "tests/plugins/smqp/test_server.py",
            "tests/daemon/broker/test_broker.py",
            "tests/daemon/broker/test_full_store.py",
        ),
    ),
    Mutation(
        name="two sites of one name are not noticed",
        file="routing/link/agreement.py",
        old="if current.site != arrived.site:",
        new="if False:",
        tests=("tests/routing/link/test_agreement.py::test_the_arbiter_judges_by_what_it_holds",),
    ),
    Mutation(
        name="every topic with an @ in its name is taken for a system topic",
        file="routing/system_topics.py",
        old="if owner is None and not wants_receipt:",
        new="if False:",
        tests=("tests/daemon/broker/test_transaction.py::test_a_topic_with_an_at_sign_is_no_system_topic",),
    ),
]

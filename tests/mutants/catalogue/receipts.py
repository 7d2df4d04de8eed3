"""Contract 6: receipts."""

from tests.mutants.mutation import Mutation

MUTATIONS = [
    Mutation(
        name="a receipt does not wait for the peers",
        file="routing/receipts.py",
        old="receipt.open or receipt.waiting or self._sees_to_some(receipt.entry)",
        new="receipt.open",
        tests=(
            "tests/daemon/broker/test_federation.py::test_a_receipt_counts_the_subscriptions_of_all_sites",
        ),
    ),
    Mutation(
        name="a receipt of the first waits for all",
        file="routing/receipts.py",
        old='(receipt.mode == "ONE" and have)',
        new="False",
        tests=(
            "tests/routing/test_router_receipts.py::test_one_is_told_as_soon_as_the_first_has_it_and_only_once",
        ),
    ),
    Mutation(
        name="a receipt is not told when the timeout ends",
        file="routing/receipts.py",
        old="            if receipt is not None:\n                self.close(",
        new="            if False:\n                self.close(",
        tests=(
            "tests/routing/test_router_receipts.py::test_of_a_state_message_it_is_told_after_the_default_timeout",
        ),
    ),
    Mutation(
        name="a receipt counts a dead letter as had",
        file="routing/lifecycle.py",
        old='self._receipts.progress(entry, subscription, now, has_it=event != "dead")',
        new="self._receipts.progress(entry, subscription, now, has_it=True)",
        tests=("tests/routing/test_router_receipts.py::test_a_dead_letter_is_had_by_nobody",),
    ),
    Mutation(
        name="a receipt counts those who came later",
        file="routing/receipts.py",
        old="if subscription.joined_after(entry) or not receipt.open:",
        new="if not receipt.open:",
        tests=("tests/routing/test_router_receipts.py::test_a_late_subscriber_does_not_count",),
    ),
    Mutation(
        name="a restart tells a receipt twice",
        file="daemon/store/tables/messages.py",
        old="self._receipted.append(",
        new="list().append(",
        tests=(
            "tests/daemon/broker/test_broker.py::test_a_receipt_that_was_told_is_not_told_again_after_a_kill",
        ),
    ),
    Mutation(
        name="any peer answers for another",
        file="routing/receipts.py",
        old="if receipt is None or self._state.asked_of.get(query, peer) != peer:",
        new="if receipt is None:",
        tests=("tests/routing/federation/test_receipts.py::test_nobody_answers_for_another_peer",),
    ),
    Mutation(
        name="an answer to a peer does not survive a restart",
        file="routing/receipts.py",
        old="self._state.out.append(StoreAnswer(peer, query, due, have))",
        new="pass",
        seed=3,
    ),
]
